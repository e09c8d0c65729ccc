/* The client of a request; see client.h. */
#include "client.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *header(const struct call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

/* Whether a list, separated by commas or spaces, has a word. */
static bool listed(const char *list, const char *word)
{
    size_t len = strlen(word), n;

    while (*list != '\0') {
        n = strcspn(list, ", ");
        if (n == len && n > 0 && strncasecmp(list, word, n) == 0) {
            return true;
        }
        list += n + (list[n] != '\0');
    }
    return false;
}

static bool is_address(const char *text)
{
    struct in6_addr address;

    return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1;
}

static void peer_address(struct call *call)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *sa = info != NULL ? info->client_addr : NULL;

    snprintf(call->address, sizeof(call->address), "local");
    if (sa != NULL && sa->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, call->address,
                  sizeof(call->address));
    } else if (sa != NULL && sa->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr,
                  call->address, sizeof(call->address));
    }
}

/* The last address of X-Forwarded-For that is not a trusted proxy: proxies append to the header. */
static void forwarded_address(struct call *call)
{
    const char *forwarded = header(call, "X-Forwarded-For");
    char text[400], *last;

    snprintf(text, sizeof(text), "%s", forwarded != NULL ? forwarded : "");
    while (text[0] != '\0') {
        last = strrchr(text, ',');
        last = last != NULL ? last + 1 : text;
        last += strspn(last, " ");
        last[strcspn(last, " ")] = '\0';
        if (!is_address(last)) {
            return;
        }
        snprintf(call->address, sizeof(call->address), "%s", last);
        if (!listed(call->d->config.trusted_proxies, last)) {
            return;
        }
        last = strrchr(text, ',');
        *(last != NULL ? last : text) = '\0';
    }
}

static void local_session(struct call *call)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (info != NULL && getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
        (cred.uid == 0 || cred.uid == geteuid())) {
        call->session.role = ROLE_ADMINISTRATOR;
        snprintf(call->session.user, sizeof(call->session.user), "uid %u", cred.uid);
    }
}

void client_find(struct call *call, bool local)
{
    const struct inm_config *c = &call->d->config;
    const char *token =
        MHD_lookup_connection_value(call->connection, MHD_COOKIE_KIND, "inm_session");
    const char *user = c->user_header[0] != '\0' ? header(call, c->user_header) : NULL;
    bool trusted;

    peer_address(call);
    if (local) {
        local_session(call);
        return;
    }
    trusted = listed(c->trusted_proxies, call->address);
    if (trusted) {
        forwarded_address(call);
    }
    if (trusted && user != NULL && auth_proxy_session(call->d->auth, user, &call->session)) {
        return;
    }
    if (token != NULL) {
        auth_find_session(call->d->auth, token, &call->session);
    }
}

bool client_csrf_ok(const struct call *call, bool local)
{
    const char *token = header(call, "X-CSRF-Token");

    return local || (token != NULL && auth_equal(call->session.csrf, token));
}

/* Addresses are safe: a page of another site has a name, which it can let point to this server. */
bool client_host_ok(const struct call *call)
{
    const char *host = header(call, "Host");
    char name[256], own[256] = "";
    size_t len;

    if (host == NULL) {
        return true; /* HTTP/1.0; browsers always send the header */
    }
    len = host[0] == '[' ? strcspn(host, "]") : strcspn(host, ":");
    snprintf(name, sizeof(name), "%.*s", (int)len, host);
    if (host[0] == '[') {
        memmove(name, name + 1, strlen(name));
    }
    gethostname(own, sizeof(own) - 1);
    return is_address(name) || strcasecmp(name, "localhost") == 0 ||
           (own[0] != '\0' && strcasecmp(name, own) == 0) ||
           listed(call->d->config.host_names, name);
}
