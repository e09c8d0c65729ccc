/* The emulator's sockets. */
#ifndef INM_SERVE_H
#define INM_SERVE_H

#include "fabric.h"
#include "faults.h"

struct serve;

/** Listen at a path. @return NULL, after a line that says why. */
struct serve *serve_open(struct fabric *fab, struct faults *faults, const char *path);

/** Serve until `*stop` is set, by a signal handler. */
void serve_run(struct serve *serve, const volatile int *stop);

void serve_close(struct serve *serve);

/** Send a command to a running emulator and print its answer. @return An exit status. */
int serve_control(const char *path, const char *command);

#endif
