/* A text that grows; once memory has failed it stays as it is and says so. */
#ifndef UDMON_COLLECTOR_TEXT_H
#define UDMON_COLLECTOR_TEXT_H

#include <stddef.h>

typedef struct text {
    char *bytes;
    size_t length, size;
    int failed;
} text_t;

void text_add(text_t *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
