/* Calls of the HTTP interface: what http.c hands to their functions. */
#ifndef INM_API_H
#define INM_API_H

#include <json-c/json.h>
#include <stdbool.h>

#include "auth.h"
#include "inmd.h"

struct MHD_Connection;

struct call {
    struct inmd *d;
    struct MHD_Connection *connection;
    char address[64];
    struct auth_session session; /* who asks */
    struct json_object *body;    /* of a POST: an object, or NULL */
    unsigned status;             /* of the answer; 200 unless set */
    struct json_object *reply;
    char *text;                  /* instead of `reply`: to be freed */
    size_t text_len;
    const char *type;            /* of `text` */
    char new_cookie[AUTH_TOKEN];
    bool drop_cookie;
};

struct api {
    const char *method, *path;
    enum auth_role role; /* needed; ROLE_NONE: anybody */
    void (*handle)(struct call *call);
    bool audit;
};
extern const struct api api_read[], api_change[]; /* end with a NULL path */

/** An argument of the query; NULL: not given. */
const char *call_arg(struct call *call, const char *name);
/** A member of the body. */
const char *call_text(struct call *call, const char *name);
int64_t call_number(struct call *call, const char *name, int64_t otherwise);
/** Answer with an error. */
void call_error(struct call *call, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** A chip or port named in text; answers with an error and INM_NONE if there is none. */
uint32_t call_chip(struct call *call, const char *name);
uint32_t call_port(struct call *call, const char *name);

/** OpenMetrics of the server. @return To be freed. */
char *metrics_text(struct inmd *d, size_t *len);

#endif
