/*
 * FI_PROGRESS_AUTO: a thread of the domain makes progress when the NIC has received something, and
 * when a call of the program leaves work undone. Then the thread sleeps, as a thread of the program
 * does in fi_cq_sread(). Domains with FI_PROGRESS_MANUAL have no thread.
 */
#include "gfi_op.h"

#include <signal.h>
#include <string.h>

static void *gfi_thread_main(void *arg)
{
    struct gfi_domain *domain = arg;
    bool may_sleep;

    for (;;) {
        gfi_lock(domain);
        gfi_wait_clear(domain->thread_signal_fd);
        /* After the signal is cleared, because gfi_thread_stop() stores before it signals. acquire:
         * pairs with that store. */
        if (__atomic_load_n(&domain->stop_thread, __ATOMIC_ACQUIRE)) {
            gfi_unlock(domain);
            return NULL;
        }
        may_sleep = gfi_may_sleep(domain);
        gfi_unlock(domain);
        if (may_sleep) {
            gfi_wait_sleep(domain->thread_wait_fd, -1);
        } else {
            sched_yield(); /* the program's threads need the lock */
        }
    }
}

int gfi_thread_start(struct gfi_domain *domain)
{
    sigset_t all, before;
    int ret;

    ret = gfi_wait_open(domain, &domain->thread_wait_fd, &domain->thread_signal_fd);
    if (ret != 0) {
        return ret;
    }
    domain->has_thread = true;
    sigfillset(&all); /* signals are for the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ret = pthread_create(&domain->thread, NULL, gfi_thread_main, domain);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ret != 0) {
        GFI_WARN(FI_LOG_DOMAIN, "no thread for FI_PROGRESS_AUTO: %s\n", strerror(ret));
        domain->has_thread = false;
        gfi_wait_close(domain->thread_wait_fd, domain->thread_signal_fd);
        return -ret;
    }
    return 0;
}

void gfi_thread_stop(struct gfi_domain *domain)
{
    if (!domain->has_thread) {
        return;
    }
    __atomic_store_n(&domain->stop_thread, true, __ATOMIC_RELEASE);
    gfi_wait_signal(domain->thread_signal_fd);
    pthread_join(domain->thread, NULL);
    domain->has_thread = false;
    gfi_wait_close(domain->thread_wait_fd, domain->thread_signal_fd);
}
