/*
 * A lock that fork() and exit() take. A signal handler may call fork() or exit() in the middle of
 * any call of this library, even while the interrupted call has the lock. So a thread knows whether
 * it has the lock. A thread waits for other threads for a limited time only, because they may be in
 * a signal handler that never returns.
 */
#ifndef GLEX_LOCK_H
#define GLEX_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct glex_lock {
    pthread_mutex_t mutex;
    const void *owner; /* names the thread that has the lock; NULL: none */
};

#define GLEX_LOCK_INITIAL {.mutex = PTHREAD_MUTEX_INITIALIZER}

void glex_lock_take(struct glex_lock *lock);
void glex_lock_give(struct glex_lock *lock);

/** Returns false if a thread has the lock, the caller included. */
bool glex_lock_try(struct glex_lock *lock);

/** For fork() and exit(). Returns false if the caller has the lock already, or if another thread keeps
 *  the lock for too long. */
bool glex_lock_take_in_handler(struct glex_lock *lock);

/** In a child of fork(): no thread has the lock. */
void glex_lock_reset(struct glex_lock *lock);

#endif
