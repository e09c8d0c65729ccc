/*
 * The names of all environment variables GLEX_*: of libglex and of the programs and libraries of
 * this project. docs/variables.md describes the variables.
 */
#ifndef GLEX_ENV_NAMES_H
#define GLEX_ENV_NAMES_H

#include <stddef.h>

/**
 * Returns the name that `name` of `len` bytes is most like: at most a third of its letters differ.
 * Returns NULL if no name is like it. A variable of this project is most like itself.
 */
const char *glex_env_nearest_name(const char *name, size_t len);

/** Prints a warning for each variable GLEX_* of the environment that no program of this project reads. */
void glex_env_check_names(void);

#endif
