/*
 * How the owner of a ring sleeps (sleep_until() of src/glex/api/sleep.c, glex_ring_arm()) and is woken:
 * two producers, a consumer that sleeps as soon as it may. It never sleeps for ever while a message
 * is there. The look every 200 ms, for producers that were killed, is left out: no wake-up may be
 * lost without it.
 *
 * mutant ARM=1    arming looks at the tail first, and sets ARMED then: not in one step
 * mutant ARM=2    arming looks at the slot only
 * mutant DRAIN=1  old wake-ups are taken after arming
 * mutant WAKE=0   nobody is woken
 */
#ifndef ARM
#define ARM 0
#endif
#ifndef DRAIN
#define DRAIN 0
#endif
#ifndef WAKE
#define WAKE 1
#endif

#define MESSAGES 3 /* the first producer sends two of them */

#define THREADS 3
#define LOCS    4
#define PLAINS  3
#define HISTORY 12
#include "c11.h"

#define TAIL 0
#define CTRL(pos) (1 + (pos))
#define ARMED 16
#define POS(tail) ((tail) % ARMED)
#define CONSUMER 2

byte wakeups; /* in the consumer's socket */

proctype producer(byte me; byte messages)
{
    byte sent, tail;
    bool done;

    do
    :: sent < messages ->
        load(me, TAIL, tail, RLX);
        compare_exchange(me, TAIL, tail, tail + 1, done, ACQ_REL);
        if
        :: done ->
            plain_store(me, POS(tail), 1);
            store(me, CTRL(POS(tail)), 1, REL);
            if
            :: WAKE && tail >= ARMED -> wakeups++
            :: else
            fi;
            sent++
        :: else
        fi
    :: else -> break
    od
}

inline disarm()
{
    d_step {
        word = POS(loc[TAIL].made[loc[TAIL].last].value);
        exchange_(CONSUMER, TAIL, word, old, RLX);
        word = 0
    }
}

proctype consumer()
{
    byte pos, ctrl, old, value, word;

    do
    :: pos < MESSAGES ->
        load(CONSUMER, CTRL(pos), ctrl, ACQ);
        if
        :: ctrl != 0 ->
            plain_load(CONSUMER, pos, value);
            assert(value == 1);
            pos++
        :: else ->
            if
            :: loc[TAIL].last < HISTORY - 5 ->
                if
                :: DRAIN == 0 -> wakeups = 0
                :: else
                fi;
                if
                :: ARM == 1 -> load(CONSUMER, TAIL, value, ACQ)
                :: else
                fi;
                d_step {
                    word = loc[TAIL].made[loc[TAIL].last].value + ARMED;
                    exchange_(CONSUMER, TAIL, word, old, ACQ_REL);
                    word = 0
                }
                if
                :: ARM == 1 -> old = value
                :: ARM == 2 -> old = pos
                :: else
                fi;
                if
                :: DRAIN == 1 -> wakeups = 0
                :: else
                fi;
                if
                :: old == pos -> wakeups > 0 /* sleep */
                :: else
                fi;
                disarm();
                value = 0
            :: else /* the history is nearly full: poll on */
            fi
        fi
    :: else -> break
    od
}

init
{
    atomic { run producer(0, 2); run producer(1, 1); run consumer() }
}
