/*
 * A word in shared memory that shows, without a system call, that a process still runs the same
 * program: the lock word of a robust mutex. A thread of the process, the *holder*, locks the mutex
 * once and never unlocks it. When the holder ends or calls exec(), the kernel replaces the holder's
 * thread id in the word by 0 (FUTEX_OWNER_DIED), however the holder ends.
 *
 * What a peer may conclude:
 *
 * - A thread id in the word: the pid belongs to the owner, and the owner has the same address space
 *   as before. The kernel marks the word before the holder leaves its address space, before exec()
 *   replaces the address space, and before the pid can belong to another process (exit_mm_release()
 *   and exec_mm_release() in Linux). A word that once lost the id gets an id again only in the same
 *   process.
 * - No thread id: nothing. The holder may have ended while other threads of the process run. The peer
 *   asks the kernel.
 *
 * A peer therefore reads the word *after* a copy. If the word has a thread id then, all copied bytes are from
 * the owner's memory. A look before a copy proves nothing, because the owner may end between the look and the
 * system call. The word does not say that no thread of the process stores any more. Only the
 * lock of the segment says that: shm/segment.h.
 *
 * The word does not replace the lock as proof of life. If the kernel kills a process for lack of
 * memory, it may free the holder's list of robust mutexes before it walks the list. Then the word
 * keeps the id. Other checks find such a death: the pid does not exist, and the lock is free.
 *
 * The mutex lies on a page of its own, in a file in memory without a name (common/memfd.h), and not
 * in the segment:
 *
 * - The holder's list of robust mutexes leads through the mutex, so the page stays mapped as long as
 *   the process lives. Any thread may close an endpoint and unmap its segment, but only the holder
 *   can unlock.
 * - libc follows the pointers in the mutex when the holder locks another robust mutex. The file is
 *   sealed against stores of other processes, which map the page for reading.
 *
 * Peers open the file when they first copy private memory. A child of fork() has an empty list, does
 * not inherit the page, and makes its own. vfork() and posix_spawn() change nothing.
 *
 * The word is published only if the kernel's list of the holder begins with the mutex. An emulator may
 * lack such lists, and a program may have replaced the list. Then copies ask the kernel, as they do
 * after the end of the holder.
 */
#ifndef GLEX_ROBUST_H
#define GLEX_ROBUST_H

#include "core/endpoint.h"

/** Enters in a header where the word of this process is, or leaves the fields 0. Locks the mutex in
 *  this thread unless another thread holds it. The caller holds the lock that fork() takes, too. */
void glex_robust_publish(struct glex_segment_header *hdr);

/** In a child of fork(). */
void glex_robust_fork(void);

/** Whether a peer's word has a thread id. The first call for a peer maps the word. */
bool glex_robust_is_held(const struct glex_endpoint *ep, struct glex_peer *peer);

/** Unmaps the word of a peer. */
void glex_robust_unmap(struct glex_peer *peer);

#endif
