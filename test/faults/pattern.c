#include "rank.h"

#include <string.h>

uint64_t pattern_seed(const struct rank_message *message)
{
    return (uint64_t)message->src << 56 ^ (uint64_t)message->gen << 32 ^ message->seq;
}

static uint64_t pattern_word(uint64_t seed, size_t index)
{
    return (seed + index) * 0x9e3779b97f4a7c15u;
}

void pattern_fill(void *data, size_t length, uint64_t seed)
{
    size_t index, part;
    uint64_t word;

    for (index = 0; index * sizeof(word) < length; index++) {
        word = pattern_word(seed, index);
        part = length - index * sizeof(word);
        memcpy((char *)data + index * sizeof(word), &word,
               part < sizeof(word) ? part : sizeof(word));
    }
}

long pattern_check(const void *data, size_t length, uint64_t seed)
{
    const char *bytes = data;
    size_t index, part, i;
    uint64_t word;

    for (index = 0; index * sizeof(word) < length; index++) {
        word = pattern_word(seed, index);
        part = length - index * sizeof(word);
        part = part < sizeof(word) ? part : sizeof(word);
        if (memcmp(bytes + index * sizeof(word), &word, part) == 0) {
            continue;
        }
        for (i = 0; bytes[index * sizeof(word) + i] == ((const char *)&word)[i]; i++) {
        }
        return (long)(index * sizeof(word) + i);
    }
    return -1;
}
