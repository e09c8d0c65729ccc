/*
 * A FIFO of the channel ER (src/uct/glex/chan/glex_er_rx.c): a ring of one producer whose consumer stops
 * to look at it after a while, and asks for an event then. The producer pays for that by a load
 * alone: it stores the slot and loads `armed`, with nothing but a compiler barrier between the two;
 * the consumer sets `armed`, and has the kernel make a barrier in all threads of the producer's
 * process (membarrier) before it looks at the slot once more. The consumer never stops to look for
 * ever while a message is there.
 *
 * mutant BARRIER=0    no barrier at all
 * mutant BARRIER=1    a fence in the consumer alone
 * mutant BARRIER=2    the barrier is made in the producer's process alone
 * mutant LAST_LOOK=0  the consumer does not look once more
 * mutant LAST_LOOK=2  it looks once more before the barrier
 * mutant PUBLISH=RLX  a slot is published without release
 * mutant TAKE=RLX     the consumer looks at a slot without acquire
 * mutant RETURN=RLX   the consumer gives a slot back without release
 */
#ifndef BARRIER
#define BARRIER 3
#endif
#ifndef LAST_LOOK
#define LAST_LOOK 1
#endif
#ifndef PUBLISH
#define PUBLISH REL
#endif
#ifndef TAKE
#define TAKE ACQ
#endif
#ifndef RETURN
#define RETURN REL
#endif

#define MESSAGES 3
#define SLOTS    2

#define THREADS 2
#define LOCS    4
#define PLAINS  SLOTS
#define HISTORY 12
#include "c11.h"

#define ARMED 0
#define HEAD  1
#define CTRL(pos) (2 + (pos) % SLOTS)
#define DATA(pos) ((pos) % SLOTS)
#define PRODUCER 0
#define CONSUMER 1

byte events;

proctype producer()
{
    byte sent, head, armed;

    do
    :: sent < MESSAGES ->
        load(PRODUCER, HEAD, head, ACQ);
        if
        :: sent - head < SLOTS ->
            plain_store(PRODUCER, DATA(sent), sent + 1);
            store(PRODUCER, CTRL(sent), sent + 1, PUBLISH);
            sent++;
            load(PRODUCER, ARMED, armed, RLX);
            if
            :: armed == 1 ->
                store(PRODUCER, ARMED, 0, RLX); /* one event is enough */
                events++
            :: else
            fi
        :: else
        fi
    :: else -> break
    od
}

/* membarrier(): a barrier here, one in each thread of the other process wherever it is, one here */
inline membarrier()
{
    if
    :: BARRIER & 1 -> fence(CONSUMER, SC)
    :: else
    fi;
    if
    :: BARRIER & 2 -> fence(PRODUCER, SC)
    :: else
    fi;
    if
    :: BARRIER & 1 -> fence(CONSUMER, SC)
    :: else
    fi
}

proctype consumer()
{
    byte pos, ctrl, value;

    do
    :: pos < MESSAGES ->
        load(CONSUMER, CTRL(pos), ctrl, TAKE);
        if
        :: ctrl == pos + 1 ->
            plain_load(CONSUMER, DATA(pos), value);
            pos++;
            assert(value == pos);
            store(CONSUMER, HEAD, pos, RETURN)
        :: else ->
            if
            :: skip /* poll on */
            :: loc[ARMED].last < HISTORY - 2 - MESSAGES ->
                store(CONSUMER, ARMED, 1, RLX);
                if
                :: LAST_LOOK == 2 -> load(CONSUMER, CTRL(pos), ctrl, TAKE)
                :: else
                fi;
                membarrier();
                if
                :: LAST_LOOK == 1 -> load(CONSUMER, CTRL(pos), ctrl, TAKE)
                :: else
                fi;
                if
                :: ctrl == pos + 1 -> skip
                :: else -> atomic { events > 0; events = 0 } /* forget it until there is one */
                fi;
                store(CONSUMER, ARMED, 0, RLX)
            fi
        fi
    :: else -> break
    od
}

init
{
    atomic { run producer(); run consumer() }
}
