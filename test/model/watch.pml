/*
 * An entry of the registration table: the owner registers memory, takes it back and registers other
 * memory (mem_publish() and glex_deregister_mem() of src/glex/core/mem.c). A peer reads the entry
 * (shm_read_entry() of src/glex/core/shm.c) and gets all fields of one registration; and it watches the
 * state word of the registration that it has (glex_ext_peer_watch()): once it knows, by whatever
 * message, that the registration was taken back, the watch does not hold.
 *
 * mutant FIELDS=RLX       the fields are stored without release
 * mutant VALID=RLX        the state that makes them valid is stored without release
 * mutant STATE_LOAD=RLX   the peer loads the state without acquire
 * mutant FIELD_LOAD=RLX   the peer loads the fields without acquire
 * mutant SECOND=0         the peer does not look at the state again
 * mutant TELL=RLX         the peer learns of it without synchronisation
 */
#ifndef FIELDS
#define FIELDS REL
#endif
#ifndef VALID
#define VALID REL
#endif
#ifndef STATE_LOAD
#define STATE_LOAD ACQ
#endif
#ifndef FIELD_LOAD
#define FIELD_LOAD ACQ
#endif
#ifndef SECOND
#define SECOND 1
#endif
#ifndef TELL
#define TELL REL
#endif

#define THREADS 2
#define LOCS    4
#define PLAINS  1
#define HISTORY 6
#include "c11.h"

#define STATE 0 /* 2 * generation + 1 while it is valid */
#define ADDR  1
#define LENGTH   2
#define TOLD  3 /* generations that the peer was told are gone */
#define OWNER 0
#define PEER  1

proctype owner()
{
    byte gen;

    for (gen : 1 .. 2) {
        store(OWNER, ADDR, gen, FIELDS);
        store(OWNER, LENGTH, gen, FIELDS);
        store(OWNER, STATE, 2 * gen + 1, VALID);
        store(OWNER, STATE, 2 * gen, REL); /* taken back */
        store(OWNER, TOLD, gen, TELL)
    }
}

proctype peer()
{
    byte state, addr, length, again, told;
    byte looks;

    do
    :: looks < 3 ->
        looks++;
        load(PEER, STATE, state, STATE_LOAD);
        load(PEER, ADDR, addr, FIELD_LOAD);
        load(PEER, LENGTH, length, FIELD_LOAD);
        again = state;
        if
        :: SECOND -> load(PEER, STATE, again, RLX)
        :: else
        fi;
        if
        :: state == again && state % 2 == 1 ->
            assert(addr == state / 2 && length == state / 2);
            load(PEER, TOLD, told, ACQ);
            load(PEER, STATE, again, ACQ);
            assert(again != state || told < state / 2) /* the watch holds: not told yet */
        :: else
        fi
    :: else -> break
    od
}

init
{
    atomic { run owner(); run peer() }
}
