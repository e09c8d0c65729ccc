/*
 * Which connections does a call look at? Each VC that is allocated while this is on gets a page of
 * its own, and a page that may not be touched tells by a fault that somebody did.
 */
#ifndef TEST_SCALE_VISITS_H
#define TEST_SCALE_VISITS_H

/** Before the first VC is made, for `count` VCs at most. */
void visits_begin(unsigned count);

/** From now on each VC that is read or written counts, once. */
void visits_watch(void);

/** How many were since visits_watch(). They can be touched freely from now on. */
unsigned visits_end(void);

#endif
