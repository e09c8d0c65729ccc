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

/* How long the state of a peer's process may lag behind a failed request. While the kernel ends a
 * process, requests to the process fail already, and the process still looks alive. */
#define UCT_GLEX_REASON_LAG_MS 1000

#define UCT_GLEX_NAME_LEN   80
#define UCT_GLEX_REASON_LEN 384

void uct_glex_reason_init(uct_glex_reason_t *reason, const uct_glex_vc_t *vc, ucs_status_t status)
{
    *reason = (uct_glex_reason_t){.iface = vc->iface,
                                  .peer = vc->peer,
                                  .peer_uuid = vc->peer_uuid,
                                  .status = status,
                                  .is_remote = uct_glex_vc_is_remote(vc),
                                  .has_left = vc->peer_left || vc->peer_dead ||
                                              (vc->state == UCT_GLEX_VC_PEER_CLOSED)};
}

static glex_ret_t uct_glex_reason_process(const uct_glex_reason_t *reason,
                                          struct glex_ext_process *process)
{
    glex_ep_addr_t peer = {.v = reason->peer};

    return glex_ext_peer_process(reason->iface->nic, peer, reason->peer_uuid, process);
}

static void uct_glex_reason_wait_for_end(const uct_glex_reason_t *reason)
{
    struct glex_ext_process process;
    unsigned ms;

    for (ms = 0; ms < UCT_GLEX_REASON_LAG_MS; ++ms) {
        if ((uct_glex_reason_process(reason, &process) != GLEX_SUCCESS) ||
            (process.state != GLEX_EXT_PROCESS_RUNS)) {
            return;
        }
        usleep(1000);
    }
}

static void uct_glex_reason_name(const uct_glex_reason_t *reason, glex_ret_t ret,
                                 const struct glex_ext_process *process, char *name)
{
    if (ret != GLEX_SUCCESS) {
        snprintf(name, UCT_GLEX_NAME_LEN, "the process of endpoint 0x%" PRIx64 "%s", reason->peer,
                 reason->is_remote ? " on another host" : "");
    } else if (process->rank < 0) {
        snprintf(name, UCT_GLEX_NAME_LEN, "process %u", process->pid);
    } else {
        snprintf(name, UCT_GLEX_NAME_LEN, "process %u (rank %d)", process->pid, process->rank);
    }
}

static const char *uct_glex_reason_of_state(const uct_glex_reason_t *reason,
                                            enum glex_ext_process_state state)
{
    switch (state) {
    case GLEX_EXT_PROCESS_KILLED:
        return "was killed, or ended without exit(): the launcher's last lines name the signal. "
               "After signal 9, look for \"out of memory\" in the kernel's log (dmesg)";
    case GLEX_EXT_PROCESS_EXITED:
        return "has exited without closing its connections (in MPI: without MPI_Finalize): "
               "the last lines of that process tell why";
    case GLEX_EXT_PROCESS_RUNS:
        if (!reason->has_left) {
            return "has given up the connection: an earlier line of one of the two processes that "
                   "begins with glex: has the details";
        }
        /* fall through */
    default:
        return "has closed its connection, and this process still uses the connection: look for an "
               "error of that process, or for communication after its MPI_Finalize";
    }
}

static void uct_glex_reason_text(const uct_glex_reason_t *reason, char *text)
{
    struct glex_ext_process process;
    char name[UCT_GLEX_NAME_LEN];
    glex_ret_t ret = uct_glex_reason_process(reason, &process);

    uct_glex_reason_name(reason, ret, &process, name);
    if (reason->is_refused) {
        snprintf(text, UCT_GLEX_REASON_LEN,
                 "%s has refused access to its memory: an earlier line that begins with glex: "
                 "names the request",
                 name);
    } else if ((reason->status != UCS_ERR_ENDPOINT_TIMEOUT) &&
               (reason->status != UCS_ERR_CONNECTION_RESET)) {
        snprintf(text, UCT_GLEX_REASON_LEN,
                 "the connection with %s has failed: %s. An earlier line that begins with glex: "
                 "has the details",
                 name, ucs_status_string(reason->status));
    } else if (reason->is_remote) {
        snprintf(text, UCT_GLEX_REASON_LEN,
                 "%s has ended or does not answer: look at the last lines of that process, and at "
                 "lines that begin with glex:",
                 name);
    } else if (ret != GLEX_SUCCESS) {
        snprintf(text, UCT_GLEX_REASON_LEN,
                 "%s ended before this process connected to it: a line of another rank that begins "
                 "with glex: names the process",
                 name);
    } else {
        snprintf(text, UCT_GLEX_REASON_LEN, "%s %s", name,
                 uct_glex_reason_of_state(reason, process.state));
    }
}

void uct_glex_reason_log(const uct_glex_reason_t *reason, ucs_status_t handler_status, int is_first)
{
    char text[UCT_GLEX_REASON_LEN];
    ucs_log_level_t level = uct_base_iface_failure_log_level(
        (uct_base_iface_t *)&reason->iface->super, handler_status, reason->status);

    if (level != UCS_LOG_LEVEL_FATAL) {
        level = is_first ? level : UCS_LOG_LEVEL_DEBUG;
        if (ucs_log_is_enabled(level)) {
            uct_glex_reason_text(reason, text);
            ucs_log(level, "glex: %s", text);
        }
        return;
    }
    if (!reason->is_refused) {
        uct_glex_reason_wait_for_end(reason);
    }
    uct_glex_reason_text(reason, text);
    ucs_error("glex: %s", text);
    usleep(UCT_GLEX_GRACE_US);
    /* The cause is in the other process, so a backtrace of this process misleads */
    ucs_global_opts.handle_errors &= ~UCS_BIT(UCS_HANDLE_ERROR_BACKTRACE);
    ucs_fatal("glex: this process ends, because the program has no error handler for the above");
}
