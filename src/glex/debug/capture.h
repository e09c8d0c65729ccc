/*
 * Capture of sent requests: GLEX_CAPTURE. A separate link before the link that executes requests,
 * so programs without a capture have no cost. docs/commatrix.md describes the packets.
 */
#ifndef GLEX_CAPTURE_H
#define GLEX_CAPTURE_H

#include "base/common.h"
#include "core/link.h"

struct glex_endpoint;
struct glex_capture;

extern const struct glex_link glex_capture_link;

/** Set up ep->capture, if a capture is asked for. A file that cannot be written is an error. */
glex_ret_t glex_capture_init(struct glex_endpoint *ep);

/** Write the contents of the endpoint's buffer. Any thread, while no thread posts. */
void glex_capture_flush(struct glex_endpoint *ep);

/** In a child of fork(): another thread may have had the file's lock. */
void glex_capture_fork(void);

/** The same, and free it. */
void glex_capture_cleanup(struct glex_endpoint *ep);

#endif
