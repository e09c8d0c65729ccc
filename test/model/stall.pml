/*
 * glex_ring_stalled() of src/glex/shm/ring.c: two producers, each of which may die between any two
 * steps, and a consumer that passes over the positions of dead ones. It never passes over a
 * position whose message was published, or will be.
 *
 * A producer's intent is two words, the ring and the position in it. Between its messages here it
 * may post to another ring, where positions have the same numbers. (The kernel copies the words for
 * the consumer, in any order; the model with both orders holds, too, and takes minutes.)
 *
 * That somebody is dead the consumer learns from the kernel (a lock on the segment's file is free),
 * which orders all that the dead one did before.
 *
 * mutant INTENT=RLX   the position of a producer's intent is stored without release
 * mutant RING=RLX     the ring of a producer's intent is stored without release
 * mutant CLAIM=RLX    the tail is moved without release
 * mutant TAIL_LOAD=RLX  the consumer looks at the tail without acquire
 * mutant LOOK=RLX     the consumer looks at the intents without acquire
 * mutant AGAIN=0      the consumer does not look at the slot again
 * mutant HOLD=1       a producer claims a position of another ring before it publishes this one
 */
#ifndef INTENT
#define INTENT REL
#endif
#ifndef RING
#define RING REL
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

#ifndef HOLD
#define HOLD 0
#endif

#define PRODUCERS 2
#define MESSAGES  3 /* the first producer sends two of them */

#define THREADS 3
#define LOCS    8
#define PLAINS  1
#define HISTORY 6
#include "c11.h"

#define TAIL 0
#define CTRL(pos) (1 + (pos))
#define INTENT_OF(p) (4 + (p))
#define RING_OF(p) (6 + (p))
#define HERE      0
#define ELSEWHERE 1
#define CONSUMER 2
#define NOBODY 9

bool dead[PRODUCERS], published[MESSAGES];
byte claimer[MESSAGES] = NOBODY;

#define MAY_DIE(p) if :: skip :: dead[p] = true; goto end fi

proctype producer(byte me; byte messages)
{
    byte sent, tail, ring; /* HERE at first */
    bool done;

    do
    :: sent < messages ->
        if
        :: loc[INTENT_OF(me)].last >= HISTORY - 2 -> dead[me] = true; goto end /* no more tries */
        :: else
        fi;
        load(me, TAIL, tail, RLX);
        if
        :: ring != HERE -> ring = HERE; store(me, RING_OF(me), ring, RING)
        :: else
        fi;
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
            if
            :: HOLD -> ring = ELSEWHERE; store(me, RING_OF(me), ring, RING)
            :: else
            fi;
            atomic {
                store(me, CTRL(tail), 1, REL);
                published[tail] = true
            }
            MAY_DIE(me);
            sent++;
            if
            :: sent < messages -> ring = ELSEWHERE; store(me, RING_OF(me), ring, RING)
            :: skip
            fi
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
    byte pos, tail, ctrl, intent, ring, p;
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
                    load(CONSUMER, RING_OF(p), ring, LOOK);
                    if
                    :: ring == HERE && intent == pos + 1 ->
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
