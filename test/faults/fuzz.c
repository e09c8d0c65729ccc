#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t fuzz_take(struct fuzz_input *input, unsigned bytes)
{
    uint64_t value = 0;
    size_t length = bytes < input->size ? bytes : input->size;

    memcpy(&value, input->data, length);
    input->data += length;
    input->size -= length;
    return value;
}

uint32_t fuzz_below(struct fuzz_input *input, uint32_t bound)
{
    return (uint32_t)fuzz_take(input, bound <= 256 ? 1 : 4) % bound;
}

uint64_t fuzz_value(struct fuzz_input *input)
{
    uint64_t power = 1ull << fuzz_below(input, 64);

    switch (fuzz_below(input, 6)) {
    case 0:
        return fuzz_below(input, 256);
    case 1:
        return 0 - (uint64_t)fuzz_below(input, 256);
    case 2:
        return power;
    case 3:
        return power - 1;
    case 4:
        return power + fuzz_below(input, 256);
    default:
        return fuzz_take(input, 8);
    }
}

unsigned fuzz_mutate(struct fuzz_input *input, void *buffer, size_t length)
{
    unsigned i, count = fuzz_below(input, 4), size;
    uint8_t *bytes = buffer;
    uint64_t value;
    size_t at;

    for (i = 0; i < count && length > 0; i++) {
        at = fuzz_below(input, (uint32_t)length);
        size = 1u << fuzz_below(input, 4);
        size = size <= length - at ? size : 1;
        value = fuzz_value(input);
        if (fuzz_below(input, 3) == 0) {
            bytes[at] ^= (uint8_t)(1u << (value % 8));
        } else {
            memcpy(bytes + at, &value, size);
        }
    }
    return count;
}

void fuzz_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "fuzz: ");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}
