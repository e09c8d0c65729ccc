/* Snapshots in the database, compressed by zlib; see snapshot.h. */
#include "snapshot.h"
#include "alarms.h"
#include "load.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MIN_SECONDS 10.0

static size_t sizes(const struct inmd *d, struct snapshot *s)
{
    uint32_t nrc = d->topo->num_nrc;

    s->letters = s->bytes;
    s->temperature = s->letters + inm_topo_chips(d->topo);
    s->retries = s->temperature + nrc;
    s->crc_errors = s->retries + nrc;
    s->use = s->crc_errors + nrc;
    return inm_topo_chips(d->topo) + (3 + INM_NRC_PORTS) * (size_t)nrc;
}

static bool allocate(const struct inmd *d, struct snapshot *s)
{
    s->bytes = NULL;
    s->bytes = malloc(sizes(d, s) + 1);
    sizes(d, s);
    return s->bytes != NULL;
}

static uint8_t byte(uint64_t value)
{
    return value > 255 ? 255 : (uint8_t)value;
}

/* With the lock held. */
static void fill(const struct inmd *d, struct snapshot *s)
{
    uint32_t i;

    chip_letters(d, (char *)s->letters);
    for (i = 0; i < d->topo->num_nrc; i++) {
        int32_t degrees = d->status.temperature[i] / 1000;

        s->temperature[i] = byte(degrees > 0 ? (uint64_t)degrees : 0);
        s->retries[i] = byte(d->status.retry_delta[i]);
        s->crc_errors[i] = byte(d->status.crc_delta[i]);
    }
    for (i = 0; i < d->topo->num_nrc * INM_NRC_PORTS; i++) {
        uint32_t peer = d->topo->peer[i];
        bool down = peer != INM_NONE && (d->status.down[i] || d->status.down[peer]);
        float use = d->load->use[i];

        s->use[i] = down ? SNAPSHOT_DOWN : use < 0 ? SNAPSHOT_UNKNOWN : (uint8_t)(use * 100 + 0.5f);
    }
}

static void store(struct inmd *d, double now, const void *data, size_t len)
{
    sqlite3_stmt *stmt;

    history_lock(d->history);
    if (sqlite3_prepare_v2(history_db(d->history), "INSERT OR REPLACE INTO snapshots VALUES(?,?)",
                           -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_double(stmt, 1, now);
        sqlite3_bind_blob64(stmt, 2, data, len, SQLITE_STATIC);
        if (sqlite3_step(stmt) != SQLITE_DONE) {
            inm_log(LOG_ERR, "database: %s; is the disk full?",
                    sqlite3_errmsg(history_db(d->history)));
        }
        sqlite3_finalize(stmt);
    }
    history_unlock(d->history);
}

void snapshot_take(struct inmd *d)
{
    struct snapshot s = {.time = now_seconds()};
    uLongf len;
    uint8_t *packed;
    size_t size;

    if (s.time - d->last_snapshot < MIN_SECONDS || !allocate(d, &s)) {
        return;
    }
    d->last_snapshot = s.time;
    pthread_mutex_lock(&d->lock);
    fill(d, &s);
    pthread_mutex_unlock(&d->lock);
    size = sizes(d, &s);
    len = compressBound(size);
    packed = malloc(len);
    if (packed != NULL && compress2(packed, &len, s.bytes, size, 3) == Z_OK) {
        store(d, s.time, packed, len);
    }
    free(packed);
    free(s.bytes);
}

/* Snapshots of another topology have another size, and are left out. */
static bool unpack(const struct inmd *d, sqlite3_stmt *stmt, struct snapshot *s)
{
    uLongf len = sizes(d, s);

    s->time = sqlite3_column_double(stmt, 0);
    return uncompress(s->bytes, &len, sqlite3_column_blob(stmt, 1),
                      (uLong)sqlite3_column_bytes(stmt, 1)) == Z_OK &&
           len == sizes(d, s);
}

bool snapshot_read(struct inmd *d, double time, struct snapshot *s)
{
    sqlite3_stmt *stmt;
    bool ok = false;

    if (!allocate(d, s)) {
        return false;
    }
    history_lock(d->history);
    if (sqlite3_prepare_v2(history_db(d->history),
                           "SELECT time, data FROM snapshots WHERE time <= ?"
                           " ORDER BY time DESC LIMIT 1",
                           -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_double(stmt, 1, time);
        ok = sqlite3_step(stmt) == SQLITE_ROW && unpack(d, stmt, s);
        sqlite3_finalize(stmt);
    }
    history_unlock(d->history);
    if (!ok) {
        free(s->bytes);
        s->bytes = NULL;
    }
    return ok;
}

static double number(struct inmd *d, const char *sql, double arg)
{
    sqlite3_stmt *stmt;
    double value = 0;

    history_lock(d->history);
    if (sqlite3_prepare_v2(history_db(d->history), sql, -1, &stmt, NULL) == SQLITE_OK) {
        if (sqlite3_bind_parameter_count(stmt) > 0) {
            sqlite3_bind_double(stmt, 1, arg);
        }
        value = sqlite3_step(stmt) == SQLITE_ROW ? sqlite3_column_double(stmt, 0) : 0;
        sqlite3_finalize(stmt);
    }
    history_unlock(d->history);
    return value;
}

void snapshot_each(struct inmd *d, double from, uint32_t max,
                   void (*take)(void *arg, const struct snapshot *s), void *arg)
{
    double all = number(d, "SELECT count(*) FROM snapshots WHERE time >= ?", from);
    uint32_t every = (uint32_t)(all / max) + 1, n = 0;
    struct snapshot s;
    sqlite3_stmt *stmt;

    if (!allocate(d, &s)) {
        return;
    }
    history_lock(d->history);
    if (sqlite3_prepare_v2(history_db(d->history),
                           "SELECT time, data FROM snapshots WHERE time >= ?"
                           " ORDER BY time",
                           -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_double(stmt, 1, from);
        while (sqlite3_step(stmt) == SQLITE_ROW) {
            if (n++ % every == 0 && unpack(d, stmt, &s)) {
                take(arg, &s);
            }
        }
        sqlite3_finalize(stmt);
    }
    history_unlock(d->history);
    free(s.bytes);
}

void snapshot_range(struct inmd *d, double *first, double *last)
{
    *first = number(d, "SELECT min(time) FROM snapshots", 0);
    *last = number(d, "SELECT max(time) FROM snapshots", 0);
}

void snapshot_thin(struct inmd *d)
{
    static const struct {
        double older, younger, every;
    } steps[] = {{3600, 86400, 60}, {86400, 30 * 86400.0, 600}, {30 * 86400.0, 1e10, 3600}};
    double now = now_seconds();
    char sql[400];
    size_t i;

    history_lock(d->history);
    for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        sqlite3_snprintf(
            sizeof(sql), sql,
            "DELETE FROM snapshots WHERE time < %f AND time > %f AND time NOT IN (SELECT"
            " min(time) FROM snapshots GROUP BY CAST(time / %f AS INTEGER))",
            now - steps[i].older, now - steps[i].younger, steps[i].every);
        sqlite3_exec(history_db(d->history), sql, NULL, NULL, NULL);
    }
    sqlite3_snprintf(sizeof(sql), sql, "DELETE FROM snapshots WHERE time < %f",
                     now - d->config.keep_days * 86400.0);
    sqlite3_exec(history_db(d->history), sql, NULL, NULL, NULL);
    history_unlock(d->history);
}
