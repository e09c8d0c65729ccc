/* How the commands of mcsm-ctl write their JSON. */
#ifndef MCSM_ANSWER_H
#define MCSM_ANSWER_H

#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>

typedef struct json_object json_t;

void mcsm_add_text(json_t *object, const char *key, const char *text);
void mcsm_add_number(json_t *object, const char *key, int64_t number);
void mcsm_add_guid(json_t *object, const char *key, uint64_t guid);

/* Writes the answer "json" and releases `json`. */
void mcsm_send_json(FILE *out, json_t *json);

#endif
