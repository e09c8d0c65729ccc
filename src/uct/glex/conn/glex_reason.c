/*
 * Messages about lost peers. docs/known-problems.md has the table of these messages, and
 * test/faults/run provokes each message and compares it with the table.
 *
 * The level depends on the program:
 *   - A program with an error handler (peer error mode) decides itself what to tell its user. The
 *     line has the level of UCX_GLEX_FAILURE, diag by default, so UCX does not show the line.
 *   - A program without an error handler, such as an MPI program, ends here. The line has the level
 *     error. Then the process waits, because a launcher that sees the first dead rank ends the
 *     other ranks. If UCX ended this process at once, the launcher might report this process as the
 *     culprit.
 */
#include "conn/glex_reason.h"

#include <ucs/config/global_opts.h>
#include <ucs/debug/log.h>
#include <stdio.h>
#include <unistd.h>

/* How long a launcher may take to end this process */
#define UCT_GLEX_GRACE_US 2000000

#define UCT_GLEX_NAME_LEN 80

static void uct_glex_reason_name(const uct_glex_vc_t *vc, glex_ret_t ret,
                                 const struct glex_ext_process *process, char *name)
{
    if (ret != GLEX_SUCCESS) {
        snprintf(name, UCT_GLEX_NAME_LEN, "the process of endpoint 0x%" PRIx64 "%s", vc->peer,
                 vc->is_remote ? " on another host" : "");
    } else if (process->rank < 0) {
        snprintf(name, UCT_GLEX_NAME_LEN, "process %u", process->pid);
    } else {
        snprintf(name, UCT_GLEX_NAME_LEN, "process %u (rank %d)", process->pid, process->rank);
    }
}

static glex_ret_t uct_glex_reason_process(const uct_glex_vc_t *vc, struct glex_ext_process *process,
                                          char *name)
{
    glex_ep_addr_t peer = {.v = vc->peer};
    glex_ret_t ret = glex_ext_peer_process(vc->iface->nic, peer, vc->peer_uuid, process);

    uct_glex_reason_name(vc, ret, process, name);
    return ret;
}

static const char *uct_glex_reason_of_state(enum glex_ext_process_state state)
{
    switch (state) {
    case GLEX_EXT_PROCESS_KILLED:
        return "was killed, or ended without exit(): the launcher's last lines name the signal. "
               "After signal 9, look for \"out of memory\" in the kernel's log (dmesg)";
    case GLEX_EXT_PROCESS_EXITED:
        return "has exited without closing its connections (in MPI: without MPI_Finalize): "
               "the last lines of that process tell why";
    default:
        return "has closed its connection, and this process still uses the connection: look for an "
               "error of that process, or for communication after its MPI_Finalize";
    }
}

void uct_glex_reason_get(const uct_glex_vc_t *vc, ucs_status_t status,
                         char text[UCT_GLEX_REASON_LEN])
{
    struct glex_ext_process process;
    char name[UCT_GLEX_NAME_LEN];
    glex_ret_t ret = uct_glex_reason_process(vc, &process, name);

    if ((status != UCS_ERR_ENDPOINT_TIMEOUT) && (status != UCS_ERR_CONNECTION_RESET)) {
        snprintf(
            text, UCT_GLEX_REASON_LEN,
            "the connection with %s has failed: %s. An earlier line that begins with glex: has "
            "the details",
            name, ucs_status_string(status));
    } else if (vc->is_remote) {
        snprintf(text, UCT_GLEX_REASON_LEN,
                 "%s has ended or does not answer: look at the last lines of that process, and at "
                 "lines that begin with glex:",
                 name);
    } else if (ret != GLEX_SUCCESS) {
        snprintf(text, UCT_GLEX_REASON_LEN,
                 "%s ended before this process connected to it: a line of another rank that begins "
                 "with glex: names the process",
                 name);
    } else if ((process.state == GLEX_EXT_PROCESS_RUNS) && !vc->peer_dead) {
        snprintf(text, UCT_GLEX_REASON_LEN,
                 "%s has given up the connection: an earlier line of one of the two processes that "
                 "begins with glex: has the details",
                 name);
    } else {
        snprintf(text, UCT_GLEX_REASON_LEN, "%s %s", name, uct_glex_reason_of_state(process.state));
    }
}

void uct_glex_reason_get_refused(const uct_glex_vc_t *vc, char text[UCT_GLEX_REASON_LEN])
{
    struct glex_ext_process process;
    char name[UCT_GLEX_NAME_LEN];

    (void)uct_glex_reason_process(vc, &process, name);
    snprintf(
        text, UCT_GLEX_REASON_LEN,
        "%s has refused access to its memory: an earlier line that begins with glex: names the "
        "request",
        name);
}

void uct_glex_reason_log(const uct_glex_iface_t *iface, ucs_status_t handler_status,
                         ucs_status_t status, const char *text, int is_first)
{
    ucs_log_level_t level =
        uct_base_iface_failure_log_level((uct_base_iface_t *)&iface->super, handler_status, status);

    if (level != UCS_LOG_LEVEL_FATAL) {
        ucs_log(is_first ? level : UCS_LOG_LEVEL_DEBUG, "glex: %s", text);
        return;
    }
    ucs_error("glex: %s", text);
    usleep(UCT_GLEX_GRACE_US);
    /* The cause is in the other process, so a backtrace of this process misleads */
    ucs_global_opts.handle_errors &= ~UCS_BIT(UCS_HANDLE_ERROR_BACKTRACE);
    ucs_fatal("glex: this process ends, because the program has no error handler for the above");
}
