/*
 * The end of a connection: END, claim, lease, quarantine (docs/protocol.md, section 13). A lends one
 * FIFO to B. When the lease has ended A lends the same memory to another peer (`owner` is 2). Either
 * side may end the connection at any step, B may be killed, and the connection of the NIC from A to
 * B may break while B lives. A also announces one send unit, and B fetches the unit by a Get. The unit
 * belongs to the lease, too.
 *
 * The first choice decides about the NIC:
 *  - mapped: B stores into the FIFO and into the claim word by pointers.
 *  - ordered: B's puts and messages go one way, in order. B's END claims, too.
 *  - else: B's END may overtake its puts. The claim follows the puts. A full queue loses messages,
 *    data lies in the entry of the event queue until the owner takes it, and closing A's interface
 *    ends the NIC's connection.
 *
 * Checked: each write and the Get find the memory with its borrower (owner is 1). When nothing goes on any more,
 * accepted = delivered, or a side was told; and the lease has ended.
 *
 * mutant RESEND=0 END is sent once, and a full queue loses it
 * mutant BOTH_WAYS=0 the NIC calls a peer gone whose frames are still on their way
 * mutant SNAPSHOT=0 the memory is used again before all that had arrived is taken
 * mutant LATE_IS_ERROR=0 a connection that is drained until its time is over ends well
 * mutant EPOCH=0 a connection does not fail with the NIC's connection, if nothing is in flight
 * mutant PAUSE_ENDS=0 a lease outlives the NIC's connection, which ended when the interface closed
 * mutant CLAIM_FOLLOWS=0 the claim may overtake puts
 * mutant END_CLAIMS_ORDERED=0 END claims also where it may overtake puts
 * mutant CLAIM_AFTER_GETS=0 B claims while its Get is running
 */
#ifndef CLAIM_AFTER_GETS
#define CLAIM_AFTER_GETS 1
#endif
#ifndef RESEND
#define RESEND 1
#endif
#ifndef BOTH_WAYS
#define BOTH_WAYS 1
#endif
#ifndef SNAPSHOT
#define SNAPSHOT 1
#endif
#ifndef LATE_IS_ERROR
#define LATE_IS_ERROR 1
#endif
#ifndef EPOCH
#define EPOCH 1
#endif
#ifndef PAUSE_ENDS
#define PAUSE_ENDS 1
#endif
#ifndef CLAIM_FOLLOWS
#define CLAIM_FOLLOWS 1
#endif
#ifndef END_CLAIMS_ORDERED
#define END_CLAIMS_ORDERED 1
#endif

#define MESSAGES 2

mtype = { OPEN, DRAINING, OVER, PUT, CLAIM, END, NOISE };

bool mapped = false, ordered = false;
byte owner = 1, word = 0;
chan wire = [3] of { mtype };
chan eq   = [2] of { mtype };
chan mpq_b = [1] of { mtype, byte };
chan mpq_a = [1] of { mtype };
byte ring = 0;                     /* mapped: messages in slots */
mtype a = OPEN, b = OPEN;
byte accepted = 0, delivered = 0;
bool alive = true, gone = false, cut = false, up = true, refused = false, chosen = false;
bool a_closed = false, b_closed = false, a_told = false, b_error = false;
bool quarantine = false, done = false, claimed = false, end_claims = false;
bool getting = false, got = false; /* B's Get */

/* B writes or reads. Data of an event is placed when the owner takes the event, else when the NIC has it. */
#define ACCESS assert(owner == 1)
#define loses (!mapped && !ordered)

#if CLAIM_AFTER_GETS
#define may_claim (!getting)
#else
#define may_claim true
#endif

/* A takes an event: its data is placed now */
inline take_event() {
    eq?PUT;
    if
    :: loses -> ACCESS
    :: else
    fi
}

active proctype B()
{
    byte rx;
    bool mortal = false, stays = false;

    d_step { chosen };
    if :: mortal = true :: skip fi;
    if :: stays = true :: skip fi;
end:
    do
    :: mapped && alive && b == OPEN && accepted < MESSAGES ->
       if
       :: ACCESS; d_step { ring++; accepted++ }
       :: mortal -> alive = false
       :: mortal -> ACCESS; alive = false           /* killed before the word */
       :: mortal -> ACCESS; ring++; alive = false
       fi
    :: d_step { !mapped && alive && b == OPEN && accepted < MESSAGES && nfull(wire) ->
                wire!PUT; accepted++ }
    :: d_step { alive && up && b == OPEN && !got -> getting = true; got = true }
    :: d_step { alive && refused && b == OPEN -> b = OVER; b_error = true } /* error request */
#if EPOCH
    :: d_step { !mapped && alive && !up && b == OPEN -> b = OVER; b_error = true }
#endif
    :: d_step { alive && !stays && b == OPEN -> b = OVER; b_closed = true }; /* closes, after END */
       if
       :: mapped && nfull(mpq_a) -> d_step {
             mpq_a!END;
             if :: may_claim -> end_claims = true; claimed = true :: else fi }
       :: ordered && nfull(wire) -> d_step {
             wire!END;
             if :: may_claim -> end_claims = true; claimed = true :: else fi }
       :: loses && nfull(mpq_a) ->
          d_step {
             mpq_a!END;
#if !END_CLAIMS_ORDERED
             end_claims = true; claimed = true;
#endif
          }
       :: loses && full(mpq_a) -> skip
       fi
    :: alive && mpq_b?[NOISE, _] -> mpq_b?NOISE, _
    :: alive && mpq_b?[END, _] -> d_step {
          mpq_b?END, rx;
          if
          :: b == OPEN -> b = OVER; if :: rx != accepted -> b_error = true :: else fi
          :: else                         /* never answered */
          fi }
    :: alive && b == OVER && !claimed && may_claim ->
       if
       :: mapped -> d_step { word = 1; claimed = true }
       :: !mapped && nfull(wire) -> d_step { wire!CLAIM; claimed = true }
       fi
    :: alive && mortal -> alive = false; break
    od
}

/* What A's NIC carries out for B, and what it says of B */
active proctype NIC()
{
    bool noisy = false, cuts = false;

    if
    :: mapped = true
    :: ordered = true
    :: skip
    fi;
    if :: !mapped -> cuts = true :: skip fi;
    chosen = true;
end:
    do
#if !CLAIM_FOLLOWS
    :: wire??[CLAIM] -> d_step { wire??CLAIM; word = 1 }
#endif
    :: d_step { up && wire?[PUT] && nfull(eq) -> wire?PUT;
                if :: !loses -> ACCESS :: else fi;
                eq!PUT }
    :: d_step { getting && up && (alive || !mapped) -> ACCESS; getting = false }
    :: d_step { getting && (!up || (mapped && !alive)) -> getting = false } /* fails */
    :: d_step { up && wire?[CLAIM] -> wire?CLAIM; word = 1 }
    :: d_step { up && wire?[END] && nfull(mpq_a) -> wire?END; mpq_a!END }
    :: d_step { (!alive || !up) && wire?[PUT] -> wire?PUT; refused = true }  /* never left the dead */
    :: d_step { (!alive || !up) && wire?[CLAIM] -> wire?CLAIM }              /* host, or refused */
    :: d_step { (!alive || !up) && wire?[END] -> wire?END }
    :: d_step { !noisy && nfull(mpq_b) -> mpq_b!NOISE(0); noisy = true }
    :: cuts && !cut -> cut = true
    :: d_step { (cut || !alive) && !gone ->
#if BOTH_WAYS
                up = false;
#endif
                gone = true }
    :: d_step { !mapped && a_closed && up -> up = false } /* the receiver is gone */
    od
}

active proctype A()
{
    byte rx, last, n;
    bool due = false, end_came = false;

    d_step { chosen };
end:
    do
    :: d_step { a != OVER && eq?[PUT] -> take_event(); delivered++ }
    :: d_step { a == OVER && eq?[PUT] -> take_event() }             /* unknown VC: dropped */
    :: d_step { a != OVER && ring > 0 -> ring--; delivered++ }
    :: d_step { a == OPEN -> a = OVER; rx = delivered; due = true; quarantine = true;
                a_closed = true }
    :: d_step { a == OPEN -> a = OVER; rx = delivered; due = true; quarantine = true;
                a_told = true }                                     /* fails alone */
    :: d_step { mpq_a?[END] -> mpq_a?END; end_came = true;
                if :: a == OPEN -> a = DRAINING; last = accepted :: else fi }
    :: d_step { a == OPEN && gone -> a = DRAINING; last = delivered + len(eq) + ring; a_told = true }
    :: d_step { a == DRAINING && delivered >= last -> a = OVER; quarantine = true }
    :: d_step { a == DRAINING -> a = OVER; quarantine = true;       /* one second */
#if LATE_IS_ERROR
         a_told = true
#endif
         }
    :: d_step { due && nfull(mpq_b) -> mpq_b!END(rx); due = false }
    :: d_step { due && full(mpq_b) && loses -> due = false }
#if RESEND
    :: quarantine && !done && !due && alive && b == OPEN && empty(mpq_b) -> due = true
#endif
    :: quarantine && !done && (word == 1 || gone || (end_came && end_claims)
#if PAUSE_ENDS
         || !up
#endif
         ) ->
#if SNAPSHOT
       n = len(eq);
       do
       :: n > 0 -> d_step { take_event(); n-- }
       :: n == 0 -> break
       od;
#endif
       skip;
       d_step { owner = 2; done = true }
    od
}

active proctype Check()
{
end:
    timeout ->
    assert(!alive || accepted == delivered || b_error || (b_closed && (a_closed || a_told)));
    assert(done)
}
