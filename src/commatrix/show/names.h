/*
 * Short forms of names that stay distinct.
 */
#ifndef CM_NAMES_H
#define CM_NAMES_H

#include <glib.h>

/**
 * Shortens a set of names together: each short form has at most `most` characters (6 at least), and
 * different names have different short forms. The common beginning and the common
 * end are dropped first; an ellipsis marks each omission. Returns as many strings as there are
 * names, to be freed by g_strfreev().
 */
char **cm_names_shorten(const GPtrArray *names, guint most);

#endif
