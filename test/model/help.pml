/*
 * A long copy by two processes (src/glex/core/help.c): two copies in a row, of two pieces each,
 * which are called chunks here. The second one is for another helper, or for the same. A helper may be
 * slow with what it has read of the first copy. It may be killed before its claim and between claim and report. Each chunk is plain
 * memory, written once for each copy. Two writers of one chunk are a race. A chunk that
 * the initiator reads before the helper's store is a race, too.
 *
 * A helper that is killed within a chunk never stores after its death is known: the initiator learns
 * of the death with synchronisation, as by the lock of the helper's segment.
 *
 * The order of a field and the closed claim before it is not checked here: a read-modify-write of
 * c11.h always follows all stores that their threads have made.
 *
 * mutant OPEN=RLX      the open copy is stored without release
 * mutant CLOSED=0      the fields change while chunks of the former copy may be claimed
 * mutant LOOK=RLX      the helper loads the claim without acquire
 * mutant REPORT=RLX    the helper reports without release
 * mutant SEEN=RLX      the initiator loads the report without acquire
 * mutant WAIT=0        the initiator copies a chunk that a living helper has claimed
 * mutant NUMBER=0      claims have no number of the copy
 */
#ifndef OPEN
#define OPEN REL
#endif
#ifndef CLOSED
#define CLOSED 1
#endif
#ifndef LOOK
#define LOOK ACQ
#endif
#ifndef REPORT
#define REPORT REL
#endif
#ifndef SEEN
#define SEEN ACQ
#endif
#ifndef WAIT
#define WAIT 1
#endif
#ifndef NUMBER
#define NUMBER 1
#endif

#define THREADS 2
#define LOCS    4
#define PLAINS  4
#define HISTORY 9
#include "c11.h"

#define CLAIM  0 /* 4 * number + next chunk; 3: no chunk is left */
#define PLACE  1 /* the field: which memory the copy is for */
#define REPORT_ 2 /* 4 * number + reported chunks */
#define DEAD   3 /* the helper is known to be dead */

#define INITIATOR 0
#define HELPER    1
#define CHUNKS    2

#define WORD(number, chunk) (NUMBER -> 4 * (number) + (chunk) : (chunk))

proctype initiator()
{
    byte copy, claim, report, next, others, last, value, dead;

    for (copy : 1 .. 2) {
        if
        :: CLOSED -> store(INITIATOR, CLAIM, WORD(copy, 3), RLX)
        :: else
        fi;
        store(INITIATOR, PLACE, copy, REL);
        store(INITIATOR, REPORT_, 4 * copy, REL);
        store(INITIATOR, CLAIM, WORD(copy, 0), OPEN);
        next = 0;
        others = 0;
        do
        :: /* a relaxed read-modify-write: reads the last value */
           d_step {
               claim = loc[CLAIM].made[loc[CLAIM].last].value % 4;
               if
               :: claim < CHUNKS -> exchange_(INITIATOR, CLAIM, WORD(copy, claim + 1), claim, RLX);
                                    claim = claim % 4
               :: else -> claim = CHUNKS
               fi
           };
           if
           :: claim > next -> others = others + claim - next; last = claim - 1; next = claim
           :: else
           fi;
           if
           :: claim < CHUNKS -> plain_store(INITIATOR, 2 * (copy - 1) + claim, copy); next = claim + 1
           :: else -> break
           fi
        od;
        if
        :: others > 0 && WAIT ->
            do
            :: load(INITIATOR, REPORT_, report, SEEN);
               if
               :: report >= 4 * copy + others -> break
               :: else ->
                   load(INITIATOR, DEAD, dead, ACQ);
                   if
                   :: dead ->
                       load(INITIATOR, REPORT_, report, SEEN);
                       if
                       :: report < 4 * copy + others ->
                           plain_store(INITIATOR, 2 * (copy - 1) + last, copy)
                       :: else
                       fi;
                       break
                   :: else
                   fi
               fi
            od
        :: others > 0 && !WAIT -> plain_store(INITIATOR, 2 * (copy - 1) + last, copy)
        :: else
        fi;
        for (claim : 0 .. CHUNKS - 1) {
            plain_load(INITIATOR, 2 * (copy - 1) + claim, value);
            assert(value == copy)
        }
    }
}

proctype helper()
{
    byte claim, place, report;
    bool done;

    do
    :: load(HELPER, CLAIM, claim, LOOK);
       load(HELPER, REPORT_, report, RLX);
       load(HELPER, PLACE, place, ACQ);
       if
       :: claim % 4 < CHUNKS && place > 0 && (!NUMBER || report / 4 == claim / 4) ->
           compare_exchange(HELPER, CLAIM, claim, claim + 1, done, RLX);
           if
           :: done ->
               plain_store(HELPER, 2 * (place - 1) + claim % 4, place);
               if
               :: store(HELPER, REPORT_, report + 1, REPORT)
               :: break /* killed before its report */
               fi
           :: else
           fi
       :: else
       fi
    :: break
    od;
    store(HELPER, DEAD, 1, REL)
}

init
{
    atomic { run initiator(); run helper() }
}
