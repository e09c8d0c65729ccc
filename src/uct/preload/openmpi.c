/*
 * Dynamic windows of Open MPI. Its component osc ucx crashes in such a window if a rank has attached
 * several regions (4.1.4, over each transport of UCX). For other windows osc ucx is several times
 * as fast as other components, so glexrun gives osc ucx the highest priority. The functions here
 * withdraw the priority for one call: Open MPI then selects another component for this window.
 *
 * Open MPI has no interface to choose the component of one window. The priority is a variable of
 * the component that Open MPI reads for each window, and mca_base_var_get_value() returns the
 * address of this variable. A list of components in OMPI_MCA_osc still restricts the choice.
 */
#include "objects.h"

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

#define PRIORITY "osc_ucx_priority"

/* No MPI_SUCCESS of any MPI */
#define MPI_FAILURE 1

/* Arguments are of MPI's types: pointers in Open MPI, integers in MPICH. */
typedef int (*create_fn)(uintptr_t info, uintptr_t comm, void *win_p);

EXPORT int MPI_Win_create_dynamic(uintptr_t info, uintptr_t comm, void *win_p);
EXPORT int PMPI_Win_create_dynamic(uintptr_t info, uintptr_t comm, void *win_p);

/* Returns the address of the priority, or NULL: another MPI, or one without osc ucx. */
static int *priority_of_ucx(const struct preload_object *caller)
{
    int (*find)(const char *, int *);
    int (*get)(int, void *, void *, void *);
    int *priority;
    int index;

    find = (int (*)(const char *, int *))preload_function(caller, "mca_base_var_find_by_name");
    get = (int (*)(int, void *, void *, void *))preload_function(caller, "mca_base_var_get_value");
    if (find == NULL || get == NULL || find(PRIORITY, &index) != 0 ||
        get(index, &priority, NULL, NULL) != 0) {
        return NULL;
    }
    return priority;
}

static int create(const char *name, const void *return_address, uintptr_t info, uintptr_t comm,
                  void *win_p)
{
    int *priority, saved, result;
    struct preload_object caller;
    create_fn next;

    if (!preload_object_of(return_address, &caller)) {
        caller.path = ""; /* code that was made at run time */
    }
    next = (create_fn)preload_function(&caller, name);
    if (next == NULL) {
        return MPI_FAILURE;
    }
    priority = priority_of_ucx(&caller);
    if (priority == NULL) {
        return next(info, comm, win_p);
    }
    saved = *priority;
    *priority = 0;
    result = next(info, comm, win_p);
    *priority = saved;
    return result;
}

int MPI_Win_create_dynamic(uintptr_t info, uintptr_t comm, void *win_p)
{
    return create("MPI_Win_create_dynamic", __builtin_return_address(0), info, comm, win_p);
}

int PMPI_Win_create_dynamic(uintptr_t info, uintptr_t comm, void *win_p)
{
    return create("PMPI_Win_create_dynamic", __builtin_return_address(0), info, comm, win_p);
}
