/* Events of a manager for the rest of the daemon. */
#ifndef MCSM_EVENTS_H
#define MCSM_EVENTS_H

#include "base/log.h"

#include <stdbool.h>
#include <stdint.h>

/* An administrator wants to know of an event at once. The log has the event, and the event command
 * of the configuration gets it. */
struct mcsm_event {
    const char *name; /* such as "foreign-manager" */
    const char *text;
    enum mcsm_log_level level;
    uint64_t guid; /* of the node or port; 0: none */
    uint8_t port;
};

/* Functions that the daemon gives at the creation of a manager. Any function may be NULL. */
struct mcsm_sm_events {
    void *arg;
    void (*swept)(void *arg); /* a heavy sweep is over; fabric is the new one */
    void (*end_port)(void *arg, uint64_t port_guid, bool there); /* came or went */
    void (*trap)(void *arg, const uint8_t notice[80]);           /* from a port of the cluster */
    void (*state)(void *arg, uint8_t state);
    void (*event)(void *arg, const struct mcsm_event *event);
    /* The leaves of a group: calls `leaf` for each member port. */
    void (*members)(void *arg, uint16_t mlid,
                    void (*leaf)(void *leaf_arg, uint64_t port_guid, bool receives),
                    void *leaf_arg);
    /* Returns whether a peer manager that is to take over the cluster has all registrations, drains
     * and holds. */
    bool (*ready)(void *arg, uint64_t guid);
    void (*drained)(void *arg, uint64_t guid, uint8_t port, bool on); /* by the administrator */
};

/** Logs a message and hands the event to the event command. */
void mcsm_report(const struct mcsm_sm_events *events, const char *name, enum mcsm_log_level level,
                 uint64_t guid, uint8_t port, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#endif
