/*
 * Room and processor time of the history: stores the samples that a real agent has printed (type
 * print) as samples of NODES nodes. Prints bytes and processor time per sample. Not a test: see
 * docs/udmon.md.
 */
#include "udmon/collector/api.h"
#include "udmon/collector/history.h"
#include "udmon/lib/net/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double processor_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + (now.tv_nsec * 1e-9);
}

/* Lines of udmon-agent's "print" node: NAME VALUE TIME_MS */
static uint64_t read_samples(const char *path, struct store *store, struct history *history,
                             unsigned nodes, int64_t *last_ms_p)
{
    FILE *file = fopen(path, "r");
    char line[1024], *value, *time_text, name[32];
    int64_t time_ms, commit_ms = 0;
    uint64_t count = 0;
    struct series *series;
    unsigned i;

    if (file == NULL) {
        perror(path);
        exit(1);
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        time_text = strrchr(line, ' ');
        *time_text++ = '\0';
        value = strrchr(line, ' ');
        *value++ = '\0';
        time_ms = atoll(time_text);
        if (time_ms - commit_ms >= 1000) {
            history_commit(history);
            commit_ms = time_ms;
        }
        for (i = 0; i < nodes; ++i) {
            snprintf(name, sizeof(name), "node%u", i);
            series = store_series(store_host(store, name), line);
            series->counter =
                strstr(line, "_seconds") || strstr(line, "_bytes{") || strstr(line, "completed");
            history_add(history, series, time_ms, strtod(value, NULL));
            ++count;
        }
        *last_ms_p = time_ms;
    }
    fclose(file);
    return count;
}

static void finish(struct series *series, void *history)
{
    history_finish(history, series);
}

int main(int argc, char **argv)
{
    struct history history;
    struct stat status;
    int64_t last_ms = 0;
    uint64_t count;
    struct store store;
    double before;
    struct host *host;

    if (argc != 4) {
        fprintf(stderr, "Usage: history_bench DATABASE SAMPLES NODES\n");
        return 2;
    }
    store_init(&store);
    if (history_open(&history, argv[1], 30 * 86400, INT64_C(1) << 40) < 0) {
        return 1;
    }
    before = processor_s();
    count = read_samples(argv[2], &store, &history, atoi(argv[3]), &last_ms);
    before = processor_s() - before;
    LIST_FOREACH(host, &store.hosts, list) {
        store_each(host, finish, &history);
    }
    history_commit(&history);
    printf("samples %llu, us each %.3f\n", (unsigned long long)count, before * 1e6 / count);
    history_close(&history);
    if (stat(argv[1], &status) == 0) {
        printf("bytes %lld, each %.2f\n", (long long)status.st_size,
               (double)status.st_size / count);
    }
    store_free(&store);
    return 0;
}
