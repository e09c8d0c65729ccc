/*
 * glex_ring_stalled() of src/glex/ring.c: two producers, each of which may die between any two
 * steps, and a consumer that passes over the positions of dead ones. It never passes over a
 * position whose message was published, or will be.
 *
 * That somebody is dead the consumer learns from the kernel (a lock on the segment's file is free),
 * which orders all that the dead one did before.
 *
 * mutant INTENT=RLX   a producer's intent is stored without release
 * mutant CLAIM=RLX    the tail is moved without release
 * mutant TAIL_LOAD=RLX  the consumer looks at the tail without acquire
 * mutant LOOK=RLX     the consumer looks at the intents without acquire
 * mutant AGAIN=0      the consumer does not look at the slot again
 */
#ifndef INTENT
#define INTENT REL
#endif
#ifndef CLAIM
#define CLAIM ACQ_REL
#endif
#ifndef TAIL_LOAD
#define TAIL_LOAD ACQ
#endif
#ifndef LOOK
#define LOOK ACQ
#endif
#ifndef AGAIN
#define AGAIN 1
#endif

#define PRODUCERS 2
#define MESSAGES  3 /* the first producer sends two of them */

#define THREADS 3
#define LOCS    6
#define PLAINS  1
#define HISTORY 6
#include "c11.h"

#define TAIL 0
#define CTRL(pos) (1 + (pos))
#define INTENT_OF(p) (4 + (p))
#define CONSUMER 2
#define NOBODY 9

bool dead[PRODUCERS], published[MESSAGES];
byte claimer[MESSAGES] = NOBODY;

#define MAY_DIE(p) if :: skip :: dead[p] = true; goto end fi

proctype producer(byte me; byte messages)
{
    byte sent, tail;
    bool done;

    do
    :: sent < messages ->
        if
        :: loc[INTENT_OF(me)].last >= HISTORY - 2 -> dead[me] = true; goto end /* no more tries */
        :: else
        fi;
        load(me, TAIL, tail, RLX);
        store(me, INTENT_OF(me), tail + 1, INTENT); /* 0: none */
        MAY_DIE(me);
        atomic {
            compare_exchange(me, TAIL, tail, tail + 1, done, CLAIM);
            if
            :: done -> claimer[tail] = me
            :: else
            fi
        }
        MAY_DIE(me);
        if
        :: done ->
            atomic {
                store(me, CTRL(tail), 1, REL);
                published[tail] = true
            }
            MAY_DIE(me);
            sent++
        :: else
        fi
    :: else -> break
    od;
    store(me, INTENT_OF(me), 0, REL);
end:
    skip
}

proctype consumer()
{
    byte pos, tail, ctrl, intent, p;
    bool intended;

    do
    :: pos < MESSAGES ->
        load(CONSUMER, CTRL(pos), ctrl, ACQ);
        if
        :: ctrl != 0 -> pos++
        :: else ->
            load(CONSUMER, TAIL, tail, TAIL_LOAD);
            if
            :: tail > pos ->
                intended = false;
                for (p : 0 .. PRODUCERS - 1) {
                    load(CONSUMER, INTENT_OF(p), intent, LOOK);
                    if
                    :: intent == pos + 1 ->
                        d_step {
                            if
                            :: dead[p] -> join(thread[CONSUMER].now, thread[p].now)
                            :: else -> intended = true
                            fi
                        }
                    :: else
                    fi
                }
                p = 0;
                if
                :: !intended ->
                    ctrl = 0;
                    if
                    :: AGAIN -> load(CONSUMER, CTRL(pos), ctrl, ACQ)
                    :: else
                    fi;
                    if
                    :: ctrl == 0 ->
                        assert(!published[pos]);
                        assert(dead[claimer[pos]]);
                        pos++
                    :: else
                    fi
                :: else
                fi
            :: else -> /* not claimed */
                if
                :: (dead[0] || dead[1]) -> break /* perhaps it never will be */
                :: else
                fi
            fi
        fi
    :: else -> break
    od
}

init
{
    atomic { run producer(0, 2); run producer(1, 1); run consumer() }
}
