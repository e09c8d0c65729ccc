/* The history of the server in SQLite: reports, alarms, the log, users, settings, samples. */
#ifndef INM_HISTORY_H
#define INM_HISTORY_H

#include "alarm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct history;
struct json_object;

/* A report of a chip. */
struct inm_event {
    uint64_t id;
    double time;
    uint8_t event, severity;
    uint32_t chip, port; /* port: index, or INM_NONE */
    uint64_t value;
};

struct history *history_open(const char *path, char *error, size_t size);
void history_close(struct history *h);

/** Queues an event; history_flush() writes the queue. */
void history_event(struct history *h, const struct inm_event *event);
void history_flush(struct history *h);
uint64_t history_last_event(struct history *h);

/** @return The id of the alarm. */
uint64_t history_alarm_raised(struct history *h, const struct inm_alarm *alarm, const char *place,
                              const char *text);
void history_alarm_cleared(struct history *h, uint64_t id, double when);
void history_alarm_acknowledged(struct history *h, uint64_t id, const char *user);
/** Reads the alarms that were active when the server ended. @return How many; the caller frees
 *  *alarms. */
uint32_t history_active(struct history *h, struct inm_alarm **alarms);

/* An entry of the log that operators read. */
struct log_entry {
    const char *kind; /* raised, cleared, acknowledged, start, stop, discovery, change */
    enum inm_severity severity;
    const char *place, *user, *address, *text; /* NULL: does not apply */
};

/** Writes an entry with the time of now. */
void history_log(struct history *h, const struct log_entry *entry);

/** The wanted entries of the log; NULL and 0 want everything. */
struct log_filter {
    enum inm_severity severity; /* the lowest */
    const char *place, *user, *kind;
    double from, to;
    int64_t before; /* only entries with a lower id; 0: all */
    uint32_t limit;
    bool no_changes; /* without the changes by users */
};

/** Reads entries, the newest first, as a JSON array of objects. */
struct json_object *history_read_log(struct history *h, const struct log_filter *filter);

void history_setting(struct history *h, const char *name, const char *value);
/** @return false: the setting does not exist. */
bool history_get_setting(struct history *h, const char *name, char *value, size_t size);
void history_sample(struct history *h, double when, const char *name, double value);
void history_trim(struct history *h, uint32_t keep_days);

/** Runs a query; the rows become a JSON array. `arg` is bound to ?1 and `limit` to ?2. */
struct json_object *history_query(struct history *h, const char *sql, double arg, int limit);

/** The connection, for users of SQL of their own; used between history_lock() and unlock. */
struct sqlite3 *history_db(struct history *h);
void history_lock(struct history *h);
void history_unlock(struct history *h);

#endif
