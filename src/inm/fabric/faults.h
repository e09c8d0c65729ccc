/*
 * Fault injection. A specification is KIND[:TARGET][,KEY=VALUE...]:
 *
 *   down:PORT                 a link is broken
 *   flap:PORT,period=MS       it breaks and heals, half a period each (default 1000)
 *   retry:PORT,rate=N         its retry counter rises by N a second (default 100)
 *   ber:PORT,rate=N           N of 10^12 bits are wrong, as BIST finds (default 1000)
 *   lanes:PORT,lanes=N        it runs with N lanes
 *   swap:PORT,with=PORT       two fibres are exchanged
 *   unplug:PORT               a fibre is missing
 *   dead:PLACE                a chip, a switch (t3b17) or a rack's switches (r12) are off
 *   mute:CHIP                 a chip does not answer; its links work
 *   hot:CHIP,temp=DEGREES     a chip heats up (default 95)
 *   corrupt,ppm=N             of a million packets on a link N are damaged
 *   lose,ppm=N                of a million responses N are lost
 *   storm,rate=N              N retry reports a second from random ports
 *   replace:CHIP              the chip is replaced by another part, without tables
 *   random                    one of down, dead, hot at a random place
 *
 * For all: at=SECONDS (from now, default 0), for=SECONDS (default: until cleared). A PORT, CHIP or
 * PLACE may be "random", which the seed decides.
 */
#ifndef INM_FAULTS_H
#define INM_FAULTS_H

#include "fabric.h"

struct faults;

struct faults *faults_new(struct fabric *fab);
void faults_free(struct faults *faults);

/** @return The fault's number from 1 on, or -1 with `error` set. `now` is CLOCK_MONOTONIC, ns. */
int faults_add(struct faults *faults, const char *spec, uint64_t now, char *error, size_t size);

/** End a fault; 0 all. @return Whether there was one. */
bool faults_clear(struct faults *faults, int number);

/** Let time pass. @return Nanoseconds until it has to be called again at the latest. */
uint64_t faults_run(struct faults *faults, uint64_t now);

/** One line for each fault into `buf`. */
void faults_list(const struct faults *faults, char *buf, size_t size);

#endif
