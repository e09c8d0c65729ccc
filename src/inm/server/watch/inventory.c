/* The inventory; see inventory.h. */
#include "inventory.h"
#include "inm/server/act/access.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part that was known at a place. @return false: none. */
static bool known_part(sqlite3_stmt *find, const char *name, int64_t *serial, int64_t *firmware)
{
    bool found;

    sqlite3_bind_text(find, 1, name, -1, SQLITE_TRANSIENT);
    found = sqlite3_step(find) == SQLITE_ROW;
    *serial = found ? sqlite3_column_int64(find, 0) : 0;
    *firmware = found ? sqlite3_column_int64(find, 1) : 0;
    sqlite3_reset(find);
    return found;
}

static void describe(char *text, size_t size, int64_t serial, int64_t firmware, int64_t old_serial,
                     int64_t old_firmware)
{
    snprintf(text, size,
             "%s: serial number %lld, was %lld; firmware %lld.%lld.%lld, was "
             "%lld.%lld.%lld",
             serial != old_serial ? "another part" : "other firmware", (long long)serial,
             (long long)old_serial, (long long)(firmware >> 32),
             (long long)(firmware >> 16 & 0xffff), (long long)(firmware & 0xffff),
             (long long)(old_firmware >> 32), (long long)(old_firmware >> 16 & 0xffff),
             (long long)(old_firmware & 0xffff));
}

#define MAX_CHANGES 1000 /* most changes that one reading logs */

struct change {
    char name[INM_NAME_MAX], text[200];
};

static void record(struct inmd *d, const struct many *m)
{
    static const char insert_sql[] =
        "INSERT INTO parts(chip, type, serial, firmware, first_seen, last_seen)"
        " VALUES(?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT(chip, serial, firmware) DO UPDATE SET"
        " last_seen = ?5";
    sqlite3 *db = history_db(d->history);
    sqlite3_stmt *find = NULL, *insert = NULL;
    char name[INM_NAME_MAX], text[200];
    int64_t serial, firmware;
    double now = now_seconds();
    struct change *changes = calloc(MAX_CHANGES, sizeof(*changes));
    uint32_t num_changes = changes == NULL ? MAX_CHANGES : 0, i;

    history_lock(d->history);
    if (sqlite3_prepare_v2(db,
                           "SELECT serial, firmware FROM parts WHERE chip = ? ORDER BY last_seen"
                           " DESC LIMIT 1",
                           -1, &find, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, insert_sql, -1, &insert, NULL) != SQLITE_OK) {
        inm_log(LOG_ERR, "database: %s", sqlite3_errmsg(db));
        sqlite3_finalize(find);
        history_unlock(d->history);
        free(changes);
        return;
    }
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    for (i = 0; i < m->num; i++) {
        const struct net_req *r = &m->reqs[i];

        if (r->outcome != NET_OK) {
            continue;
        }
        inm_chip_name(d->topo, m->chips[i], name);
        if (known_part(find, name, &serial, &firmware) &&
            (serial != (int64_t)r->reg[0] || firmware != (int64_t)r->reg[1])) {
            describe(text, sizeof(text), (int64_t)r->reg[0], (int64_t)r->reg[1], serial, firmware);
            if (num_changes < MAX_CHANGES) {
                memcpy(changes[num_changes].name, name, sizeof(name));
                memcpy(changes[num_changes++].text, text, sizeof(text));
            }
        }
        sqlite3_bind_text(insert, 1, name, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(insert, 2, r->chip == GLEX_MGMT_CHIP_NRC ? "NRC" : "NIC", -1,
                          SQLITE_STATIC);
        sqlite3_bind_int64(insert, 3, (int64_t)r->reg[0]);
        sqlite3_bind_int64(insert, 4, (int64_t)r->reg[1]);
        sqlite3_bind_double(insert, 5, now);
        sqlite3_step(insert);
        sqlite3_reset(insert);
    }
    if (sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
        inm_log(LOG_ERR, "database: the inventory is not kept: %s", sqlite3_errmsg(db));
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    }
    sqlite3_finalize(find);
    sqlite3_finalize(insert);
    history_unlock(d->history);
    for (i = 0; changes != NULL && i < num_changes; i++) {
        history_log(
            d->history,
            &(struct log_entry){.kind = "part", .place = changes[i].name, .text = changes[i].text});
    }
    free(changes);
}

uint32_t inventory_read(struct inmd *d)
{
    uint32_t chip, failed;
    struct many m;

    if (!many_init(d, &m, 1)) {
        return 0;
    }
    pthread_mutex_lock(&d->lock);
    for (chip = 0; chip < inm_topo_chips(d->topo); chip++) {
        if (reachable(d, chip)) {
            struct net_req *req = many_add(d, &m, chip, GLEX_MGMT_REG_READ_REQ);

            req->count = 2;
            req->addr[0] = REG_SERIAL;
            req->addr[1] = REG_FIRMWARE;
        }
    }
    pthread_mutex_unlock(&d->lock);
    failed = net_run(d->net, m.reqs, m.num);
    record(d, &m);
    many_free(&m);
    return failed;
}
