/*
 * RDMA to private memory of a peer: the kernel copies, by process_vm_readv() and _writev().
 */
#include "base/log.h"
#include "core/robust.h"
#include "core/shm.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kernel moves at most 2 GiB - 4 KiB in one call. */
#define CMA_MAX_LEN (1ull << 30)

/* ---- the identity of this process ------------------------------------------------------------ */

/* Addresses that the page is tried at, below 2^46. ThreadSanitizer forbids all of them. Then the
 * kernel chooses the address. */
#define CMA_TRIES 100
#define CMA_SPACE (1ull << 46)

/* Where the cookie of this process is; NULL: it has none yet. */
static uint64_t *cma_cookie;

/*
 * Allocates one page for the cookie. The page holds nothing else and is never unmapped. So a peer
 * that writes to the page's second word damages no data. A forked child does not inherit the page.
 * Its address is random within 46 bits. Another process has mapped the same address with a
 * probability of 1 in 65,536 for each GiB of its memory.
 */
static uint64_t *cma_cookie_page(void)
{
    size_t size = glex_page_size();
    uint64_t random[2], *wanted, *page = MAP_FAILED;
    int i;

    for (i = 0; i < CMA_TRIES; i++) {
        if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
            return NULL;
        }
        wanted = (uint64_t *)(uintptr_t)(random[0] % CMA_SPACE & ~(uint64_t)(size - 1));
        page = mmap(wanted, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) {
            return NULL;
        }
        if (page == wanted || i == CMA_TRIES - 1) {
            break;
        }
        munmap(page, size);
    }
    if (madvise(page, size, MADV_DONTFORK) != 0) {
        munmap(page, size);
        return NULL;
    }
    *page = random[1] | 1;
    return page;
}

glex_ret_t glex_cma_identity(struct glex_segment_header *hdr)
{
    if (cma_cookie == NULL) {
        cma_cookie = cma_cookie_page();
    }
    if (cma_cookie == NULL) {
        glex_error("cannot make what peers recognize this process by: %s", strerror(errno));
        return GLEX_SYS_ERR;
    }
    hdr->cookie_addr = (uint64_t)(uintptr_t)cma_cookie;
    hdr->cookie = *cma_cookie;
    return GLEX_SUCCESS;
}

void glex_cma_fork(void)
{
    cma_cookie = NULL;
}

/* ---- copying --------------------------------------------------------------------------------- */

static void cma_log(struct glex_peer *peer, const char *why)
{
    if (!peer->private_failed) {
        peer->private_failed = true;
        glex_warn("no access to the private memory of endpoint %llx (pid %u): %s",
                  (unsigned long long)peer->addr, peer->pid, why);
    }
}

/* Why the private memory of a peer cannot be reached in any case; NULL: it may be. */
static const char *cma_forbidden(const struct glex_endpoint *ep, const struct glex_peer *peer)
{
    if (!(ep->dev->caps.caps & GLEX_EXT_CAP_PRIVATE_RDMA)) {
        return ep->dev->caps.missing;
    }
    if (!peer->private_rdma) {
        return "its process does not allow it";
    }
    if (peer->pid_space != ep->pid_space) {
        return "it is in another pid namespace";
    }
    return NULL;
}

bool glex_cma_allowed(const struct glex_endpoint *ep, const struct glex_peer *peer)
{
    return cma_forbidden(ep, peer) == NULL;
}

/*
 * The process with the peer's pid is not the peer: logs the reason, unless the peer is simply gone.
 */
static int cma_other(struct glex_endpoint *ep, struct glex_peer *peer, const char *why, int err)
{
    /* Not to be found where it was: it has ended, though its lock may be held a moment longer. */
    if ((err == ESRCH && peer->pid_space != 0) || !glex_shm_is_living(ep, peer)) {
        return GLEX_REQ_PEER_GONE;
    }
    cma_log(peer, why);
    return GLEX_ERR_STATUS_PCIE_READ;
}

/* A transfer of `num` pieces. @return As process_vm_readv(). */
static ssize_t cma_call(const struct glex_peer *peer, enum glex_rdma_type type,
                        const struct iovec *local, const struct iovec *remote, unsigned num)
{
    pid_t pid = (pid_t)peer->pid;

    return type == GLEX_RDMA_TYPE_PUT ? process_vm_writev(pid, local, num, remote, num, 0) :
                                        process_vm_readv(pid, local, num, remote, num, 0);
}

/*
 * Moves the next piece with the cookie, by a put or a get. The kernel stops at the first piece that it
 * cannot read or write, so a process without the peer's page gets and gives no data. One call copies
 * from and to one address space, even if the process ends meanwhile.
 *
 * A get reads the cookie together with the data. A put writes our cookie to the second word of the
 * peer's page, then the data. A child of fork() that continues an interrupted put lacks our page, so
 * the child puts nothing. Another process may have mapped the address of the peer's page. A put
 * therefore first reads the word of core/robust.h. If the word is not held, the put reads the cookie by a
 * separate call. The peer may end after this look. Then only the page protects the process that gets the pid.
 *
 * @param [out] moved_p  Bytes moved, at least 1, if DONE is returned.
 */
static int cma_move_with_cookie(struct glex_endpoint *ep, struct glex_peer *peer,
                                struct iovec data_here, struct iovec data_there,
                                enum glex_rdma_type type, uint64_t *moved_p)
{
    bool look = type == GLEX_RDMA_TYPE_GET || !glex_robust_is_held(ep, peer);
    uint64_t cookie = peer->cookie;
    struct iovec local[] = {{&cookie, sizeof(cookie)}, data_here};
    struct iovec remote[] = {{(void *)(uintptr_t)peer->cookie_addr, sizeof(cookie)}, data_there};
    ssize_t ret = sizeof(cookie);

    if (look) {
        ret = cma_call(peer, GLEX_RDMA_TYPE_GET, local, remote, type == GLEX_RDMA_TYPE_GET ? 2 : 1);
    }
    if (ret >= (ssize_t)sizeof(cookie) && cookie != peer->cookie) {
        return cma_other(ep, peer, "that pid is another process here", 0);
    }
    if (ret >= (ssize_t)sizeof(cookie) && type == GLEX_RDMA_TYPE_PUT) {
        local[0].iov_base = cma_cookie;
        remote[0].iov_base = (uint64_t *)(uintptr_t)peer->cookie_addr + 1;
        ret = cma_call(peer, GLEX_RDMA_TYPE_PUT, local, remote, 2);
    }
    if (ret < (ssize_t)sizeof(cookie)) {
        return cma_other(ep, peer, strerror(errno), errno);
    }
    if (ret == sizeof(cookie)) {
        cma_log(peer, strerror(EFAULT));
        return GLEX_ERR_STATUS_PCIE_READ;
    }
    *moved_p = (uint64_t)ret - sizeof(cookie);
    return GLEX_REQ_DONE;
}

/*
 * Moves the next piece, if the process with the peer's pid is the peer. The pid may name another
 * process: in another pid namespace, or after the peer died. exec() keeps the pid and replaces the
 * memory. A get that succeeds while the word of core/robust.h is held was from the peer's memory.
 * In all other cases the cookie decides: only the peer's memory holds the cookie.
 */
static int cma_move(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t addr,
                    char *local_addr, uint64_t len, enum glex_rdma_type type, uint64_t *moved_p)
{
    struct iovec local = {local_addr, len}, remote = {(void *)(uintptr_t)addr, len};
    ssize_t ret;

    if (type == GLEX_RDMA_TYPE_GET && glex_robust_is_held(ep, peer)) {
        ret = cma_call(peer, type, &local, &remote, 1);
        if (ret > 0 && glex_robust_is_held(ep, peer)) {
            *moved_p = (uint64_t)ret;
            return GLEX_REQ_DONE;
        }
    }
    return cma_move_with_cookie(ep, peer, local, remote, type, moved_p);
}

/* One call may move less than asked: up to a page that cannot be had. */
int glex_cma_copy(struct glex_endpoint *ep, struct glex_peer *peer, uint64_t addr, char *local_addr,
                  uint64_t len, enum glex_rdma_type type)
{
    const char *why = cma_forbidden(ep, peer);
    uint64_t done, moved = 0, piece;
    int status;

    if (why != NULL) {
        return cma_other(ep, peer, why, 0);
    }
    for (done = 0; done < len; done += moved) {
        piece = len - done < CMA_MAX_LEN ? len - done : CMA_MAX_LEN;
        status = cma_move(ep, peer, addr + done, local_addr + done, piece, type, &moved);
        if (status != GLEX_REQ_DONE) {
            return status;
        }
    }
    return GLEX_REQ_DONE;
}
