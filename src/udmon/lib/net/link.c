#include "link.h"
#include "address.h"
#include "../base/log.h"

#include <openssl/err.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINK_HEADER = 2, LINK_READS = 16, TLS_RECORD_MAX = 16 * 1024 };

/* Calling the owner, which may close the link in the call */

static void link_free(struct udmon_link *link)
{
    SSL_free(link->ssl);
    free(link->in);
    free(link->out);
    free(link);
}

static void link_call_begin(struct udmon_link *link)
{
    ++link->calling;
}

/* Returns whether the link is still there. */
static bool link_call_end(struct udmon_link *link)
{
    if ((--link->calling == 0) && link->closed) {
        link_free(link);
        return false;
    }
    return !link->closed;
}

static void link_set_unsent(struct udmon_link *link, int unsent)
{
    if (unsent && !link->is_unsent) {
        LIST_INSERT_HEAD(&link->tls->unsent, link, unsent);
    } else if (!unsent && link->is_unsent) {
        LIST_REMOVE(link, unsent);
    }
    link->is_unsent = unsent;
}

static void link_wait_for(struct udmon_link *link, uint32_t events)
{
    if ((link->events != events) && (udmon_loop_modify(link->loop, &link->source, events) == 0)) {
        link->events = events;
    }
}

static void link_fail(struct udmon_link *link, int error)
{
    if (link->state == LINK_FAILED) {
        return;
    }
    link->state = LINK_FAILED;
    link_set_unsent(link, 0);
    link_wait_for(link, 0);
    link_call_begin(link);
    link->ops->failed(link->arg, error);
    link_call_end(link);
}

/*
 * Evaluates the result of SSL_read, SSL_write or SSL_do_handshake: 0 if the call must wait, else an
 * errno.
 */
static int link_error(struct udmon_link *link, int ret)
{
    switch (SSL_get_error(link->ssl, ret)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return 0;
    case SSL_ERROR_SSL:
        /*
         * The peer may reject this side's certificate after the handshake has ended on this side.
         */
        if ((link->state == LINK_HANDSHAKE) || udmon_tls_is_alert(ERR_peek_last_error())) {
            udmon_tls_problem(link->tls, link->ssl, link->problem, sizeof(link->problem));
            return -EACCES;
        }
        return -EPROTO;
    default:
        return -ECONNRESET;
    }
}

/* Sending */

/* Writes waiting data to the socket. Returns 0, also if data is left, or an error. */
static int link_flush(struct udmon_link *link)
{
    size_t length;
    int ret, error;

    while ((length = link->out_end - link->out_begin) > 0) {
        ERR_clear_error();
        ret = SSL_write(link->ssl, link->out + link->out_begin,
                        (length < TLS_RECORD_MAX) ? (int)length : TLS_RECORD_MAX);
        if (ret <= 0) {
            error = link_error(link, ret);
            link_wait_for(link, error ? EPOLLIN : (EPOLLIN | EPOLLOUT));
            return error;
        }
        link->out_begin += ret;
    }
    link->out_begin = link->out_end = 0;
    link_set_unsent(link, 0);
    link_wait_for(link, EPOLLIN);
    return 0;
}

unsigned udmon_links_send(struct udmon_tls *tls, int all)
{
    struct udmon_link *link = LIST_FIRST(&tls->unsent), *next;
    unsigned count = 0;
    int ret;

    for (; link != NULL; link = next) {
        next = LIST_NEXT(link, unsent);
        if ((link->events & EPOLLOUT) && !all) {
            ++count; /* the loop reports when the socket has room */
            continue;
        }
        ret = link_flush(link);
        count += link->is_unsent;
        if (ret < 0) {
            link_fail(link, ret);
            next = LIST_FIRST(&tls->unsent); /* a called owner may have closed any link */
            count = 0;
        }
    }
    return count;
}

/* Makes room for `size` more bytes behind the waiting data. */
static int link_room(struct udmon_link *link, size_t size)
{
    size_t waiting = link->out_end - link->out_begin;

    if (link->out == NULL) {
        link->out = malloc(LINK_OUT_MAX);
        if (link->out == NULL) {
            return -ENOMEM;
        }
    }
    if ((waiting + size) > LINK_OUT_MAX) {
        return -EAGAIN;
    }
    if ((link->out_end + size) > LINK_OUT_MAX) {
        memmove(link->out, link->out + link->out_begin, waiting);
        link->out_begin = 0;
        link->out_end = waiting;
    }
    return 0;
}

int udmon_link_send(struct udmon_link *link, size_t size, udmon_pack_fn pack, void *arg)
{
    size_t length;
    uint8_t *at;
    int ret;

    if ((link->state != LINK_OPEN) || (size > LINK_MESSAGE_MAX)) {
        return -EIO;
    }
    ret = link_room(link, LINK_HEADER + size);
    if (ret == -EAGAIN) {
        if (link_flush(link) < 0) {
            return -EIO; /* the loop calls the owner later */
        }
        ret = link_room(link, LINK_HEADER + size);
    }
    if (ret < 0) {
        return ret;
    }
    at = link->out + link->out_end;
    length = pack(at + LINK_HEADER, size, arg);
    at[0] = length & 0xff;
    at[1] = length >> 8;
    link->out_end += LINK_HEADER + length;
    link_set_unsent(link, 1);
    return 0;
}

struct link_bytes {
    const void *data;
    size_t length;
};

static size_t link_pack_bytes(void *buffer, size_t size, void *arg)
{
    const struct link_bytes *bytes = arg;

    (void)size;
    memcpy(buffer, bytes->data, bytes->length);
    return bytes->length;
}

int udmon_link_send_bytes(struct udmon_link *link, const void *data, size_t length)
{
    struct link_bytes bytes = {.data = data, .length = length};

    return udmon_link_send(link, length, link_pack_bytes, &bytes);
}

/* Receiving */

/* Deliver the complete messages of `in`. Returns whether the link is still there, and open. */
static bool link_deliver(struct udmon_link *link)
{
    size_t length, at = 0;

    while ((link->in_length - at) >= LINK_HEADER) {
        length = link->in[at] | ((size_t)link->in[at + 1] << 8);
        if ((length == 0) || (length > LINK_MESSAGE_MAX)) {
            link_fail(link, -EPROTO);
            return false;
        }
        if ((link->in_length - at) < (LINK_HEADER + length)) {
            break;
        }
        link_call_begin(link);
        link->ops->received(link->arg, link->in + at + LINK_HEADER, length);
        if (!link_call_end(link)) {
            return false;
        }
        at += LINK_HEADER + length;
    }
    memmove(link->in, link->in + at, link->in_length - at);
    link->in_length -= at;
    return link->state == LINK_OPEN;
}

static void link_read(struct udmon_link *link)
{
    size_t room;
    int i, ret;

    if (link->in == NULL) {
        link->in = malloc(LINK_HEADER + LINK_MESSAGE_MAX);
        if (link->in == NULL) {
            link_fail(link, -ENOMEM);
            return;
        }
    }
    /*
     * Data that OpenSSL has already read raises no event, so OpenSSL's buffer is read to its end.
     */
    for (i = 0; (i < LINK_READS) || SSL_pending(link->ssl); ++i) {
        room = LINK_HEADER + LINK_MESSAGE_MAX - link->in_length;
        ERR_clear_error();
        ret = SSL_read(link->ssl, link->in + link->in_length, room);
        if (ret <= 0) {
            ret = link_error(link, ret);
            if (ret < 0) {
                link_fail(link, ret);
            }
            return;
        }
        link->in_length += ret;
        if (!link_deliver(link)) {
            return;
        }
    }
}

static void link_handshake(struct udmon_link *link)
{
    int ret;

    ERR_clear_error();
    ret = SSL_do_handshake(link->ssl);
    if (ret != 1) {
        ret = link_error(link, ret);
        if (ret < 0) {
            link_fail(link, ret);
        } else {
            link_wait_for(link, SSL_want_write(link->ssl) ? (EPOLLIN | EPOLLOUT) : EPOLLIN);
        }
        return;
    }
    link->state = LINK_OPEN;
    link_wait_for(link, EPOLLIN);
    link_call_begin(link);
    if (link->ops->opened != NULL) {
        link->ops->opened(link->arg);
    }
    if (link_call_end(link) && (link->state == LINK_OPEN)) {
        link_read(link); /* data that came together with the end of the handshake */
    }
}

static void link_ready(struct udmon_source *source, uint32_t events)
{
    struct udmon_link *link = source->arg;
    socklen_t length = sizeof(int);
    int error = 0;

    if (link->state == LINK_CONNECTING) {
        getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &error, &length);
        if (error != 0) {
            link_fail(link, -error);
            return;
        }
        link->state = LINK_HANDSHAKE;
        length = sizeof(link->local);
        getsockname(source->fd, (struct sockaddr *)&link->local, &length);
    }
    if (link->state == LINK_HANDSHAKE) {
        link_handshake(link);
        return;
    }
    if ((link->state == LINK_OPEN) && (events & EPOLLOUT)) {
        error = link_flush(link);
        if (error < 0) {
            link_fail(link, error);
            return;
        }
    }
    if ((link->state == LINK_OPEN) && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
        link_read(link);
    }
}

/* Making and closing */

/* Takes the socket over. */
static int link_new(struct udmon_tls *tls, struct udmon_loop *loop, int fd, uint32_t events,
                    const struct udmon_link_ops *ops, void *arg, struct udmon_link **link_p)
{
    struct udmon_link *link = calloc(1, sizeof(*link));
    int ret = -ENOMEM, one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* messages are gathered here */
    if (link == NULL) {
        goto err_close;
    }
    *link = (struct udmon_link){.tls = tls, .loop = loop, .ops = ops, .arg = arg, .events = events};
    link->source = (struct udmon_source){.fd = fd, .ready = link_ready, .arg = link};
    link->ssl = udmon_tls_new(tls, &link->source);
    if (link->ssl == NULL) {
        goto err_free;
    }
    ret = udmon_loop_add(loop, &link->source, events);
    if (ret < 0) {
        goto err_free;
    }
    *link_p = link;
    return 0;

err_free:
    link_free(link);
err_close:
    close(fd);
    return ret;
}

int udmon_link_accept(struct udmon_tls *tls, struct udmon_loop *loop, int fd,
                      const struct udmon_link_ops *ops, void *arg, struct udmon_link **link_p)
{
    socklen_t length = sizeof(struct sockaddr_storage);
    int ret = link_new(tls, loop, fd, EPOLLIN, ops, arg, link_p);

    if (ret == 0) {
        (*link_p)->state = LINK_HANDSHAKE;
        SSL_set_accept_state((*link_p)->ssl);
        getsockname(fd, (struct sockaddr *)&(*link_p)->local, &length);
        length = sizeof(struct sockaddr_storage);
        getpeername(fd, (struct sockaddr *)&(*link_p)->remote, &length);
        udmon_sockaddr_unmap(&(*link_p)->local);
        udmon_sockaddr_unmap(&(*link_p)->remote);
    }
    return ret;
}

int udmon_link_connect(struct udmon_tls *tls, struct udmon_loop *loop,
                       const struct sockaddr *source, const struct sockaddr *addr, const char *host,
                       const struct udmon_link_ops *ops, void *arg, struct udmon_link **link_p)
{
    int ret, fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -errno;
    }
    if (((source != NULL) && (bind(fd, source, udmon_sockaddr_length(source)) < 0)) ||
        ((connect(fd, addr, udmon_sockaddr_length(addr)) < 0) && (errno != EINPROGRESS))) {
        ret = -errno;
        close(fd);
        return ret;
    }
    ret = link_new(tls, loop, fd, EPOLLOUT, ops, arg, link_p);
    if (ret < 0) {
        return ret;
    }
    SSL_set_connect_state((*link_p)->ssl);
    memcpy(&(*link_p)->remote, addr, udmon_sockaddr_length(addr));
    ret = udmon_tls_expect(tls, (*link_p)->ssl, host);
    if (ret < 0) {
        udmon_link_close(*link_p);
        *link_p = NULL;
    }
    return ret;
}

void udmon_link_close(struct udmon_link *link)
{
    if (link->state == LINK_OPEN) {
        ERR_clear_error();
        SSL_shutdown(link->ssl); /* announces the end; no one waits for the answer */
    }
    link->state = LINK_FAILED;
    link_set_unsent(link, 0);
    udmon_loop_delete(link->loop, &link->source);
    close(link->source.fd);
    link->closed = 1;
    if (link->calling == 0) {
        link_free(link);
    }
}

void udmon_link_give(struct udmon_link *link, const struct udmon_link_ops *ops, void *arg)
{
    link->ops = ops;
    link->arg = arg;
}
