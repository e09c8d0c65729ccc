#include "lookup.h"
#include "../base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct udmon_lookup {
    unsigned users; /* the thread and the caller; the last user frees the lookup */
    char host[256], port[8];
    struct udmon_loop *loop;
    struct udmon_source source; /* eventfd: the thread is done */
    udmon_lookup_done_fn done;
    void *arg;
    int error;
    struct addrinfo *hosts;
};

static void lookup_release(struct udmon_lookup *lookup)
{
    if (__atomic_sub_fetch(&lookup->users, 1, __ATOMIC_ACQ_REL) == 0) {
        if (lookup->hosts != NULL) {
            freeaddrinfo(lookup->hosts);
        }
        close(lookup->source.fd);
        free(lookup);
    }
}

static void *lookup_run(void *arg)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV,
    };
    struct udmon_lookup *lookup = arg;
    struct addrinfo *hosts = NULL;
    int error = getaddrinfo(lookup->host, lookup->port, &hints, &hosts);

    lookup->hosts = error == 0 ? hosts : NULL;
    /* Release: lookup_ready() then sees `hosts`. The kernel also orders both by the eventfd, but
     * neither the language nor a sanitizer knows this. */
    __atomic_store_n(&lookup->error, error, __ATOMIC_RELEASE);
    eventfd_write(lookup->source.fd, 1);
    lookup_release(lookup);
    return NULL;
}

static void lookup_ready(struct udmon_source *source, uint32_t events)
{
    struct udmon_lookup *lookup = source->arg;
    int error = __atomic_load_n(&lookup->error, __ATOMIC_ACQUIRE); /* before `hosts` is read */
    struct addrinfo *hosts = lookup->hosts;

    (void)events;
    lookup->hosts = NULL; /* the called function owns it now */
    udmon_loop_delete(lookup->loop, source);
    lookup->done(lookup->arg, error, hosts);
    lookup_release(lookup);
}

int udmon_lookup_start(struct udmon_loop *loop, const char *host, const char *port,
                       udmon_lookup_done_fn done, void *arg, struct udmon_lookup **lookup_p)
{
    struct udmon_lookup *lookup = calloc(1, sizeof(*lookup));
    pthread_t thread;
    int ret;

    if (lookup == NULL) {
        return -ENOMEM;
    }
    *lookup = (struct udmon_lookup){.users = 2, .loop = loop, .done = done, .arg = arg};
    snprintf(lookup->host, sizeof(lookup->host), "%s", host);
    snprintf(lookup->port, sizeof(lookup->port), "%s", port);
    lookup->source.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    lookup->source.ready = lookup_ready;
    lookup->source.arg = lookup;
    if (lookup->source.fd < 0) {
        ret = -errno;
        goto err_free;
    }
    ret = udmon_loop_add(loop, &lookup->source, EPOLLIN);
    if (ret < 0) {
        goto err_close;
    }
    ret = udmon_thread_start(&thread, lookup_run, lookup);
    if (ret < 0) {
        goto err_source;
    }
    pthread_detach(thread);
    *lookup_p = lookup;
    return 0;

err_source:
    udmon_loop_delete(loop, &lookup->source);
err_close:
    close(lookup->source.fd);
err_free:
    udmon_error("cannot look %s up: %s", host, strerror(-ret));
    free(lookup);
    return ret;
}

void udmon_lookup_cancel(struct udmon_lookup *lookup)
{
    udmon_loop_delete(lookup->loop, &lookup->source);
    lookup_release(lookup);
}
