/*
 * The history, in SQLite: events, alarms, the log, users, settings, samples. One connection,
 * used by one thread at a time. Reports are queued, and one transaction writes many. Everything
 * else is written immediately, so a crash loses nothing that a user has seen confirmed.
 */
#include "history.h"
#include "base.h"
#include "place.h"

#include <json-c/json.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct history {
    sqlite3 *db;
    pthread_mutex_t lock; /* of the connection */
    pthread_mutex_t queue_lock;
    struct inm_event *queue;
    uint32_t num, room;
    sqlite3_stmt *insert_event;
};

static const char schema[] =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=5000;"
    "CREATE TABLE IF NOT EXISTS events(id INTEGER PRIMARY KEY, time REAL NOT NULL,"
    " event INTEGER NOT NULL, severity INTEGER NOT NULL, chip INTEGER, port INTEGER,"
    " value INTEGER);"
    "CREATE INDEX IF NOT EXISTS events_time ON events(time);"
    "CREATE TABLE IF NOT EXISTS alarms(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " key INTEGER NOT NULL, cause TEXT NOT NULL, code INTEGER NOT NULL, severity INTEGER NOT NULL,"
    " chip INTEGER, port INTEGER, other INTEGER, place TEXT NOT NULL, text TEXT NOT NULL,"
    " raised REAL NOT NULL, cleared REAL, acknowledged TEXT);"
    "CREATE INDEX IF NOT EXISTS alarms_active ON alarms(cleared);"
    "CREATE TABLE IF NOT EXISTS log(id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL,"
    " kind TEXT NOT NULL, severity INTEGER NOT NULL, place TEXT, user TEXT, address TEXT,"
    " text TEXT NOT NULL);"
    "CREATE INDEX IF NOT EXISTS log_time ON log(time);"
    "CREATE TABLE IF NOT EXISTS users(name TEXT PRIMARY KEY, role INTEGER NOT NULL,"
    " hash TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS settings(name TEXT PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS samples(time REAL NOT NULL, name TEXT NOT NULL,"
    " value REAL NOT NULL);"
    "CREATE TABLE IF NOT EXISTS snapshots(time REAL PRIMARY KEY, data BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS parts(chip TEXT NOT NULL, type TEXT NOT NULL,"
    " serial INTEGER NOT NULL, firmware INTEGER NOT NULL, first_seen REAL NOT NULL,"
    " last_seen REAL NOT NULL, PRIMARY KEY(chip, serial, firmware));"
    "CREATE INDEX IF NOT EXISTS samples_time ON samples(name, time);";

/* Databases of earlier versions have a table "audit"; its rows move into the log. */
static int take_over_audit(sqlite3 *db)
{
    sqlite3_stmt *stmt;
    bool old = false;

    if (sqlite3_prepare_v2(db, "SELECT 1 FROM sqlite_master WHERE name = 'audit'", -1, &stmt,
                           NULL) == SQLITE_OK) {
        old = sqlite3_step(stmt) == SQLITE_ROW;
        sqlite3_finalize(stmt);
    }
    return !old ? SQLITE_OK :
                  sqlite3_exec(db,
                               "BEGIN; INSERT INTO log(time, kind, severity, user, address, text)"
                               " SELECT time, 'change', 0, user, address, action || ': ' || outcome"
                               " FROM audit; DROP TABLE audit; COMMIT",
                               NULL, NULL, NULL);
}

struct history *history_open(const char *path, char *error, size_t size)
{
    struct history *h = calloc(1, sizeof(*h));
    mode_t mask;
    int ret;

    if (h == NULL) {
        snprintf(error, size, "no memory");
        return NULL;
    }
    mask = umask(0077); /* the database has the users' password hashes */
    ret = sqlite3_open(path, &h->db);
    if (ret == SQLITE_OK) {
        ret = sqlite3_exec(h->db, schema, NULL, NULL, NULL);
    }
    umask(mask);
    if (ret == SQLITE_OK) {
        ret = take_over_audit(h->db);
    }
    if (ret == SQLITE_OK) {
        ret = sqlite3_prepare_v2(h->db, "INSERT OR IGNORE INTO events VALUES(?,?,?,?,?,?,?)", -1,
                                 &h->insert_event, NULL);
    }
    if (ret != SQLITE_OK) {
        snprintf(error, size, "database %s: %s", path, sqlite3_errmsg(h->db));
        sqlite3_close(h->db);
        free(h);
        return NULL;
    }
    pthread_mutex_init(&h->lock, NULL);
    pthread_mutex_init(&h->queue_lock, NULL);
    return h;
}

void history_close(struct history *h)
{
    history_flush(h);
    sqlite3_finalize(h->insert_event);
    sqlite3_close(h->db);
    pthread_mutex_destroy(&h->lock);
    pthread_mutex_destroy(&h->queue_lock);
    free(h->queue);
    free(h);
}

struct sqlite3 *history_db(struct history *h)
{
    return h->db;
}

void history_lock(struct history *h)
{
    pthread_mutex_lock(&h->lock);
}

void history_unlock(struct history *h)
{
    pthread_mutex_unlock(&h->lock);
}

/* Run a statement whose arguments are given by a format: i int64, d double, s text, n NULL. */
static bool run(struct history *h, const char *sql, const char *format, ...)
{
    sqlite3_stmt *stmt;
    va_list args;
    bool ok;
    int i;

    pthread_mutex_lock(&h->lock);
    if (sqlite3_prepare_v2(h->db, sql, -1, &stmt, NULL) != SQLITE_OK) {
        inm_log(LOG_ERR, "database: %s", sqlite3_errmsg(h->db));
        pthread_mutex_unlock(&h->lock);
        return false;
    }
    va_start(args, format);
    for (i = 1; format[i - 1] != '\0'; i++) {
        switch (format[i - 1]) {
        case 'i':
            sqlite3_bind_int64(stmt, i, va_arg(args, int64_t));
            break;
        case 'd':
            sqlite3_bind_double(stmt, i, va_arg(args, double));
            break;
        default:
            sqlite3_bind_text(stmt, i, va_arg(args, const char *), -1, SQLITE_TRANSIENT);
        }
    }
    va_end(args);
    ok = sqlite3_step(stmt) == SQLITE_DONE;
    if (!ok) {
        inm_log(LOG_ERR, "database: %s; is the disk full?", sqlite3_errmsg(h->db));
    }
    sqlite3_finalize(stmt);
    pthread_mutex_unlock(&h->lock);
    return ok;
}

/* ---- events ---------------------------------------------------------------------------------- */

void history_event(struct history *h, const struct inm_event *event)
{
    struct inm_event *more;

    pthread_mutex_lock(&h->queue_lock);
    if (h->num == h->room) {
        more = realloc(h->queue, (h->room * 2 + 1024) * sizeof(*more));
        if (more == NULL) {
            pthread_mutex_unlock(&h->queue_lock);
            inm_log(LOG_ERR, "no memory: event %llu is not kept", (unsigned long long)event->id);
            return;
        }
        h->queue = more;
        h->room = h->room * 2 + 1024;
    }
    h->queue[h->num++] = *event;
    pthread_mutex_unlock(&h->queue_lock);
}

void history_flush(struct history *h)
{
    struct inm_event *queue;
    uint32_t num, i;

    pthread_mutex_lock(&h->queue_lock);
    queue = h->queue;
    num = h->num;
    h->queue = NULL;
    h->num = h->room = 0;
    pthread_mutex_unlock(&h->queue_lock);
    if (num > 0) {
        pthread_mutex_lock(&h->lock);
        sqlite3_exec(h->db, "BEGIN", NULL, NULL, NULL);
        for (i = 0; i < num; i++) {
            sqlite3_bind_int64(h->insert_event, 1, (int64_t)queue[i].id);
            sqlite3_bind_double(h->insert_event, 2, queue[i].time);
            sqlite3_bind_int(h->insert_event, 3, queue[i].event);
            sqlite3_bind_int(h->insert_event, 4, queue[i].severity);
            sqlite3_bind_int64(h->insert_event, 5, queue[i].chip);
            sqlite3_bind_int64(h->insert_event, 6, queue[i].port);
            sqlite3_bind_int64(h->insert_event, 7, (int64_t)queue[i].value);
            sqlite3_step(h->insert_event);
            sqlite3_reset(h->insert_event);
        }
        if (sqlite3_exec(h->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
            inm_log(LOG_ERR, "database: %u events are not kept: %s", num, sqlite3_errmsg(h->db));
            sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL);
        }
        pthread_mutex_unlock(&h->lock);
    }
    free(queue);
}

static int64_t one_number(struct history *h, const char *sql)
{
    sqlite3_stmt *stmt;
    int64_t value = 0;

    pthread_mutex_lock(&h->lock);
    if (sqlite3_prepare_v2(h->db, sql, -1, &stmt, NULL) == SQLITE_OK) {
        if (sqlite3_step(stmt) == SQLITE_ROW) {
            value = sqlite3_column_int64(stmt, 0);
        }
        sqlite3_finalize(stmt);
    }
    pthread_mutex_unlock(&h->lock);
    return value;
}

uint64_t history_last_event(struct history *h)
{
    return (uint64_t)one_number(h, "SELECT max(id) FROM events");
}

void history_trim(struct history *h, uint32_t keep_days)
{
    double before = now_seconds() - keep_days * 86400.0;

    run(h, "DELETE FROM events WHERE time < ?", "d", before);
    run(h, "DELETE FROM samples WHERE time < ?", "d", before);
    run(h, "DELETE FROM log WHERE time < ?", "d", before);
    run(h, "DELETE FROM alarms WHERE cleared < ?", "d", before);
}

/* ---- alarms ---------------------------------------------------------------------------------- */

uint64_t history_alarm_raised(struct history *h, const struct inm_alarm *a, const char *place,
                              const char *text)
{
    run(h,
        "INSERT INTO alarms(key, cause, code, severity, chip, port, other, place, text, raised)"
        " VALUES(?,?,?,?,?,?,?,?,?,?)",
        "isiiiiissd", (int64_t)a->key, alarm_cause(a->cause), (int64_t)a->cause,
        (int64_t)a->severity, (int64_t)a->chip, (int64_t)a->port, (int64_t)a->other, place, text,
        a->raised);
    return (uint64_t)one_number(h, "SELECT max(id) FROM alarms");
}

void history_alarm_cleared(struct history *h, uint64_t id, double when)
{
    run(h, "UPDATE alarms SET cleared = ? WHERE id = ?", "di", when, (int64_t)id);
}

void history_alarm_acknowledged(struct history *h, uint64_t id, const char *user)
{
    run(h, "UPDATE alarms SET acknowledged = ? WHERE id = ?", "si", user, (int64_t)id);
}

uint32_t history_active(struct history *h, struct inm_alarm **alarms)
{
    struct inm_alarm *list = NULL, *more;
    sqlite3_stmt *stmt;
    uint32_t num = 0;

    pthread_mutex_lock(&h->lock);
    if (sqlite3_prepare_v2(h->db,
                           "SELECT key, id, code, severity, chip, port, other, raised,"
                           " coalesce(acknowledged, '') FROM alarms WHERE cleared IS NULL"
                           " GROUP BY key ORDER BY key",
                           -1, &stmt, NULL) == SQLITE_OK) {
        while (sqlite3_step(stmt) == SQLITE_ROW) {
            struct inm_alarm *a;

            more = realloc(list, (num + 1) * sizeof(*list));
            if (more == NULL) {
                break;
            }
            list = more;
            a = &list[num++];
            *a = (struct inm_alarm){.key = (uint64_t)sqlite3_column_int64(stmt, 0),
                                    .id = (uint64_t)sqlite3_column_int64(stmt, 1),
                                    .cause = (uint8_t)sqlite3_column_int(stmt, 2),
                                    .severity = (uint8_t)sqlite3_column_int(stmt, 3),
                                    .chip = (uint32_t)sqlite3_column_int64(stmt, 4),
                                    .port = (uint32_t)sqlite3_column_int64(stmt, 5),
                                    .other = (uint32_t)sqlite3_column_int64(stmt, 6),
                                    .folded = 1,
                                    .raised = sqlite3_column_double(stmt, 7)};
            snprintf(a->acknowledged, sizeof(a->acknowledged), "%s",
                     (const char *)sqlite3_column_text(stmt, 8));
        }
        sqlite3_finalize(stmt);
    }
    pthread_mutex_unlock(&h->lock);
    *alarms = list;
    return num;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static struct json_object *row_json(sqlite3_stmt *stmt)
{
    struct json_object *row = json_object_new_object(), *value;
    int i;

    for (i = 0; i < sqlite3_column_count(stmt); i++) {
        switch (sqlite3_column_type(stmt, i)) {
        case SQLITE_INTEGER:
            value = json_object_new_int64(sqlite3_column_int64(stmt, i));
            break;
        case SQLITE_FLOAT:
            value = json_object_new_double(sqlite3_column_double(stmt, i));
            break;
        case SQLITE_NULL:
            value = NULL;
            break;
        default:
            value = json_object_new_string((const char *)sqlite3_column_text(stmt, i));
        }
        json_object_object_add(row, sqlite3_column_name(stmt, i), value);
    }
    return row;
}

void history_log(struct history *h, const struct log_entry *e)
{
    run(h,
        "INSERT INTO log(time, kind, severity, place, user, address, text)"
        " VALUES(?,?,?,?,?,?,?)",
        "dsissss", now_seconds(), e->kind, (int64_t)e->severity, e->place, e->user, e->address,
        e->text);
}

static bool log_wants(sqlite3_stmt *stmt, const struct log_filter *f)
{
    const char *place = (const char *)sqlite3_column_text(stmt, 4);

    return f->place == NULL || (place != NULL && place_matches(place, f->place));
}

struct json_object *history_read_log(struct history *h, const struct log_filter *f)
{
    struct json_object *rows = json_object_new_array(), *row;
    sqlite3_stmt *stmt;

    pthread_mutex_lock(&h->lock);
    if (sqlite3_prepare_v2(h->db,
                           "SELECT id, time, kind, severity, place, user, address, text FROM"
                           " log WHERE severity >= ?1 AND time >= ?2 AND (?3 = 0 OR time <= ?3) AND"
                           " (?4 = 0 OR id < ?4) AND (?5 IS NULL OR user = ?5) AND"
                           " (?6 IS NULL OR kind = ?6) AND (?7 = 0 OR kind != 'change')"
                           " ORDER BY id DESC",
                           -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_int(stmt, 1, (int)f->severity);
        sqlite3_bind_double(stmt, 2, f->from);
        sqlite3_bind_double(stmt, 3, f->to);
        sqlite3_bind_int64(stmt, 4, f->before);
        sqlite3_bind_text(stmt, 5, f->user, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(stmt, 6, f->kind, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int(stmt, 7, f->no_changes);
        while (json_object_array_length(rows) < f->limit && sqlite3_step(stmt) == SQLITE_ROW) {
            if (log_wants(stmt, f)) {
                row = row_json(stmt);
                json_object_object_add(
                    row, "severity",
                    json_object_new_string(severity_name((unsigned)sqlite3_column_int(stmt, 3))));
                json_object_array_add(rows, row);
            }
        }
        sqlite3_finalize(stmt);
    } else {
        inm_log(LOG_ERR, "database: %s", sqlite3_errmsg(h->db));
    }
    pthread_mutex_unlock(&h->lock);
    return rows;
}

void history_setting(struct history *h, const char *name, const char *value)
{
    run(h, "INSERT OR REPLACE INTO settings VALUES(?,?)", "ss", name, value);
}

bool history_get_setting(struct history *h, const char *name, char *value, size_t size)
{
    sqlite3_stmt *stmt;
    bool found = false;

    pthread_mutex_lock(&h->lock);
    if (sqlite3_prepare_v2(h->db, "SELECT value FROM settings WHERE name = ?", -1, &stmt, NULL) ==
        SQLITE_OK) {
        sqlite3_bind_text(stmt, 1, name, -1, SQLITE_TRANSIENT);
        found = sqlite3_step(stmt) == SQLITE_ROW;
        if (found) {
            snprintf(value, size, "%s", (const char *)sqlite3_column_text(stmt, 0));
        }
        sqlite3_finalize(stmt);
    }
    pthread_mutex_unlock(&h->lock);
    return found;
}

void history_sample(struct history *h, double when, const char *name, double value)
{
    run(h, "INSERT INTO samples VALUES(?,?,?)", "dsd", when, name, value);
}

struct json_object *history_query(struct history *h, const char *sql, double arg, int limit)
{
    struct json_object *rows = json_object_new_array();
    sqlite3_stmt *stmt;

    pthread_mutex_lock(&h->lock);
    if (sqlite3_prepare_v2(h->db, sql, -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_double(stmt, 1, arg);
        sqlite3_bind_int(stmt, 2, limit);
        while (sqlite3_step(stmt) == SQLITE_ROW) {
            json_object_array_add(rows, row_json(stmt));
        }
        sqlite3_finalize(stmt);
    } else {
        inm_log(LOG_ERR, "database: %s", sqlite3_errmsg(h->db));
    }
    pthread_mutex_unlock(&h->lock);
    return rows;
}
