/*
 * stranger: another user of the machine at an endpoint.
 *
 *   stranger victim             serves an endpoint until its standard input ends. Prints the arguments
 *                               for an attack first, and at the end "unharmed", or what has changed
 *   stranger attack ADDRESS HANDLE PID MEMORY DIRECTORY
 *                               tries everything that a peer may do, and shared memory
 *
 * An attack prints a line "could: WHAT" or "could not: WHAT" per try. The exit status is 0 if the
 * program could try.
 */
#include <glex.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define KEY    7
#define SECRET "secret"
#define LEN    4096

static glex_device_handle_t device;
static glex_ep_handle_t ep;
static char memory[LEN] = SECRET;
static glex_mem_handle_t handle;

static bool create(uint32_t num)
{
    struct glex_ep_attr attr = {.type = GLEX_EP_TYPE_NORMAL, .num = num, .key = KEY};

    return glex_open_device(0, &device) == GLEX_SUCCESS &&
           glex_create_ep(device, &attr, &ep) == GLEX_SUCCESS &&
           glex_register_mem(ep, memory, LEN, GLEX_MEM_READ | GLEX_MEM_WRITE, &handle) ==
               GLEX_SUCCESS;
}

static int victim(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    unsigned messages = 0, events = 0;
    glex_ep_addr_t address, from;
    glex_event_t *event;
    char data[128];
    uint32_t len;

    if (!create(0) || glex_get_ep_addr(ep, &address) != GLEX_SUCCESS) {
        return 1;
    }
    printf("%llu %llu %d %llu %s/glex-%u/%s\n", (unsigned long long)address.v,
           (unsigned long long)handle.v, (int)getpid(), (unsigned long long)(uintptr_t)memory,
           getenv("GLEX_SHM_DIR"), (unsigned)geteuid(), getenv("GLEX_FABRIC"));
    fflush(stdout);
    while (poll(&input, 1, 0) == 0) {
        messages += glex_receive_mp(ep, 1, &from, data, &len) == GLEX_SUCCESS;
        if (glex_probe_first_event(ep, 1, &event) == GLEX_SUCCESS) {
            events++;
            (void)glex_discard_probed_event(ep);
        }
    }
    if (messages != 0 || events != 0 || strcmp(memory, SECRET) != 0) {
        printf("harmed: %u messages, %u events, memory '%s'\n", messages, events, memory);
    } else {
        printf("unharmed\n");
    }
    return glex_destroy_ep(ep) == GLEX_SUCCESS ? 0 : 1;
}

static void say(bool could, const char *what)
{
    printf("%s: %s\n", could ? "could" : "could not", what);
}

/* Whether a request that was posted has ended without an error. `event`: it leaves an event here. */
static bool has_succeeded(glex_ret_t ret, bool event)
{
    struct glex_err_req error;
    glex_event_t *arrived;
    uint32_t num, tries;

    for (tries = 0; ret == GLEX_SUCCESS && tries < 1000; tries++) {
        if (glex_probe_first_event(ep, 1, &arrived) == GLEX_SUCCESS) {
            (void)glex_discard_probed_event(ep);
            return true;
        }
        num = 1;
        if (glex_poll_error_req(ep, &num, &error) == GLEX_SUCCESS && num != 0) {
            return false;
        }
    }
    return ret == GLEX_SUCCESS && !event; /* the victim says whether it has come */
}

static void try_network(glex_ep_addr_t to, glex_mem_handle_t theirs)
{
    glex_imm_mp_req_t mp = {.rmt_ep_addr = to, .data = "hello", .len = 6};
    glex_imm_rdma_req_t imm = {.rmt_ep_addr = to,
                               .rmt_mh = theirs,
                               .rmt_key = KEY,
                               .data = "changed",
                               .len = 8,
                               .rmt_evt = {.cookie_0 = 1, .cookie_1 = 1},
                               .flag = GLEX_FLAG_REMOTE_EVT};
    glex_rdma_req_t rdma = {.rmt_ep_addr = to,
                            .rmt_mh = theirs,
                            .rmt_key = KEY,
                            .local_mh = handle,
                            .len = LEN,
                            .local_evt = {.cookie_0 = 1, .cookie_1 = 1},
                            .flag = GLEX_FLAG_LOCAL_EVT};

    rdma.type = GLEX_RDMA_TYPE_GET;
    say(has_succeeded(glex_rdma(ep, &rdma, NULL), true), "get");
    strcpy(memory, "changed");
    rdma.type = GLEX_RDMA_TYPE_PUT;
    say(has_succeeded(glex_rdma(ep, &rdma, NULL), true), "put");
    (void)has_succeeded(glex_imm_rdma(ep, &imm, NULL), false);
    (void)has_succeeded(glex_send_imm_mp(ep, &mp, NULL), false);
}

/* The files and sockets of the victim's endpoints, by name: the directory need not be readable. */
static void try_files(const char *directory, unsigned nic)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0), file;
    char path[300];
    DIR *dir = opendir(directory);

    say(dir != NULL, "list the fabric");
    snprintf(path, sizeof(path), "%s/n%u.e0", directory, nic);
    file = open(path, O_RDWR);
    say(file >= 0, "open the segment");
    say(access(path, F_OK) == 0, "see the segment");
    snprintf(to.sun_path, sizeof(to.sun_path), "%.90s/n%u.e0.s", directory, nic);
    say(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0, "wake the victim");
    say(mkdir(directory, 0777) == 0, "make the fabric");
}

static void try_process(int pid, uint64_t address)
{
    char data[] = "changed", path[64];
    struct iovec local = {data, sizeof(data)}, remote = {(void *)(uintptr_t)address, sizeof(data)};

    say(process_vm_readv(pid, &local, 1, &remote, 1, 0) > 0, "read private memory");
    say(process_vm_writev(pid, &local, 1, &remote, 1, 0) > 0, "write private memory");
    snprintf(path, sizeof(path), "/proc/%d/environ", pid);
    say(open(path, O_RDONLY) >= 0, "read the environment, and the key in it");
}

int main(int argc, char **argv)
{
    glex_ep_addr_t to;
    glex_mem_handle_t theirs;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && strcmp(argv[1], "victim") == 0) {
        return victim();
    }
    if (argc != 7 || strcmp(argv[1], "attack") != 0) {
        return 2;
    }
    to.v = strtoull(argv[2], NULL, 0);
    theirs.v = strtoull(argv[3], NULL, 0);
    try_files(argv[6], (unsigned)to.nic_id);
    try_process(atoi(argv[4]), strtoull(argv[5], NULL, 0));
    if (create(GLEX_ANY_EP_NUM)) {
        try_network(to, theirs);
    } else {
        say(false, "get an endpoint on the network");
    }
    return 0;
}
