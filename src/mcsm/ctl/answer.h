/* How the commands of mcsm-ctl write their JSON. */
#ifndef MCSM_ANSWER_H
#define MCSM_ANSWER_H

#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>

void mcsm_add_text(struct json_object *object, const char *key, const char *text);
void mcsm_add_number(struct json_object *object, const char *key, int64_t number);
/** A number with three decimals. */
void mcsm_add_decimal(struct json_object *object, const char *key, double number);
void mcsm_add_guid(struct json_object *object, const char *key, uint64_t guid);

/** Writes the answer "json" and releases `json`. */
void mcsm_send_json(FILE *out, struct json_object *json);

#endif
