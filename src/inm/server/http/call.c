/* Arguments and errors of calls; see call.h. */
#include "call.h"

#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>

const char *call_arg(struct call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *call_text(struct call *call, const char *name)
{
    struct json_object *value;

    return call->body != NULL && json_object_object_get_ex(call->body, name, &value) &&
                   json_object_is_type(value, json_type_string)
               ? json_object_get_string(value) : NULL;
}

int64_t call_number(struct call *call, const char *name, int64_t otherwise)
{
    struct json_object *value;

    return call->body != NULL && json_object_object_get_ex(call->body, name, &value) &&
                   json_object_is_type(value, json_type_int)
               ? json_object_get_int64(value) : otherwise;
}

void call_error(struct call *call, unsigned status, const char *fmt, ...)
{
    char text[400];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    json_object_put(call->reply);
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "error", json_object_new_string(text));
    call->status = status;
}

uint32_t call_chip(struct call *call, const char *name)
{
    uint32_t chip = name != NULL ? inm_chip_parse(call->d->topo, name) : INM_NONE;

    if (chip == INM_NONE) {
        call_error(call, 404, "no such chip: %.40s; names are like r12f3n5, l5s2b13, nic7",
                   name != NULL ? name : "(none)");
    }
    return chip;
}

uint32_t call_port(struct call *call, const char *name)
{
    uint32_t port = name != NULL ? inm_port_parse(call->d->topo, name) : INM_NONE;

    if (port == INM_NONE) {
        call_error(call, 404, "no such port: %.40s; names are like r12f3n5:7",
                   name != NULL ? name : "(none)");
    }
    return port;
}
