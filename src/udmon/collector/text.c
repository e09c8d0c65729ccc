#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int text_room(text_t *text, size_t more)
{
    size_t size = (text->size > 0) ? text->size : 4096;
    char *bytes;

    while (size < (text->length + more + 1)) {
        size *= 2;
    }
    if (size != text->size) {
        bytes = text->failed ? NULL : realloc(text->bytes, size);
        if (bytes == NULL) {
            text->failed = 1;
            return 0;
        }
        text->bytes = bytes;
        text->size = size;
    }
    return 1;
}

void text_add(text_t *text, const char *format, ...)
{
    va_list args, again;
    int length;

    va_start(args, format);
    va_copy(again, args);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if ((length >= 0) && text_room(text, length)) {
        vsnprintf(text->bytes + text->length, length + 1, format, again);
        text->length += length;
    }
    va_end(again);
}

void text_add_json(text_t *text, const char *string)
{
    text_add(text, "\"");
    for (; *string != '\0'; ++string) {
        if ((*string == '"') || (*string == '\\')) {
            text_add(text, "\\%c", *string);
        } else if ((unsigned char)*string < ' ') {
            text_add(text, "\\u%04x", *string);
        } else {
            text_add(text, "%c", *string);
        }
    }
    text_add(text, "\"");
}
