/*
 * The transport's way into UCX. It is compiled against the internal headers of one build of UCX,
 * whose structures and tables differ from build to build: in another one it would read and write
 * memory at random. So the constructor first asks which libuct this is, and stays out of a foreign
 * one; the program goes on without glex. src/uct/preload has compared all libraries of UCX before
 * it opens the transport. This check serves programs that load the transport in another way.
 *
 * A build is known by libuct's GNU build-id, which the linker computes of all that it links. Where
 * there is none to compare, the version that libucp tells has to do.
 */
#include "compat/glex_compat.h"

#include <openglex.h>
#include <ucs/debug/log.h>
#include <ucs/sys/compiler_def.h>
#include <ucs/sys/math.h>

#include <dlfcn.h>
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define UCT_GLEX_BUILD_ID_MAX 64 /* bytes; linkers make 8 to 32 */

/* Registration, as UCT_SINGLE_TL_INIT defines it in glex_iface.c */
UCT_TL_DECL(glex)

static int uct_glex_registered;

/* The build-id in an object's notes, which end at `length` whatever they say of their sizes */
static void uct_glex_read_notes(const uint8_t *notes, size_t length, size_t align, char *build_id)
{
    const Elf64_Nhdr *note;
    size_t desc, end, i;

    for (; length >= sizeof(*note); notes += end, length -= end) {
        note = (const Elf64_Nhdr *)notes;
        desc = ucs_align_up_pow2(sizeof(*note) + note->n_namesz, align);
        end = ucs_align_up_pow2(desc + note->n_descsz, align);
        if (desc + note->n_descsz > length) {
            return;
        }
        if ((note->n_type == NT_GNU_BUILD_ID) && (note->n_descsz <= UCT_GLEX_BUILD_ID_MAX) &&
            (note->n_namesz == sizeof(ELF_NOTE_GNU)) &&
            (memcmp(note + 1, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0)) {
            for (i = 0; i < note->n_descsz; ++i) {
                snprintf(build_id + 2 * i, 3, "%02x", notes[desc + i]);
            }
            return;
        }
        /* The padding after the last note may be left out */
        end = ucs_min(end, length);
    }
}

/**
 * The GNU build-id of a loaded object, as readelf prints it.
 *
 * @param base      Where the object begins, from dladdr().
 * @param build_id  At least 2 * UCT_GLEX_BUILD_ID_MAX + 1 bytes; empty if the object has none.
 */
static void uct_glex_read_build_id(const uint8_t *base, char *build_id)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)base;
    const Elf64_Phdr *first, *segment, *end;

    build_id[0] = '\0';
    /* By convention, not by law, the headers are a part of what is loaded */
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
        return;
    }
    first = (const Elf64_Phdr *)(base + header->e_phoff);
    end = first + header->e_phnum;
    while ((first < end) && (first->p_type != PT_LOAD)) {
        ++first;
    }
    for (segment = (const Elf64_Phdr *)(base + header->e_phoff); segment < end; ++segment) {
        if (segment->p_type == PT_NOTE) {
            uct_glex_read_notes(base + (segment->p_vaddr - first->p_vaddr), segment->p_memsz,
                                (segment->p_align == 8) ? 8 : 4, build_id);
        }
    }
}

/* Without a word of UCX's: its log, too, belongs to the build that we do not know */
static void uct_glex_refuse(const char *path, const char *what, const char *expected,
                            const char *found)
{
    fprintf(stderr,
            "glex: not loaded: built for UCX " UCX_VERSION " (libuct of %s %s), but found %s of"
            " %s %s: build openglex again (contrib/quickstart)\n",
            what, expected, path, what, found);
}

static int uct_glex_is_built_for_this_ucx(void)
{
    char build_id[2 * UCT_GLEX_BUILD_ID_MAX + 1] = "";
    Dl_info libuct = {.dli_fname = "libuct"};
    const char *(*get_version)(void);

    /* Not by the file's name: a program may bring libuct under another, or in itself. By a function
     * that all versions have, and that programs have no reason to define or to point to. */
    if (dladdr((const void *)uct_base_iface_query, &libuct) != 0) {
        uct_glex_read_build_id(libuct.dli_fbase, build_id);
    }
    if ((build_id[0] != '\0') && (UCX_BUILD_ID[0] != '\0')) {
        if (strcmp(build_id, UCX_BUILD_ID) != 0) {
            uct_glex_refuse(libuct.dli_fname, "build-id", UCX_BUILD_ID, build_id);
            return 0;
        }
        return 1;
    }

    /* Not there in programs that use libuct alone or load libucp later */
    get_version = (const char *(*)(void))dlsym(RTLD_DEFAULT, "ucp_get_version_string");
    if (get_version == NULL) {
        ucs_debug("glex: cannot tell whether %s is of UCX " UCX_VERSION, libuct.dli_fname);
        return 1;
    }
    if (strcmp(get_version(), UCX_VERSION) != 0) {
        uct_glex_refuse(libuct.dli_fname, "version", UCX_VERSION, get_version());
        return 0;
    }
    return 1;
}

static void UCS_F_CTOR uct_glex_load(void)
{
    if (uct_glex_is_built_for_this_ucx()) {
        uct_glex_init();
        uct_glex_registered = 1;
    }
}

static void UCS_F_DTOR uct_glex_unload(void)
{
    if (uct_glex_registered) {
        uct_glex_cleanup();
    }
}
