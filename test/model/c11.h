/*
 * The memory model of C11, for models in Promela: the values that a thread may read, not only the
 * last stored value.
 *
 * Every atomic location keeps the history of its stores, in order. A thread has a view: for each
 * location, the oldest store that the thread may still read. A load reads any store from the view
 * on. So a thread may see old values, and may see stores to two locations in the wrong order. This
 * models store buffers, caches and reordering. A release store carries the view of its thread. An
 * acquire load takes over the view of the store that it reads. Relaxed loads and stores carry only
 * the views of fences. A fence of sequential consistency also synchronizes with all other fences of
 * sequential consistency.
 *
 * Plain memory (PLAIN) has no history. Two accesses are a race, and an error, if one access is a
 * write and neither access happens before the other. This finds loads that a processor or the
 * compiler moves behind a later store.
 *
 * The model leaves out "load buffering" of atomics: stores that a processor makes visible before
 * earlier, independent loads. The model also leaves out stores that are inserted before stores of
 * another thread to the same location. Models change locations with several writers by
 * read-modify-writes, for which the second case does not exist.
 *
 * Define before including this file: THREADS, LOCS, HISTORY (the maximum number of stores to one
 * location, including the first value, 0), PLAINS. Thread numbers, locations and plain memory are
 * numbered from 0.
 */

#define NONE 0 /* of a fence: no fence */
#define RLX  1
#define ACQ  2
#define REL  3
#define ACQ_REL 4
#define SC   5

typedef View {
    byte at[LOCS];       /* oldest store that may be read */
    byte clock[THREADS]; /* events of each thread that happened before */
}

typedef Store {
    byte value;
    View view;
}

typedef Location {
    byte last;
    Store made[HISTORY];
}

typedef Plain {
    byte value;
    byte writer;
    byte written;           /* clock of the writer */
    byte was_read[THREADS]; /* clock of each reader since */
}

typedef Thread {
    View now;      /* the stores that it has seen */
    View acquires; /* the stores that an acquire fence would add */
    View releases; /* the view of a relaxed store: from the last release fence */
}

Thread thread[THREADS];
Location loc[LOCS];
Plain plain[PLAINS];
byte fences[LOCS]; /* the stores that fences of sequential consistency have seen */

byte pick_;         /* 0 but within a load */
hidden byte k_, new_; /* used within a d_step only */

inline join(to, from)
{
    for (k_ : 0 .. LOCS - 1) {
        if
        :: from.at[k_] > to.at[k_] -> to.at[k_] = from.at[k_]
        :: else
        fi
    }
    for (k_ : 0 .. THREADS - 1) {
        if
        :: from.clock[k_] > to.clock[k_] -> to.clock[k_] = from.clock[k_]
        :: else
        fi
    }
    k_ = 0
}

/* Adds the effect of reading the store `i` of location `l` to the view of thread `t`. */
inline see(t, l, i, order)
{
    if
    :: thread[t].now.at[l] < i -> thread[t].now.at[l] = i
    :: else
    fi
    if
    :: order == ACQ || order == ACQ_REL || order == SC -> join(thread[t].now, loc[l].made[i].view)
    :: else
    fi
    join(thread[t].acquires, loc[l].made[i].view)
}

inline load(t, l, v, order)
{
    atomic {
        select(pick_ : thread[t].now.at[l] .. loc[l].last);
        d_step {
            v = loc[l].made[pick_].value;
            see(t, l, pick_, order);
            pick_ = 0
        }
    }
}

/* Appends a store; the memory order determines its view. */
inline append(t, l, v, order)
{
    new_ = loc[l].last + 1;
    assert(new_ < HISTORY);
    loc[l].last = new_;
    loc[l].made[new_].value = v;
    thread[t].now.at[l] = new_;
    if
    :: order == REL || order == ACQ_REL || order == SC ->
        join(loc[l].made[new_].view, thread[t].now)
    :: else ->
        join(loc[l].made[new_].view, thread[t].releases)
    fi
    loc[l].made[new_].view.at[l] = new_
}

inline store(t, l, v, order)
{
    d_step { append(t, l, v, order); new_ = 0 }
}

/* Read-modify-writes: to be used within d_step, after which `old` has the former value. They read
 * the last store, and carry on its view (the release sequence). */
inline exchange_(t, l, v, old, order)
{
    old = loc[l].made[loc[l].last].value;
    see(t, l, loc[l].last, order);
    append(t, l, v, order);
    join(loc[l].made[new_].view, loc[l].made[new_ - 1].view);
    new_ = 0
}

inline exchange(t, l, v, old, order)
{
    d_step { exchange_(t, l, v, old, order) }
}

/* `done` says whether the last value was `expected`; where it was not, nothing was read: the
 * programs load again. */
inline compare_exchange(t, l, expected, v, done, order)
{
    d_step {
        if
        :: loc[l].made[loc[l].last].value == expected ->
            exchange_(t, l, v, pick_, order);
            pick_ = 0;
            done = true
        :: else ->
            done = false
        fi
    }
}

inline fence_(t, order)
{
    if
    :: order == ACQ || order == SC -> join(thread[t].now, thread[t].acquires)
    :: else
    fi
    if
    :: order == SC ->
        for (k_ : 0 .. LOCS - 1) {
            if
            :: fences[k_] > thread[t].now.at[k_] -> thread[t].now.at[k_] = fences[k_]
            :: else
            fi
            fences[k_] = thread[t].now.at[k_]
        }
        k_ = 0
    :: else
    fi
    if
    :: order == REL || order == SC -> join(thread[t].releases, thread[t].now)
    :: else
    fi
}

inline fence(t, order)
{
    d_step { fence_(t, order) }
}

/* A load or store of plain memory. */
inline plain_load(t, p, v)
{
    d_step {
        assert(plain[p].written <= thread[t].now.clock[plain[p].writer]); /* else a race */
        thread[t].now.clock[t]++;
        plain[p].was_read[t] = thread[t].now.clock[t];
        v = plain[p].value
    }
}

inline plain_store(t, p, v)
{
    d_step {
        assert(plain[p].written <= thread[t].now.clock[plain[p].writer]); /* else a race */
        for (k_ : 0 .. THREADS - 1) {
            assert(k_ == t || plain[p].was_read[k_] <= thread[t].now.clock[k_]); /* else a race */
            plain[p].was_read[k_] = 0
        }
        k_ = 0;
        thread[t].now.clock[t]++;
        plain[p].writer = t;
        plain[p].written = thread[t].now.clock[t];
        plain[p].value = v
    }
}
