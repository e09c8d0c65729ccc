/*
 * Shares of a pool (src/uct/glex/base/glex_share.h, chan/glex_rx.c), and FIFOs that are lent or in
 * leases (chan/glex_er_lend.c; docs/protocol.md, section 14). Two peers are stopped. They take what
 * they may, and return nothing. Their connections may fail, and the leases keep what the peers hold.
 * New connections of the stopped peers then take more. Two living peers take elements at any time and
 * return them at any time. The first choice decides about the pool: elements by share, or FIFOs.
 *
 * Left out: missing memory, and idle FIFOs that are revoked.
 *
 * Checked: the living peers finish their work, also if the stopped peers never claim. A stopped peer
 * holds at most half of the pool, and the pool grows by one element for each connection at most. A
 * living peer is refused a FIFO only if all FIFOs are lent or the leases hold as many.
 *
 * mutant FIRST=0 the first element of a connection is not always granted
 * mutant HALF=0 a connection holds more than is free
 * mutant TELL=0 nobody tries again when an element comes back
 * mutant LEASE=0 what a lease holds counts
 * mutant BOUND=0 leases keep any number of FIFOs
 */
#ifndef FIRST
#define FIRST 1
#endif
#ifndef HALF
#define HALF 1
#endif
#ifndef TELL
#define TELL 1
#endif
#ifndef LEASE
#define LEASE 1
#endif
#ifndef BOUND
#define BOUND 1
#endif

#define MAX     2
#define STOPPED 2
#define VCS     4
#define WORK    3 /* operations of each living peer */
#define FAILS   5 /* connections of each stopped peer that fail */

bool is_fifo, claims;
byte held[VCS], used, leased;
bool waits[VCS]; /* in iface->sr.rx_wait */
byte finished;

#define share_allows(n) ((FIRST && n == 0) || (used < MAX && (!HALF || n < MAX - used)))
#define fifo_allows(n)  (n == 0 && used < MAX && (!BOUND || used + leased < 2 * MAX))
#define allows(n)       ((is_fifo && fifo_allows(n)) || (!is_fifo && share_allows(n)))

inline take(i) {
    held[i]++;
    used++;
    assert(!is_fifo || used + leased <= 2 * MAX);
    assert(is_fifo || used <= MAX + VCS);
    assert(is_fifo || i >= STOPPED || held[i] <= (MAX + 1) / 2)
}

/* uct_glex_iface_recheck() */
inline tell() {
    if
    :: TELL -> waits[2] = false; waits[3] = false
    :: else
    fi
}

proctype Stopped(byte i)
{
    byte fails;

end:
    do
    :: atomic { allows(held[i]) -> take(i) }
    :: d_step { fails < FAILS && held[i] > 0 ->
          fails++;
          leased = leased + held[i];
          used = used - (LEASE -> held[i] : 0);
          held[i] = 0;
          tell() }
    :: d_step { claims && leased > 0 -> leased--; used = used - (LEASE -> 0 : 1); tell() }
    od
}

proctype Living(byte i)
{
    byte left = WORK;

    do
    :: atomic { left > held[i] && !waits[i] ->
          if
          :: allows(held[i]) -> take(i)
          :: !allows(held[i]) && !is_fifo -> waits[i] = true
          :: !allows(held[i]) && is_fifo ->
             assert(held[i] > 0 || leased >= MAX ||
                    held[0] + held[1] + held[2] + held[3] == MAX);
             left-- /* by SR */
          fi }
    :: d_step { held[i] > 0 -> held[i]--; used--; left--; tell() }
    :: left == 0 -> break
    od;
    finished++
}

init
{
    atomic {
        if :: is_fifo = true :: skip fi;
        if :: claims = true :: skip fi;
        run Stopped(0);
        run Stopped(1);
        run Living(2);
        run Living(3)
    };
end:
    timeout -> assert(finished == VCS - STOPPED)
}
