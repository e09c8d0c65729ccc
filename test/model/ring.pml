/*
 * The ring of src/glex/shm/ring.h: two producers, one consumer, two slots, each of which is used twice.
 * Every message arrives once, in the order of its producer, with what was written to its slot; no
 * slot is written while it is read.
 *
 * mutant PUBLISH=RLX  a slot is published without release
 * mutant TAKE=RLX     the consumer looks at a slot without acquire
 * mutant DISCARD=RLX  the consumer moves the head without release
 * mutant ROOM=RLX     a producer looks for room without acquire
 * mutant CHECK=0      a producer does not look for room
 */
#ifndef PUBLISH
#define PUBLISH REL
#endif
#ifndef TAKE
#define TAKE ACQ
#endif
#ifndef DISCARD
#define DISCARD REL
#endif
#ifndef ROOM
#define ROOM ACQ
#endif
#ifndef CHECK
#define CHECK 1
#endif

#define PRODUCERS 2
#define EACH      2 /* messages of a producer */
#define SLOTS     2

#define THREADS 3
#define LOCS    4
#define PLAINS  SLOTS
#define HISTORY 5
#include "c11.h"

#define TAIL 0
#define HEAD 1
#define CTRL(pos) (2 + (pos) % SLOTS)
#define DATA(pos) ((pos) % SLOTS)
#define CONSUMER 2

proctype producer(byte me)
{
    byte sent, tail, head;
    bool done;

    do
    :: sent < EACH ->
        load(me, TAIL, tail, RLX);
        if
        :: CHECK && tail - head >= SLOTS ->
            load(me, HEAD, head, ROOM)
        :: else
        fi;
        if
        :: CHECK && tail - head >= SLOTS -> skip /* full: try again */
        :: else ->
            compare_exchange(me, TAIL, tail, tail + 1, done, ACQ_REL);
            if
            :: done ->
                plain_store(me, DATA(tail), me * EACH + sent + 1);
                store(me, CTRL(tail), tail + 1, PUBLISH);
                sent++
            :: else
            fi
        fi
    :: else -> break
    od
}

proctype consumer()
{
    byte pos, ctrl, value;
    byte got[PRODUCERS];

    do
    :: pos < PRODUCERS * EACH ->
        load(CONSUMER, CTRL(pos), ctrl, TAKE);
        if
        :: ctrl == pos + 1 ->
            plain_load(CONSUMER, DATA(pos), value);
            assert(value > 0);
            value--;
            assert(got[value / EACH] == value % EACH);
            got[value / EACH]++;
            value = 0;
            pos++;
            store(CONSUMER, HEAD, pos, DISCARD)
        :: else
        fi
    :: else -> break
    od
}

init
{
    atomic { run producer(0); run producer(1); run consumer() }
}
