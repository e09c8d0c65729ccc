/* Functions of all sections: errors, and arrays that grow. */
#include "parse.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *mcsm_engine_name(enum mcsm_engine engine)
{
    static const char *const names[] = {"minhop", "updn", "dor", "lash", "torus", "auto"};

    return names[engine];
}

int mcsm_parse_error(struct mcsm_parser *parser, int line, const char *format, ...)
{
    va_list args;

    if (line > 0) {
        fprintf(parser->err, "%s:%d: ", parser->config->path, line);
    } else {
        fprintf(parser->err, "%s: ", parser->config->path);
    }
    va_start(args, format);
    vfprintf(parser->err, format, args);
    va_end(args);
    fputc('\n', parser->err);
    parser->errors++;
    return 0;
}

void *mcsm_grow(struct mcsm_parser *parser, void **array, size_t *count, size_t size)
{
    char *more = realloc(*array, (*count + 1) * size);

    if (more == NULL) {
        mcsm_parse_error(parser, parser->line, "out of memory");
        return NULL;
    }
    *array = more;
    more += (*count)++ * size;
    return memset(more, 0, size);
}
