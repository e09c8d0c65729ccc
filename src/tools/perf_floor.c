/*
 * The floor under every figure: what the machine does with no NIC between, in the same run. A
 * cache line handed from core to core and back, and memcpy() from memory to memory of one process.
 */
#include "perf.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANDOVERS    20000
#define HANDOVERS_1  200 /* on one core: each is a switch of processes */
#define COPY_BYTES   (16ull << 20)
#define COPIES_MAX   20000

/* Two lines, each written by one side; 128 because neighbouring lines are fetched in pairs. */
struct lines {
    uint64_t to __attribute__((aligned(128)));
    uint64_t fro __attribute__((aligned(128)));
};

/*
 * Acquire pairs with the release store of the other side; only the number itself is handed over,
 * so that relaxed would do, but a NIC has data behind it and pays for the order too.
 */
static void await(const uint64_t *line, uint64_t value, bool yield)
{
    while (__atomic_load_n(line, __ATOMIC_ACQUIRE) != value) {
        if (yield) {
            sched_yield();
        }
    }
}

static void answer(struct lines *lines, uint64_t num, int cpu, bool yield)
{
    uint64_t i;

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it would wait for ever */
    perf_pin(cpu);
    for (i = 1; i <= num; i++) {
        await(&lines->to, i, yield);
        __atomic_store_n(&lines->fro, i, __ATOMIC_RELEASE);
    }
    _exit(0);
}

static struct tool_stat time_handovers(struct lines *lines, uint32_t repeats, uint64_t num,
                                       bool yield, double *values)
{
    uint64_t next = 1, end;
    double start;
    uint32_t i;

    for (i = 0; i <= repeats; i++) {
        start = perf_now();
        for (end = next + num; next < end; next++) {
            __atomic_store_n(&lines->to, next, __ATOMIC_RELEASE);
            await(&lines->fro, next, yield);
        }
        if (i > 0) { /* the first only warms up */
            values[i - 1] = (perf_now() - start) / (double)num / 2;
        }
    }
    return tool_stat(values, repeats);
}

static bool measure_handover(struct perf_report *report, bool yield, double *values)
{
    const struct perf_options *options = report->options;
    uint64_t num                       = yield ? HANDOVERS_1 : HANDOVERS;
    struct lines *lines;
    int status;
    pid_t pid;

    lines = mmap(NULL, sizeof(*lines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED) {
        tool_error("no memory for the floor: %s", strerror(errno));
        return false;
    }
    pid = fork();
    if (pid == 0) {
        answer(lines, num * (options->repeats + 1), options->pin ? options->cpus[1] : -1, yield);
    }
    if (pid == -1) {
        tool_error("cannot fork: %s", strerror(errno));
        munmap(lines, sizeof(*lines));
        return false;
    }
    report->floor.handover = time_handovers(lines, options->repeats, num, yield, values);
    waitpid(pid, &status, 0);
    munmap(lines, sizeof(*lines));
    return true;
}

static struct tool_stat time_copies(uint8_t *dst, const uint8_t *src, size_t size,
                                    uint32_t repeats, double *values)
{
    uint64_t num = COPY_BYTES / (size + 1) + 1, done;
    double start;
    uint32_t i;

    num = (num > COPIES_MAX) ? COPIES_MAX : num;
    for (i = 0; i <= repeats; i++) {
        start = perf_now();
        for (done = 0; done < num; done++) {
            memcpy(dst, src, size);
            __asm__ volatile("" : : "r"(dst), "r"(src) : "memory"); /* each copy is made */
        }
        if (i > 0) {
            values[i - 1] = (perf_now() - start) / (double)num;
        }
    }
    return tool_stat(values, repeats);
}

static bool measure_copies(struct perf_report *report, double *values)
{
    size_t max = report->sizes[report->num_sizes - 1] + 1ul;
    uint8_t *src = malloc(max), *dst = malloc(max);
    uint32_t i;

    if (src == NULL || dst == NULL) {
        tool_error("no memory for the floor: %s", strerror(errno));
        free(src);
        free(dst);
        return false;
    }
    memset(src, 1, max);
    memset(dst, 2, max);
    for (i = 0; i < report->num_sizes && !perf_interrupted; i++) {
        report->floor.copy[i] = time_copies(dst, src, report->sizes[i],
                                            report->options->repeats, values);
    }
    free(src);
    free(dst);
    return true;
}

bool perf_measure_floor(struct perf_report *report, bool yield)
{
    double *values = calloc(report->options->repeats, sizeof(*values));
    bool ok;

    report->floor.copy = calloc(report->num_sizes, sizeof(*report->floor.copy));
    if (values == NULL || report->floor.copy == NULL) {
        tool_error("no memory for the floor");
        free(values);
        return false;
    }
    ok = measure_handover(report, yield, values) && measure_copies(report, values);
    free(values);
    return ok;
}
