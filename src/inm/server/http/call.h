/* A call of the HTTP interface: its arguments and its reply. */
#ifndef INM_CALL_H
#define INM_CALL_H

#include <json-c/json.h>
#include <stdbool.h>

#include "auth.h"
#include "inm/server/core/inmd.h"

struct MHD_Connection;

struct call {
    struct inmd *d;
    struct MHD_Connection *connection;
    char address[64];
    struct auth_session session; /* of the caller */
    struct json_object *body;    /* of a POST: an object, or NULL */
    unsigned status;             /* of the answer; 200 unless set */
    struct json_object *reply;
    char *text;                  /* instead of `reply`: to be freed */
    size_t text_len;
    const char *type;            /* of `text` */
    char new_cookie[AUTH_TOKEN];
    bool drop_cookie;
};

#define PUT_INT(o, name, v)  json_object_object_add(o, name, json_object_new_int64((int64_t)(v)))
#define PUT_REAL(o, name, v) json_object_object_add(o, name, json_object_new_double(v))
#define PUT_TEXT(o, name, v) json_object_object_add(o, name, json_object_new_string(v))
#define PUT_BOOL(o, name, v) json_object_object_add(o, name, json_object_new_boolean(v))

/** An argument of the query; NULL: not given. */
const char *call_arg(struct call *call, const char *name);

/** A member of the body. */
const char *call_text(struct call *call, const char *name);
int64_t call_number(struct call *call, const char *name, int64_t otherwise);

/** Answers with an error. */
void call_error(struct call *call, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/** A chip or port by its name; answers with an error and INM_NONE if it does not exist. */
uint32_t call_chip(struct call *call, const char *name);
uint32_t call_port(struct call *call, const char *name);

#endif
