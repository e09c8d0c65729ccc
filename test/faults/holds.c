/*
 * The resources of the transport and of the system that a process holds. UCP opens the interface,
 * and offers no access to it. So this file replaces the opening function and keeps the interface.
 */
#include "rank.h"

#include <config.h> /* of UCX: decides the layout of its structures */

#include "core/glex_ep.h"
#include "chan/glex_er.h"
#include "chan/glex_op.h"

#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

static uct_glex_iface_t *iface;
static int64_t mpq_capacity;

__attribute__((visibility("default"))) /* libucp is to find it */
ucs_status_t
uct_iface_open(uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
               const uct_iface_config_t *config, uct_iface_h *iface_p)
{
    ucs_status_t (*real)(uct_md_h, uct_worker_h, const uct_iface_params_t *,
                         const uct_iface_config_t *, uct_iface_h *);
    ucs_status_t status;

    *(void **)&real = dlsym(RTLD_NEXT, "uct_iface_open");
    status = real(md, worker, params, config, iface_p);
    if (status == UCS_OK && params->open_mode == UCT_IFACE_OPEN_MODE_DEVICE &&
        strcmp(params->mode.device.tl_name, UCT_GLEX_NAME) == 0) {
        iface = ucs_derived_of(*iface_p, uct_glex_iface_t);
        mpq_capacity = (int64_t)iface->mpq.free + iface->mpq.pool;
    }
    return status;
}

/* Elements of a pool that are in use */
static int64_t pool_used(const ucs_mpool_t *mp)
{
    const ucs_mpool_chunk_t *chunk;
    const ucs_mpool_elem_t *elem;
    int64_t used = 0;

    for (chunk = mp->data->chunks; chunk != NULL; chunk = chunk->next) {
        used += chunk->num_elems;
    }
    for (elem = mp->freelist; elem != NULL; elem = elem->next) {
        used--;
    }
    return used;
}

static bool vc_is_busy(uct_glex_vc_t *vc)
{
    bool failed = vc->state == UCT_GLEX_VC_FAILED || vc->state == UCT_GLEX_VC_PEER_CLOSED;

    return !ucs_list_is_empty(&vc->rx) || !ucs_queue_is_empty(&vc->tx_ops) || vc->rx_started > 0 ||
           uct_glex_vc_is_waiting(vc) || vc->num_blocked > 0 ||
           (failed && (vc->mp_rx.window > 0 || vc->lent || vc->er_tx != NULL ||
                       uct_glex_vc_is_scheduled(vc)));
}

/* FIFOs that are lent or in leases */
static unsigned num_fifos(void)
{
    return iface->er.pool[0].share.used + iface->er.pool[1].share.used;
}

static void read_vcs(struct board_holds *holds, unsigned living)
{
    int64_t credits = (int64_t)iface->mpq.free + iface->mpq.pool, held = 0;
    uct_glex_vc_t *vc;
    unsigned i, fifos = 0;

    for (i = 0; i < iface->num_vcs; i++) {
        vc = iface->vcs[i];
        if (vc->mp_rx.window > 0) {
            credits += vc->mp_rx.window + UCT_GLEX_VC_CTL_UNITS;
            held++;
        }
        fifos += vc->lent != UCT_GLEX_LENT_NONE;
        holds->vcs_used += vc_is_busy(vc);
    }
    holds->vcs = iface->num_vcs;
    holds->vcs_held = held > living ? held - living : 0;
    holds->credits = mpq_capacity - credits;
    holds->fifos = (int64_t)num_fifos() - fifos;
}

static void read_pools(struct board_holds *holds)
{
    holds->units = pool_used(&iface->sr.tx.mp) + pool_used(&iface->sr.rx.mp) +
                   pool_used(&iface->sr.zc_rx.mp) + pool_used(&iface->ops.bounce.mp) +
                   pool_used(&iface->er.pool[0].mp) + pool_used(&iface->er.pool[1].mp) -
                   num_fifos() + pool_used(&iface->rx_mp);
    holds->ops = pool_used(&iface->ops.mp) + iface->ops.outstanding;
    for (unsigned i = 0; i < UCT_GLEX_SHARES; i++) {
        holds->ops += iface->ops.shares[i].used;
    }
}

static int64_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int64_t count = -3; /* itself, ".", ".." */

    if (dir == NULL) {
        return 0;
    }
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

/* Mappings of files that have no name any more: of the dead. Our own were made without one. */
static int64_t count_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    int64_t count = 0;
    char line[512];

    if (file == NULL) {
        return 0;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        count += strstr(line, "/glex-") != NULL && strstr(line, "(deleted)") != NULL &&
                 strstr(line, "/#") == NULL;
    }
    fclose(file);
    return count;
}

void holds_report(void)
{
    const uct_glex_vc_t *vc;
    unsigned i;

    fprintf(stderr,
            "  interface 0x%lx: recheck %d, MPQ free %u pool %u, FIFOs lent %u, "
            "operations %u\n",
            (unsigned long)iface->ep_addr, iface->recheck, iface->mpq.free, iface->mpq.pool,
            iface->er.lent, iface->ops.outstanding);
    for (i = 0; i < iface->num_vcs; i++) {
        vc = iface->vcs[i];
        fprintf(stderr,
                "  vc 0x%x to 0x%lx state %u: MPs sent %u limit %u, rcvd %u window %u; seq "
                "tx %u rx %u; ctl 0x%x inflight %u; blocked %u; ER %d requested %u: units %u head "
                "%u tail %u msgs %u acked %u; lent %d: head %u told %u; rx started %u waiting %u\n",
                vc->id, (unsigned long)vc->peer, vc->state, vc->mp_tx.sent, vc->mp_tx.limit,
                vc->mp_rx.rcvd, vc->mp_rx.window, vc->tx.seq, vc->rx_seq, vc->ctl, vc->ctl_inflight,
                vc->num_blocked, vc->er_tx != NULL, uct_glex_er_is_requested(vc), vc->tx_fifo.units,
                vc->tx_fifo.head, vc->tx_fifo.acked.units, vc->tx_fifo.msgs, vc->tx_fifo.acked.msgs,
                vc->lent, vc->tx.credits.er.units, vc->advertised.units, vc->rx_started,
                uct_glex_vc_is_waiting(vc));
    }
}

bool holds_nothing(const struct board_holds *holds)
{
    return holds->credits == 0 && holds->vcs_held == 0 && holds->vcs_used == 0 &&
           holds->fifos == 0 && holds->units == 0 && holds->ops == 0 && holds->requests == 0 &&
           holds->maps == 0;
}

void holds_read(struct board_holds *holds, unsigned living, unsigned requests)
{
    struct mallinfo2 heap = mallinfo2();

    memset(holds, 0, sizeof(*holds));
    holds->requests = requests;
    holds->fds = count_fds();
    holds->maps = count_maps();
    holds->memory = (int64_t)(heap.uordblks + heap.hblkhd);
    if (iface == NULL) {
        fail("no interface of the transport was opened: is it loaded, and UCX_TLS=glex?");
    }
    read_vcs(holds, living);
    read_pools(holds);
}
