/*
 * The shared objects of this process: which object defines a function, and the GNU build-id of
 * an object.
 */
#ifndef GLEX_PRELOAD_OBJECTS_H
#define GLEX_PRELOAD_OBJECTS_H

#include <stdbool.h>

#define PRELOAD_BUILD_ID_MAX 64 /* bytes; linkers make 8 to 32 */

struct preload_object {
    const char *path; /* owned by the dynamic linker; "" for the program itself */
    const void *base; /* its ELF header */
};

/** Finds the object that contains `address`. Returns false if no object does. */
bool preload_object_of(const void *address, struct preload_object *object);

/**
 * Finds the function that a call of `name` in `caller` reaches without this library: the
 * dynamic linker searches the global objects first, then `caller` and its dependencies.
 *
 * Returns NULL if none of them defines the function.
 */
void *preload_function(const struct preload_object *caller, const char *name);

/**
 * Reads the GNU build-id of an object as readelf prints it.
 *
 * @param build_id  2 * PRELOAD_BUILD_ID_MAX + 1 bytes. Empty if the object has no build-id.
 */
void preload_build_id(const struct preload_object *object, char *build_id);

#endif
