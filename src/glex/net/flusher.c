/*
 * The flusher: a thread that sends the frames that a program leaves behind.
 *
 * A frame that waits for further requests leaves with the next call of the program, see
 * net_peer_go_on(). The next call may be far away, for example if a program posts two messages and
 * computes. So one thread for all endpoints of the process checks endpoints with waiting frames
 * from time to time. It sends the frames if the program has made no call since the last check. The
 * thread begins with the first waiting frame, ends with the last endpoint with a network, and
 * sleeps without a timeout while no frame waits. A check costs the
 * program some microseconds of processor time. The interval between checks grows while the program
 * sends its frames itself.
 *
 * Locks: the thread tries the locks of networks while it holds its own lock. So the holder of a
 * network's lock may wait for the thread's lock. If a network is locked, the thread checks it again
 * later, because the present call of the program may be its last call.
 */
#include "base/log.h"
#include "net/internal.h"

#include <signal.h>
#include <string.h>
#include <time.h>

/* Time between two turns of the flusher */
#define FLUSHER_MIN_NS 1000000l
#define FLUSHER_MAX_NS 8000000l

struct flusher {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    LIST_HEAD(, glex_net) nets;
    long pause_ns;         /* before the next turn */
    uintptr_t number;      /* number of the present thread; a thread with another number ends */
    bool running, refused; /* refused: the thread could not be made */
    bool wanted;           /* some frames wait. Read without the lock. */
};

#define FLUSHER_INITIAL                                                                            \
    {.lock = PTHREAD_MUTEX_INITIALIZER,                                                            \
     .changed = PTHREAD_COND_INITIALIZER,                                                          \
     .pause_ns = FLUSHER_MIN_NS}

static struct flusher flusher = FLUSHER_INITIAL;

/* Sends the waiting frames. False: some frames could not be sent. */
static bool flusher_send(struct glex_net *net)
{
    struct net_side *side;
    bool sent = true;

    TAILQ_FOREACH(side, &net->work, work) {
        if (side->frame != NULL && side->conn != NULL && side->conn->up) {
            sent &= net_side_send(side);
            flusher.pause_ns = FLUSHER_MIN_NS;
        }
    }
    return sent;
}

/* Returns whether there is more to do. */
static bool flusher_look(struct glex_net *net)
{
    bool done = false;

    /* seq_cst: see net_flusher_wake() */
    if (!__atomic_exchange_n(&net->waits, false, __ATOMIC_SEQ_CST)) {
        return false;
    }
    if (pthread_mutex_trylock(&net->lock) == 0) {
        done = net->called ? !net_leaves_frames(net) : flusher_send(net);
        net->called = false;
        pthread_mutex_unlock(&net->lock);
    }
    if (!done) {
        __atomic_store_n(&net->waits, true, __ATOMIC_RELAXED); /* for itself */
    }
    return !done;
}

/* With the lock. */
static void flusher_turn(void)
{
    struct glex_net *net;
    bool more = false;

    flusher.pause_ns = flusher.pause_ns < FLUSHER_MAX_NS ? 2 * flusher.pause_ns : FLUSHER_MAX_NS;
    __atomic_store_n(&flusher.wanted, false, __ATOMIC_SEQ_CST); /* see net_flusher_wake() */
    LIST_FOREACH(net, &flusher.nets, entry) {
        more |= flusher_look(net);
    }
    if (more) {
        __atomic_store_n(&flusher.wanted, true, __ATOMIC_SEQ_CST);
    }
}

static void *flusher_main(void *arg)
{
    struct timespec pause = {0};

    pthread_mutex_lock(&flusher.lock);
    while (flusher.number == (uintptr_t)arg) {
        if (!flusher.wanted) {
            pthread_cond_wait(&flusher.changed, &flusher.lock);
            continue;
        }
        pause.tv_nsec = flusher.pause_ns;
        pthread_mutex_unlock(&flusher.lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&flusher.lock);
        if (flusher.number == (uintptr_t)arg) {
            flusher_turn();
        }
    }
    pthread_mutex_unlock(&flusher.lock);
    return NULL;
}

/* With the lock. Without signals: the program's handlers are for its own threads. */
static void flusher_start(void)
{
    sigset_t all, old;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&flusher.thread, NULL, flusher_main, (void *)flusher.number);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    flusher.running = err == 0;
    flusher.refused = err != 0;
    if (err != 0) {
        glex_warn("cannot make a thread: %s; messages to other hosts may wait for the program's "
                  "next call",
                  strerror(err));
    }
}

/*
 * The owner stores `waits` before it reads `wanted`. The flusher stores `wanted` before it reads
 * `waits`. With seq_cst, at least one side sees the store of the peer side. So the flusher finds
 * the frames in this turn, or the owner finds that no turn follows and requests a turn.
 */
void net_flusher_wake(struct glex_net *net)
{
    __atomic_store_n(&net->waits, true, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&flusher.wanted, __ATOMIC_SEQ_CST)) {
        return;
    }
    pthread_mutex_lock(&flusher.lock);
    __atomic_store_n(&flusher.wanted, true, __ATOMIC_SEQ_CST);
    if (!flusher.running && !flusher.refused) {
        flusher_start();
    }
    pthread_cond_broadcast(&flusher.changed);
    pthread_mutex_unlock(&flusher.lock);
}

void net_flusher_add(struct glex_net *net)
{
    pthread_mutex_lock(&flusher.lock);
    LIST_INSERT_HEAD(&flusher.nets, net, entry);
    pthread_mutex_unlock(&flusher.lock);
}

/* Unlocks. Another thread may have the next one made before this one has ended. */
static void flusher_stop(void)
{
    bool runs = flusher.running;
    pthread_t thread = flusher.thread;

    flusher.running = false;
    flusher.number++;
    pthread_cond_broadcast(&flusher.changed);
    pthread_mutex_unlock(&flusher.lock);
    if (runs) {
        pthread_join(thread, NULL);
    }
}

void net_flusher_remove(struct glex_net *net)
{
    pthread_mutex_lock(&flusher.lock);
    LIST_REMOVE(net, entry);
    if (LIST_EMPTY(&flusher.nets)) {
        flusher_stop();
    } else {
        pthread_mutex_unlock(&flusher.lock);
    }
}

void glex_net_exit(void)
{
    if (pthread_mutex_trylock(&flusher.lock) == 0) {
        flusher_stop();
    }
}

void net_flusher_fork(void)
{
    flusher = (struct flusher)FLUSHER_INITIAL;
}
