/* The history of the server in SQLite: reports, alarms, the audit log, users, settings, samples. */
#ifndef INM_HISTORY_H
#define INM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alarm.h"

struct history;
struct json_object;

/* A report of a chip. */
struct inm_event {
    uint64_t id;
    double   time;
    uint8_t  event, severity;
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

void history_audit(struct history *h, const char *user, const char *address, const char *action,
                   const char *outcome);
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
