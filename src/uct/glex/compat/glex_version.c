/*
 * Registration of the transport with UCX. The transport is compiled against the internal headers of
 * one build of UCX. Structures and tables differ between builds, so in another build the transport
 * would read and write wrong memory. The constructor identifies libuct first, and does not register
 * with a foreign libuct. Then the program goes on without glex. src/uct/preload compares all
 * libraries of UCX before opening the transport. This check serves programs that load the transport
 * in another way.
 *
 * The GNU build-id of libuct identifies a build. The linker computes the build-id from all linked
 * code. Without a build-id, the version that libucp reports must match.
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

/* Finds the build-id in an object's notes. The notes end at `length`, whatever sizes they
 * contain. */
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
        /* The last note of an ELF section may have no padding */
        end = ucs_min(end, length);
    }
}

/**
 * Reads the GNU build-id of a loaded object, in the format of readelf.
 *
 * @param base      The object's first byte, from dladdr().
 * @param build_id  At least 2 * UCT_GLEX_BUILD_ID_MAX + 1 bytes; empty if the object has none.
 */
static void uct_glex_read_build_id(const uint8_t *base, char *build_id)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)base;
    const Elf64_Phdr *first, *segment, *end;

    build_id[0] = '\0';
    /* The headers are usually a part of the loaded segments, but no standard demands this */
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

/* Does not use UCX's log, because the log is a part of the unknown build */
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

    /* A program may contain libuct, or load libuct under another file name. So the address of a
     * function identifies the object. Every version has this function, and no program has a reason
     * to define the function. */
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

    /* NULL in programs that use only libuct, or load libucp later */
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
