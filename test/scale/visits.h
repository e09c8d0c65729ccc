/*
 * Finds the connections that a call visits. While the recording is on, each new VC gets a separate
 * page. Access to a protected page raises a fault, which records the visit.
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
