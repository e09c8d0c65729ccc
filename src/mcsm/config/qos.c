/* The keys of [group NAME] and [rule NAME], and their checks. */
#include "qos.h"

#include "base/text.h"
#include "parse.h"

#include <stdlib.h>
#include <string.h>

bool mcsm_spans_have(const struct mcsm_spans *spans, uint64_t number)
{
    for (size_t i = 0; i < spans->count; i++) {
        if (number >= spans->list[i].from && number <= spans->list[i].to) {
            return true;
        }
    }
    return false;
}

bool mcsm_rule_is_open(const struct mcsm_rule *rule)
{
    return rule->service_ids.count == 0 && rule->pkeys.count == 0 && rule->classes.count == 0 &&
           rule->sources.count == 0 && rule->destinations.count == 0;
}

void mcsm_qos_free(struct mcsm_qos *qos)
{
    for (size_t i = 0; i < qos->group_count; i++) {
        free(qos->groups[i].guids.list);
        free(qos->groups[i].lids.list);
        free(qos->groups[i].pkeys.list);
        free(qos->groups[i].nodes);
    }
    for (size_t i = 0; i < qos->rule_count; i++) {
        free(qos->rules[i].service_ids.list);
        free(qos->rules[i].pkeys.list);
        free(qos->rules[i].classes.list);
        free(qos->rules[i].sources.list);
        free(qos->rules[i].destinations.list);
    }
    free(qos->groups);
    free(qos->rules);
}

/* ---- lists of numbers ---- */

/* Which numbers a list may contain. */
struct span_key {
    const char *name;
    size_t offset;
    uint64_t min, max;
    const char *expected;
};

/* "FROM-TO" or one number. */
static bool read_span(const char *word, const struct span_key *key, struct mcsm_span *span)
{
    const char *dash = strchr(word, '-');
    char from[24];

    if (dash == NULL) {
        if (mcsm_parse_number(word, key->min, key->max, &span->from) < 0) {
            return false;
        }
        span->to = span->from;
        return true;
    }
    if ((size_t)(dash - word) >= sizeof(from)) {
        return false;
    }
    memcpy(from, word, dash - word);
    from[dash - word] = '\0';
    return mcsm_parse_number(from, key->min, key->max, &span->from) == 0 &&
           mcsm_parse_number(dash + 1, span->from, key->max, &span->to) == 0;
}

/* 1 or 0 if the table has the key, -1 if it does not. */
static int spans(struct mcsm_parser *parser, const struct span_key *keys, size_t count,
                 void *object, const char *name, const char *value)
{
    const struct span_key *key = keys;
    char word[64];

    while (key < keys + count && strcmp(key->name, name) != 0) {
        key++;
    }
    if (key == keys + count) {
        return -1;
    }
    struct mcsm_spans *to = (struct mcsm_spans *)((char *)object + key->offset);
    while (mcsm_next_word(&value, " ,\t\n", word, sizeof(word))) {
        struct mcsm_span span, *added;

        if (!read_span(word, key, &span)) {
            return mcsm_parse_error(parser, parser->line, "%s = %s: expected %s, or ranges FROM-TO",
                                    name, word, key->expected);
        }
        added = mcsm_grow(parser, (void **)&to->list, &to->count, sizeof(*added));
        if (added == NULL) {
            return 0;
        }
        *added = span;
    }
    return 1;
}

static bool is_name(const char *word)
{
    return word[0] != '\0' && strlen(word) < MCSM_QOS_NAME &&
           strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               strlen(word);
}

/* Reports a wrong name of a section. */
static bool check_name(struct mcsm_parser *parser, const char *section, const char *name)
{
    if (!is_name(name)) {
        mcsm_parse_error(parser, parser->line,
                         "[%s %s]: expected a name of 1 to 31 letters, digits, dots, dashes or "
                         "underscores",
                         section, name);
        return false;
    }
    return true;
}

/* ---- [group NAME] ---- */

static int find_group(const struct mcsm_qos *qos, const char *name)
{
    for (size_t i = 0; i < qos->group_count; i++) {
        if (strcmp(qos->groups[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static struct mcsm_port_group *add_group(struct mcsm_parser *parser, const char *name)
{
    struct mcsm_qos *qos = &parser->config->qos;
    struct mcsm_port_group *group;
    int index = find_group(qos, name);

    if (index >= 0) {
        return &qos->groups[index];
    }
    if (!check_name(parser, "group", name)) {
        return NULL;
    }
    group = mcsm_grow(parser, (void **)&qos->groups, &qos->group_count, sizeof(*group));
    if (group != NULL) {
        strcpy(group->name, name);
        group->line = parser->line;
    }
    return group;
}

/* "DESCRIPTION" or "DESCRIPTION/Pn", as OpenSM names a port. */
static int add_node(struct mcsm_parser *parser, struct mcsm_port_group *group, const char *value)
{
    const char *slash = strrchr(value, '/');
    size_t length = strlen(value);
    struct mcsm_node_pattern *node;
    uint64_t port = 0;

    if (slash != NULL && slash[1] == 'P' && mcsm_parse_number(slash + 2, 1, 254, &port) == 0) {
        length = slash - value;
    }
    if (length == 0 || length >= sizeof(node->text)) {
        return mcsm_parse_error(parser, parser->line,
                                "node = %s: expected a pattern for node descriptions, such as "
                                "storage* or storage*/P1",
                                value);
    }
    node = mcsm_grow(parser, (void **)&group->nodes, &group->node_count, sizeof(*node));
    if (node == NULL) {
        return 0;
    }
    memcpy(node->text, value, length);
    node->port = port;
    return 1;
}

static int add_types(struct mcsm_parser *parser, struct mcsm_port_group *group, const char *value)
{
    static const char *const names[] = {"self", "ca", "switch", "router"};
    char word[16];

    while (mcsm_next_word(&value, " ,\t\n", word, sizeof(word))) {
        int type = 0;

        while (type < 4 && strcmp(names[type], word) != 0) {
            type++;
        }
        if (type == 4) {
            return mcsm_parse_error(parser, parser->line,
                                    "types = %s: expected ca, switch, router or self", word);
        }
        group->self |= type == 0;
        group->types[type] |= type > 0;
    }
    return 1;
}

int mcsm_parse_group(struct mcsm_parser *parser, const char *which, const char *name,
                     const char *value)
{
    static const struct span_key keys[] = {
        {"guids", offsetof(struct mcsm_port_group, guids), 1, UINT64_MAX, "port GUIDs"},
        {"lids", offsetof(struct mcsm_port_group, lids), 1, MCSM_LID_MAX, "LIDs, 1 to 49151"},
        {"pkeys", offsetof(struct mcsm_port_group, pkeys), 1, 0x7fff, "P_Keys, 1 to 0x7fff"}};
    struct mcsm_port_group *group = add_group(parser, which);
    int status;

    if (group == NULL) {
        return 0;
    }
    status = spans(parser, keys, sizeof(keys) / sizeof(*keys), group, name, value);
    if (status >= 0) {
        return status;
    }
    if (strcmp(name, "node") == 0) {
        return add_node(parser, group, value);
    }
    if (strcmp(name, "types") == 0) {
        return add_types(parser, group, value);
    }
    return mcsm_parse_error(
        parser, parser->line,
        "[group %s] has no key \"%s\": it has guids, lids, node, types and pkeys", which, name);
}

/* ---- [rule NAME] ---- */

/* The order of the rules counts, so a rule must not continue behind another rule. */
static struct mcsm_rule *add_rule(struct mcsm_parser *parser, const char *name)
{
    struct mcsm_qos *qos = &parser->config->qos;
    struct mcsm_rule *rule;

    for (size_t i = 0; i < qos->rule_count; i++) {
        if (strcmp(qos->rules[i].name, name) != 0) {
            continue;
        }
        if (i + 1 == qos->rule_count) {
            return &qos->rules[i];
        }
        mcsm_parse_error(parser, parser->line,
                         "[rule %s] stands already in line %d: give each rule one section, because "
                         "the first rule that matches counts",
                         name, qos->rules[i].line);
        return NULL;
    }
    if (!check_name(parser, "rule", name)) {
        return NULL;
    }
    rule = mcsm_grow(parser, (void **)&qos->rules, &qos->rule_count, sizeof(*rule));
    if (rule != NULL) {
        strcpy(rule->name, name);
        rule->line = parser->line;
    }
    return rule;
}

static int add_refs(struct mcsm_parser *parser, struct mcsm_group_refs *refs, const char *name,
                    const char *value)
{
    struct mcsm_group_ref *ref;
    char word[64];

    while (mcsm_next_word(&value, " ,\t\n", word, sizeof(word))) {
        if (!is_name(word)) {
            return mcsm_parse_error(parser, parser->line, "%s = %s: expected names of groups", name,
                                    word);
        }
        ref = mcsm_grow(parser, (void **)&refs->list, &refs->count, sizeof(*ref));
        if (ref == NULL) {
            return 0;
        }
        strcpy(ref->name, word);
        ref->line = parser->line;
    }
    return 1;
}

int mcsm_parse_rule(struct mcsm_parser *parser, const char *which, const char *name,
                    const char *value)
{
    static const struct span_key keys[] = {
        {"service-id", offsetof(struct mcsm_rule, service_ids), 0, UINT64_MAX, "64-bit numbers"},
        {"pkey", offsetof(struct mcsm_rule, pkeys), 1, 0x7fff, "P_Keys, 1 to 0x7fff"},
        {"qos-class", offsetof(struct mcsm_rule, classes), 0, 4095, "numbers, 0 to 4095"}};
    struct mcsm_rule *rule = add_rule(parser, which);
    uint64_t sl;
    int status;

    if (rule == NULL) {
        return 0;
    }
    status = spans(parser, keys, sizeof(keys) / sizeof(*keys), rule, name, value);
    if (status >= 0) {
        return status;
    }
    if (strcmp(name, "source") == 0) {
        return add_refs(parser, &rule->sources, name, value);
    }
    if (strcmp(name, "destination") == 0) {
        return add_refs(parser, &rule->destinations, name, value);
    }
    if (strcmp(name, "sl") != 0) {
        return mcsm_parse_error(parser, parser->line,
                                "[rule %s] has no key \"%s\": it has service-id, pkey, qos-class, "
                                "source, destination and sl",
                                which, name);
    }
    if (mcsm_parse_number(value, 0, 15, &sl) < 0) {
        return mcsm_parse_error(parser, parser->line, "sl = %s: expected a service level, 0 to 15",
                                value);
    }
    rule->sl = sl;
    rule->has_sl = true;
    return 1;
}

/* ---- checks of the whole file ---- */

static void resolve(struct mcsm_parser *parser, const struct mcsm_rule *rule,
                    struct mcsm_group_refs *refs)
{
    for (size_t i = 0; i < refs->count; i++) {
        refs->list[i].group = find_group(&parser->config->qos, refs->list[i].name);
        if (refs->list[i].group < 0) {
            mcsm_parse_error(parser, refs->list[i].line,
                             "[rule %s] names the group %s: there is no section [group %s]",
                             rule->name, refs->list[i].name, refs->list[i].name);
        }
    }
}

/* Packets of a level without a lane are dropped. Packets of hosts on the lane of the groups may form
 * a circle with packets of groups, because the search for circles keeps the two lanes apart. */
static void check_level(struct mcsm_parser *parser, int line, const char *section, const char *name,
                        uint8_t sl)
{
    const struct mcsm_config *config = parser->config;

    if (config->sl2vl[sl] == 15) {
        mcsm_parse_error(parser, line,
                         "[%s %s] sl = %u: sl2vl gives this service level no virtual lane, so its "
                         "packets would be dropped",
                         section, name, sl);
    } else if (config->multicast_sl > 0 &&
               config->sl2vl[sl] == config->sl2vl[config->multicast_sl]) {
        mcsm_parse_error(
            parser, line,
            "[%s %s] sl = %u: this service level has virtual lane %u, which sl = %u of "
            "[multicast] reserves for groups",
            section, name, sl, config->sl2vl[sl], config->multicast_sl);
    }
}

/* Packets to managers, and all packets of hosts that ask no manager, have service level 0. */
static void check_lane_of_groups(struct mcsm_parser *parser)
{
    const struct mcsm_config *config = parser->config;

    if (config->multicast_sl > 0 && config->sl2vl[0] == config->sl2vl[config->multicast_sl]) {
        mcsm_parse_error(
            parser, 0,
            "sl2vl of [port] gives service level 0 and sl = %u of [multicast] the same "
            "virtual lane",
            config->multicast_sl);
    }
}

void mcsm_qos_check(struct mcsm_parser *parser)
{
    struct mcsm_config *config = parser->config;
    struct mcsm_qos *qos = &config->qos;
    const struct mcsm_rule *open = NULL;

    check_lane_of_groups(parser);
    for (size_t i = 0; i < qos->rule_count; i++) {
        struct mcsm_rule *rule = &qos->rules[i];

        resolve(parser, rule, &rule->sources);
        resolve(parser, rule, &rule->destinations);
        if (open != NULL) {
            mcsm_parse_error(parser, rule->line,
                             "[rule %s] never counts, because [rule %s] in line %d matches every "
                             "path",
                             rule->name, open->name, open->line);
        }
        if (open == NULL && mcsm_rule_is_open(rule)) {
            open = rule;
        }
        if (!rule->has_sl) {
            mcsm_parse_error(parser, rule->line, "[rule %s] has no sl", rule->name);
            continue;
        }
        check_level(parser, rule->line, "rule", rule->name, rule->sl);
    }
    for (size_t i = 0; i < config->partition_count; i++) {
        if (config->partitions[i].sl > 0) {
            check_level(parser, config->partitions[i].line, "partition", config->partitions[i].name,
                        config->partitions[i].sl);
        }
    }
}
