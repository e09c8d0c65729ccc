/*
 * The value of GLEX_FAULT.
 */
#include "fault.h"
#include "log.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#define FAULT_ALLOWED \
    "mp_loss=P, mp_delay=P:N, mp_reorder=P, mpq_full=P, eq_full=P, busy=P, kill=N, nomap, " \
    "noprivate, seed=N (P: a probability from 0 to 1)"

static bool parse_probability(const char *text, char **end, double *p)
{
    *p = strtod(text, end);
    return (isdigit((unsigned char)text[0]) || text[0] == '.') && *p >= 0.0 && *p <= 1.0;
}

static bool parse_number(const char *text, char **end, uint64_t *n)
{
    errno = 0;
    *n = strtoull(text, end, 0);
    return isdigit((unsigned char)text[0]) && errno == 0;
}

static bool parse_delay(const char *text, char **end, struct glex_fault_spec *spec)
{
    uint64_t posts;

    if (!parse_probability(text, end, &spec->mp_delay) || **end != ':' ||
        !parse_number(*end + 1, end, &posts) || posts == 0 || posts > 1000000) {
        return false;
    }
    spec->mp_delay_posts = (uint32_t)posts;
    return true;
}

/* One `name` or `name=value`; `end` is set behind the value. */
static bool parse_item(const char *name, size_t len, const char *value, char **end,
                       struct glex_fault_spec *spec)
{
    const struct {
        const char *name;
        double     *p;
    } probabilities[] = {
        {"mp_loss", &spec->mp_loss},   {"mp_reorder", &spec->mp_reorder},
        {"mpq_full", &spec->mpq_full}, {"eq_full", &spec->eq_full},
        {"busy", &spec->busy},
    };
    size_t i;

#define NAME_IS(s) (len == strlen(s) && memcmp(name, s, len) == 0)
    if (value == NULL) {
        *end = (char *)(uintptr_t)(name + len);
        spec->nomap |= NAME_IS("nomap");
        spec->noprivate |= NAME_IS("noprivate");
        return NAME_IS("nomap") || NAME_IS("noprivate");
    }
    for (i = 0; i < sizeof(probabilities) / sizeof(probabilities[0]); i++) {
        if (NAME_IS(probabilities[i].name)) {
            return parse_probability(value, end, probabilities[i].p);
        }
    }
    if (NAME_IS("mp_delay")) {
        return parse_delay(value, end, spec);
    }
    if (NAME_IS("kill")) {
        return parse_number(value, end, &spec->kill) && spec->kill != 0;
    }
    return NAME_IS("seed") && parse_number(value, end, &spec->seed);
#undef NAME_IS
}

bool glex_fault_parse(const char *text, struct glex_fault_spec *spec)
{
    const char *item = text;
    size_t len;
    char *end;

    memset(spec, 0, sizeof(*spec));
    while (*item != '\0') {
        len = strcspn(item, "=,");
        end = NULL;
        if (!parse_item(item, len, item[len] == '=' ? item + len + 1 : NULL, &end, spec) ||
            (*end != ',' && *end != '\0') || (*end == ',' && end[1] == '\0')) {
            glex_error("GLEX_FAULT=%s: wrong at '%s'; allowed: " FAULT_ALLOWED, text, item);
            return false;
        }
        spec->on = true;
        item = *end == ',' ? end + 1 : end;
    }
    return true;
}
