/*
 * Credits of an open connection, in both directions (src/uct/glex/conn/glex_ctl.c, vc/glex_mpq.c;
 * docs/protocol.md, sections 5 and 6): windows that grow, totals in each header, CTL with CREDIT, and
 * ACK. Side 0 sends six data messages, and side 1 six or none, whenever their programs like. A side
 * sleeps as long as nothing arrives and nothing is due. One message may overtake another one.
 *
 * Left out: FIFOs (credits.pml, fifo_arm.pml), further control flags, counters that wrap.
 *
 * Checked: the message queue has room for each message, that is, a window and one entry each for CTL
 * and ACK. When nothing goes on, all messages have arrived.
 *
 * mutant TELL=0 no CTL returns credits
 * mutant HALF=0 a CTL returns credits when more than the window is owed
 * mutant ONE_CTL=0 a CTL is sent before the last one is acknowledged
 * mutant SEND_ACK=0 only data carries acknowledgements
 * mutant WAITING=0 an acknowledgement does not send the credits that waited for it
 * mutant LARGER=0 a header that comes late takes credits back
 * mutant LIMIT=0 a side sends without credits
 * mutant TAKE=0 a window grows without entries of the pool
 */
#ifndef TELL
#define TELL 1
#endif
#ifndef HALF
#define HALF 1
#endif
#ifndef ONE_CTL
#define ONE_CTL 1
#endif
#ifndef SEND_ACK
#define SEND_ACK 1
#endif
#ifndef WAITING
#define WAITING 1
#endif
#ifndef LARGER
#define LARGER 1
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef TAKE
#define TAKE 1
#endif

#define MESSAGES 6
#define LARGEST  2 /* window: 1, and 1 more from the pool */
#define ENTRIES  (LARGEST + 2)

mtype = { DATA, CTL, ACK };

typedef Vc {
    byte sent, limit = 1;         /* uct_glex_credit_tx_t */
    byte rcvd, window = 1;        /* uct_glex_credit_rx_t */
    byte advertised = 1;
    bool ctl, in_flight, ack_due; /* CREDIT is to be sent, a CTL is not acknowledged */
}
Vc vc[2];
byte pool[2] = LARGEST - 1;
byte to_send[2] = MESSAGES;
bool may_overtake = true;
/* To side i: type, limit, flag ACK, flag MORE. The entries of both sides. */
chan mpq[2] = [6] of { mtype, byte, bool, bool };

inline send(i, type, more) {
    assert(len(mpq[1 - i]) < ENTRIES);
    mpq[1 - i]!type, vc[i].rcvd + vc[i].window, vc[i].ack_due, more;
    vc[i].advertised = vc[i].rcvd + vc[i].window;
    vc[i].ack_due = false
}

#define owed(i)      (vc[i].rcvd + vc[i].window - vc[i].advertised)
#define must_tell(i) (owed(i) > 0 && (HALF -> owed(i) >= (vc[i].window + 1) / 2 : owed(i) > vc[i].window))

/* uct_glex_ctl_send_due() */
inline progress(i) {
    vc[i].ctl = vc[i].ctl || (TELL && must_tell(i));
    if
    :: vc[i].ctl && !(vc[i].in_flight && ONE_CTL) ->
       send(i, CTL, false);
       vc[i].ctl = false;
       vc[i].in_flight = true
    :: !(vc[i].ctl && !(vc[i].in_flight && ONE_CTL)) && vc[i].ack_due && SEND_ACK -> send(i, ACK, false)
    :: else
    fi
}

/* The receiver of MORE enlarges its window by entries of the pool */
inline grow(i) {
    if
    :: pool[i] > 0 -> pool[i]--; vc[i].window++
    :: pool[i] == 0 && !TAKE && vc[i].window < LARGEST + 2 -> vc[i].window++
    :: else
    fi
}

proctype Side(byte i)
{
    mtype type;
    byte limit;
    bool ack, more;

end:
    do
    :: d_step {
          mpq[i]?[_, _, _, _] ->
          mpq[i]?type, limit, ack, more;
          if
          :: ack -> vc[i].in_flight = false
          :: else
          fi;
          if
          :: limit > vc[i].limit || !LARGER -> vc[i].limit = limit
          :: else
          fi;
          if
          :: type == DATA ->
             assert(vc[i].rcvd < to_send[1 - i]);
             vc[i].rcvd++;
             if :: more -> grow(i) :: else fi
          :: type == CTL -> vc[i].ack_due = true
          :: else
          fi;
          if
          :: !WAITING && type == ACK
          :: else -> progress(i)
          fi;
          type = 0; limit = 0; ack = false; more = false
       }
    :: d_step {
          vc[i].sent < to_send[i] && (vc[i].sent < vc[i].limit || !LIMIT) ->
          vc[i].sent++;
          send(i, DATA, vc[i].limit - vc[i].sent <= 1)
       }
    :: d_step { may_overtake && len(mpq[i]) > 1 ->
          may_overtake = false;
          mpq[i]?type, limit, ack, more;
          mpq[i]!type, limit, ack, more;
          type = 0; limit = 0; ack = false; more = false }
    od
}

init
{
    atomic {
        if :: to_send[1] = 0 :: skip fi;
        run Side(0);
        run Side(1)
    };
end:
    timeout -> assert(vc[1].rcvd == to_send[0] && vc[0].rcvd == to_send[1])
}
