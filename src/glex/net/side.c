/*
 * The sides of connections: the frames that one side sends, and the lists of sides that have work.
 * What differs between peers and sources is in their struct net_kind.
 */
#include "base/log.h"
#include "net/internal.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- what others see of peers ---------------------------------------------------------------- */

static bool net_grow_entries(struct glex_endpoint *ep)
{
    struct glex_segment *seg = &ep->segment;
    struct glex_net *net = ep->net;
    uint64_t off = glex_net_off(seg->mpq_capacity, seg->eq_capacity);
    int fd, err;

    if (net->num_entries == GLEX_NET_ENTRIES) {
        return false;
    }
    fd = glex_segment_reopen(ep->dev->dirfd, seg);
    err = fd < 0 ?
              errno :
              glex_segment_reserve(fd, 0, off + net->entries_ready * sizeof(struct glex_net_entry),
                                   GLEX_NET_STEP_SIZE);
    if (fd >= 0) {
        close(fd);
    }
    if (err != 0) {
        glex_warn("no room to show more than %u peers of other hosts: %s", net->num_entries,
                  strerror(err));
        return false;
    }
    net->entries = (struct glex_net_entry *)((char *)seg->hdr + off);
    net->entries_ready += GLEX_NET_ENTRY_STEP;
    return true;
}

/* Returns the place of an address in net->places: the index of its entry, and 1. 0: the address has
 * no entry yet. */
static uint16_t *net_place(struct glex_net *net, uint64_t addr)
{
    uint32_t i = glex_peer_hash(addr) % NET_PLACES;

    while (net->places[i] != 0 && net->entries[net->places[i] - 1].addr != addr) {
        i = (i + 1) % NET_PLACES;
    }
    return &net->places[i];
}

struct glex_net_entry *net_entry(struct glex_endpoint *ep, uint64_t addr)
{
    const glex_ep_addr_t ep_addr = {.v = addr};
    struct glex_net *net = ep->net;
    uint16_t *place = net_place(net, addr);
    struct glex_net_entry *entry;

    if (*place != 0) {
        return &net->entries[*place - 1];
    }
    if (net->num_entries == net->entries_ready && !net_grow_entries(ep)) {
        return &net->nowhere;
    }
    entry = &net->entries[net->num_entries++];
    *place = (uint16_t)net->num_entries;
    entry->addr = addr;
    entry->ip = glex_net_ip(&ep->dev->net, ep_addr.nic_id);
    /* release: a reader that sees the number sees the entry's address */
    __atomic_store_n(&ep->segment.hdr->num_net, net->num_entries, __ATOMIC_RELEASE);
    return entry;
}

/* ---- frames ---------------------------------------------------------------------------------- */

void net_side_open(struct net_side *side)
{
    if (!side->opened) {
        side->opened = true;
        LIST_INSERT_HEAD(&side->ep->net->open, side, open);
    }
}

void net_side_close(struct net_side *side)
{
    if (side->opened) {
        side->opened = false;
        LIST_REMOVE(side, open);
    }
}

void net_side_list(struct net_side *side)
{
    net_side_open(side);
    if (!side->listed) {
        side->listed = true;
        TAILQ_INSERT_TAIL(&side->ep->net->work, side, work);
    }
}

void net_side_unlist(struct net_side *side)
{
    if (side->listed) {
        side->listed = false;
        TAILQ_REMOVE(&side->ep->net->work, side, work);
    }
}

static bool net_side_begin(struct net_side *side)
{
    struct glex_net *net = side->ep->net;

    if (side->conn->in_flight < NET_IN_FLIGHT) {
        side->frame = net->module->buffer(net->engine);
    }
    if (side->frame == NULL) {
        net_side_list(side);
        return false;
    }
    side->frame->len = sizeof(struct glex_net_frame);
    return true;
}

void *net_side_room(struct net_side *side, size_t len)
{
    const struct glex_net_buffer *frame = side->frame;

    if (frame != NULL && frame->len + len > GLEX_NET_FRAME_MAX && !net_side_send(side)) {
        return NULL;
    }
    if (side->frame == NULL && !net_side_begin(side)) {
        return NULL;
    }
    side->frame->len += (uint32_t)len;
    return side->frame->data + side->frame->len - len;
}

bool net_side_send(struct net_side *side)
{
    struct glex_net_buffer *frame = side->frame;
    struct glex_net_frame header;
    size_t len;

    if (frame == NULL) {
        return true;
    }
    header = side->kind->header(side);
    memcpy(frame->data, &header, sizeof(header));
    len = frame->len;
    if (!side->ep->net->module->send(side->conn, frame)) {
        net_side_list(side);
        return false;
    }
    side->frame = NULL;
    side->kind->sent(side, &header, len);
    return true;
}

/*
 * The kernel copies from this process to this process, and reports unmapped memory. A load or store
 * of this process would end the process. If a filter of system calls forbids the system call,
 * memcpy() copies.
 */
bool net_copy(void *dst, const void *src, size_t len)
{
    static bool refused; /* relaxed: a thread that reads the old value tries the system call once
                          * more */
    struct iovec to = {dst, len}, from = {(void *)(uintptr_t)src, len};

    if (!__atomic_load_n(&refused, __ATOMIC_RELAXED)) {
        ssize_t copied = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

        if (copied >= 0 || (errno != EPERM && errno != ENOSYS)) {
            return copied == (ssize_t)len; /* less: the rest of the memory is not there */
        }
        __atomic_store_n(&refused, true, __ATOMIC_RELAXED);
    }
    memcpy(dst, src, len);
    return true;
}

ssize_t net_side_append_data(struct net_side *side, struct net_record *record, const char *data,
                             size_t len, uint8_t last)
{
    size_t least = net_padded(len < NET_PIECE_MIN ? len : NET_PIECE_MIN), space;
    char *at = net_side_room(side, sizeof(*record) + least);
    struct glex_net_buffer *frame = side->frame;

    if (at == NULL) {
        return NET_NOT_NOW;
    }
    frame->len -= (uint32_t)least; /* the bytes are counted below, when their number is known */
    space = GLEX_NET_FRAME_MAX - frame->len;
    if (len <= space) {
        record->flags |= last;
    } else {
        len = space;
    }
    if (!net_copy(at + sizeof(*record), data, len)) {
        frame->len -= (uint32_t)sizeof(*record);
        return NET_FAULT;
    }
    record->len = (uint32_t)len;
    memcpy(at, record, sizeof(*record));
    frame->len += (uint32_t)net_padded(len);
    return (ssize_t)len;
}

void net_side_cleanup(struct net_side *side)
{
    struct glex_net *net = side->ep->net;

    net_side_unlist(side);
    net_side_close(side);
    if (side->frame != NULL) {
        net->module->drop(net->engine, side->frame);
        side->frame = NULL;
    }
}
