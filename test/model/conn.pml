/*
 * The life of a connection (src/uct/glex/conn; docs/protocol.md, sections 4, 5 and 13): CONNECT,
 * ACCEPT, END, lent FIFOs, and data in both directions. lease.pml has the details of claims on each
 * kind of NIC. window.pml has credits, windows and sleep.
 *
 * Side 0 is one interface. Side 1 is an interface (uuid 1) that may close, and then a successor
 * (uuid 2) at the same address. Each side makes connections, also side 0 to the closed interface,
 * and one side fails one connection by itself. On a NIC that loses messages, one CONNECT or
 * END may be lost. The event queue has no order with the message queue. Each side sends one
 * message for each connection: by an MP, or through the FIFO and by an event.
 *
 * Left out: killed peers and the time limits of lease.pml, the control flags except GRANT, the limit
 * of the message queue, and the loss of an END that is sent after a claim. Names are never used
 * twice. Side 0 or side 1 lends one FIFO, or nobody does on a NIC that loses messages.
 *
 * Checked at each step: a connection ends only if the peer's connection is over or is not its
 * partner. A write into a FIFO finds the FIFO lent to the writer. Checked when nothing goes on:
 * open connections name each other, no connection waits, all leases have ended, and accepted
 * messages are delivered or reported.
 *
 * mutant GONE_ID=0 a CONNECT does not name the connection that its sender gave up
 * mutant CONNECT_AGAIN=0 a lost CONNECT is not sent again after the peer's CONNECT arrived
 * mutant CONNECT_LOST=0 a lost CONNECT is not sent again
 * mutant BY_UUID=0 a refused CONNECT ends a connection to another interface at the address
 * mutant NAMED_END=0 an END is for the newest connection of the address, whatever names END has
 * mutant CHECK_UUID=0 an interface accepts a CONNECT for an earlier interface
 * mutant REFUSE=0 nobody answers a message or CONNECT for an unknown connection
 * mutant ANSWER_OVER=0 a lease that is claimed does not answer messages for its connection
 * mutant ACCEPT_NAMED=0 an ACCEPT of another connection than that of the peer's CONNECT is ignored
 * mutant TELL=0 a failed connection sends no END
 * mutant RESEND=0 a lost END is not sent again
 * mutant RX_SEQ=0 END does not tell how many messages were delivered
 * mutant LAST_SEQ=0 END does not wait for the messages before END
 * mutant TX_SEQ=0 messages after the peer's END do not count as lost
 * mutant CLAIM_LATE=0 a side claims while its connection can still write into the FIFO
 * mutant CLAIM_ID=0 a claim is for the newest lease of the address
 * mutant LEASE=0 a FIFO is lent again when its connection is over, before the claim
 * mutant PAY=0 nobody claims after the end of its own connection
 */
#ifndef GONE_ID
#define GONE_ID 1
#endif
#ifndef CONNECT_AGAIN
#define CONNECT_AGAIN 1
#endif
#ifndef CONNECT_LOST
#define CONNECT_LOST 1
#endif
#ifndef BY_UUID
#define BY_UUID 1
#endif
#ifndef NAMED_END
#define NAMED_END 1
#endif
#ifndef CHECK_UUID
#define CHECK_UUID 1
#endif
#ifndef REFUSE
#define REFUSE 1
#endif
#ifndef ANSWER_OVER
#define ANSWER_OVER 1
#endif
#ifndef ACCEPT_NAMED
#define ACCEPT_NAMED 1
#endif
#ifndef TELL
#define TELL 1
#endif
#ifndef RESEND
#define RESEND 1
#endif
#ifndef RX_SEQ
#define RX_SEQ 1
#endif
#ifndef LAST_SEQ
#define LAST_SEQ 1
#endif
#ifndef TX_SEQ
#define TX_SEQ 1
#endif
#ifndef CLAIM_LATE
#define CLAIM_LATE 1
#endif
#ifndef CLAIM_ID
#define CLAIM_ID 1
#endif
#ifndef LEASE
#define LEASE 1
#endif
#ifndef PAY
#define PAY 1
#endif

/* States of a VC, in the order of enum uct_glex_vc_state. A VC that was left is OPEN with `left`. */
#define WAIT_MPQ    0
#define CONNECTING  1
#define ACCEPTING   2
#define OPEN        3
#define PEER_CLOSED 4
#define FAILED      5
#define NONE        6 /* no VC has this name yet */

mtype = { CONNECT, ACCEPT, GRANT, DATA, ORDERLY, FAILURE, UNKNOWN, REFUSED };

typedef Vc {
    byte state = NONE;
    byte peer;         /* the peer's name of the VC. Before it is known: the VC that the peer had */
    byte uuid;         /* side 0: of the peer. Side 1: of the own interface */
    byte sent, rcvd, early;
    byte last, heard;  /* `left`: last_seq and rx_seq of END */
    bool known;        /* `peer` is the name of this VC */
    bool left, stale, dead, lost, told;
    bool claimed, again, granted;
    byte fifo;         /* the peer's name of the VC that lent us its FIFO, 0: none */
    byte debt;         /* the peer's lease that we owe a claim */
    mtype end;         /* the VC is over and has a lease: ORDERLY or FAILURE. 0: no lease */
    bool released, due;
    bool tell;         /* END is due because the peer does not know the end: also after the claim */
}

#define NAMES 4        /* of a side, from 1 on; 0 is no name */
Vc vc[10];
#define V(side, name) vc[(side) * 5 + (name)]

byte names[2];         /* given, of each side */
byte lender;          /* the side that lends a FIFO; 2: none */
byte owner[2];         /* to which VC of ours our FIFO is lent; 0: to none */
byte inc = 1;          /* uuid of the interface at side 1 */
bool may_close, closing, up = true, closed, loses;
byte failures, losses = 1;

/* To side i: type, receiver's name, sender's name, uuid of side 1, gone_id or rx_seq, last_seq,
 * flag CLAIMS */
chan mpq[2] = [8] of { mtype, byte, byte, byte, byte, byte, byte };
chan eq[2] = [2] of { byte }; /* the receiver's name */

#define is_over(v)  (v.state >= PEER_CLOSED)
#define has_room(i) (len(mpq[1 - (i)]) < 4 || ((i) == 0 && !up))
#define works(i)    ((i) == 0 || (up && !closing))
#define may_act(i, k) (works(i) && is_here(i, k))
#define may_end(i, k) ((i == 0 || up) && V(i, k).end != 0 && (!V(i, k).released || V(i, k).tell))
/* The NIC knows that the interface with this uuid is closed */
#define is_gone(i, k) ((i) == 0 && closed && V(i, k).uuid == 1)
#define is_here(i, k) ((k) > 0 && (k) <= names[i] && V(i, k).state != NONE && ((i) == 0 || V(i, k).uuid == inc))
#define MPQ(i) mpq[1 - (i)]
/* Whether the end of a VC is right: the peer's VC is over, or belongs to another VC of ours */
#define is_blamed(i, k) (is_over(V(1 - (i), V(i, k).peer)) || V(1 - (i), V(i, k).peer).peer != (k))

/* ---- parts of steps. All run in a d_step: their variables are no part of the state ---- */
hidden byte n;         /* result of find() and get() */
hidden byte j;
hidden mtype kind;
hidden mtype type;     /* the message that arrived */
hidden byte to, from, u, x, last;
hidden byte claims;

inline find(i, u) {
    n = names[i];
    do
    :: n > 0 && V(i, n).uuid != (i == 0 -> u : inc) -> n--
    :: else -> break
    od
}

inline send(i, what, dest, own, uuid_, x_, last_, claims_) {
    if
    :: i == 1 || up -> MPQ(i)!what, dest, own, uuid_, x_, last_, claims_
    :: else            /* no receiver: the NIC refuses the message */
    fi
}

inline claim(i, name) {
    j = name;
#if !CLAIM_ID
    j = names[1 - i];
#endif
    V(1 - i, j).released = true
}

/* uct_glex_vc_teardown() */
inline teardown(i, k, new_state, how) {
    if
    :: !is_over(V(i, k)) ->
       V(i, k).end = how;
       V(i, k).due = true;
       V(i, k).released = V(i, k).claimed || is_gone(i, k);
#if !TELL
       V(i, k).due = (how == ORDERLY);
#endif
       if
       :: V(i, k).debt != 0 ->
#if PAY
          claim(i, V(i, k).debt);
#endif
          V(i, k).debt = 0
       :: else
       fi;
#if !LEASE
       if :: owner[i] == k -> owner[i] = 0 :: else fi;
#endif
       V(i, k).fifo = 0
    :: else
    fi;
    V(i, k).state = new_state;
    V(i, k).left = false;
    V(i, k).dead = false;
    V(i, k).again = false;
    V(i, k).stale = false;
    V(i, k).claimed = false;
    V(i, k).granted = false;
    V(i, k).lost = false;
    V(i, k).early = 0;
    V(i, k).last = 0;
    V(i, k).heard = 0
}

inline fail(i, k) {
    if
    :: V(i, k).state != FAILED -> teardown(i, k, FAILED, FAILURE); V(i, k).told = true
    :: else
    fi
}

/* uct_glex_vc_get(): leaves the VC in n */
inline get(i, u) {
    find(i, u);
    if
    :: n == 0 || V(i, n).state == FAILED ->
       assert(names[i] < NAMES);
       names[i]++;
       V(i, names[i]).state = WAIT_MPQ;
       V(i, names[i]).uuid = (i == 0 -> u : inc);
       if :: n != 0 -> V(i, names[i]).peer = V(i, n).peer :: else fi;
       n = names[i]
    :: else
    fi
}

/* The peer's name is known: messages that came before are delivered */
inline open(i, k) {
    V(i, k).state = OPEN;
    V(i, k).rcvd = V(i, k).rcvd + V(i, k).early;
    V(i, k).early = 0
}

inline name_peer(i, k, from) { V(i, k).peer = from; V(i, k).known = true }

inline refuse(i, name) {
#if REFUSE
    send(i, UNKNOWN, 0, name, inc, 0, 0, true)
#else
    skip
#endif
}

/* A message for a VC that is over, or unknown */
inline unaware(i, k) {
    if
    :: is_here(i, k) && V(i, k).end != 0 -> V(i, k).due = true; V(i, k).tell = ANSWER_OVER
    :: else -> refuse(i, k)
    fi
}

/* END of VC k */
inline say_end(i, k) {
    V(i, k).due = false;
    V(i, k).tell = false;
    kind = V(i, k).end;
    j = (V(i, k).known -> V(i, k).peer : 0);
    send(i, kind, j, k, V(i, k).uuid, V(i, k).rcvd, V(i, k).sent, !loses)
}

inline recv_connect(i) {
    if
    :: i == 1 && u != inc && CHECK_UUID ->
#if REFUSE
       send(i, REFUSED, 0, 0, u, 0, 0, true)
#endif
       skip
    :: else ->
       if
       :: i == 0 ->
          j = names[0];
          do
          :: j > 0 -> if :: V(0, j).uuid < u && !is_over(V(0, j)) -> V(0, j).dead = true :: else fi; j--
          :: else -> break
          od
       :: else
       fi;
       find(i, u);
       if
       :: n > 0 && V(i, n).state >= ACCEPTING && V(i, n).state <= PEER_CLOSED && V(i, n).peer != from ->
          assert(is_blamed(i, n));
          fail(i, n)
       :: n > 0 && V(i, n).state == CONNECTING && n == x -> fail(i, n)
       :: else
       fi;
       get(i, u);
       if
       :: V(i, n).state == CONNECTING -> name_peer(i, n, from); open(i, n)
       :: V(i, n).state == WAIT_MPQ -> name_peer(i, n, from); V(i, n).state = ACCEPTING
       :: else
       fi
    fi
}

/* Whether an END is for the VC k: uct_glex_ctl_is_end_of() */
#define names_match(i, k) \
    ((k) == (to) -> V(i, k).peer == (from) || V(i, k).state == CONNECTING || (from) == 0 \
                 : ((from) != 0 -> V(i, k).peer == (from) && V(i, k).state >= ACCEPTING \
                                : (to) == 0 && V(i, k).state == CONNECTING && \
                                  (!BY_UUID || V(i, k).uuid == (u))))

inline recv_end(i) {
    n = names[i];
    do
    :: n > 0 && !(is_here(i, n) && (!NAMED_END || names_match(i, n))) -> n--
    :: else -> break
    od;
    if                 /* uct_glex_debt_add() */
    :: type != UNKNOWN && type != REFUSED && (n == 0 || is_over(V(i, n)) || !CLAIM_LATE) -> claim(i, from)
    :: type != UNKNOWN && type != REFUSED && n != 0 && !is_over(V(i, n)) && CLAIM_LATE ->
       V(i, n).debt = from
    :: else
    fi;
    if
    :: n == 0 -> skip
    :: else ->
       if
       :: claims -> V(i, n).claimed = true; if :: V(i, n).end != 0 -> V(i, n).released = true :: else fi
       :: else
       fi;
       if
       :: is_over(V(i, n)) || V(i, n).left -> skip
       :: else ->
          /* no other end but that of the peer's VC, or of its interface */
          assert(type == REFUSED -> V(i, n).uuid != inc : !V(i, n).known || is_blamed(i, n));
          if
          :: V(i, n).state == OPEN && (type == UNKNOWN || (RX_SEQ && x != V(i, n).sent)) ->
             V(i, n).lost = true
          :: else
          fi;
          if
          :: V(i, n).state == OPEN && type != ORDERLY -> fail(i, n)
          :: else ->
             V(i, n).left = true;
             V(i, n).last = last;
             V(i, n).heard = V(i, n).sent;
             V(i, n).stale = (type != ORDERLY)
          fi
       fi
    fi
}

inline recv(i) {
    if
    :: type == CONNECT -> recv_connect(i)
    :: type == ORDERLY || type == FAILURE || type == UNKNOWN || type == REFUSED -> recv_end(i)
    :: else ->
       if
       :: !is_here(i, to) || is_over(V(i, to)) -> unaware(i, to)
       :: else ->
          if
          :: type == ACCEPT && V(i, to).state == CONNECTING -> name_peer(i, to, from); open(i, to)
          :: type == ACCEPT && V(i, to).state == OPEN && V(i, to).peer != from && ACCEPT_NAMED ->
             assert(is_blamed(i, to));
             V(i, to).peer = from;           /* END goes to the VC that sent ACCEPT */
             fail(i, to)                     /* the peer gave up the VC of its CONNECT */
          :: type == GRANT -> V(i, to).fifo = from
          :: type == DATA && V(i, to).state == OPEN -> V(i, to).rcvd++
          :: type == DATA && V(i, to).state != OPEN -> V(i, to).early++
          :: else
          fi
       fi
    fi
}

/* What VC k of side i, and its lease, may do. A lease of a closed interface goes on at the successor. */
proctype Life(byte i; byte k)
{
end:
    do
    :: d_step { may_act(i, k) && V(i, k).state == WAIT_MPQ && !V(i, k).left && has_room(i) ->
          V(i, k).state = CONNECTING;
          send(i, CONNECT, 0, k, V(i, k).uuid, GONE_ID * V(i, k).peer, 0, false);
          V(i, k).dead = V(i, k).dead || (i == 0 && !up) }
    :: d_step { may_act(i, k) && V(i, k).state == WAIT_MPQ && !V(i, k).left && loses && losses > 0 ->
          losses--;
          V(i, k).state = CONNECTING;
          V(i, k).again = CONNECT_LOST }     /* an error request is on its way */
    :: d_step { may_act(i, k) && V(i, k).state == CONNECTING && V(i, k).again ->
          V(i, k).state = WAIT_MPQ;
          V(i, k).again = false }
    :: d_step { may_act(i, k) && V(i, k).state == OPEN && V(i, k).again && has_room(i) ->
          V(i, k).again = false;
#if CONNECT_AGAIN
          send(i, CONNECT, V(i, k).peer, k, V(i, k).uuid, 0, 0, false)
#endif
       }
    :: d_step { may_act(i, k) && V(i, k).state == ACCEPTING && !V(i, k).left && has_room(i) ->
          open(i, k);
          send(i, ACCEPT, V(i, k).peer, k, inc, 0, 0, false) }
    :: d_step { may_act(i, k) && i == lender && V(i, k).state == OPEN && !V(i, k).left && !V(i, k).granted && owner[i] == 0 && has_room(i) ->
          owner[i] = k;
          V(i, k).granted = true;
          send(i, GRANT, V(i, k).peer, k, inc, 0, 0, false) }
       /* uct_glex_vc_close_left() */
    :: d_step { may_act(i, k) && V(i, k).left && (V(i, k).stale || V(i, k).rcvd == V(i, k).last || !LAST_SEQ) ->
          V(i, k).lost = V(i, k).lost || (TX_SEQ && V(i, k).heard != V(i, k).sent);
          if
          :: V(i, k).state == CONNECTING -> fail(i, k)
          :: else ->
             V(i, k).told = V(i, k).lost;    /* by the next message or flush */
             teardown(i, k, PEER_CLOSED, FAILURE)
          fi }
       /* the peer is gone, and its messages are taken from the queues */
    :: d_step { may_act(i, k) && V(i, k).dead && !eq[i]??[eval(k)] && empty(mpq[i]) -> fail(i, k) }
       /* uct_glex_vc_look() */
    :: d_step { may_act(i, k) && is_gone(i, k) && !is_over(V(i, k)) && !V(i, k).dead && !V(i, k).left ->
          V(i, k).dead = true }
       /* the program sends, or the connection fails for a reason of its own */
    :: d_step { may_act(i, k) && V(i, k).state == OPEN && V(i, k).sent == 0 && !V(i, k).dead && V(i, k).fifo == 0 && has_room(i) ->
          V(i, k).sent++;
          send(i, DATA, V(i, k).peer, 0, inc, 0, 0, false);
          V(i, k).dead = (i == 0 && !up) }
    :: d_step { may_act(i, k) && V(i, k).state == OPEN && V(i, k).sent == 0 && !V(i, k).dead && V(i, k).fifo != 0 && len(eq[1 - i]) < 2 ->
          assert(owner[1 - i] == V(i, k).fifo);
          V(i, k).sent++;
          if
          :: i == 1 || up -> eq[1 - i]!V(i, k).peer
          :: else -> V(i, k).dead = true    /* the ring for the armed FIFO fails */
          fi }
    :: d_step { may_act(i, k) && failures > 0 && (V(i, k).state == CONNECTING || V(i, k).state == OPEN) -> failures--; fail(i, k) }
       /* the interface closes: uct_glex_vc_destroy() */
    :: d_step { i == 1 && closing && is_here(i, k) && !is_over(V(i, k)) ->
          teardown(i, k, FAILED, ORDERLY);
          if
          :: has_room(i) -> say_end(i, k)
          :: else            /* the time of the goodbye is over */
          fi }
       /* the lease */
    :: d_step { (i == 0 || up) && V(i, k).end != 0 && V(i, k).released && !V(i, k).tell ->
          V(i, k).end = 0;
          V(i, k).due = false;
          V(i, k).released = false;
          if :: owner[i] == k -> owner[i] = 0 :: else fi }
    :: d_step { may_end(i, k) && V(i, k).due && has_room(i) -> say_end(i, k) }
    :: d_step { may_end(i, k) && V(i, k).due && !V(i, k).tell && loses && losses > 0 ->
          losses--;
          V(i, k).due = RESEND }
    :: d_step { may_end(i, k) && is_gone(i, k) -> V(i, k).released = true; V(i, k).tell = false }
    od
}

proctype Side(byte i)
{
    byte attempts = (i == 0 -> 2 : !may_close), k;

    atomic { for (k : 1 .. NAMES) { run Life(i, k) } };
end:
    do
    :: d_step { works(i) && len(mpq[1 - i]) < 8 && mpq[i]?[_, _, _, _, _, _, _] ->
          mpq[i]?type, to, from, u, x, last, claims;
          recv(i) }
    :: d_step { works(i) && eq[i]?[_] ->
          eq[i]?to;
          if
          :: !is_here(i, to) -> skip
          :: is_here(i, to) && is_over(V(i, to)) ->
             if :: V(i, to).end != 0 -> V(i, to).due = true; V(i, to).tell = ANSWER_OVER :: else fi
          :: is_here(i, to) && V(i, to).state == OPEN -> V(i, to).rcvd++
          :: else -> V(i, to).early++
          fi }
    :: d_step { works(i) && attempts > 0 -> attempts--; get(i, 1) }
    :: d_step { i == 0 && inc == 2 && attempts > 0 -> attempts--; get(0, 2) }
       /* side 1 closes, and has a successor */
    :: d_step { i == 1 && may_close && works(1) -> may_close = false; closing = true }
    :: d_step { i == 1 && closing ->
          n = names[1];
          do
          :: n > 0 && is_over(V(1, n)) ->
             /* no memory is left with the peer: nobody waits for a claim */
             if :: V(1, n).end != 0 && owner[1] != n -> V(1, n).end = 0; V(1, n).released = false; V(1, n).due = false; V(1, n).tell = false :: else fi;
             n--
          :: else -> break
          od;
          if
          :: n == 0 -> closing = false; up = false; closed = true
          :: else
          fi }
    :: d_step { i == 1 && !up -> inc = 2; up = true; attempts = 1 }
    od
}

inline check(i, k) {
    if
    :: V(i, k).state == NONE -> skip
    :: else ->
       assert(V(i, k).state >= OPEN && !V(i, k).left && !V(i, k).dead);
       assert(V(i, k).end == 0);
       n = V(i, k).peer;
       assert(V(i, k).state != OPEN || V(1 - i, n).state == OPEN && V(1 - i, n).peer == k);
       j = (V(i, k).known && V(1 - i, n).known && V(1 - i, n).peer == k -> V(1 - i, n).rcvd : 0);
       assert(V(i, k).sent == j || V(i, k).told || (i == 1 && V(i, k).uuid < inc && V(0, n).told))
    fi
}

init
{
    atomic {
        if
        :: failures = 1; loses = true; lender = 2
        :: may_close = true; lender = 1
        :: may_close = true
        :: failures = 1
        fi;
        run Side(0);
        run Side(1)
    }
end:
    timeout ->
    atomic {
        byte side, name;
        for (side : 0 .. 1) {
            for (name : 1 .. NAMES) { check(side, name) }
        }
    }
}
