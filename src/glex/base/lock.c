#include "base/lock.h"

#include <time.h>

/* How long fork() and exit() wait for another thread. */
#define LOCK_HANDLER_S 10

static __thread char lock_self; /* its address names the thread */

/* relaxed: a thread compares the word with its own name only, which no other thread stores */
static void lock_set_owner(struct glex_lock *lock, const void *owner)
{
    __atomic_store_n(&lock->owner, owner, __ATOMIC_RELAXED);
}

void glex_lock_take(struct glex_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    lock_set_owner(lock, &lock_self);
}

bool glex_lock_try(struct glex_lock *lock)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0) {
        return false;
    }
    lock_set_owner(lock, &lock_self);
    return true;
}

void glex_lock_give(struct glex_lock *lock)
{
    lock_set_owner(lock, NULL);
    pthread_mutex_unlock(&lock->mutex);
}

bool glex_lock_take_in_handler(struct glex_lock *lock)
{
    struct timespec end;

    if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == &lock_self) {
        return false;
    }
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += LOCK_HANDLER_S;
    if (pthread_mutex_timedlock(&lock->mutex, &end) != 0) {
        return false;
    }
    lock_set_owner(lock, &lock_self);
    return true;
}

void glex_lock_reset(struct glex_lock *lock)
{
    pthread_mutex_init(&lock->mutex, NULL);
    lock_set_owner(lock, NULL);
}
