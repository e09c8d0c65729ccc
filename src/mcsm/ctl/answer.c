#include "answer.h"

void mcsm_add_text(struct json_object *object, const char *key, const char *text)
{
    json_object_object_add(object, key, json_object_new_string(text));
}

void mcsm_add_number(struct json_object *object, const char *key, int64_t number)
{
    json_object_object_add(object, key, json_object_new_int64(number));
}

void mcsm_add_decimal(struct json_object *object, const char *key, double number)
{
    char text[32];

    snprintf(text, sizeof(text), "%.3f", number);
    json_object_object_add(object, key, json_object_new_double_s(number, text));
}

void mcsm_add_guid(struct json_object *object, const char *key, uint64_t guid)
{
    char text[24];

    snprintf(text, sizeof(text), "0x%016lx", guid);
    mcsm_add_text(object, key, text);
}

void mcsm_send_json(FILE *out, struct json_object *json)
{
    fprintf(
        out, "json\n%s\n",
        json_object_to_json_string_ext(json, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
    json_object_put(json);
}
