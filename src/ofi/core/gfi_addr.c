/*
 * Addresses as strings, "fi_glex://" and the bytes in hexadecimal digits or a name, and in the format of a
 * domain: bytes, or strings with FI_ADDR_STR.
 */
#include "gfi.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

size_t gfi_addr_print(const struct gfi_addr *addr, char *text, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)addr;
    char full[GFI_ADDR_TEXT];
    size_t i, at = sizeof(GFI_ADDR_PREFIX) - 1;

    memcpy(full, GFI_ADDR_PREFIX, at);
    if (gfi_addr_is_name(addr)) {
        at += (size_t)snprintf(full + at, GFI_NAME_SIZE, "%s", (const char *)addr->bytes);
        bytes = NULL;
    }
    for (i = 0; bytes != NULL && i < sizeof(*addr); i++) {
        at += (size_t)snprintf(full + at, 3, "%02x", bytes[i]);
    }
    if (size > 0) {
        snprintf(text, size, "%s", full);
    }
    return at + 1;
}

static int gfi_hex_digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int gfi_addr_parse(const char *text, struct gfi_addr *addr)
{
    uint8_t *bytes = (uint8_t *)addr;
    int high, low;
    size_t i;

    if (strncmp(text, GFI_ADDR_PREFIX, sizeof(GFI_ADDR_PREFIX) - 1) != 0) {
        return -FI_EINVAL;
    }
    text += sizeof(GFI_ADDR_PREFIX) - 1;
    if (strlen(text) != 2 * sizeof(*addr)) {
        return gfi_name_is_valid(text) ? gfi_name_find(text, addr) : -FI_EINVAL;
    }
    for (i = 0; i < sizeof(*addr); i++) {
        high = gfi_hex_digit(text[2 * i]);
        low = gfi_hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            return -FI_EINVAL;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

size_t gfi_addr_write(bool is_text, const struct gfi_addr *addr, void *to, size_t size)
{
    if (is_text) {
        return gfi_addr_print(addr, to, size);
    }
    if (size > 0) {
        memcpy(to, addr, gfi_min(size, sizeof(*addr)));
    }
    return sizeof(*addr);
}
