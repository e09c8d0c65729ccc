/* The calls of the HTTP interface. */
#ifndef INM_API_H
#define INM_API_H

#include "call.h"

struct api {
    const char *method, *path;
    enum auth_role role; /* needed; ROLE_NONE: anybody */
    void (*handle)(struct call *call);
    bool audit;
};
extern const struct api api_read[], api_change[]; /* end with a NULL path */

#endif
