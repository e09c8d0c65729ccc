/*
 * Everything is read with pread(), never mapped: a damaged file can do no harm, and an owner's
 * cache lines are not taken more often than is asked for.
 */
#include "inspect.h"
#include "fabric.h"
#include "segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct inspect_call {
    bool (*fn)(const struct glex_inspect_ep *ep, void *arg);
    void *arg;
};

void glex_inspect_path(char *path, size_t size)
{
    glex_fabric_path(path, size);
}

static uint32_t inspect_ring_used(int fd, uint64_t off, uint32_t capacity)
{
    struct glex_ring_ctl ctl;
    uint64_t used;

    if (pread(fd, &ctl, sizeof(ctl), (off_t)off) != sizeof(ctl)) {
        return 0;
    }
    used = (ctl.tail & GLEX_TAIL_POS) - ctl.head;
    return used <= capacity ? (uint32_t)used : 0; /* read while it moved */
}

static uint32_t inspect_peers(int fd)
{
    struct glex_producer producer;
    uint32_t i, num = 0;

    for (i = 0; i < GLEX_MAX_PRODUCERS; i++) {
        if (pread(fd, &producer, sizeof(producer),
                  (off_t)(GLEX_PRODUCERS_OFF + i * sizeof(producer))) == sizeof(producer)) {
            num += producer.owner != 0;
        }
    }
    return num;
}

static uint32_t inspect_registrations(int fd, const struct glex_segment_header *hdr)
{
    uint64_t off = glex_mmt_off(hdr->mpq_capacity, hdr->eq_capacity), done, i;
    struct glex_mmt_entry page[GLEX_MMT_STEP];
    uint32_t num = 0;

    for (done = 0; done < hdr->mmt_ready && done < GLEX_MMT_CAPACITY; done += GLEX_MMT_STEP) {
        if (pread(fd, page, sizeof(page), (off_t)(off + done * sizeof(*page))) != sizeof(page)) {
            break;
        }
        for (i = 0; i < GLEX_MMT_STEP; i++) {
            num += (page[i].state & GLEX_MMT_VALID) != 0;
        }
    }
    return num;
}

static void inspect_fill(struct glex_inspect_ep *ep, int fd,
                         const struct glex_segment_header *hdr)
{
    ep->type = (enum glex_ep_type)hdr->type;
    ep->pid = hdr->pid;
    memcpy(ep->command, hdr->command, sizeof(ep->command));
    ep->command[sizeof(ep->command) - 1] = '\0';
    ep->start_time = hdr->start_time;
    ep->mpq_capacity = hdr->mpq_capacity;
    ep->eq_capacity = hdr->eq_capacity;
    ep->mpq_used = inspect_ring_used(fd, GLEX_MPQ_OFF, hdr->mpq_capacity);
    ep->eq_used = inspect_ring_used(fd, glex_eq_off(hdr->mpq_capacity), hdr->eq_capacity);
    ep->peers = inspect_peers(fd);
    ep->registrations = inspect_registrations(fd, hdr);
    ep->counters = hdr->counters;
}

static bool inspect_one(int dirfd, uint64_t addr, void *arg)
{
    const struct inspect_call *call = arg;
    struct glex_inspect_ep ep = {.addr = {.v = addr}};
    struct glex_segment_header hdr;
    char name[GLEX_NAME_LEN];
    struct stat st;
    uint64_t size;
    int fd;

    glex_fabric_name(addr, name);
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return true; /* destroyed since */
    }
    ep.bytes = (uint64_t)st.st_blocks * 512;
    switch (glex_segment_open(dirfd, addr, &hdr, &size, &fd)) {
    case GLEX_SEGMENT_LIVING:
        ep.state = GLEX_INSPECT_LIVING;
        inspect_fill(&ep, fd, &hdr);
        close(fd);
        break;
    case GLEX_SEGMENT_GONE:
        ep.state = GLEX_INSPECT_DEAD;
        break;
    case GLEX_SEGMENT_BAD:
        ep.state = GLEX_INSPECT_DAMAGED;
        break;
    }
    return call->fn(&ep, call->arg);
}

glex_ret_t glex_inspect_endpoints(bool (*fn)(const struct glex_inspect_ep *ep, void *arg),
                                  void *arg)
{
    struct inspect_call call = {fn, arg};
    glex_ret_t ret;
    int dirfd;

    ret = glex_fabric_open(&dirfd);
    if (ret == GLEX_SUCCESS) {
        glex_fabric_foreach(dirfd, inspect_one, &call);
        glex_fabric_close(dirfd);
    }
    return ret;
}

glex_ret_t glex_inspect_clean(uint32_t *removed)
{
    glex_ret_t ret;
    uint32_t num;
    int dirfd;

    ret = glex_fabric_open(&dirfd);
    if (ret == GLEX_SUCCESS) {
        num = glex_segment_reap_all(dirfd);
        glex_fabric_close(dirfd);
        if (removed != NULL) {
            *removed = num;
        }
    }
    return ret;
}
