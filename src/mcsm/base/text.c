#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int mcsm_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *value_p)
{
    unsigned long long value;
    char *end;

    if (!isdigit((unsigned char)text[0])) {
        return -EINVAL;
    }
    errno = 0;
    value = strtoull(text, &end, text[0] == '0' && tolower(text[1]) == 'x' ? 16 : 10);
    if (errno != 0 || *end != '\0' || value < min || value > max) {
        return -EINVAL;
    }
    *value_p = value;
    return 0;
}

int mcsm_parse_guid(const char *text, uint64_t *guid_p)
{
    if (strncmp(text, "0x", 2) != 0 || !isxdigit((unsigned char)text[2])) {
        return -EINVAL;
    }
    return mcsm_parse_number(text, 1, UINT64_MAX, guid_p);
}

int mcsm_parse_guid_port(const char *text, uint64_t *guid_p, uint8_t *port_p)
{
    const char *slash = strchr(text, '/');
    uint64_t guid, port;
    char word[24];

    if (slash == NULL || (size_t)(slash - text) >= sizeof(word)) {
        return -EINVAL;
    }
    memcpy(word, text, slash - text);
    word[slash - text] = '\0';
    if (mcsm_parse_guid(word, &guid) < 0 || mcsm_parse_number(slash + 1, 1, 254, &port) < 0) {
        return -EINVAL;
    }
    *guid_p = guid;
    *port_p = port;
    return 0;
}

int mcsm_parse_bool(const char *text, bool *value_p)
{
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};

    for (int i = 0; i < 4; i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *value_p = strcasecmp(text, yes[i]) == 0;
            return 0;
        }
    }
    return -EINVAL;
}

bool mcsm_next_word(const char **text_p, const char *separators, char *word, size_t size)
{
    const char *text = *text_p + strspn(*text_p, separators);
    size_t length = strcspn(text, separators);

    *text_p = text + length;
    if (length == 0) {
        return false;
    }
    if (length >= size) {
        length = size - 1;
    }
    memcpy(word, text, length);
    word[length] = '\0';
    return true;
}

void mcsm_clean_text(char *to, size_t size, const void *from, size_t length)
{
    const char *text = from;
    size_t n = 0;

    for (size_t i = 0; i < length && n + 1 < size && text[i] != '\0'; i++) {
        bool good = text[i] >= ' ' && text[i] <= '~' && text[i] != '"' && text[i] != '\\';

        to[n++] = good ? text[i] : '?';
    }
    to[n] = '\0';
}
