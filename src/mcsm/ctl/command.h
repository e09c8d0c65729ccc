/* A command of mcsm-ctl, for the manager and for mcsm-ctl itself. */
#ifndef MCSM_COMMAND_H
#define MCSM_COMMAND_H

#include <stddef.h>
#include <stdio.h>

struct mcsm_daemon;

enum { MCSM_COMMAND_ARGUMENTS = 2 };

/* Writes the answer to `out`, as ctl/ctl.h describes. A missing argument is "". */
typedef void (*mcsm_command_fn)(struct mcsm_daemon *daemon,
                                const char *const arguments[MCSM_COMMAND_ARGUMENTS], FILE *out);

/* A row of command_list.h. A heading has only `help`. */
struct mcsm_command {
    const char *name, *keyword, *arguments, *help;
    mcsm_command_fn run; /* NULL in mcsm-ctl */
};

/** Returns the command of these words, whose number of arguments is right, or NULL. Writes its
 * arguments to `arguments`. */
const struct mcsm_command *mcsm_command_find(const struct mcsm_command *commands, size_t count,
                                             const char *const *words, int word_count,
                                             const char *arguments[MCSM_COMMAND_ARGUMENTS]);

/** Prints a line of help for each command. */
void mcsm_command_help(const struct mcsm_command *commands, size_t count, FILE *out);

#endif
