/*
 * The control socket: a UNIX socket that only its owner may open. A client sends one line, a
 * command with its arguments; the answer is a line "json", "text" or "error MESSAGE", then the
 * rest, then the end of the connection.
 */
#ifndef MCSM_CTL_H
#define MCSM_CTL_H

#include "ctl/daemon.h"

#include <json-c/json.h>

typedef struct mcsm_ctl mcsm_ctl_t;

int mcsm_ctl_open(mcsm_daemon_t *daemon, mcsm_ctl_t **ctl_p);
void mcsm_ctl_close(mcsm_ctl_t *ctl);

/* Something happened at one of the control's file descriptors. */
void mcsm_ctl_event(mcsm_ctl_t *ctl, int fd, unsigned events);

/* Run a command. Writes its answer, as the protocol has it, to `out`. */
void mcsm_ctl_command(mcsm_daemon_t *daemon, char *line, FILE *out);

/* Dumps: forwarding tables in OpenSM's format, and the whole fabric for mcsm-check(1). */
void mcsm_dump_lft(const mcsm_sm_t *sm, FILE *out);
void mcsm_dump_mft(const mcsm_sm_t *sm, FILE *out);
void mcsm_dump_fabric(const mcsm_sm_t *sm, FILE *out);

#endif
