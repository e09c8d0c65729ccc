/* scale: common declarations of the program's files. */
#ifndef TEST_SCALE_SCALE_H
#define TEST_SCALE_SCALE_H

#include <stddef.h>
#include <stdint.h>

/* One subject each. They print figures as lines "name value". */
void scale_endpoints(unsigned count);
void scale_connections(unsigned count);
void scale_promotion(const char *mode);
void scale_storm(unsigned senders, double seconds);

/** Bytes of heap in use: the memory that malloc() has returned, and its overhead. */
size_t heap_used(void);

/** Bytes of shared memory of the NIC's that this process has touched. */
size_t shared_used(void);

/** Seconds of processor time of this thread. Costs a system call. */
double processor_time(void);

/** Progress on standard error, where that is a terminal. */
void progress_note(const char *what, uint64_t done, uint64_t of);

void figure(const char *name, double value);

#endif
