/* Names of places as filters; see place.h. */
#include "place.h"

#include <ctype.h>
#include <string.h>

bool place_matches(const char *places, const char *filter)
{
    size_t len = strlen(filter);
    const char *p = places;

    if (len == 0) {
        return true;
    }
    while (p != NULL && *p != '\0') {
        /* A digit behind the filter is a part of another number. */
        if (strncmp(p, filter, len) == 0 && !isdigit((unsigned char)p[len])) {
            return true;
        }
        p = strchr(p, ' ');
        p += p != NULL;
    }
    return false;
}
