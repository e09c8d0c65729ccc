#include "shm/stats.h"
#include "base/env.h"
#include "base/log.h"
#include "shm/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* clang-format off */
#define FIELD(name) {#name, offsetof(struct glex_ext_counters, name)}
/* clang-format on */

const struct glex_counter_field glex_counter_fields[] = {
    FIELD(mp_tx),        FIELD(mp_rx),          FIELD(mp_lost),       FIELD(imm_put_tx),
    FIELD(put_tx),       FIELD(get_tx),         FIELD(imm_put_bytes), FIELD(put_bytes),
    FIELD(get_bytes),    FIELD(event_rx),       FIELD(event_lost),    FIELD(error_req),
    FIELD(mpq_high),     FIELD(eq_high),        FIELD(wakeups),       FIELD(abandoned),
    FIELD(event_tx),     FIELD(coll_tx),        FIELD(coll_carried),  FIELD(mapped_tx),
    FIELD(net_tx),       FIELD(net_rx),         FIELD(net_peers),     FIELD(net_ended),
    FIELD(net_denied),   FIELD(helped_bytes),   FIELD(help_bytes),    FIELD(help_waits),
    FIELD(kernel_bytes), FIELD(heap_maps),      FIELD(mp_bytes),      FIELD(mapped_bytes),
    FIELD(buffered_tx),  FIELD(buffered_bytes), FIELD(zcopy_tx),      FIELD(zcopy_bytes),
};

/* Copies the program's name without characters that would break the line. */
static void plain_name(const char command[16], char name[17])
{
    int i;

    for (i = 0; i < 16 && command[i] != '\0'; i++) {
        name[i] =
            (command[i] < ' ' || command[i] > '~' || command[i] == '"' || command[i] == '\\') ?
                '?' :
                command[i];
    }
    name[i] = '\0';
}

static size_t stats_line(const struct glex_segment_header *hdr, char *line, size_t size)
{
    glex_ep_addr_t addr = {.v = hdr->addr};
    struct timespec now;
    char name[17];
    size_t len, i;

    clock_gettime(CLOCK_REALTIME, &now);
    plain_name(hdr->command, name);
    len = (size_t)snprintf(line, size,
                           "{\"pid\":%u,\"command\":\"%s\",\"fabric\":\"%s\",\"nic_id\":%u,"
                           "\"ep_num\":%u,\"start_time\":%.3f,\"end_time\":%.3f,\"counters\":{",
                           hdr->pid, name, glex_env()->fabric, addr.nic_id, addr.ep_num,
                           (double)hdr->start_time * 1e-9,
                           (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    for (i = 0; i < GLEX_NUM_COUNTERS; i++) {
        len += (size_t)snprintf(line + len, size - len, "%s\"%s\":%llu", i ? "," : "",
                                glex_counter_fields[i].name,
                                (unsigned long long)glex_counter_value(&hdr->counters, i));
    }
    return len + (size_t)snprintf(line + len, size - len, "}}\n");
}

void glex_stats_write(const struct glex_segment_header *hdr)
{
    const char *path = glex_env()->stats;
    char line[2048];
    ssize_t done;
    size_t len;
    int fd;

    if (path == NULL) {
        return;
    }
    len = stats_line(hdr, line, sizeof(line));
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    /* one write: the lines of processes that end together do not mix */
    done = (fd < 0) ? -1 : write(fd, line, len);
    if (done != (ssize_t)len) {
        glex_error("cannot write counters to GLEX_STATS=%s: %s", path,
                   done < 0 ? strerror(errno) : "no room");
    }
    if (fd >= 0) {
        close(fd);
    }
}
