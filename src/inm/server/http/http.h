/* The HTTP server. */
#ifndef INM_HTTP_H
#define INM_HTTP_H

#include "inm/server/core/inmd.h"

struct http;

/** Starts to listen. @return NULL, after a line that says why. */
struct http *http_start(struct inmd *d);
void http_stop(struct http *http);

#endif
