/* Arguments and errors of calls; see call.h. */
#include "call.h"

#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *query(struct call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, name);
}

static struct json_object *member(struct call *call, const char *name)
{
    struct json_object *value = NULL;

    json_object_object_get_ex(call->body, name, &value);
    return value;
}

const char *call_text(struct call *call, const char *name)
{
    struct json_object *value;

    if (call->get) {
        return query(call, name);
    }
    value = member(call, name);
    return value != NULL ? json_object_get_string(value) : NULL;
}

int64_t call_number(struct call *call, const char *name, int64_t otherwise)
{
    struct json_object *value = call->get ? NULL : member(call, name);
    const char *text = call->get ? query(call, name) : NULL;

    return value != NULL ? json_object_get_int64(value) :
           text != NULL  ? strtoll(text, NULL, strstr(text, "0x") != NULL ? 16 : 10) :
                           otherwise;
}

double call_real(struct call *call, const char *name, double otherwise)
{
    struct json_object *value = call->get ? NULL : member(call, name);
    const char *text = call->get ? query(call, name) : NULL;

    return value != NULL ? json_object_get_double(value) :
           text != NULL  ? strtod(text, NULL) :
                           otherwise;
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
    PUT_TEXT(call->reply, "error", text);
    call->status = status;
}

void call_outcome(struct call *call, int outcome)
{
    if (outcome != NET_OK) {
        call_error(call, outcome == NET_NO_ANSWER ? 504 : 422, "%s", outcome_text(outcome));
    }
}

/* Long enough for a poll in the background to end. */
bool call_begin_long(struct call *call)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    if (pthread_mutex_timedlock(&call->d->busy, &until) != 0) {
        call_error(call, 409, "another long operation is running");
        return false;
    }
    return true;
}

void call_end_long(struct call *call)
{
    pthread_mutex_unlock(&call->d->busy);
}

uint32_t call_chip(struct call *call, const char *name)
{
    const char *text = call_text(call, name);
    uint32_t chip = text != NULL ? inm_chip_parse(call->d->topo, text) : INM_NONE;

    if (chip == INM_NONE) {
        call_error(call, 404, "no such chip: %.40s; names are like r12f3n5, l5s2b13, nic7",
                   text != NULL ? text : "(none)");
    }
    return chip;
}

static void csv_cell(FILE *out, struct json_object *row, const char *name, bool last)
{
    struct json_object *value = NULL;
    const char *text;

    json_object_object_get_ex(row, name, &value);
    text = value != NULL ? json_object_get_string(value) : "";
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', out);
        }
        fputc(*text, out);
    }
    fputs(last ? "\"\r\n" : "\",", out);
}

void call_csv(struct call *call, struct json_object *rows, const char *const *columns,
              const char *file_name)
{
    FILE *out = open_memstream(&call->text, &call->text_len);
    size_t i, c;

    if (out == NULL) {
        json_object_put(rows);
        call_error(call, 500, "no memory");
        return;
    }
    for (c = 0; columns[c] != NULL; c++) {
        fprintf(out, "%s%s", columns[c], columns[c + 1] != NULL ? "," : "\r\n");
    }
    for (i = 0; i < json_object_array_length(rows); i++) {
        for (c = 0; columns[c] != NULL; c++) {
            csv_cell(out, json_object_array_get_idx(rows, i), columns[c], columns[c + 1] == NULL);
        }
    }
    fclose(out);
    json_object_put(rows);
    call->type = "text/csv; charset=utf-8";
    call->file_name = file_name;
}
