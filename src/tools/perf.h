/*
 * glex_perf: speed of the bare NIC between two processes.
 *
 * The client measures. The server answers. The client forks its server, or connects to a server
 * that was started in another terminal. Client and server exchange control messages over the NIC
 * (perf_session.c), so glex_perf needs nothing but the NIC. A measurement (perf_run.c) is a run of
 * `count` operations of one kind and size, in one of two patterns.
 */
#ifndef TOOLS_PERF_H
#define TOOLS_PERF_H

#include "tool.h"

#include <glex.h>
#include <glex_ext.h>

#include <signal.h>
#include <sys/types.h>

/* Registered memory. Client and server have the same regions. */
enum perf_region {
    PERF_REGION_IMM,       /* target of immediate puts */
    PERF_REGION_IMM_EVENT, /* the same, registered with GLEX_EXT_MEM_EVENT_DATA */
    PERF_REGION_NIC,       /* allocated from the NIC */
    PERF_REGION_PRIVATE,   /* ordinary memory of the process */
    PERF_REGION_LINES,     /* the NIC's, for the floor */
    PERF_NUM_REGIONS
};

enum perf_op { PERF_OP_MP, PERF_OP_IMM_PUT, PERF_OP_PUT, PERF_OP_GET, PERF_NUM_OPS };

/* A kind of measurement. Client and server name it by its index in perf_kinds. */
struct perf_kind {
    const char *name;   /* of the operation, on the command line too */
    const char *memory; /* kind of memory; "-" for none */
    enum perf_op op;
    enum perf_region region;
};

enum { PERF_NUM_KINDS = 7 };
extern const struct perf_kind perf_kinds[PERF_NUM_KINDS];

enum perf_pattern {
    PERF_LATENCY, /* one at a time: to and fro, except get */
    PERF_STREAM,  /* a window of operations in flight */
    PERF_NUM_METRICS,
    PERF_HANDOVER = PERF_NUM_METRICS, /* the floor of latency: no operation of the NIC */
    PERF_NUM_PATTERNS
};

/* Description of a process's memory for its peer. */
struct perf_memory {
    uint32_t key;
    uint32_t present; /* bit n: region n exists */
    glex_mem_handle_t mh[PERF_NUM_REGIONS];
};

/* Also the number of the pattern that a side's first halves hold. */
enum perf_side { PERF_CLIENT = 1, PERF_SERVER = 2 };

/*
 * A process of the pair. A region has two halves: the first half holds data that this process
 * sends, the second half receives the peer's data.
 */
struct perf_session {
    glex_device_handle_t dev;
    struct glex_device_attr attr;
    struct glex_ext_device_attr ext;
    glex_ep_handle_t ep;
    glex_ep_addr_t self, peer;
    uint64_t half; /* bytes of half a region */
    uint32_t window;
    enum perf_side side;
    bool yield;   /* one core: let the other side have it */
    pid_t parent; /* the parent process, or 0 */
    uint8_t *mem[PERF_NUM_REGIONS];
    uint32_t from_nic;               /* bit n: region n is the NIC's */
    char why[PERF_NUM_REGIONS][256]; /* a region is missing */
    struct perf_memory mine, theirs;
    void *lines;                    /* client: the server's, mapped */
    struct glex_ext_pin *lines_pin; /* keeps them mapped */
    bool mp_right;                  /* the last message of a run was right */
};

struct perf_run {
    uint32_t kind;
    uint32_t pattern;
    uint32_t size;
    uint32_t count;
    uint32_t window;
    uint32_t is_far; /* the server's process takes part in everything: it must not sleep */
};

struct perf_options {
    uint64_t size_min, size_max, size_factor;
    uint32_t kinds;   /* bit n: perf_kinds[n] */
    uint32_t metrics; /* bit n: enum perf_pattern */
    uint32_t device;
    uint32_t window;
    uint32_t repeats;
    uint32_t count; /* operations per repeat, or 0: as many as fit `milliseconds` */
    uint32_t milliseconds;
    int cpus[2]; /* of the client and the server, or -1 */
    bool pin;
    bool json;
    bool server;
    bool connect;
    uint64_t address;
};

/* Values of one thing measured again and again. */
struct perf_samples {
    uint32_t num;
    double *values;
};

/* Limits of the machine without a NIC. */
struct perf_floor {
    uint8_t *src, *dst; /* of memcpy() */
    struct perf_samples handover;
    struct perf_samples *copy; /* per size */
};

/* Times are seconds for one operation; a ratio is to the floor in the same repeat. */
struct perf_result {
    uint32_t kind;
    uint32_t size_index;
    bool measured[PERF_NUM_METRICS];
    bool has_ratio[PERF_NUM_METRICS];
    struct tool_stat time[PERF_NUM_METRICS];
    struct tool_stat ratio[PERF_NUM_METRICS];
};

struct perf_report {
    const struct perf_options *options;
    const struct perf_session *session;
    uint32_t num_sizes;
    uint32_t *sizes;
    struct perf_floor floor;
    uint32_t num_results;
    struct perf_result *results;
};

/** perf_options.c: the exit status where there is nothing more to do, or -1. */
int perf_parse_options(int argc, char **argv, struct perf_options *options);

/* Set by a signal: end in order. */
extern volatile sig_atomic_t perf_interrupted;

double perf_now(void);

/** perf_cpu.c: pins this process to a core; with -1 the process stays unpinned. */
void perf_pin(int cpu);

/** Returns two different allowed cores; the second is -1 if only one core is allowed. */
bool perf_choose_cpus(int cpus[2]);

/** perf_session.c: functions that can fail return false, with a message. */
bool perf_session_open(struct perf_session *s, const struct perf_options *options,
                       enum perf_side side);
void perf_session_close(struct perf_session *s);
bool perf_session_connect(struct perf_session *s, glex_ep_addr_t server, uint64_t half);
bool perf_session_begin(struct perf_session *s, const struct perf_run *run);
bool perf_session_check(struct perf_session *s, const struct perf_run *run);
void perf_session_bye(struct perf_session *s);
bool perf_serve(struct perf_session *s);

/* perf_wait.c: posting and waiting without sleep, with an eye on a peer that does not come. */
struct perf_wait {
    uint64_t polls;
    double since;
};
bool perf_wait_slow(struct perf_session *s, struct perf_wait *wait);
bool perf_send(struct perf_session *s, void *data, uint32_t len);
bool perf_wait_mp(struct perf_session *s, void **data_p, uint32_t *len_p);
bool perf_wait_event(struct perf_session *s, glex_event_t **event_p);

/** Called after a poll that found nothing. False: give up; a message was printed. */
static inline bool perf_wait_more(struct perf_session *s, struct perf_wait *wait)
{
    return ((++wait->polls & 0x3fff) != 0 && !s->yield) || perf_wait_slow(s, wait);
}

/** perf_kind.c: the reason why a region or a kind cannot be used, or NULL */
const char *perf_region_missing(const struct perf_session *s, enum perf_region region);
const char *perf_kind_missing(const struct perf_session *s, uint32_t kind);
bool perf_kind_fits(const struct perf_session *s, uint32_t kind, uint64_t size);

/** The bytes of half a region */
uint64_t perf_memory_half(const struct perf_session *s, enum perf_region region);

/* perf_memory.c */
bool perf_memory_open(struct perf_session *s);
void perf_memory_close(struct perf_session *s);
uint8_t *perf_memory_source(const struct perf_session *s, const struct perf_run *run);
void perf_memory_clear(struct perf_session *s, const struct perf_run *run);
bool perf_memory_right(const struct perf_session *s, const struct perf_run *run);
bool perf_data_right(enum perf_side from, const uint8_t *data, uint64_t len);

/** perf_run.c: the two sides of a run. The client's side returns the duration. */
bool perf_run_client(struct perf_session *s, const struct perf_run *run, double *seconds_p);
bool perf_run_server(struct perf_session *s, const struct perf_run *run);

/** perf_measure.c: everything that was asked for, into the report. */
bool perf_measure(struct perf_report *report, struct perf_session *s);
void perf_report_free(struct perf_report *report);

/** perf_floor.c: times of one hand-over, of one copy. */
bool perf_floor_open(struct perf_floor *floor, uint32_t max_size);
void perf_floor_close(struct perf_floor *floor);

bool perf_floor_handover(struct perf_session *s, double *seconds_p);
double perf_floor_copy(const struct perf_floor *floor, uint32_t size);

/** perf_handover.c: maps the server's cache lines here. On failure (the server is on another host),
 * s->why has the reason. */
bool perf_handover_map(struct perf_session *s);
bool perf_handover_client(struct perf_session *s, const struct perf_run *run);
bool perf_handover_server(struct perf_session *s, const struct perf_run *run);

/* perf_report.c */
void perf_print_table(const struct perf_report *report);
void perf_print_json(const struct perf_report *report);

#endif
