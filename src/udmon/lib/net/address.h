/* Addresses as users write them: [SCHEME://]HOST:PORT. */
#ifndef UDMON_ADDRESS_H
#define UDMON_ADDRESS_H

#include <stdbool.h>
#include <netdb.h>
#include <sys/socket.h>

enum udmon_scheme {
    UDMON_SCHEME_ANY,
    UDMON_SCHEME_UD,
    UDMON_SCHEME_GLEX,
    UDMON_SCHEME_TCP,
    UDMON_SCHEME_COUNT
};

struct udmon_endpoint {
    enum udmon_scheme scheme;
    char text[300]; /* as the user wrote it, for messages */
    char host[256], port[8];
    struct addrinfo *hosts; /* where it leads, IPv6 and IPv4; NULL: not looked up */
};

/** "ud", "glex", ... */
const char *udmon_scheme_name(enum udmon_scheme scheme);

/** Parse, and do not look the host up. -EINVAL: no such form. */
int udmon_endpoint_parse_only(const char *text, int passive, struct udmon_endpoint *endpoint);

/**
 * Parse and look up. `passive`: an address to listen on, whose host may be empty or "*".
 * -EINVAL: no such form; -ENOENT: no such host. Waits for the name service.
 */
int udmon_endpoint_parse(const char *text, int passive, struct udmon_endpoint *endpoint);
void udmon_endpoint_free(struct udmon_endpoint *endpoint);

/** "192.0.2.1:4999" or "[2001:db8::1]:4999". Returns `text`. */
char *udmon_sockaddr_text(const struct sockaddr *addr, char *text, size_t size);

unsigned short udmon_sockaddr_port(const struct sockaddr *addr);
socklen_t udmon_sockaddr_length(const struct sockaddr *addr);

/** Only programs of this host reach it. */
bool udmon_sockaddr_is_loopback(const struct sockaddr *addr);

/** An IPv4 address in its IPv6 form becomes one of IPv4. */
void udmon_sockaddr_unmap(struct sockaddr_storage *addr);

#endif
