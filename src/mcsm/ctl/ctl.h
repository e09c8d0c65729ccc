/*
 * The control socket: a UNIX socket that only its owner may open. A client sends one line, a
 * command with its arguments; the answer is a line "json", "text" or "error MESSAGE", then the
 * rest, then the end of the connection.
 */
#ifndef MCSM_CTL_H
#define MCSM_CTL_H

#include "ctl/daemon.h"

#include <json-c/json.h>

struct mcsm_ctl;

int mcsm_ctl_open(struct mcsm_daemon *daemon, struct mcsm_ctl **ctl_p);
void mcsm_ctl_close(struct mcsm_ctl *ctl);

/** Something happened at one of the control's file descriptors. */
void mcsm_ctl_event(struct mcsm_ctl *ctl, int fd, unsigned events);

/** Run a command. Writes its answer, as the protocol has it, to `out`. */
void mcsm_ctl_command(struct mcsm_daemon *daemon, char *line, FILE *out);

/** Dumps: forwarding tables in OpenSM's format, and the whole fabric for mcsm-check(1). */
void mcsm_dump_lft(const struct mcsm_sm *sm, FILE *out);
void mcsm_dump_mft(const struct mcsm_sm *sm, FILE *out);
void mcsm_dump_fabric(const struct mcsm_sm *sm, FILE *out);

#endif
