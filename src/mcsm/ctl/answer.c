#include "answer.h"

void mcsm_add_text(json_t *object, const char *key, const char *text)
{
    json_object_object_add(object, key, json_object_new_string(text));
}

void mcsm_add_number(json_t *object, const char *key, int64_t number)
{
    json_object_object_add(object, key, json_object_new_int64(number));
}

void mcsm_add_guid(json_t *object, const char *key, uint64_t guid)
{
    char text[24];

    snprintf(text, sizeof(text), "0x%016lx", guid);
    mcsm_add_text(object, key, text);
}

void mcsm_send_json(FILE *out, json_t *json)
{
    fprintf(
        out, "json\n%s\n",
        json_object_to_json_string_ext(json, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
    json_object_put(json);
}
