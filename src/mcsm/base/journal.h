/*
 * Entries of the systemd journal with fields, for searches such as
 *
 *     journalctl MCSM_CLUSTER=left MCSM_EVENT=link-held
 *
 * The entries are datagrams to journald's socket, in journald's native protocol. sd_journal_sendv() of
 * libsystemd waits while journald does not read, and a subnet manager must not wait.
 */
#ifndef MCSM_JOURNAL_H
#define MCSM_JOURNAL_H

#include "log.h"

#include <stdbool.h>
#include <stdint.h>

#define MCSM_JOURNAL_SOCKET "/run/systemd/journal/socket"

/* What an entry has beside its text. */
struct mcsm_log_fields {
    const char *event; /* such as "link-held"; NULL: no event */
    uint64_t guid;     /* of the node or port; 0: none */
    uint8_t port;
};

/** Sends later entries to `path`, if stderr is the stream to the journal that JOURNAL_STREAM names.
 * `cluster` is a field of all entries. Returns whether they are sent. */
bool mcsm_journal_open(const char *path, const char *cluster);

/** Sends an entry, or returns false, also if journald cannot take the entry now: then the caller writes
 * to stderr. `fields` may be NULL. */
bool mcsm_journal_send(enum mcsm_log_level level, const struct mcsm_log_fields *fields,
                       const char *text);

#endif
