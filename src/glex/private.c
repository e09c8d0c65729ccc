/*
 * RDMA to private memory of a peer: the kernel copies, by process_vm_readv() and _writev().
 */
#include "shm.h"
#include "log.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * How long a verified pid is believed. A pid comes round again only after the kernel has given out
 * all others (32768 at least), which takes far longer.
 */
#define PRIVATE_VERIFY_NS 100000000ull

/* The kernel moves at most 2 GiB - 4 KiB in one call. */
#define PRIVATE_MAX_LEN (1ull << 30)

static void private_log(struct glex_peer *peer, const char *why)
{
    if (!peer->private_failed) {
        peer->private_failed = true;
        glex_warn("no access to the private memory of endpoint %llx (pid %u): %s",
                  (unsigned long long)peer->addr, peer->pid, why);
    }
}

/*
 * Is the process with that pid the peer? Its pid may mean another process to us: in another pid
 * namespace, or when it died and the pid was given out again. A secret in its memory tells.
 */
static int private_verify(struct glex_endpoint *ep, struct glex_peer *peer)
{
    uint64_t now = glex_now_ns(), cookie = 0;
    struct iovec local = {&cookie, sizeof(cookie)};
    struct iovec remote = {(void *)(uintptr_t)peer->cookie_addr, sizeof(cookie)};
    const char *why;
    int err = 0;

    if (peer->verified != 0 && now - peer->verified < PRIVATE_VERIFY_NS) {
        return GLEX_REQ_DONE;
    }
    if (!(ep->dev->caps.caps & GLEX_EXT_CAP_PRIVATE_RDMA)) {
        why = ep->dev->caps.missing;
    } else if (!peer->private_rdma) {
        why = "its process does not allow it";
    } else if (peer->pid_space != ep->pid_space) {
        why = "it is in another pid namespace";
    } else if (process_vm_readv((pid_t)peer->pid, &local, 1, &remote, 1, 0) != sizeof(cookie)) {
        err = errno;
        why = strerror(err);
    } else if (cookie != peer->cookie) {
        why = "that pid is another process here";
    } else {
        peer->verified = now;
        return GLEX_REQ_DONE;
    }
    /* Not to be found where it was: it has ended, though its lock may be held a moment longer. */
    if ((err == ESRCH && peer->pid_space != 0) || !glex_shm_is_living(ep, peer)) {
        return GLEX_REQ_PEER_GONE;
    }
    private_log(peer, why);
    return GLEX_ERR_STATUS_PCIE_READ;
}

/* One call may move less than asked: up to a page that cannot be had. */
int glex_shm_copy_private(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t addr,
                          char *local_addr, uint64_t len, enum glex_rdma_type type)
{
    struct iovec local, remote;
    uint64_t done = 0;
    ssize_t ret;
    int status;

    status = private_verify(ep, peer);
    if (status != GLEX_REQ_DONE) {
        return status;
    }
    while (done < len) {
        local.iov_base = local_addr + done;
        remote.iov_base = (void *)(uintptr_t)(addr + done);
        local.iov_len = len - done < PRIVATE_MAX_LEN ? len - done : PRIVATE_MAX_LEN;
        remote.iov_len = local.iov_len;
        if (type == GLEX_RDMA_TYPE_PUT) {
            ret = process_vm_writev((pid_t)peer->pid, &local, 1, &remote, 1, 0);
        } else {
            ret = process_vm_readv((pid_t)peer->pid, &local, 1, &remote, 1, 0);
        }
        if (ret <= 0) {
            if (errno == ESRCH) {
                return GLEX_REQ_PEER_GONE; /* it was there just now */
            }
            peer->verified = 0;
            private_log(peer, strerror(errno));
            return GLEX_ERR_STATUS_PCIE_READ;
        }
        done += (uint64_t)ret;
    }
    return GLEX_REQ_DONE;
}
