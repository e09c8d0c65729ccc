/*
 * What this process holds: mappings, descriptors, address space, shared memory. For tests in C and C++
 * that let objects come and go. Each function ends the process with a message if /proc cannot be read.
 */
#ifndef UCT_GLEX_TEST_HOLDINGS_H
#define UCT_GLEX_TEST_HOLDINGS_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files behind descriptors that one look can tell apart */
#define HOLDINGS_FILES 4096

struct holdings {
    unsigned long maps, fds, vm_kib, shared_kib;
};

static inline void holdings_check(int is_right, const char *what)
{
    if (!is_right) {
        fprintf(stderr, "cannot tell what this process holds: %s\n", what);
        exit(1);
    }
}

static inline unsigned long holdings_lines(const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned long lines = 0;
    int c;

    holdings_check(file != NULL, path);
    while ((c = fgetc(file)) != EOF) {
        lines += (c == '\n');
    }
    fclose(file);
    return lines;
}

/* Descriptors, and the pages of all files behind descriptors, each file once */
static inline void holdings_files(struct holdings *now)
{
    static struct stat seen[HOLDINGS_FILES];
    DIR *dir = opendir("/proc/self/fd");
    unsigned i, count = 0;
    struct dirent *entry;
    struct stat info;

    holdings_check(dir != NULL, "/proc/self/fd");
    while ((entry = readdir(dir)) != NULL) {
        if (fstatat(dirfd(dir), entry->d_name, &info, 0) != 0) {
            continue; /* "..", or the descriptor of the directory */
        }
        ++now->fds;
        for (i = 0; i < count; ++i) {
            if ((seen[i].st_ino == info.st_ino) && (seen[i].st_dev == info.st_dev)) {
                break;
            }
        }
        if (S_ISREG(info.st_mode) && (i == count)) {
            holdings_check(count < HOLDINGS_FILES, "too many files");
            seen[count++] = info;
            now->shared_kib += info.st_blocks / 2;
        }
    }
    closedir(dir);
}

static inline struct holdings holdings_look(void)
{
    struct holdings now = {0, 0, 0, 0};
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    holdings_check((file != NULL) && (fscanf(file, "%lu", &pages) == 1), "/proc/self/statm");
    fclose(file);
    now.vm_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    now.maps = holdings_lines("/proc/self/maps");
    holdings_files(&now);
    return now;
}

#endif
