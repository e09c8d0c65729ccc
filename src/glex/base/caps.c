#include "base/caps.h"
#include "base/env.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* <linux/capability.h>: without libcap */
#define CAPS_SYS_PTRACE_BIT 19

/* Whether no filter (seccomp) forbids it: tried on ourselves, where no other rule applies. */
static bool caps_syscall_works(void)
{
    uint64_t from = 1, to = 0;
    struct iovec local = {&to, sizeof(to)}, remote = {&from, sizeof(from)};

    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == sizeof(to);
}

static int caps_yama_scope(void)
{
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    int scope = 0;

    if (file != NULL) {
        if (fscanf(file, "%d", &scope) != 1) {
            scope = 0;
        }
        fclose(file);
    }
    return scope;
}

static bool caps_may_ptrace(void)
{
    unsigned long long effective = 0;
    FILE *file = fopen("/proc/self/status", "re");
    char line[128];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "CapEff: %llx", &effective) == 1) {
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return effective >> CAPS_SYS_PTRACE_BIT & 1;
}

/* Why peers cannot read and write our private memory; NULL: they can. */
static const char *caps_private_missing(void)
{
    int scope = caps_yama_scope();

    if (!glex_env()->private_rdma) {
        return "RDMA to private memory: forbidden by GLEX_PRIVATE_RDMA=n";
    }
    if (glex_env()->fault.noprivate) {
        return "RDMA to private memory: forbidden by GLEX_FAULT=noprivate";
    }
    if (!caps_syscall_works()) {
        return "RDMA to private memory: process_vm_readv is forbidden (a seccomp filter, as "
               "containers have without --cap-add=SYS_PTRACE)";
    }
    if (scope >= 3 || (scope == 2 && !caps_may_ptrace())) {
        return "RDMA to private memory: kernel.yama.ptrace_scope is 2 or more; 1 or 0 allows it";
    }
    if (prctl(PR_GET_DUMPABLE) != 1 && !caps_may_ptrace()) {
        return "RDMA to private memory: this process is not dumpable (set-user-id or prctl)";
    }
    return NULL;
}

static uint64_t caps_namespace(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_ino : 0;
}

uint64_t glex_caps_pid_space(void)
{
    return caps_namespace("/proc/self/ns/pid");
}

/*
 * A pid means the same process, and access is granted, within one pid and one user namespace of one
 * host. Namespaces have the same numbers on most hosts, so the fabric's identity goes in as well.
 */
static uint32_t caps_space(uint64_t fabric)
{
    uint64_t hash = (fabric ^ glex_caps_pid_space()) * 0x9e3779b97f4a7c15ull;

    hash = (hash ^ caps_namespace("/proc/self/ns/user")) * 0x9e3779b97f4a7c15ull;
    hash >>= 32;
    return hash != 0 ? (uint32_t)hash : 1;
}

void glex_caps_probe(uint64_t fabric, struct glex_ext_device_attr *attr)
{
    const char *missing = caps_private_missing();

    attr->caps = GLEX_EXT_CAP_SLEEP;
    attr->missing[0] = '\0';
    attr->space = 0;
    attr->fabric = fabric;
    if (missing == NULL) {
        attr->caps |= GLEX_EXT_CAP_PRIVATE_RDMA;
        attr->space = caps_space(fabric);
    } else {
        snprintf(attr->missing, sizeof(attr->missing), "%s", missing);
    }
    attr->caps |= GLEX_EXT_CAP_COLL;
    if (!glex_env()->fault.nomap && glex_env()->capture == NULL) {
        attr->caps |= GLEX_EXT_CAP_MAP;
    } else {
        snprintf(attr->missing + strlen(attr->missing),
                 sizeof(attr->missing) - strlen(attr->missing), "%smapping: forbidden by %s",
                 missing != NULL ? "; " : "",
                 glex_env()->fault.nomap ? "GLEX_FAULT=nomap" :
                                           "GLEX_CAPTURE, which sees requests only");
    }
}

/*
 * yama's scope 1 allows only ancestors. yama offers no permission for exactly the fabric's peers,
 * so this function allows all processes of this user. Without yama they have the permission anyway.
 * Fails on a system without yama.
 */
void glex_caps_allow_private(void)
{
    static bool done;

    if (!__atomic_exchange_n(&done, true, __ATOMIC_RELAXED)) {
        (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    }
}
