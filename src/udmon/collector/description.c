#include "description.h"
#include "reserve.h"
#include "store.h"
#include "../lib/metric.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* A description with its texts. */
struct described {
    struct udmon_family family;
    struct host *owner; /* or NULL */
    uint64_t described_ns;
    char texts[]; /* name, unit and help, each with a 0 */
};

static int described_compare(const void *a, const void *b)
{
    const struct udmon_family *left = &((const struct described *)a)->family;
    const struct udmon_family *right = &((const struct described *)b)->family;
    int order = strcmp(left->name, right->name);

    return (order != 0) ? order : (left->counter - right->counter);
}

static struct described *described_find(const struct descriptions *descriptions, const char *name,
                                        int counter)
{
    struct described key = {.family = {.name = name, .counter = counter}}, **found;

    found = tfind(&key, &descriptions->tree, described_compare);
    return (found != NULL) ? *found : NULL;
}

void descriptions_free(struct descriptions *descriptions)
{
    tdestroy(descriptions->tree, free);
    memset(descriptions, 0, sizeof(*descriptions));
}

const struct udmon_family *descriptions_find(const struct descriptions *descriptions,
                                             const char *name, size_t length, int counter)
{
    char text[UDMON_FAMILY_NAME_MAX + 1];
    const struct described *found;

    if (length >= sizeof(text)) {
        return NULL;
    }
    memcpy(text, name, length);
    text[length] = '\0';
    found = described_find(descriptions, text, counter);
    return (found != NULL) ? &found->family : NULL;
}

static const char *described_put(char **at_p, const char *text)
{
    char *at = *at_p;

    *at_p = stpcpy(at, text) + 1;
    return at;
}

static struct described *described_new(struct host *owner, const struct udmon_family *family,
                                       uint64_t now_ns)
{
    size_t size = strlen(family->name) + strlen(family->unit) + strlen(family->help) + 3;
    struct described *described =
        reserve_allows(sizeof(*described) + size) ? malloc(sizeof(*described) + size) : NULL;
    char *at;

    if (described == NULL) {
        return NULL;
    }
    at = described->texts;
    described->family = *family;
    described->family.name = described_put(&at, family->name);
    described->family.unit = described_put(&at, family->unit);
    described->family.help = described_put(&at, family->help);
    described->owner = owner;
    described->described_ns = now_ns;
    return described;
}

static void described_free(struct descriptions *descriptions, struct described *described)
{
    tdelete(described, &descriptions->tree, described_compare);
    --descriptions->count;
    if (described->owner != NULL) {
        --described->owner->descriptions;
    }
    free(described);
}

/* Whether a part of a description has the same text as the other, or the other has no text. */
static bool text_covers(const char *text, const char *other)
{
    return (other[0] == '\0') || !strcmp(text, other);
}

/* Whether a description has all texts of the other, and more. */
static bool family_completes(const struct udmon_family *family, const struct udmon_family *other)
{
    return ((other->type == UDMON_TYPE_UNKNOWN) || (other->type == family->type)) &&
           text_covers(family->unit, other->unit) && text_covers(family->help, other->help) &&
           !udmon_family_equal(family, other);
}

/* Whether the present description of a family gives way to the description of the node. */
static bool described_yields(const struct described *present, const struct host *owner,
                             const struct udmon_family *family, uint64_t now_ns)
{
    if ((present->owner == NULL) || ((now_ns - present->described_ns) >= DESCRIPTION_OLD_NS) ||
        family_completes(family, &present->family)) {
        return true;
    }
    /* Of two sources of one node, the fuller description counts. */
    return (present->owner == owner) && !family_completes(&present->family, family);
}

int descriptions_put(struct descriptions *descriptions, struct host *owner,
                     const struct udmon_family *family, uint64_t now_ns)
{
    struct described *present = described_find(descriptions, family->name, family->counter),
                     *described;
    bool own = (present != NULL) && (present->owner == owner);

    if (own && udmon_family_equal(&present->family, family)) {
        present->described_ns = now_ns;
        return 0;
    }
    if ((present != NULL) && !described_yields(present, owner, family, now_ns)) {
        return 0;
    }
    if ((!own && (owner->descriptions >= DESCRIPTIONS_OF_NODE)) ||
        ((present == NULL) && (descriptions->count >= DESCRIPTIONS_MAX))) {
        return -ENOSPC;
    }
    described = described_new(owner, family, now_ns);
    if (described == NULL) {
        return -ENOMEM;
    }
    if (present != NULL) {
        described_free(descriptions, present);
    }
    if (tsearch(described, &descriptions->tree, described_compare) == NULL) {
        free(described);
        return -ENOMEM;
    }
    ++descriptions->count;
    ++owner->descriptions;
    return 0;
}

struct descriptions_walk {
    const struct host *owner;
    uint64_t before_ns;
    struct described *old[256]; /* in pieces: the rest next time */
    size_t count;
};

static void descriptions_visit_leave(const void *item, VISIT which, void *arg)
{
    struct described *described = *(struct described *const *)item;
    const struct descriptions_walk *walk = arg;

    if (((which == postorder) || (which == leaf)) && (described->owner == walk->owner)) {
        described->owner = NULL;
    }
}

void descriptions_leave(struct descriptions *descriptions, const struct host *owner)
{
    struct descriptions_walk walk = {.owner = owner};

    if (owner->descriptions > 0) {
        twalk_r(descriptions->tree, descriptions_visit_leave, &walk);
    }
}

static void descriptions_visit_old(const void *item, VISIT which, void *arg)
{
    struct described *described = *(struct described *const *)item;
    struct descriptions_walk *walk = arg;

    if (((which == postorder) || (which == leaf)) && (described->described_ns < walk->before_ns) &&
        (walk->count < (sizeof(walk->old) / sizeof(walk->old[0])))) {
        walk->old[walk->count++] = described;
    }
}

void descriptions_forget(struct descriptions *descriptions, uint64_t now_ns, uint64_t age_ns)
{
    struct descriptions_walk walk = {.before_ns = (now_ns > age_ns) ? (now_ns - age_ns) : 0};
    size_t i;

    twalk_r(descriptions->tree, descriptions_visit_old, &walk);
    for (i = 0; i < walk.count; ++i) {
        described_free(descriptions, walk.old[i]);
    }
}
