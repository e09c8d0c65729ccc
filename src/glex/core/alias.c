/*
 * Memory that this process and a peer share without the NIC. An MPI library may allocate windows in
 * a file that all processes of a host map, as MPICH does for MPI_Win_allocate(). For the NIC such
 * memory is private, and the kernel copies for each put and get. If this process maps the same file,
 * glex_alias_new() makes one more mapping, an alias. Copies to an alias need no kernel.
 *
 * The kernel's list of a process's mappings names the file of each mapping. The alias duplicates the
 * mapping that this process has already. So this process does not open the file. The file may have no
 * name any more. The alias stays valid when the program unmaps its own mapping.
 */
#include "core/alias.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

/* Longer names are compared up to this length. The number of the file differs in any case. */
#define ALIAS_NAME_LEN 128

/* One mapping of a process */
struct alias_region {
    uint64_t start, end;
    uint64_t file_off; /* of `start` */
    uint64_t inode;
    unsigned major, minor;
    char permissions[5];
    char name[ALIAS_NAME_LEN];
};

/* Reads the next line of a list. Returns false at the end of the list. */
static bool alias_next(FILE *list, struct alias_region *region)
{
    char line[256 + ALIAS_NAME_LEN];
    int c, fields;

    if (fgets(line, sizeof(line), list) == NULL) {
        return false;
    }
    if (strchr(line, '\n') == NULL) { /* a long name: skip its rest */
        do {
            c = fgetc(list);
        } while (c != '\n' && c != EOF);
    }
    region->name[0] = '\0';
    fields = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %127[^\n]",
                    &region->start, &region->end, region->permissions, &region->file_off,
                    &region->major, &region->minor, &region->inode, region->name);
    return fields >= 7;
}

/* Whether loads and stores of all processes go to one file in memory. A file on a disk may become
 * shorter at any time, and System V segments of two IPC namespaces may have the same number. */
static bool alias_is_shared_memory(const struct alias_region *region)
{
    return strcmp(region->permissions, "rw-s") == 0 && region->inode != 0 &&
           (strncmp(region->name, "/dev/shm/", 9) == 0 ||
            strncmp(region->name, "/memfd:", 7) == 0 || strncmp(region->name, "/dev/zero", 9) == 0);
}

static bool alias_is_same_file(const struct alias_region *a, const struct alias_region *b)
{
    return a->inode == b->inode && a->major == b->major && a->minor == b->minor &&
           strcmp(a->name, b->name) == 0;
}

static bool alias_contains(const struct alias_region *region, uint64_t addr, uint64_t len)
{
    return addr >= region->start && addr < region->end && len <= region->end - addr;
}

/* The file and the offset of a range in a process's memory. False: the memory is not shared, or the
 * list is not of that process. */
static bool alias_find_file(const char *path, uint64_t known_addr, uint64_t addr, uint64_t len,
                            struct alias_region *file)
{
    bool is_known = false, found = false;
    struct alias_region region;
    FILE *list = fopen(path, "re");

    if (list == NULL) {
        return false;
    }
    while (alias_next(list, &region)) {
        is_known |= alias_contains(&region, known_addr, 1);
        if (alias_contains(&region, addr, len) && alias_is_shared_memory(&region)) {
            *file = region;
            file->file_off += addr - region.start;
            found = true;
        }
    }
    fclose(list);
    return found && is_known;
}

/* Where this process maps a range of a file; NULL: nowhere as one piece */
static char *alias_find_own(const struct alias_region *file, uint64_t len)
{
    struct alias_region region;
    FILE *list = fopen("/proc/self/maps", "re");
    char *addr = NULL;

    if (list == NULL) {
        return NULL;
    }
    while (addr == NULL && alias_next(list, &region)) {
        if (alias_is_shared_memory(&region) && alias_is_same_file(&region, file) &&
            file->file_off >= region.file_off &&
            alias_contains(&region, region.start + (file->file_off - region.file_off), len)) {
            addr = (char *)(uintptr_t)(region.start + (file->file_off - region.file_off));
        }
    }
    fclose(list);
    return addr;
}

/* Returns whether a mapping of this process shows the expected file. Another thread may have
 * replaced the mapping between the check and the duplication. */
static bool alias_is_right(char *addr, uint64_t len, const struct alias_region *file)
{
    uint64_t number = (uint64_t)(uintptr_t)addr;
    struct alias_region found;

    return alias_find_file("/proc/self/maps", number, number, len, &found) &&
           alias_is_same_file(&found, file) && found.file_off == file->file_off;
}

struct glex_mapping *glex_alias_new(uint32_t pid, uint64_t known_addr, uint64_t addr, uint64_t len)
{
    uint64_t start = addr & ~(glex_page_size() - 1);
    struct glex_mapping *map;
    struct alias_region file;
    char path[32], *own, *alias;

    if (len > UINT64_MAX - glex_page_size() || addr > UINT64_MAX - glex_page_size() - len) {
        return NULL; /* a wrong range of the peer: the end of its last page is above UINT64_MAX */
    }
    len = glex_round_up(addr + len, glex_page_size()) - start;
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/maps", pid);
    if (!alias_find_file(path, known_addr, start, len, &file)) {
        return NULL;
    }
    own = alias_find_own(&file, len);
    /* An old length of 0 duplicates a shared mapping, and fails for a private one. */
    alias = own == NULL ? MAP_FAILED : mremap(own, 0, len, MREMAP_MAYMOVE);
    if (alias == MAP_FAILED) {
        return NULL;
    }
    map = alias_is_right(alias, len, &file) ? glex_mapping_adopt(alias, file.file_off, len) : NULL;
    if (map == NULL) {
        munmap(alias, len);
    }
    return map;
}
