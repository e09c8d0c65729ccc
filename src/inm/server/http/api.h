/*
 * The calls of the HTTP interface. A table lists for each call the role of the caller, the ranges
 * of the arguments, and the reply. The server checks arguments against the table, and prints
 * docs/inm-openapi.yaml from the table.
 */
#ifndef INM_API_H
#define INM_API_H

#include "call.h"

#include <stdio.h>

enum param_kind {
    PARAM_END,
    PARAM_WHOLE,  /* a whole number from min to max */
    PARAM_REAL,   /* a number from min to max */
    PARAM_TEXT,   /* text of min to max bytes */
    PARAM_WORD,   /* one of `words`, which are separated by | */
    PARAM_NUMBER, /* a number of 64 bits as text, decimal or hexadecimal with 0x */
    PARAM_HEX,    /* min to max bytes, two hexadecimal digits each */
    PARAM_OBJECT  /* a JSON object */
};

struct param {
    const char *name;
    enum param_kind kind;
    double min, max;
    const char *words;
    bool required;
    const char *help; /* or NULL */
};

struct api {
    const char *method, *path;
    enum auth_role role; /* needed; ROLE_NONE: anybody */
    bool audit;          /* uses are logged */
    void (*handle)(struct call *call);
    const char *summary, *reply;
    const struct param *params; /* ends with PARAM_END; NULL: no arguments */
};
extern const struct api api_calls[]; /* ends with a NULL path */

/** Finds a call. @return NULL; *other_method says whether the path has other methods. */
const struct api *api_find(const char *method, const char *path, bool *other_method);

/** Compares the arguments with the description. @return false, after call_error(). */
bool api_check(struct call *call, const struct api *api);

/** Prints the description of all calls as OpenAPI. */
void api_describe(FILE *out);

#endif
