/*
 * The parts of a registration. A registration of given memory has a part for each piece. A
 * registration of all memory, (NULL, UINT64_MAX), begins without parts. It gets a part when a peer
 * asks for an address: the mapping around the address, as /proc/self/maps shows it, but at most
 * the GFI_PART_SPAN bytes of an aligned window. So a part never has parts of another mapping,
 * unreadable memory, or terabytes that a program has only reserved.
 */
#include "gfi.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define GFI_PART_SPAN (UINT64_C(1) << 30)

/* A mapping of this process */
struct gfi_mapping {
    uint64_t start, end;
    uint64_t access; /* FI_REMOTE_READ, FI_REMOTE_WRITE */
};

static int gfi_mr_part_register(const struct gfi_mr *mr, struct gfi_mr_part *part)
{
    struct gfi_uct *uct = &mr->domain->uct;
    ucs_status_t status;

    part->memh = UCT_MEM_HANDLE_NULL;
    if (part->length == 0 || !gfi_uct_can_register(uct)) {
        return 0;
    }
    status = uct_md_mem_reg(uct->md, part->addr, part->length,
                            UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS, &part->memh);
    if (status == UCS_OK) {
        status = uct_md_mkey_pack(uct->md, part->memh, part->rkey);
        if (status != UCS_OK) {
            uct_md_mem_dereg(uct->md, part->memh);
        }
    }
    if (status != UCS_OK) {
        GFI_WARN(FI_LOG_MR, "%zu bytes at %p cannot be registered: %s\n", part->length,
                 (void *)part->addr, ucs_status_string(status));
        return -gfi_uct_errno(status);
    }
    part->rkey_len = uct->md_attr.rkey_packed_size;
    return 0;
}

int gfi_mr_add_part(struct gfi_mr *mr, uint64_t base, void *addr, size_t length, uint64_t access)
{
    struct gfi_mr_part *parts = realloc(mr->parts, (mr->num_parts + 1) * sizeof(*parts)), *part;
    int ret;

    if (parts == NULL) {
        return -FI_ENOMEM;
    }
    mr->parts = parts;
    part = &parts[mr->num_parts];
    memset(part, 0, sizeof(*part));
    part->base = base;
    part->addr = addr;
    part->length = length;
    part->access = access;
    ret = gfi_mr_part_register(mr, part);
    mr->num_parts += ret == 0;
    return ret;
}

void gfi_mr_drop_parts(struct gfi_mr *mr)
{
    size_t i;

    for (i = 0; i < mr->num_parts; i++) {
        if (mr->parts[i].memh != UCT_MEM_HANDLE_NULL) {
            uct_md_mem_dereg(mr->domain->uct.md, mr->parts[i].memh);
        }
    }
    free(mr->parts);
    mr->parts = NULL;
    mr->num_parts = 0;
}

/* One line of /proc/self/maps. The kernel's own pages cannot be read by other processes. @return
 * whether the line is a readable mapping with this address */
static bool gfi_mapping_read(const char *line, uint64_t at, struct gfi_mapping *mapping)
{
    char rights[5] = "", name[4] = "";

    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %3s", &mapping->start, &mapping->end,
               rights, name) < 3) {
        return false;
    }
    mapping->access = FI_REMOTE_READ | (rights[1] == 'w' ? FI_REMOTE_WRITE : 0);
    return at >= mapping->start && at < mapping->end && rights[0] == 'r' &&
           strncmp(name, "[v", 2) != 0;
}

static bool gfi_mapping_find(uint64_t at, struct gfi_mapping *mapping)
{
    FILE *file = fopen("/proc/self/maps", "re");
    bool found = false;
    char *line = NULL;
    size_t size = 0;

    if (file == NULL) {
        GFI_WARN(FI_LOG_MR, "a registration of all memory needs /proc/self/maps, which cannot be "
                            "opened: is /proc mounted?\n");
        return false;
    }
    while (!found && getline(&line, &size, file) >= 0) {
        found = gfi_mapping_read(line, at, mapping);
    }
    free(line);
    fclose(file);
    return found;
}

/* A new part of a registration of all memory. Parts do not overlap, so an address has one part */
static struct gfi_mr_part *gfi_mr_map_part(struct gfi_mr *mr, uint64_t at)
{
    uint64_t window = at & ~(GFI_PART_SPAN - 1);
    const struct gfi_mr_part *part;
    struct gfi_mapping mapping;
    size_t i;

    if (!gfi_mapping_find(at, &mapping)) {
        return NULL;
    }
    mapping.start = mapping.start > window ? mapping.start : window;
    mapping.end = gfi_min(mapping.end - window, GFI_PART_SPAN) + window;
    for (i = 0; i < mr->num_parts; i++) {
        part = &mr->parts[i];
        if (part->base > at) {
            mapping.end = gfi_min(mapping.end, part->base);
        } else if (part->base + part->length > mapping.start) {
            mapping.start = part->base + part->length;
        }
    }
    if (gfi_mr_add_part(mr, mapping.start, (void *)(uintptr_t)mapping.start,
                        mapping.end - mapping.start, mapping.access) != 0) {
        return NULL;
    }
    return &mr->parts[mr->num_parts - 1];
}

/* Whether memory of a part is still mapped. An asynchronous msync() checks only this */
static bool gfi_mr_is_mapped(uint64_t at, size_t length)
{
    uint64_t page = at & ~((uint64_t)getpagesize() - 1);

    return msync((void *)(uintptr_t)page, at + length - page, MS_ASYNC) == 0;
}

struct gfi_mr_part *gfi_mr_find_part(struct gfi_mr *mr, uint64_t at)
{
    struct gfi_mr_part *part;
    size_t i;

    for (i = 0; i < mr->num_parts; i++) {
        part = &mr->parts[i];
        if (at >= part->base && at - part->base < part->length) {
            return mr->is_all && !gfi_mr_is_mapped(at, 1) ? NULL : part;
        }
    }
    return mr->is_all ? gfi_mr_map_part(mr, at) : NULL;
}

int gfi_mr_find_memory(struct gfi_mr *mr, uint64_t access, uint64_t at, size_t length,
                       uint8_t **memory_p)
{
    const struct gfi_mr_part *part;

    if (access & ~mr->access) {
        return FI_EACCES;
    }
    if (at < mr->base || length > mr->length || at - mr->base > mr->length - length) {
        return FI_EINVAL;
    }
    part = gfi_mr_find_part(mr, at);
    if (part == NULL || length > part->length - (at - part->base)) {
        return FI_EINVAL;
    }
    if (access & ~part->access) {
        return FI_EACCES;
    }
    *memory_p = part->addr + (at - part->base);
    return mr->is_all && !gfi_mr_is_mapped((uintptr_t)*memory_p, length) ? FI_EINVAL : 0;
}
