#include "lids.h"

#include "mad/field.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct owner {
    uint64_t guid;
    uint16_t lid;
    UT_hash_handle hh;
};

struct mcsm_lids {
    const struct mcsm_config *config;
    struct owner *owners;  /* by GUID */
    struct owner **of_lid; /* every LID of the 2^LMC */
    bool changed;
    bool unread; /* mcsm could not read the file. mcsm_lids_save() keeps it. */
    char path[256];
};

/* Whether the 2^LMC LIDs from `lid` are in the cluster's range and free, or belong to `guid`. */
static bool is_free(const struct mcsm_lids *lids, unsigned lid, uint64_t guid)
{
    unsigned count = 1u << lids->config->lmc;

    if (lid % count != 0 || lid == 0) {
        return false;
    }
    for (unsigned i = lid; i < lid + count; i++) {
        if (!mcsm_range_has(lids->config->lids, i)) {
            return false;
        }
        if (lids->of_lid[i] != NULL && lids->of_lid[i]->guid != guid) {
            return false;
        }
    }
    return true;
}

static struct owner *own(struct mcsm_lids *lids, uint64_t guid, unsigned lid)
{
    struct owner *owner = calloc(1, sizeof(*owner));

    if (owner == NULL) {
        return NULL;
    }
    owner->guid = guid;
    owner->lid = lid;
    HASH_ADD(hh, lids->owners, guid, sizeof(guid), owner);
    for (unsigned i = lid; i < lid + (1u << lids->config->lmc); i++) {
        lids->of_lid[i] = owner;
    }
    lids->changed = true;
    return owner;
}

static struct owner *find(const struct mcsm_lids *lids, uint64_t guid)
{
    struct owner *owner;

    HASH_FIND(hh, lids->owners, &guid, sizeof(guid), owner);
    return owner;
}

/* Reads the file. -EINVAL: the log names its wrong lines. */
static int read_file(const struct mcsm_lids *lids, struct mcsm_lid_db *db_p)
{
    char *said = NULL;
    size_t size;
    FILE *err = open_memstream(&said, &size);
    int status = err != NULL ? mcsm_lid_db_read(lids->path, err, db_p) : -ENOMEM;

    if (err != NULL) {
        fclose(err);
    }
    if (status == -EINVAL) {
        mcsm_log_lines(MCSM_LOG_ERROR, said);
    }
    free(said);
    return status;
}

static void load(struct mcsm_lids *lids)
{
    struct mcsm_lid_db db = {NULL, 0};
    int status = read_file(lids, &db);

    if (status == -ENOENT || status == -ENOTDIR) {
        return; /* the first start */
    }
    lids->unread = status < 0;
    if (status == -EINVAL) {
        mcsm_error("%s is damaged: LIDs are taken over from the ports instead", lids->path);
    } else if (status < 0) {
        mcsm_error("%s cannot be read (%s): LIDs are taken over from the ports instead", lids->path,
                   strerror(-status));
    }
    if (status < 0) {
        return;
    }
    for (size_t i = 0; i < db.count; i++) {
        const struct mcsm_lid_entry *entry = &db.entries[i];
        uint16_t wanted = mcsm_lid_db_find(&lids->config->db, entry->guid);

        if (!is_free(lids, entry->lid, entry->guid) ||
            (lids->config->db.count > 0 && wanted != entry->lid)) {
            mcsm_warn("%s: LID %u of 0x%016lx contradicts the configuration and is forgotten",
                      lids->path, entry->lid, entry->guid);
        } else {
            own(lids, entry->guid, entry->lid);
        }
    }
    free(db.entries);
    lids->changed = false;
}

struct mcsm_lids *mcsm_lids_new(const struct mcsm_config *config)
{
    struct mcsm_lids *lids = calloc(1, sizeof(*lids));

    if (lids == NULL) {
        return NULL;
    }
    lids->config = config;
    lids->of_lid = calloc(MCSM_LFT_SIZE + 128, sizeof(*lids->of_lid));
    if (lids->of_lid == NULL) {
        free(lids);
        return NULL;
    }
    snprintf(lids->path, sizeof(lids->path), "%s/%s.lids", config->state_dir, config->name);
    load(lids);
    return lids;
}

void mcsm_lids_free(struct mcsm_lids *lids)
{
    struct owner *owner, *next;

    if (lids == NULL) {
        return;
    }
    HASH_ITER(hh, lids->owners, owner, next) {
        HASH_DEL(lids->owners, owner);
        free(owner);
    }
    free(lids->of_lid);
    free(lids);
}

uint16_t mcsm_lids_find(const struct mcsm_lids *lids, uint64_t guid)
{
    struct owner *owner = find(lids, guid);

    return owner ? owner->lid : 0;
}

/*
 * Returns the next LID without a previous owner; if none is left, a LID whose owner is not in the
 * fabric.
 */
static unsigned next_free(struct mcsm_lids *lids, const struct mcsm_fabric *fabric,
                          unsigned *from_p)
{
    unsigned count = 1u << lids->config->lmc;
    unsigned first = (lids->config->lids.from + count - 1) / count * count;

    for (unsigned lid = *from_p > first ? *from_p : first; lid <= lids->config->lids.to;
         lid += count) {
        if (is_free(lids, lid, 0)) {
            *from_p = lid + count;
            return lid;
        }
    }
    *from_p = MCSM_LFT_SIZE;
    for (unsigned lid = first; lid <= lids->config->lids.to; lid += count) {
        struct owner *owner = lids->of_lid[lid];

        if (owner == NULL || mcsm_fabric_find_port(fabric, owner->guid) != NULL) {
            continue;
        }
        mcsm_warn("LID %u of 0x%016lx, which is not in the fabric, is given to another port", lid,
                  owner->guid);
        for (unsigned i = lid; i < lid + count; i++) {
            lids->of_lid[i] = NULL;
        }
        HASH_DEL(lids->owners, owner);
        free(owner);
        return lid;
    }
    return 0;
}

static struct owner *give(struct mcsm_lids *lids, const struct mcsm_fabric *fabric,
                          const struct mcsm_port *port, unsigned *from_p)
{
    unsigned lid;

    if (lids->config->db.count > 0) {
        lid = mcsm_lid_db_find(&lids->config->db, port->guid);
        if (lid == 0) {
            mcsm_error("0x%016lx (%s) is not in the LID database: add a line for it", port->guid,
                       port->node->desc);
        } else if (!is_free(lids, lid, port->guid)) {
            mcsm_error("0x%016lx (%s): LID %u of the database cannot have the %u LIDs of LMC %u",
                       port->guid, port->node->desc, lid, 1u << lids->config->lmc,
                       lids->config->lmc);
        } else {
            return own(lids, port->guid, lid);
        }
        return NULL;
    }
    /* A manager whose table was lost finds the LIDs in the ports. */
    lid = mcsm_get16(port->info, 16);
    if (!is_free(lids, lid, 0)) {
        lid = next_free(lids, fabric, from_p);
    }
    if (lid == 0) {
        mcsm_error("0x%016lx (%s) gets no LID: %u-%u are all in use; raise lid-max", port->guid,
                   port->node->desc, lids->config->lids.from, lids->config->lids.to);
        return NULL;
    }
    return own(lids, port->guid, lid);
}

static int by_guid(const void *a, const void *b)
{
    const struct mcsm_port *x = *(struct mcsm_port *const *)a, *y = *(struct mcsm_port *const *)b;

    return x->guid < y->guid ? -1 : x->guid > y->guid;
}

/* End ports that answered, sorted by GUID. */
static struct mcsm_port **end_ports(const struct mcsm_fabric *fabric, size_t *count_p)
{
    struct mcsm_node *node, *next;
    struct mcsm_port **ports;
    size_t n = 0;

    HASH_ITER(hh, fabric->nodes, node, next) {
        n += node->sw ? 1 : node->nports;
    }
    ports = calloc(n + 1, sizeof(*ports));
    n = 0;
    if (ports != NULL) {
        HASH_ITER(hh, fabric->nodes, node, next) {
            for (int i = 0; i <= node->nports; i++) {
                if (mcsm_is_end_port(&node->ports[i]) && node->ports[i].known) {
                    ports[n++] = &node->ports[i];
                }
            }
        }
        qsort(ports, n, sizeof(*ports), by_guid);
    }
    *count_p = n;
    return ports;
}

static void take(struct mcsm_lids *lids, struct mcsm_fabric *fabric, struct mcsm_port *port,
                 const struct owner *owner)
{
    unsigned top = owner->lid + (1u << lids->config->lmc) - 1;

    if (port->node->sw) {
        top = owner->lid; /* a base port 0 has one */
    }
    if (fabric->by_lid[owner->lid] != NULL) {
        mcsm_error("two ports have the GUID 0x%016lx: %s and %s; the second one gets no LID",
                   port->guid, fabric->by_lid[owner->lid]->node->desc, port->node->desc);
        return;
    }
    port->lid = owner->lid;
    for (unsigned lid = owner->lid; lid <= top; lid++) {
        fabric->by_lid[lid] = port;
    }
    if (top > fabric->lid_top) {
        fabric->lid_top = top;
    }
}

int mcsm_lids_assign(struct mcsm_lids *lids, struct mcsm_fabric *fabric)
{
    unsigned from = 0;
    size_t count;
    struct mcsm_port **ports = end_ports(fabric, &count);
    int without = 0;

    if (ports == NULL) {
        return -ENOMEM;
    }
    memset(fabric->by_lid, 0, MCSM_LFT_SIZE * sizeof(*fabric->by_lid));
    fabric->lid_top = 0;
    /* Old owners first: a new port must not get the LID of a known port. */
    for (size_t i = 0; i < count; i++) {
        struct owner *owner = find(lids, ports[i]->guid);

        ports[i]->lid = 0;
        if (owner != NULL) {
            take(lids, fabric, ports[i], owner);
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct owner *owner;

        if (ports[i]->lid != 0) {
            continue;
        }
        owner = give(lids, fabric, ports[i], &from);
        if (owner != NULL) {
            take(lids, fabric, ports[i], owner);
        } else {
            without++;
        }
    }
    free(ports);
    return without;
}

/* A file that could not be read has LIDs of hosts that are down. The administrator can repair it. */
static void keep_unread(struct mcsm_lids *lids)
{
    char kept[280];

    if (!lids->unread) {
        return;
    }
    lids->unread = false;
    snprintf(kept, sizeof(kept), "%s.unread", lids->path);
    if (rename(lids->path, kept) == 0) {
        mcsm_warn("%s is now %s: to use its LIDs, stop mcsm, repair the file and rename it back",
                  lids->path, kept);
    }
}

int mcsm_lids_save(struct mcsm_lids *lids)
{
    struct owner *owner, *next;
    char temporary[280];
    int status = 0;
    FILE *file;

    if (!lids->changed) {
        return 0;
    }
    keep_unread(lids);
    snprintf(temporary, sizeof(temporary), "%s.new", lids->path);
    file = fopen(temporary, "we");
    if (file != NULL) {
        fprintf(file, "# LIDs of cluster %s, written by mcsm: GUID LID\n", lids->config->name);
        HASH_ITER(hh, lids->owners, owner, next) {
            fprintf(file, "0x%016lx %u\n", owner->guid, owner->lid);
        }
        if (fflush(file) != 0 || fsync(fileno(file)) < 0) {
            status = -errno;
        }
        if (fclose(file) != 0 && status == 0) {
            status = -errno;
        }
    }
    if (file == NULL || (status == 0 && rename(temporary, lids->path) < 0)) {
        status = -errno;
    }
    if (status == 0) {
        lids->changed = false;
    } else {
        mcsm_error("%s cannot be written (%s): LIDs may change with the next restart", lids->path,
                   strerror(-status));
    }
    return status;
}
