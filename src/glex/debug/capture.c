/*
 * Writes GLEX requests as packets of InfiniBand's reliable datagrams, the most similar transport:
 * connectionless, with both queue pairs in each packet. An endpoint is a queue pair; its NIC is a
 * LID and a GID. Message: send. Event with data: send, its cookies before the data. Put: write,
 * with the event's first word as immediate data at the end and, because this word contains the
 * message's type, as Q_Key in all packets. Get: read request and response.
 *
 * An endpoint gathers packets in a buffer. One write() appends a full buffer to the pcapng file as
 * a section, so all processes of a job can share the file.
 */
#include "debug/capture.h"

#include "base/env.h"
#include "base/lock.h"
#include "core/shm.h"
#include "debug/fault.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    CAPTURE_MTU = 4096, /* user data in a packet */
    CAPTURE_DATA = 96,  /* of the user data of a message's first packet is written */
    CAPTURE_BUFFER = 1 << 16,
    CAPTURE_PACKET = 320, /* longest packet, including packet headers and file headers */
    CAPTURE_NICS = 16,    /* consecutive numbers of NICs: see glex_fabric_nic_base() */
    CAPTURE_LIDS = 0xbffe /* unicast LIDs but 0 */
};

enum {
    PCAPNG_SECTION = 0x0a0d0d0a,
    PCAPNG_INTERFACE = 1,
    PCAPNG_PACKET = 6,
    PCAPNG_MAGIC = 0x1a2b3c4d,
    PCAPNG_OPTION_NAME = 2,
    PCAPNG_OPTION_RESOLUTION = 9,
    PCAPNG_INFINIBAND = 247
};

/* Opcodes of reliable datagrams */
enum {
    RD_SEND_ONLY = 0x44,
    RD_WRITE_FIRST = 0x46,
    RD_WRITE_MIDDLE = 0x47,
    RD_WRITE_LAST = 0x48,
    RD_WRITE_LAST_IMM = 0x49,
    RD_WRITE_ONLY = 0x4a,
    RD_WRITE_ONLY_IMM = 0x4b,
    RD_READ_REQUEST = 0x4c,
    RD_READ_FIRST = 0x4d,
    RD_READ_MIDDLE = 0x4e,
    RD_READ_LAST = 0x4f,
    RD_READ_ONLY = 0x50
};

/* Not yet open; or given up for good. */
enum { CAPTURE_CLOSED = -1, CAPTURE_FAILED = -2 };

struct glex_capture {
    uint32_t psn[CAPTURE_NICS]; /* of packets to each NIC */
    size_t len;
    uint8_t data[CAPTURE_BUFFER];
};

/* The fields of a packet before it is built. */
struct capture_packet {
    uint64_t src, dst; /* addresses of endpoints */
    uint8_t opcode;
    bool with_imm, with_remote; /* immediate data; address and length of remote memory */
    uint32_t psn, imm, total;
    uint32_t cookies; /* 0 or 2 words before the data */
    uint64_t cookie[2];
    const void *data; /* NULL: not to be written */
    uint32_t len;
};

static struct {
    struct glex_lock lock;
    int fd;
} capture_file = {.lock = GLEX_LOCK_INITIAL, .fd = CAPTURE_CLOSED};

/* ---- the file -------------------------------------------------------------------------------- */

/* An empty section: the capture of a job that sends nothing is a valid file, too. */
static void capture_begin_file(int fd, const char *name)
{
    const uint32_t section[] = {PCAPNG_SECTION, 28, PCAPNG_MAGIC, 1, UINT32_MAX, UINT32_MAX, 28};

    if (write(fd, section, sizeof(section)) != (ssize_t)sizeof(section)) {
        glex_warn("GLEX_CAPTURE=%s: cannot be written: %s", name, strerror(errno));
    }
}

/*
 * A process that finds no other writer truncates the file: a job does not append to the capture of
 * an earlier job. Each writer holds a shared lock until it ends.
 */
static int capture_open_file(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

    if (fd < 0) {
        glex_error("GLEX_CAPTURE=%s: %s: name a file in a directory that you may write to", name,
                   strerror(errno));
        return CAPTURE_CLOSED;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        if (ftruncate(fd, 0) != 0 && errno != EINVAL) {
            glex_warn("GLEX_CAPTURE=%s: what it held stays: %s", name, strerror(errno));
        }
        capture_begin_file(fd, name);
    }
    (void)flock(fd, LOCK_SH);
    return fd;
}

static bool capture_open(void)
{
    bool ok;

    glex_lock_take(&capture_file.lock);
    if (capture_file.fd == CAPTURE_CLOSED) {
        capture_file.fd = capture_open_file(glex_env()->capture);
    }
    ok = capture_file.fd != CAPTURE_CLOSED;
    glex_lock_give(&capture_file.lock);
    return ok;
}

static uint8_t *put_u32(uint8_t *at, uint32_t value)
{
    memcpy(at, &value, sizeof(value));
    return at + sizeof(value);
}

static uint8_t *put_option(uint8_t *at, uint16_t code, const void *value, uint16_t len)
{
    at = put_u32(at, (uint32_t)len << 16 | code);
    memset(at, 0, (len + 3u) & ~3u);
    memcpy(at, value, len);
    return at + ((len + 3u) & ~3u);
}

/* The section's header, and its one interface: the endpoint. */
static size_t capture_section(const struct glex_endpoint *ep, uint8_t *section)
{
    const glex_ep_addr_t addr = {.v = ep->addr};
    const uint8_t nanoseconds = 9;
    uint8_t *at = section, *length;
    char name[40];
    int len = snprintf(name, sizeof(name), "glex nic %u ep %u", addr.nic_id, addr.ep_num);

    at = put_u32(put_u32(at, PCAPNG_SECTION), 28);
    at = put_u32(put_u32(at, PCAPNG_MAGIC), 1);                     /* version 1.0 */
    at = put_u32(put_u32(put_u32(at, UINT32_MAX), UINT32_MAX), 28); /* length: unknown */
    length = at + 4;
    at = put_u32(put_u32(at, PCAPNG_INTERFACE), 0);
    at = put_u32(put_u32(at, PCAPNG_INFINIBAND), 0);
    at = put_option(at, PCAPNG_OPTION_NAME, name, (uint16_t)len);
    at = put_option(at, PCAPNG_OPTION_RESOLUTION, &nanoseconds, 1);
    at = put_u32(at, 0); /* end of the options */
    put_u32(length, (uint32_t)(at + 4 - (length - 4)));
    return (size_t)(put_u32(at, (uint32_t)(at + 4 - (length - 4))) - section);
}

/* One write(), so no section of another process comes between. */
static void capture_write(struct glex_endpoint *ep)
{
    struct glex_capture *capture = ep->capture;
    uint8_t section[128];
    struct iovec parts[2] = {{section, capture_section(ep, section)},
                             {capture->data, capture->len}};
    ssize_t all = (ssize_t)(parts[0].iov_len + parts[1].iov_len), done;

    /* exit() in a signal handler may have interrupted this very function. */
    if (!glex_lock_take_in_handler(&capture_file.lock)) {
        return;
    }
    if (capture_file.fd >= 0) {
        done = writev(capture_file.fd, parts, 2);
        if (done != all) {
            glex_error("GLEX_CAPTURE=%s: %s: the capture ends here", glex_env()->capture,
                       done < 0 ? strerror(errno) : "no space left");
            close(capture_file.fd);
            capture_file.fd = CAPTURE_FAILED;
        }
    }
    glex_lock_give(&capture_file.lock);
    capture->len = 0;
}

/* ---- a packet -------------------------------------------------------------------------------- */

static uint8_t *put_be16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
    return at + 2;
}

static uint8_t *put_be32(uint8_t *at, uint32_t value)
{
    return put_be16(put_be16(at, value >> 16), value);
}

static uint32_t capture_lid(uint32_t nic_id)
{
    return 1 + nic_id % CAPTURE_LIDS;
}

/* fe80::NIC */
static uint8_t *put_gid(uint8_t *at, uint32_t nic_id)
{
    at = put_be32(at, 0xfe800000);
    return put_be32(put_be32(put_be32(at, 0), 0), nic_id);
}

/* From the LRH to the last header. `len` is of the user data. Returns where they end. */
static uint8_t *put_headers(uint8_t *at, const struct capture_packet *packet, uint32_t len)
{
    const glex_ep_addr_t src = {.v = packet->src}, dst = {.v = packet->dst};
    bool answer = packet->opcode >= RD_READ_FIRST && packet->opcode <= RD_READ_ONLY;
    uint32_t pad = (0 - len) & 3u, behind_grh;

    behind_grh = 12 + 4 + (answer ? (packet->opcode != RD_READ_MIDDLE ? 4 : 0) : 8) +
                 (packet->with_remote ? 16 : 0) + (packet->with_imm ? 4 : 0) + len + pad + 4;
    at = put_be16(put_be16(at, 3), capture_lid(dst.nic_id)); /* a GRH follows */
    at = put_be16(put_be16(at, (8 + 40 + behind_grh) / 4), capture_lid(src.nic_id));
    at = put_be32(at, 6u << 28);
    at = put_be32(at, behind_grh << 16 | 0x1b << 8 | 64);
    at = put_gid(put_gid(at, src.nic_id), dst.nic_id);
    at = put_be32(at, (uint32_t)packet->opcode << 24 | pad << 20 | 0xffff);
    at = put_be32(put_be32(at, dst.ep_num), packet->psn);
    /* The EE context is the requester's: it numbers its packets itself. */
    at = put_be32(at, answer ? dst.ep_num : src.ep_num);
    if (!answer) {
        at = put_be32(put_be32(at, packet->imm), src.ep_num);
    } else if (packet->opcode != RD_READ_MIDDLE) {
        at = put_be32(at, 0); /* acknowledged */
    }
    if (packet->with_remote) {
        at = put_be32(put_be32(put_be32(put_be32(at, 0), 0), 0), packet->total);
    }
    return packet->with_imm ? put_be32(at, packet->imm) : at;
}

static void capture_need(struct glex_endpoint *ep, size_t len)
{
    if (ep->capture->len + len > CAPTURE_BUFFER) {
        capture_write(ep);
    }
}

/* A packet block: its length is known at the end. */
static void capture_put(struct glex_endpoint *ep, const struct capture_packet *packet)
{
    struct glex_capture *capture = ep->capture;
    uint32_t cookies = packet->cookies * 8, len = cookies + packet->len;
    uint32_t kept = packet->data == NULL       ? 0 :
                    packet->len < CAPTURE_DATA ? packet->len :
                                                 CAPTURE_DATA;
    uint8_t *block, *frame, *at;
    struct timespec now;
    uint64_t ns;

    capture_need(ep, CAPTURE_PACKET);
    clock_gettime(CLOCK_REALTIME, &now);
    ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    block = capture->data + capture->len;
    frame = block + 28;
    at = put_headers(frame, packet, len);
    memcpy(at, packet->cookie, cookies);
    if (kept != 0) {
        memcpy(at + cookies, packet->data, kept);
    }
    at += cookies + kept;
    put_u32(put_u32(block + 8, 0), (uint32_t)(ns >> 32));
    put_u32(block + 16, (uint32_t)ns);
    put_u32(block + 20, (uint32_t)(at - frame));
    /* On the wire: the rest of the data, filled up, and both checksums. */
    put_u32(block + 24, (uint32_t)(at - frame) + (packet->len - kept) + ((0 - len) & 3u) + 4 + 2);
    while ((at - frame) % 4 != 0) {
        *at++ = 0;
    }
    len = (uint32_t)(at + 4 - block);
    put_u32(put_u32(block, PCAPNG_PACKET), len);
    put_u32(at, len);
    capture->len += len;
}

static uint32_t *capture_psn(struct glex_endpoint *ep, uint64_t dst)
{
    const glex_ep_addr_t addr = {.v = dst};

    return &ep->capture->psn[addr.nic_id % CAPTURE_NICS];
}

/* A request that is one packet. */
static void capture_one(struct glex_endpoint *ep, struct capture_packet *packet)
{
    uint32_t *psn = capture_psn(ep, packet->dst);

    packet->src = ep->addr;
    packet->psn = *psn;
    *psn = (*psn + 1) & 0xffffff;
    capture_put(ep, packet);
}

/* Data of any length as packets; `first` to `only_imm` are the opcodes. */
static void capture_data(struct glex_endpoint *ep, struct capture_packet *packet, uint8_t first,
                         uint8_t middle, uint8_t last, uint8_t only, uint32_t *psn)
{
    bool imm = packet->with_imm, remote = packet->with_remote;
    const void *data = packet->data;
    uint32_t left = packet->len, total = packet->len;

    do {
        bool is_first = left == total, is_last = left <= CAPTURE_MTU;

        packet->opcode = is_first ? (is_last ? only : first) : (is_last ? last : middle);
        packet->with_imm = imm && is_last;
        packet->with_remote = remote && is_first;
        packet->data = is_first ? data : NULL;
        packet->len = is_last ? left : CAPTURE_MTU;
        packet->psn = *psn;
        *psn = (*psn + 1) & 0xffffff;
        capture_put(ep, packet);
        left -= packet->len;
    } while (left != 0);
}

/* ---- the link -------------------------------------------------------------------------------- */

/* The one that carries requests out. */
static const struct glex_link *capture_below(void)
{
    return glex_env()->fault.on ? &glex_fault_link : &glex_shm_link;
}

static int capture_send_mp(struct glex_endpoint *ep, struct glex_peer *peer,
                           const glex_imm_mp_req_t *req)
{
    int status = capture_below()->send_mp(ep, peer, req);
    struct capture_packet packet = {
        .dst = peer->addr, .opcode = RD_SEND_ONLY, .data = req->data, .len = req->len};

    if (status == GLEX_REQ_DONE) {
        capture_one(ep, &packet);
    }
    return status;
}

static int capture_imm_put(struct glex_endpoint *ep, struct glex_peer *peer,
                           const glex_imm_rdma_req_t *req)
{
    int status = capture_below()->imm_put(ep, peer, req);
    bool event = req->flag & GLEX_FLAG_REMOTE_EVT;
    struct capture_packet packet = {.dst = peer->addr,
                                    .opcode = event ? RD_WRITE_ONLY_IMM : RD_WRITE_ONLY,
                                    .with_imm = event,
                                    .with_remote = true,
                                    .imm = event ? (uint32_t)req->rmt_evt.cookie_1 : 0,
                                    .total = req->len,
                                    .data = req->data,
                                    .len = req->len};

    if (status == GLEX_REQ_DONE) {
        capture_one(ep, &packet);
    }
    return status;
}

static int capture_event(struct glex_endpoint *ep, struct glex_peer *peer,
                         const glex_imm_rdma_req_t *req)
{
    int status = capture_below()->event(ep, peer, req);
    struct capture_packet packet = {.dst = peer->addr,
                                    .opcode = RD_SEND_ONLY,
                                    .cookies = 2,
                                    .cookie = {req->rmt_evt.cookie_1, req->rmt_evt.cookie_0}};

    if (status == GLEX_REQ_DONE) {
        capture_one(ep, &packet);
    }
    return status;
}

static void capture_get(struct glex_endpoint *ep, uint64_t target, const glex_rdma_req_t *req,
                        const char *local)
{
    uint32_t *psn = capture_psn(ep, target);
    struct capture_packet request = {.src = ep->addr,
                                     .dst = target,
                                     .opcode = RD_READ_REQUEST,
                                     .with_remote = true,
                                     .psn = *psn,
                                     .total = req->len};
    struct capture_packet answer = {.src = target, .dst = ep->addr, .data = local, .len = req->len};

    /* The request must directly precede its answer in the file. */
    capture_need(ep, 2 * CAPTURE_PACKET);
    capture_put(ep, &request);
    capture_data(ep, &answer, RD_READ_FIRST, RD_READ_MIDDLE, RD_READ_LAST, RD_READ_ONLY, psn);
}

static int capture_rdma(struct glex_endpoint *ep, struct glex_peer *peer,
                        const glex_rdma_req_t *req, char *local)
{
    uint64_t target = peer->addr;
    int status = capture_below()->rdma(ep, peer, req, local);
    bool event = req->flag & GLEX_FLAG_REMOTE_EVT;
    struct capture_packet packet = {.src = ep->addr,
                                    .dst = target,
                                    .with_imm = event,
                                    .with_remote = true,
                                    .imm = event ? (uint32_t)req->rmt_evt.cookie_1 : 0,
                                    .total = req->len,
                                    .data = local,
                                    .len = req->len};

    if (status != GLEX_REQ_DONE) {
        return status;
    }
    if (req->type == GLEX_RDMA_TYPE_GET) {
        capture_get(ep, target, req, local);
    } else {
        capture_data(ep, &packet, RD_WRITE_FIRST, RD_WRITE_MIDDLE,
                     event ? RD_WRITE_LAST_IMM : RD_WRITE_LAST,
                     event ? RD_WRITE_ONLY_IMM : RD_WRITE_ONLY, capture_psn(ep, target));
    }
    return status;
}

const struct glex_link glex_capture_link = {
    .name = "capture",
    .reaches = glex_shm_reaches,
    .attach = glex_shm_attach,
    .detach = glex_shm_detach,
    .is_living = glex_shm_is_living,
    .send_mp = capture_send_mp,
    .imm_put = capture_imm_put,
    .event = capture_event,
    .rdma = capture_rdma,
};

/* ---- with the endpoint ----------------------------------------------------------------------- */

glex_ret_t glex_capture_init(struct glex_endpoint *ep)
{
    if (glex_env()->capture == NULL) {
        return GLEX_SUCCESS;
    }
    if (!capture_open()) {
        return GLEX_SYS_ERR;
    }
    ep->capture = calloc(1, sizeof(*ep->capture));
    return ep->capture != NULL ? GLEX_SUCCESS : GLEX_NO_MEM_RESOURCE;
}

void glex_capture_fork(void)
{
    glex_lock_reset(&capture_file.lock);
}

void glex_capture_flush(struct glex_endpoint *ep)
{
    if (ep->capture != NULL && ep->capture->len != 0 && !ep->forked) {
        capture_write(ep);
    }
}

void glex_capture_cleanup(struct glex_endpoint *ep)
{
    glex_capture_flush(ep);
    free(ep->capture);
    ep->capture = NULL;
}
