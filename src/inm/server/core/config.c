/* The configuration file of inmd; errors name the line. */
#include "config.h"
#include "alarm.h"
#include "inm/topo/topo.h"
#include "net.h"

#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *path;
    FILE *file;
    int line;
    char *error;
    size_t size;
    struct inm_config *config;
};

/* @return 0, by which inih counts the line as wrong. The first error is kept. */
static int __attribute__((format(printf, 2, 3))) wrong(struct reader *r, const char *fmt, ...)
{
    va_list args;
    int len;

    if (r->error[0] == '\0') {
        len = snprintf(r->error, r->size, "%s:%d: ", r->path, r->line);
        va_start(args, fmt);
        vsnprintf(r->error + len, r->size - (size_t)len, fmt, args);
        va_end(args);
    }
    return 0;
}

enum kind { TEXT, NUMBER };

static const struct option {
    const char *section, *name;
    enum kind kind;
    size_t offset, size;
    uint32_t min, max;
} options[] = {
#define T(section, name, field)                                                                    \
    {section,                                                                                      \
     name,                                                                                         \
     TEXT,                                                                                         \
     offsetof(struct inm_config, field),                                                           \
     sizeof(((struct inm_config *)0)->field),                                                      \
     0,                                                                                            \
     0}
#define N(section, name, field, min, max)                                                          \
    {section, name, NUMBER, offsetof(struct inm_config, field), 4, min, max}
    T("server", "name", name),
    T("server", "topology", topology),
    T("server", "database", database),
    N("server", "keep_days", keep_days, 1, 36500),
    T("network", "fabric", fabric),
    N("network", "nic", nic, 0, 0xffffff),
    N("network", "window", window, 1, NET_MAX_WINDOW),
    N("network", "timeout_ms", timeout_ms, 1, 60000),
    N("network", "retries", retries, 0, 100),
    T("http", "address", address),
    N("http", "port", port, 0, 65535),
    T("http", "socket", socket),
    T("http", "tls_cert", tls_cert),
    T("http", "tls_key", tls_key),
    T("http", "host_names", host_names),
    T("http", "trusted_proxies", trusted_proxies),
    T("http", "user_header", user_header),
    T("http", "user_role", user_role),
    N("http", "session_minutes", session_minutes, 1, 100000),
    N("http", "login_tries", login_tries, 1, 1000),
    N("http", "rate_per_second", rate_per_second, 1, 1000000),
    T("poll", "mode", poll_mode),
    N("poll", "interval_ms", poll_ms, 100, 86400000),
    N("limits", "hot", hot_limit, 1, 150),
    N("limits", "retries", retry_limit, 0, 1000000000),
    N("region", "first_cabinet", first_cabinet, 0, 100000),
    N("region", "last_cabinet", last_cabinet, 0, 100000),
    N("region", "rank", rank, 0, 1000),
    N("region", "heartbeat_ms", heartbeat_ms, 10, 60000),
    N("region", "misses", heartbeat_misses, 1, 1000),
#undef T
#undef N
};

static bool to_number(const char *text, uint32_t min, uint32_t max, uint32_t *value)
{
    char *end;
    unsigned long v = strtoul(text, &end, 0);

    *value = (uint32_t)v;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && v >= min && v <= max;
}

/* [peer NAME] */
static int read_peer(struct reader *r, const char *peer, const char *name, const char *value)
{
    struct inm_config *c = r->config;
    struct inm_peer_config *p = NULL;
    uint32_t i;

    for (i = 0; i < c->num_peers && p == NULL; i++) {
        p = strcmp(c->peers[i].name, peer) == 0 ? &c->peers[i] : NULL;
    }
    if (p == NULL) {
        if (c->num_peers == INM_MAX_PEERS || strlen(peer) >= sizeof(p->name)) {
            return wrong(r, "more than %d peers, or a name that is too long", INM_MAX_PEERS);
        }
        p = &c->peers[c->num_peers++];
        strcpy(p->name, peer);
        p->last_cabinet = 100000;
    }
    if (strcmp(name, "url") == 0) {
        if (strlen(value) >= sizeof(p->url) ||
            (strncmp(value, "http://", 7) != 0 && strncmp(value, "https://", 8) != 0 &&
             strncmp(value, "unix:/", 6) != 0)) {
            return wrong(r, "url is http://HOST:PORT, https://HOST:PORT or unix:/PATH");
        }
        strcpy(p->url, value);
        return 1;
    }
    if (strcmp(name, "first_cabinet") == 0) {
        return to_number(value, 0, 100000, &p->first_cabinet) ||
               wrong(r, "not a number: %s", value);
    }
    if (strcmp(name, "last_cabinet") == 0) {
        return to_number(value, 0, 100000, &p->last_cabinet) || wrong(r, "not a number: %s", value);
    }
    if (strcmp(name, "rank") == 0) {
        return to_number(value, 0, 1000, &p->rank) || wrong(r, "not a number: %s", value);
    }
    return wrong(r, "[peer %s] has no option \"%s\"", peer, name);
}

static struct inm_alert_config *alert_of(struct inm_config *c, const char *name)
{
    struct inm_alert_config *a;
    uint32_t i;

    for (i = 0; i < c->num_alerts; i++) {
        if (strcmp(c->alerts[i].name, name) == 0) {
            return &c->alerts[i];
        }
    }
    if (c->num_alerts == INM_MAX_ALERTS || strlen(name) >= sizeof(a->name)) {
        return NULL;
    }
    a = &c->alerts[c->num_alerts++];
    strcpy(a->name, name);
    a->severity = SEVERITY_MAJOR;
    return a;
}

static int copy_text(struct reader *r, char *to, size_t size, const char *name, const char *value)
{
    if (strlen(value) >= size) {
        return wrong(r, "%s: longer than %zu characters", name, size - 1);
    }
    strcpy(to, value);
    return 1;
}

static int read_severity(struct reader *r, const char *value, uint32_t *severity)
{
    unsigned i;

    for (i = SEVERITY_INFO; i <= SEVERITY_CRITICAL; i++) {
        if (strcmp(value, severity_name(i)) == 0) {
            *severity = i;
            return 1;
        }
    }
    return wrong(r, "severity is info, warning, major or critical, not \"%s\"", value);
}

/* [alert NAME] */
static int read_alert(struct reader *r, const char *alert, const char *name, const char *value)
{
    struct inm_alert_config *a = alert_of(r->config, alert);

    if (a == NULL) {
        return wrong(r, "more than %d alerts, or a name that is too long", INM_MAX_ALERTS);
    }
    if (strcmp(name, "severity") == 0) {
        return read_severity(r, value, &a->severity);
    }
    if (strcmp(name, "after_s") == 0 || strcmp(name, "repeat_s") == 0) {
        return to_number(value, 0, 31536000, name[0] == 'a' ? &a->after_s : &a->repeat_s) ||
               wrong(r, "%s: \"%s\" is not a number from 0 to 31536000", name, value);
    }
    if (strcmp(name, "url") == 0) {
        return strncmp(value, "http://", 7) != 0 && strncmp(value, "https://", 8) != 0 ?
                   wrong(r, "url is http://... or https://...") :
                   copy_text(r, a->url, sizeof(a->url), name, value);
    }
    return strcmp(name, "cause") == 0 ? copy_text(r, a->cause, sizeof(a->cause), name, value) :
           strcmp(name, "place") == 0 ? copy_text(r, a->place, sizeof(a->place), name, value) :
           strcmp(name, "command") == 0 ?
                                        copy_text(r, a->command, sizeof(a->command), name, value) :
                                        wrong(r, "[alert %s] has no option \"%s\"", alert, name);
}

static int read_option(void *arg, const char *section, const char *name, const char *value)
{
    struct reader *r = arg;
    char *field;
    size_t i;
    bool known = false;

    if (strncmp(section, "peer ", 5) == 0) {
        return read_peer(r, section + 5, name, value);
    }
    if (strncmp(section, "alert ", 6) == 0) {
        return read_alert(r, section + 6, name, value);
    }
    for (i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        const struct option *o = &options[i];

        known = known || strcmp(section, o->section) == 0;
        if (strcmp(section, o->section) != 0 || strcmp(name, o->name) != 0) {
            continue;
        }
        field = (char *)r->config + o->offset;
        if (o->kind == NUMBER) {
            return to_number(value, o->min, o->max, (uint32_t *)(void *)field) ||
                   wrong(r, "%s: \"%s\" is not a number from %u to %u", name, value, o->min,
                         o->max);
        }
        if (strlen(value) >= o->size) {
            return wrong(r, "%s: longer than %zu characters", name, o->size - 1);
        }
        strcpy(field, value);
        return 1;
    }
    return known ? wrong(r, "[%s] has no option \"%s\"", section, name) :
                   wrong(r, "no such section: [%s]", section);
}

static char *count_line(char *text, int size, void *arg)
{
    struct reader *r = arg;
    char *line = fgets(text, size, r->file);

    r->line += line != NULL;
    return line;
}

/* Checks that need more than one line. */
static bool check(struct reader *r)
{
    const struct inm_config *c = r->config;

    if (strcmp(c->poll_mode, "single") != 0 && strcmp(c->poll_mode, "loop") != 0 &&
        strcmp(c->poll_mode, "compare") != 0) {
        snprintf(r->error, r->size, "%s: [poll] mode is single, loop or compare, not \"%s\"",
                 r->path, c->poll_mode);
    } else if ((c->tls_cert[0] == '\0') != (c->tls_key[0] == '\0')) {
        snprintf(r->error, r->size, "%s: [http] tls_cert and tls_key need each other", r->path);
    } else if (c->user_header[0] != '\0' && c->trusted_proxies[0] == '\0') {
        snprintf(r->error, r->size, "%s: [http] user_header needs trusted_proxies", r->path);
    } else if (strcmp(c->user_role, "none") != 0 && strcmp(c->user_role, "viewer") != 0 &&
               strcmp(c->user_role, "operator") != 0 &&
               strcmp(c->user_role, "administrator") != 0) {
        snprintf(r->error, r->size,
                 "%s: [http] user_role is none, viewer, operator or "
                 "administrator, not \"%s\"",
                 r->path, c->user_role);
    } else if (c->first_cabinet > c->last_cabinet) {
        snprintf(r->error, r->size, "%s: [region] first_cabinet is above last_cabinet", r->path);
    }
    return r->error[0] == '\0';
}

bool config_read(const char *path, struct inm_config *config, char *error, size_t size)
{
    struct reader r = {.path = path, .error = error, .size = size, .config = config};
    int line;

    *config = (struct inm_config){.name = "inmd",
                                  .topology = "th2",
                                  .nic = INM_NONE,
                                  .window = 1024,
                                  .timeout_ms = 200,
                                  .retries = 2,
                                  .address = "127.0.0.1",
                                  .port = 8420,
                                  .database = "inmd.db",
                                  .keep_days = 365,
                                  .user_role = "viewer",
                                  .poll_ms = 10000,
                                  .poll_mode = "loop",
                                  .session_minutes = 480,
                                  .login_tries = 5,
                                  .rate_per_second = 200,
                                  .hot_limit = 85,
                                  .retry_limit = 100,
                                  .last_cabinet = 100000,
                                  .heartbeat_ms = 500,
                                  .heartbeat_misses = 4};
    error[0] = '\0';
    if (path == NULL) {
        return true;
    }
    r.file = fopen(path, "re");
    if (r.file == NULL) {
        snprintf(error, size, "%s: %m", path);
        return false;
    }
    line = ini_parse_stream(count_line, &r, read_option, &r);
    fclose(r.file);
    r.file = NULL;
    if (line != 0) {
        r.line = line;
        wrong(&r, "is neither [section] nor option = value, or is too long");
        return false;
    }
    return check(&r);
}
