/*
 * The client of a request: its address and its session. Behind a trusted proxy the client's address
 * and name come from headers of the proxy.
 */
#ifndef INM_CLIENT_H
#define INM_CLIENT_H

#include "call.h"

/** Sets the address and the session of a call. `local`: over the Unix socket. */
void client_find(struct call *call, bool local);

/** Whether a request has the CSRF token of its session. */
bool client_csrf_ok(const struct call *call, bool local);

/** Whether the Host header names this server: pages of other names cannot use a browser. */
bool client_host_ok(const struct call *call);

#endif
