#include "address.h"
#include "../base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const scheme_names[UDMON_SCHEME_COUNT] = {
    [UDMON_SCHEME_ANY] = "",
    [UDMON_SCHEME_UD] = "ud",
    [UDMON_SCHEME_GLEX] = "glex",
    [UDMON_SCHEME_TCP] = "tcp",
};

const char *udmon_scheme_name(enum udmon_scheme scheme)
{
    return scheme_names[scheme];
}

/* Take "scheme://" off the front of *text_p. */
static int address_scheme(const char **text_p, enum udmon_scheme *scheme_p)
{
    const char *end = strstr(*text_p, "://");
    size_t length;
    int i;

    *scheme_p = UDMON_SCHEME_ANY;
    if (end == NULL) {
        return 0;
    }
    length = end - *text_p;
    for (i = UDMON_SCHEME_UD; i < UDMON_SCHEME_COUNT; ++i) {
        if ((strlen(scheme_names[i]) == length) && !strncmp(scheme_names[i], *text_p, length)) {
            *scheme_p = i;
            *text_p = end + 3;
            return 0;
        }
    }
    return -EINVAL;
}

/* Split "host:port" or "[host]:port". */
static int address_split(const char *text, char *host, size_t host_size, const char **port_p)
{
    const char *colon = strrchr(text, ':');
    size_t length;

    if ((colon == NULL) || (colon[1] == '\0')) {
        return -EINVAL;
    }
    length = colon - text;
    if ((text[0] == '[') && (length >= 2) && (colon[-1] == ']')) {
        ++text;
        length -= 2;
    } else if (memchr(text, ':', length) != NULL) {
        return -EINVAL; /* an IPv6 address without brackets: which colon is the port's? */
    }
    if (length >= host_size) {
        return -EINVAL;
    }
    memcpy(host, text, length);
    host[length] = '\0';
    *port_p = colon + 1;
    return 0;
}

static bool address_port_valid(const char *port, int passive)
{
    char *end;
    long value = strtol(port, &end, 10);

    return (*end == '\0') && (port[0] >= '0') && (port[0] <= '9') && (value <= 65535) &&
           ((value > 0) || passive);
}

int udmon_endpoint_parse_only(const char *text, int passive, struct udmon_endpoint *endpoint)
{
    const char *rest = text, *port;

    memset(endpoint, 0, sizeof(*endpoint));
    snprintf(endpoint->text, sizeof(endpoint->text), "%s", text);
    if ((address_scheme(&rest, &endpoint->scheme) < 0) ||
        (address_split(rest, endpoint->host, sizeof(endpoint->host), &port) < 0) ||
        !address_port_valid(port, passive) || ((endpoint->host[0] == '\0') && !passive)) {
        udmon_error("'%s' is no address: write [ud://|glex://|tcp://]HOST:PORT, an IPv6 address "
                    "in brackets",
                    text);
        return -EINVAL;
    }
    snprintf(endpoint->port, sizeof(endpoint->port), "%s", port);
    return 0;
}

int udmon_endpoint_parse(const char *text, int passive, struct udmon_endpoint *endpoint)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0),
    };
    const char *host = endpoint->host, *port = endpoint->port;
    int ret;

    ret = udmon_endpoint_parse_only(text, passive, endpoint);
    if (ret < 0) {
        return ret;
    }
    if (passive && ((host[0] == '\0') || !strcmp(host, "*"))) {
        /* IPv6's "any" takes IPv4 too, where there is IPv6. */
        ret = getaddrinfo("::", port, &hints, &endpoint->hosts);
        ret = ret ? getaddrinfo("0.0.0.0", port, &hints, &endpoint->hosts) : 0;
    } else {
        ret = getaddrinfo(host, port, &hints, &endpoint->hosts);
    }
    if (ret != 0) {
        udmon_error("no address for host '%s': %s", host, gai_strerror(ret));
        return -ENOENT;
    }
    return 0;
}

void udmon_endpoint_free(struct udmon_endpoint *endpoint)
{
    if (endpoint->hosts != NULL) {
        freeaddrinfo(endpoint->hosts);
        endpoint->hosts = NULL;
    }
}

char *udmon_sockaddr_text(const struct sockaddr *addr, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (addr->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)addr)->sin_addr, host, sizeof(host));
        snprintf(text, size, "%s:%u", host, udmon_sockaddr_port(addr));
    } else {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)addr)->sin6_addr, host, sizeof(host));
        snprintf(text, size, "[%s]:%u", host, udmon_sockaddr_port(addr));
    }
    return text;
}

unsigned short udmon_sockaddr_port(const struct sockaddr *addr)
{
    return ntohs((addr->sa_family == AF_INET) ? ((const struct sockaddr_in *)addr)->sin_port :
                                                ((const struct sockaddr_in6 *)addr)->sin6_port);
}

socklen_t udmon_sockaddr_length(const struct sockaddr *addr)
{
    return (addr->sa_family == AF_INET) ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

bool udmon_sockaddr_is_loopback(const struct sockaddr *addr)
{
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)addr)->sin6_addr;

    if (addr->sa_family == AF_INET) {
        return (ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
    }
    return IN6_IS_ADDR_LOOPBACK(in6) ||
           (IN6_IS_ADDR_V4MAPPED(in6) && (in6->s6_addr[12] == IN_LOOPBACKNET));
}

void udmon_sockaddr_unmap(struct sockaddr_storage *addr)
{
    struct sockaddr_in6 in6 = *(struct sockaddr_in6 *)addr;
    struct sockaddr_in *in = (struct sockaddr_in *)addr;

    if ((addr->ss_family == AF_INET6) && IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
        memset(addr, 0, sizeof(*addr));
        in->sin_family = AF_INET;
        in->sin_port = in6.sin6_port;
        memcpy(&in->sin_addr, &in6.sin6_addr.s6_addr[12], 4);
    }
}
