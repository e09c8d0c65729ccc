/* Options with defaults filled in and checked, strings copied. */
#ifndef UDMON_OPTIONS_H
#define UDMON_OPTIONS_H

#include "../include/udmon.h"

#include <sys/socket.h>

enum {
    UDMON_DEAD_KEEPALIVES = 5, /* a peer is presumed dead after so many silent keepalive times */
    UDMON_ROUNDS = 16          /* of progress within one call of a process function */
};

struct udmon_settings {
    struct udmon_options values; /* its strings are below */
    char name[UDMON_NAME_MAX + 1];
    struct sockaddr_storage source; /* AF_UNSPEC: by routing */
};

/** -EINVAL with a message for an option out of range. */
int udmon_settings_make(const struct udmon_options *options, struct udmon_settings *settings);

#endif
