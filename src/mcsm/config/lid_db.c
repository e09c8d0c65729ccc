/* Databases of predefined LIDs (paper 001, "Assignment of local identifiers"). */
#include "config.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_guid(const void *a, const void *b)
{
    const struct mcsm_lid_entry *x = a, *y = b;

    return x->guid < y->guid ? -1 : x->guid > y->guid;
}

static int add_line(struct mcsm_lid_db *db, const char *line, const char *path, int number,
                    FILE *err, uint64_t *owner_of)
{
    char guid_word[32], lid_word[16], rest[8];
    uint64_t guid, lid;
    struct mcsm_lid_entry *more;

    if (!mcsm_next_word(&line, " \t\r\n", guid_word, sizeof(guid_word)) || guid_word[0] == '#') {
        return 0;
    }
    if (!mcsm_next_word(&line, " \t\r\n", lid_word, sizeof(lid_word)) ||
        (mcsm_next_word(&line, " \t\r\n", rest, sizeof(rest)) && rest[0] != '#') ||
        mcsm_parse_guid(guid_word, &guid) < 0 ||
        mcsm_parse_number(lid_word, 1, MCSM_LID_MAX, &lid) < 0) {
        fprintf(err, "%s:%d: expected \"GUID LID\", such as \"0x0002c90300a1b2c3 17\"\n", path,
                number);
        return -EINVAL;
    }
    if (owner_of[lid] != 0) {
        fprintf(err, "%s:%d: LID %u is already that of 0x%016lx: give each GUID its own\n", path,
                number, (unsigned)lid, owner_of[lid]);
        return -EINVAL;
    }
    owner_of[lid] = guid;
    if (db->count % 256 == 0) {
        more = realloc(db->entries, (db->count + 256) * sizeof(*more));
        if (more == NULL) {
            return -ENOMEM;
        }
        db->entries = more;
    }
    db->entries[db->count++] = (struct mcsm_lid_entry){guid, lid};
    return 0;
}

/* A GUID must not appear twice. */
static int finish(struct mcsm_lid_db *db, const char *path, FILE *err)
{
    int status = 0;

    if (db->count > 0) {
        qsort(db->entries, db->count, sizeof(*db->entries), by_guid);
    }
    for (size_t i = 1; i < db->count; i++) {
        if (db->entries[i].guid == db->entries[i - 1].guid) {
            fprintf(err, "%s: 0x%016lx has two LIDs, %u and %u: leave one\n", path,
                    db->entries[i].guid, db->entries[i - 1].lid, db->entries[i].lid);
            status = -EINVAL;
        }
    }
    return status;
}

int mcsm_lid_db_read(const char *path, FILE *err, struct mcsm_lid_db *db_p)
{
    uint64_t *owner_of = calloc(MCSM_LID_MAX + 1, sizeof(*owner_of));
    FILE *file = fopen(path, "re");
    struct mcsm_lid_db db = {NULL, 0};
    int number = 0, status = file == NULL ? -errno : owner_of == NULL ? -ENOMEM : 0;
    bool unreadable = file == NULL;
    char line[256];

    while (file != NULL && status == 0 && fgets(line, sizeof(line), file) != NULL) {
        status = add_line(&db, line, path, ++number, err, owner_of);
    }
    if (file != NULL && status == 0 && ferror(file)) {
        status = -errno;
        unreadable = true;
    }
    if (file != NULL) {
        fclose(file);
    }
    free(owner_of);
    if (unreadable || status == -ENOMEM) {
        fprintf(err, "%s: %s\n", path, strerror(-status));
    }
    if (status == 0) {
        status = finish(&db, path, err);
    }
    if (status < 0) {
        free(db.entries);
    } else {
        *db_p = db;
    }
    return status;
}

uint16_t mcsm_lid_db_find(const struct mcsm_lid_db *db, uint64_t guid)
{
    struct mcsm_lid_entry key = {guid, 0}, *found = NULL;

    if (db->count > 0) {
        found = bsearch(&key, db->entries, db->count, sizeof(key), by_guid);
    }
    return found ? found->lid : 0;
}

uint64_t mcsm_lid_db_guid(const struct mcsm_lid_db *db, uint16_t lid)
{
    for (size_t i = 0; i < db->count; i++) {
        if (db->entries[i].lid == lid) {
            return db->entries[i].guid;
        }
    }
    return 0;
}
