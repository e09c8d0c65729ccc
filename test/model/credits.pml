/*
 * The credits that a lender of a FIFO publishes by a store, and the word by which a sender that
 * sleeps asks for a message (src/uct/glex/chan/glex_er.c, glex_er_lend.c): a FIFO of one unit, three
 * messages.
 * The sender never sleeps for ever while it has credits, and no unit is written while it is read.
 *
 * mutant SENDER_FENCE=NONE  no fence between asking for a message and the last look
 * mutant LENDER_FENCE=NONE  no fence between the credits and the look whether one is wanted
 * mutant SENDER_FENCE=REL   a release fence only
 * mutant LENDER_FENCE=REL   the same
 * mutant PUBLISH=RLX        the credits are stored without release
 * mutant LOOK=RLX           the sender looks at them without acquire
 */
#ifndef SENDER_FENCE
#define SENDER_FENCE SC
#endif
#ifndef LENDER_FENCE
#define LENDER_FENCE SC
#endif
#ifndef PUBLISH
#define PUBLISH REL
#endif
#ifndef LOOK
#define LOOK ACQ
#endif

#define MESSAGES 3

#define THREADS 2
#define LOCS    4
#define PLAINS  1
#define HISTORY 8
#include "c11.h"

#define COUNTERS 0 /* messages consumed, in all */
#define WANTED   1
#define EVENTS   2 /* messages that arrived: what the ring carries */
#define MAIL     3 /* the counters of the last message to the sender */
#define UNIT     0
#define SENDER   0
#define LENDER   1

proctype sender()
{
    byte sent, consumed, seen, word;
    bool done;

    do
    :: sent < MESSAGES ->
        load(SENDER, COUNTERS, seen, LOOK);
        if
        :: seen > consumed -> consumed = seen
        :: else
        fi;
        if
        :: sent == consumed ->
            load(SENDER, WANTED, word, RLX); /* awake, and with credits */
            if
            :: word == 1 -> compare_exchange(SENDER, WANTED, 1, 0, done, RLX)
            :: else
            fi;
            sent++;
            plain_store(SENDER, UNIT, sent);
            store(SENDER, EVENTS, sent, REL)
        :: else ->
            if
            :: skip /* look again at the next progress */
            :: loc[WANTED].last < HISTORY - 2 ->
                store(SENDER, WANTED, 1, RLX);
                fence(SENDER, SENDER_FENCE);
                load(SENDER, COUNTERS, seen, LOOK);
                if
                :: seen > consumed -> consumed = seen
                :: else ->
                    /* sleep until there is a message that is new */
                    loc[MAIL].made[loc[MAIL].last].value > consumed;
                    load(SENDER, MAIL, seen, ACQ);
                    if
                    :: seen > consumed -> consumed = seen
                    :: else
                    fi
                fi
            fi
        fi
    :: else -> break
    od
}

proctype lender()
{
    byte consumed, arrived, value, word;

    do
    :: consumed < MESSAGES ->
        loc[EVENTS].made[loc[EVENTS].last].value > consumed; /* asleep, or polls in vain */
        load(LENDER, EVENTS, arrived, ACQ);
        if
        :: arrived > consumed ->
            plain_load(LENDER, UNIT, value);
            consumed++;
            assert(value == consumed);
            store(LENDER, COUNTERS, consumed, PUBLISH);
            fence(LENDER, LENDER_FENCE);
            load(LENDER, WANTED, word, RLX);
            if
            :: word != 0 -> store(LENDER, MAIL, consumed, REL)
            :: else
            fi
        :: else
        fi
    :: else -> break
    od
}

init
{
    atomic { run sender(); run lender() }
}
