/* Compares the arguments of a call with its description; see api.h. */
#include "api.h"

#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

static void refuse(struct call *call, const struct param *p, const char *value)
{
    switch (p->kind) {
    case PARAM_WHOLE:
        call_error(call, 400, "%s is a whole number from %.0f to %.0f, not \"%.40s\"", p->name,
                   p->min, p->max, value);
        break;
    case PARAM_REAL:
        call_error(call, 400, "%s is a number from %.17g to %.17g, not \"%.40s\"", p->name, p->min,
                   p->max, value);
        break;
    case PARAM_TEXT:
        call_error(call, 400, "%s is text of %.0f to %.0f bytes", p->name, p->min, p->max);
        break;
    case PARAM_WORD:
        call_error(call, 400, "%s is one of %s, not \"%.40s\"", p->name, p->words, value);
        break;
    case PARAM_NUMBER:
        call_error(call, 400, "%s is a number of 64 bits as text, not \"%.40s\"", p->name, value);
        break;
    case PARAM_HEX:
        call_error(call, 400, "%s is %.0f to %.0f bytes of two hexadecimal digits each", p->name,
                   p->min, p->max);
        break;
    default:
        call_error(call, 400, "%s is a JSON object", p->name);
    }
}

static bool is_whole(const char *text, double min, double max)
{
    const char *digits = text + (text[0] == '-');
    bool hex = strncmp(digits, "0x", 2) == 0;
    size_t len = strlen(digits);
    long long value;
    char *end;

    if (len == 0 || strspn(digits, hex ? "0123456789abcdefABCDEFx" : "0123456789") != len) {
        return false;
    }
    errno = 0;
    value = strtoll(text, &end, hex ? 16 : 10);
    return errno == 0 && *end == '\0' && (double)value >= min && (double)value <= max;
}

static bool is_real(const char *text, double min, double max)
{
    size_t len = strlen(text);
    double value;
    char *end;

    if (len == 0 || strspn(text, "0123456789+-.eE") != len) {
        return false;
    }
    value = strtod(text, &end);
    return *end == '\0' && isfinite(value) && value >= min && value <= max;
}

/* At most 20 decimal or 16 hexadecimal digits, within 64 bits. */
static bool is_number(const char *text)
{
    bool hex = strncmp(text, "0x", 2) == 0;
    const char *digits = hex ? text + 2 : text;
    size_t len = strlen(digits);

    errno = 0;
    strtoull(digits, NULL, hex ? 16 : 10);
    return len > 0 && len <= (hex ? 16 : 20) && errno == 0 &&
           strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789") == len;
}

static bool is_word(const char *text, const char *words)
{
    size_t len = strlen(text);
    const char *p = words;

    while (p != NULL) {
        if (strncmp(p, text, len) == 0 && len > 0 && (p[len] == '|' || p[len] == '\0')) {
            return true;
        }
        p = strchr(p, '|');
        p += p != NULL;
    }
    return false;
}

static bool is_hex(const char *text, double min, double max)
{
    size_t len = strlen(text);

    return strspn(text, "0123456789abcdefABCDEF") == len && len % 2 == 0 &&
           (double)len / 2 >= min && (double)len / 2 <= max;
}

static bool text_fits(const struct param *p, const char *text)
{
    switch (p->kind) {
    case PARAM_WHOLE:
        return is_whole(text, p->min, p->max);
    case PARAM_REAL:
        return is_real(text, p->min, p->max);
    case PARAM_TEXT:
        return (double)strlen(text) >= p->min && (double)strlen(text) <= p->max;
    case PARAM_WORD:
        return is_word(text, p->words);
    case PARAM_NUMBER:
        return is_number(text);
    case PARAM_HEX:
        return is_hex(text, p->min, p->max);
    default:
        return false;
    }
}

/* A member of a body has a JSON type, too. */
static bool member_fits(const struct param *p, struct json_object *value)
{
    switch (p->kind) {
    case PARAM_OBJECT:
        return json_object_is_type(value, json_type_object);
    case PARAM_WHOLE:
        return json_object_is_type(value, json_type_int) &&
               (double)json_object_get_int64(value) >= p->min &&
               (double)json_object_get_int64(value) <= p->max;
    case PARAM_REAL:
        return (json_object_is_type(value, json_type_int) ||
                json_object_is_type(value, json_type_double)) &&
               json_object_get_double(value) >= p->min && json_object_get_double(value) <= p->max;
    default:
        return json_object_is_type(value, json_type_string) &&
               strlen(json_object_get_string(value)) == (size_t)json_object_get_string_len(value) &&
               text_fits(p, json_object_get_string(value));
    }
}

static const struct param *find_param(const struct api *api, const char *name)
{
    const struct param *p = api->params;

    while (p != NULL && p->kind != PARAM_END && strcmp(p->name, name) != 0) {
        p++;
    }
    return p != NULL && p->kind != PARAM_END ? p : NULL;
}

struct query {
    struct call *call;
    const struct api *api;
    bool ok;
};

static enum MHD_Result check_argument(void *arg, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct query *q = arg;
    const struct param *p = find_param(q->api, name);

    (void)kind;
    if (p == NULL) {
        call_error(q->call, 400, "the call has no argument \"%.40s\"", name);
        q->ok = false;
    } else if (!text_fits(p, value != NULL ? value : "")) {
        refuse(q->call, p, value != NULL ? value : "");
        q->ok = false;
    }
    return q->ok ? MHD_YES : MHD_NO;
}

static bool check_body(struct call *call, const struct api *api)
{
    const struct param *p;

    if (call->body == NULL) {
        return true;
    }
    json_object_object_foreach(call->body, name, value) {
        p = find_param(api, name);
        if (p == NULL) {
            call_error(call, 400, "the call has no argument \"%.40s\"", name);
            return false;
        }
        if (!member_fits(p, value)) {
            refuse(call, p, json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
            return false;
        }
    }
    return true;
}

bool api_check(struct call *call, const struct api *api)
{
    struct query query = {call, api, true};
    const struct param *p;

    if (call->get) {
        MHD_get_connection_values(call->connection, MHD_GET_ARGUMENT_KIND, check_argument, &query);
    } else {
        query.ok = check_body(call, api);
    }
    for (p = api->params; query.ok && p != NULL && p->kind != PARAM_END; p++) {
        if (p->required && p->kind != PARAM_OBJECT && call_text(call, p->name) == NULL) {
            call_error(call, 400, "the argument %s is missing", p->name);
            query.ok = false;
        }
    }
    return query.ok;
}
