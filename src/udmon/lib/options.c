#include "options.h"
#include "base/auth.h"
#include "base/log.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void udmon_options_init(struct udmon_options *options)
{
    memset(options, 0, sizeof(*options));
}

/* Whether a list with commas has an empty name, which would admit a relay without a name. */
static bool options_has_gap(const char *list)
{
    size_t length = strlen(list);

    return (length > 0) &&
           ((list[0] == ',') || (list[length - 1] == ',') || (strstr(list, ",,") != NULL));
}

static int options_check(const struct udmon_options *v)
{
    const struct {
        const char *name;
        size_t value, min, max;
    } limits[] = {
        {"datagram_size", v->datagram_size, (v->datagram_size == 0) ? 0 : 256, 65535},
        {"flush_ms", v->flush_ms, 1, 3600 * 1000},
        {"queue_bytes", v->queue_bytes, 4096, (size_t)1 << 32},
        {"max_record", v->max_record, 1, UDMON_RECORD_MAX},
        {"keepalive_ms", v->keepalive_ms, 10, 3600 * 1000},
        {"connect_ms", v->connect_ms, 10, 3600 * 1000},
        {"retry_ms", v->retry_ms, 10, 3600 * 1000},
        {"return_ms", v->return_ms, 10, 24 * 3600 * 1000},
        {"max_clients", v->max_clients, 1, 1000000},
    };
    int certificates = (v->ca_file != NULL) + (v->cert_file != NULL) + (v->key_file != NULL);
    size_t i;

    if ((certificates != 0) && (certificates != 3)) {
        udmon_error("options ca, cert and key are needed together");
        return -EINVAL;
    }
    if ((v->relays != NULL) && options_has_gap(v->relays)) {
        udmon_error("option relays: '%s' has an empty name", v->relays);
        return -EINVAL;
    }
    if ((v->old_secret_file != NULL) && (v->secret_file == NULL)) {
        udmon_error("option old_secret_file needs secret_file");
        return -EINVAL;
    }
    if (v->check_names && (v->secret_file == NULL) && (certificates == 0)) {
        udmon_error("option check_names needs a secret or certificates");
        return -EINVAL;
    }
    for (i = 0; i < (sizeof(limits) / sizeof(limits[0])); ++i) {
        if ((limits[i].value < limits[i].min) || (limits[i].value > limits[i].max)) {
            udmon_error("option %s: %zu is not in %zu..%zu", limits[i].name, limits[i].value,
                        limits[i].min, limits[i].max);
            return -EINVAL;
        }
    }
    if (v->max_record > (v->queue_bytes - 64)) {
        udmon_error("option queue_bytes: %zu has no room for a record of max_record, %zu",
                    v->queue_bytes, v->max_record);
        return -EINVAL;
    }
    return 0;
}

static int options_source(const char *text, struct sockaddr_storage *source)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *list;

    if (getaddrinfo(text, NULL, &hints, &list) != 0) {
        udmon_error("option source: '%s' is no IP address", text);
        return -EINVAL;
    }
    memcpy(source, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return 0;
}

#define DEFAULT_TO(_field, _value)                                                                 \
    do {                                                                                           \
        if ((_field) == 0) {                                                                       \
            (_field) = (_value);                                                                   \
        }                                                                                          \
    } while (0)

int udmon_settings_make(const struct udmon_options *options, struct udmon_settings *settings)
{
    struct udmon_options *v = &settings->values;
    int ret = 0;

    memset(settings, 0, sizeof(*settings));
    if (options != NULL) {
        *v = *options;
    }
    DEFAULT_TO(v->flush_ms, 100);
    DEFAULT_TO(v->queue_bytes, 1024 * 1024);
    DEFAULT_TO(v->max_record, 65536);
    DEFAULT_TO(v->keepalive_ms, 1000);
    DEFAULT_TO(v->connect_ms, 6000);
    DEFAULT_TO(v->retry_ms, 1000);
    DEFAULT_TO(v->return_ms, 30000);
    DEFAULT_TO(v->max_clients, 4096);
    if (v->name != NULL) {
        snprintf(settings->name, sizeof(settings->name), "%s", v->name);
    } else if (gethostname(settings->name, sizeof(settings->name) - 1) < 0) {
        snprintf(settings->name, sizeof(settings->name), "unknown");
    }
    v->name = settings->name;
    settings->source.ss_family = AF_UNSPEC;
    if (v->source != NULL) {
        ret = options_source(v->source, &settings->source);
    }
    v->source = NULL; /* the caller owns the string */
    if ((ret == 0) && (v->client_id == 0)) {
        ret = udmon_random(&v->client_id, sizeof(v->client_id));
    }
    return (ret < 0) ? ret : options_check(v);
}
