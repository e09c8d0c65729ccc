/*
 * confine WHAT [VALUE] COMMAND...: runs a command under a restriction that real systems have.
 *
 *   confine ptrace COMMAND...       process_vm_readv() and _writev() and ptrace() fail with EPERM
 *   confine nofile N COMMAND...     at most N open files; only the standard files are inherited,
 *                                   so N has the same meaning in every environment
 *   confine as BYTES COMMAND...     at most BYTES of address space
 *   confine uid N COMMAND...        as user and group N, without other groups
 */
#include "board.h"

#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void forbid_ptrace(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fail("seccomp: %s", strerror(errno));
    }
}

static void limit(int what, const char *value)
{
    struct rlimit rlimit;

    rlimit.rlim_cur = rlimit.rlim_max = strtoull(value, NULL, 10);
    if (setrlimit((__rlimit_resource_t)what, &rlimit) != 0) {
        fail("setrlimit to %s: %s", value, strerror(errno));
    }
}

static void become(const char *value)
{
    uid_t uid = (uid_t)strtoul(value, NULL, 10);

    if (setgroups(0, NULL) != 0 || setgid(uid) != 0 || setuid(uid) != 0) {
        fail("cannot become user %s: %s", value, strerror(errno));
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "", *value = argc > 3 ? argv[2] : "";
    char **command = argv + 3;

    if (strcmp(what, "ptrace") == 0) {
        forbid_ptrace();
        command = argv + 2;
    } else if (argc > 3 && strcmp(what, "nofile") == 0) {
        closefrom(3);
        limit(RLIMIT_NOFILE, value);
    } else if (argc > 3 && strcmp(what, "as") == 0) {
        limit(RLIMIT_AS, value);
    } else if (argc > 3 && strcmp(what, "uid") == 0) {
        become(value);
    } else {
        fail("usage: confine ptrace | nofile N | as BYTES | uid N, and a command");
    }
    execvp(command[0], command);
    fail("cannot run %s: %s", command[0], strerror(errno));
}
