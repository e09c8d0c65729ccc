/*
 * The collector's data may not take the last memory of the process: TLS connections, answers over
 * HTTP and SQLite need some of it. Code that keeps data asks reserve_allows() before it allocates.
 * If the kernel would not give the process the reserve any more, the answer is no: new data is
 * refused and counted, and the rest goes on.
 *
 * The question is about limits that make an allocation fail: ulimit -d and -v, strict overcommit. A
 * limit of a control group kills the process, so --series has to fit it.
 */
#ifndef UDMON_COLLECTOR_RESERVE_H
#define UDMON_COLLECTOR_RESERVE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    RESERVE_BYTES = 16 << 20,
    RESERVE_SERIES_BYTES = 512 /* of each series, for the text of /metrics */
};

/** Whether data may take this many bytes. By any thread. */
bool reserve_allows(size_t bytes);
/** Sets the number of series. */
void reserve_set_series(size_t count);

#endif
