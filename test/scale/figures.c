/* Common measurements and output of the programs of this directory. */
#include "scale.h"
#include "measure.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

size_t heap_used(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

size_t shared_used(void)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    size_t total = 0, kilobytes;
    char line[512];
    int ours = 0;

    if (file == NULL) {
        fail("cannot read /proc/self/smaps: %s", strerror(errno));
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strchr(line, '-') != NULL && strstr(line, "kB") == NULL) {
            ours = strstr(line, "/glex-") != NULL || strstr(line, "/dev/shm/") != NULL;
        } else if (ours && sscanf(line, "Rss: %zu kB", &kilobytes) == 1) {
            total += kilobytes * 1024;
        }
    }
    fclose(file);
    return total;
}

double processor_time(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void progress_note(const char *what, uint64_t done, uint64_t of)
{
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K%s: %llu of %llu%s", what, (unsigned long long)done,
                (unsigned long long)of, done == of ? "\r\033[K" : "");
    }
}

void figure(const char *name, double value)
{
    printf("%s %.9g\n", name, value);
    fflush(stdout);
}
