/* The page, embedded at build from src/inm/web by embed.sh. */
#ifndef INM_WEB_H
#define INM_WEB_H

#include <stddef.h>

struct web_file {
    const char *path, *type;
    const unsigned char *data;
    size_t len;
};
extern const struct web_file web_files[];
extern const size_t web_files_num;

#endif
