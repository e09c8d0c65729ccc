#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Make room for `more` bytes and the end of the string. */
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
    size_t room = text->size - text->length;
    va_list args;
    int length;

    /* Nearly always it fits what there is; if not, again with enough. */
    va_start(args, format);
    length = vsnprintf((room > 0) ? (text->bytes + text->length) : NULL, room, format, args);
    va_end(args);
    if (length < 0) {
        text->failed = 1;
        return;
    }
    if ((size_t)length >= room) {
        if (!text_room(text, length)) {
            return;
        }
        va_start(args, format);
        vsnprintf(text->bytes + text->length, length + 1, format, args);
        va_end(args);
    }
    text->length += length;
}
