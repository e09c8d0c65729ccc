/*
 * A collective request of src/glex/coll/coll_send.c: an event, then a control packet (CP), each in a
 * queue of the destination with room for few entries. Two producers post the same request again
 * while it is refused; the destination takes entries from both queues.
 *
 * - A refused request leaves no trace: no position of any queue is claimed by it.
 * - A producer never holds two positions that are not published.
 * - Each accepted request brings one event and one CP, the CP last.
 *
 * A producer looks for room in both queues first. If the other producer takes the last room of the
 * CP's queue after that, the request is accepted and unfinished, and the producer goes on with it.
 * Claims are single steps here: ring.pml and stall.pml have the memory order of one queue.
 *
 * mutant LOOK_FIRST=0  a producer does not look for room in both queues first
 * mutant CP_FIRST=1    the CP's position is claimed first, and published last or as one to skip
 * mutant UNFINISHED=0  a request that has left its event is refused where the CP finds no room
 */
#ifndef LOOK_FIRST
#define LOOK_FIRST 1
#endif
#ifndef CP_FIRST
#define CP_FIRST 0
#endif
#ifndef UNFINISHED
#define UNFINISHED 1
#endif

#define PRODUCERS 2
#define EACH      2 /* requests of a producer */
#define ROOM      1 /* entries of a queue */

byte events, cps; /* claimed and not taken */
byte events_of[PRODUCERS], cps_of[PRODUCERS]; /* published */
byte taken_events, taken_cps;

proctype producer(byte me)
{
    byte done, held;
    bool accepted, traced;

    do
    :: done < EACH ->
        accepted = false;
        traced = false;
        if
        :: CP_FIRST ->
            if
            :: atomic { cps < ROOM -> cps++; held++ } ;
                if
                :: atomic { events < ROOM -> events++; held++ };
                    assert(held == 1);
                    atomic { events_of[me]++; held--; cps_of[me]++; held--; accepted = true }
                :: atomic { events >= ROOM -> held--; traced = true } /* an entry to skip */
                fi
            :: atomic { cps >= ROOM -> skip }
            fi
        :: else ->
            if
            :: atomic { LOOK_FIRST && (events >= ROOM || cps >= ROOM) -> skip }
            :: atomic { !LOOK_FIRST || (events < ROOM && cps < ROOM) -> skip };
                if
                :: atomic { events < ROOM -> events++; held++ };
                    assert(held == 1);
                    atomic { events_of[me]++; held--; traced = true };
                    do
                    :: atomic { cps < ROOM -> cps++; held++ };
                        assert(held == 1);
                        atomic { cps_of[me]++; held--; accepted = true };
                        break
                    :: atomic { cps >= ROOM && !(UNFINISHED && LOOK_FIRST) -> break }
                    od
                :: atomic { events >= ROOM -> skip }
                fi
            fi
        fi;
        assert(accepted || !traced);
        if
        :: accepted ->
            done++;
            assert(events_of[me] == done && cps_of[me] == done)
        :: else
        fi
    :: else -> break
    od
}

/* Takes an entry of either queue, an entry to skip as well. */
proctype destination()
{
    do
    :: atomic { events > 0 && events_of[0] + events_of[1] > taken_events -> events--; taken_events++ }
    :: atomic { cps > 0 && cps_of[0] + cps_of[1] > taken_cps ->
            cps--;
            taken_cps++;
            assert(taken_cps <= events_of[0] + events_of[1])
        }
    :: atomic { taken_events == PRODUCERS * EACH && taken_cps == PRODUCERS * EACH -> break }
    od
}

init
{
    atomic { run producer(0); run producer(1); run destination() }
}
