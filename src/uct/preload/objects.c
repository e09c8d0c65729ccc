#include "objects.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool preload_object_of(const void *address, struct preload_object *object)
{
    struct link_map *map;
    Dl_info info;

    if (address == NULL || dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0) {
        return false;
    }
    object->path = map->l_name;
    object->base = info.dli_fbase;
    return true;
}

void *preload_function(const struct preload_object *caller, const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    void *handle;

    if (function == NULL && caller->path[0] != '\0') {
        handle = dlopen(caller->path, RTLD_LAZY | RTLD_NOLOAD);
        if (handle != NULL) {
            function = dlsym(handle, name);
            dlclose(handle);
        }
    }
    return function;
}

static size_t align_up(size_t value, size_t align)
{
    return (value + align - 1) & ~(align - 1);
}

/* Sizes within a note may claim more than `length`: the note is then ignored. */
static void read_notes(const uint8_t *notes, size_t length, size_t align, char *build_id)
{
    const ElfW(Nhdr) * note;
    size_t desc, end, i;

    for (; length >= sizeof(*note); notes += end, length -= end) {
        note = (const ElfW(Nhdr) *)notes;
        desc = align_up(sizeof(*note) + note->n_namesz, align);
        end = align_up(desc + note->n_descsz, align);
        if (desc + note->n_descsz > length) {
            return;
        }
        if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz <= PRELOAD_BUILD_ID_MAX &&
            note->n_namesz == sizeof(ELF_NOTE_GNU) &&
            memcmp(note + 1, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0) {
            for (i = 0; i < note->n_descsz; i++) {
                snprintf(build_id + 2 * i, 3, "%02x", notes[desc + i]);
            }
            return;
        }
        if (end > length) { /* the last note may lack its padding */
            return;
        }
    }
}

void preload_build_id(const struct preload_object *object, char *build_id)
{
    const uint8_t *base = object->base;
    const ElfW(Ehdr) *header = object->base;
    const ElfW(Phdr) * first, *segment, *end;

    build_id[0] = '\0';
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
        return;
    }
    first = (const ElfW(Phdr) *)(base + header->e_phoff);
    end = first + header->e_phnum;
    while (first < end && first->p_type != PT_LOAD) {
        first++;
    }
    if (first == end) {
        return;
    }
    for (segment = (const ElfW(Phdr) *)(base + header->e_phoff); segment < end; segment++) {
        if (segment->p_type == PT_NOTE) {
            read_notes(base + (segment->p_vaddr - first->p_vaddr), segment->p_memsz,
                       segment->p_align == 8 ? 8 : 4, build_id);
            if (build_id[0] != '\0') {
                return;
            }
        }
    }
}
