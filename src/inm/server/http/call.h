/* A call of the HTTP interface: its arguments and its reply. */
#ifndef INM_CALL_H
#define INM_CALL_H

#include "auth.h"
#include "inm/server/core/inmd.h"

#include <json-c/json.h>
#include <stdbool.h>

struct MHD_Connection;

struct call {
    struct inmd *d;
    struct MHD_Connection *connection;
    char address[64];            /* of the caller; behind a trusted proxy: of the proxy's client */
    struct auth_session session; /* of the caller */
    bool get;                    /* arguments are in the query, not in the body */
    struct json_object *body;    /* of a POST: an object, or NULL */
    unsigned status;             /* of the answer; 200 unless set */
    struct json_object *reply;
    char *text; /* instead of `reply`: to be freed */
    size_t text_len;
    const char *type;      /* of `text` */
    const char *file_name; /* of `text`: the browser saves it under this name */
    char new_cookie[AUTH_TOKEN];
    bool drop_cookie;
};

#define PUT_INT(o, name, v)  json_object_object_add(o, name, json_object_new_int64((int64_t)(v)))
#define PUT_REAL(o, name, v) json_object_object_add(o, name, json_object_new_double(v))
#define PUT_TEXT(o, name, v) json_object_object_add(o, name, json_object_new_string(v))
#define PUT_BOOL(o, name, v) json_object_object_add(o, name, json_object_new_boolean(v))

/**
 * Arguments, from the query of a GET and from the body of a POST. api_check() has compared them with
 * the description of the call before the call is handled: what is there has the right type and
 * range.
 */
const char *call_text(struct call *call, const char *name); /* NULL: not given */
int64_t call_number(struct call *call, const char *name, int64_t otherwise);
double call_real(struct call *call, const char *name, double otherwise);

/** Answers with an error. */
void call_error(struct call *call, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/** Answers with the error of an outcome that is not NET_OK. */
void call_outcome(struct call *call, int outcome);

/** Long operations run one at a time. Waits; @return false after an error: another one goes on. */
bool call_begin_long(struct call *call);
void call_end_long(struct call *call);

/** Answers with rows as CSV (RFC 4180); the first line has the names of the columns. Takes `rows`. */
void call_csv(struct call *call, struct json_object *rows, const char *const *columns,
              const char *file_name);

/** The chip of an argument; answers with an error and INM_NONE if it does not exist. */
uint32_t call_chip(struct call *call, const char *name);

#endif
