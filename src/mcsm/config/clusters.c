/* The keys of [border], [neighbour NAME] and [partition NAME], and the checks of the whole file. */
#include "parse.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static int find_neighbour(const struct mcsm_config *config, const char *name)
{
    for (size_t i = 0; i < config->neighbour_count; i++) {
        if (strcmp(config->neighbours[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static int add_neighbour(struct mcsm_parser *parser, const char *name)
{
    struct mcsm_config *config = parser->config;
    int index = find_neighbour(config, name);
    struct mcsm_neighbour *neighbour;

    if (index >= 0) {
        return index;
    }
    if (name[0] == '\0' || strlen(name) > MCSM_NAME_MAX || config->neighbour_count == 255) {
        return mcsm_parse_error(parser, parser->line,
                                "neighbour \"%s\": expected a name of 1 to 31 characters, and at "
                                "most 255 neighbours",
                                name) -
               1;
    }
    neighbour = mcsm_grow(parser, (void **)&config->neighbours, &config->neighbour_count,
                          sizeof(*neighbour));
    if (neighbour == NULL) {
        return -1;
    }
    strcpy(neighbour->name, name);
    neighbour->lids = (struct mcsm_range){1, 0};
    neighbour->line = parser->line;
    return config->neighbour_count - 1;
}

static int border_words(struct mcsm_parser *parser, struct mcsm_border *border, const char *value)
{
    char name[64], peer[64], word[16];
    int neighbour;

    if (!mcsm_next_word(&value, " \t", name, sizeof(name)) ||
        !mcsm_next_word(&value, " \t", peer, sizeof(peer)) ||
        mcsm_parse_guid_port(peer, &border->peer_guid, &border->peer_port) < 0) {
        return mcsm_parse_error(parser, parser->line,
                                "expected \"GUID/PORT = NEIGHBOUR PEER-GUID/PEER-PORT [transit] "
                                "[joint]\"");
    }
    while (mcsm_next_word(&value, " \t", word, sizeof(word))) {
        if (strcmp(word, "transit") != 0 && strcmp(word, "joint") != 0) {
            return mcsm_parse_error(parser, parser->line,
                                    "\"%s\": after the peer stands transit, joint or nothing",
                                    word);
        }
        border->transit |= word[0] == 't';
        border->joint |= word[0] == 'j';
    }
    neighbour = add_neighbour(parser, name);
    if (neighbour < 0) {
        return 0;
    }
    border->neighbour = neighbour;
    return 1;
}

int mcsm_parse_border(struct mcsm_parser *parser, const char *name, const char *value)
{
    struct mcsm_config *config = parser->config;
    struct mcsm_border border = {.line = parser->line}, *added;

    if (mcsm_parse_guid_port(name, &border.guid, &border.port) < 0) {
        return mcsm_parse_error(parser, parser->line,
                                "\"%s\": expected a border port as SWITCH-GUID/PORT, such as "
                                "0x0002c90200410a28/17",
                                name);
    }
    for (size_t i = 0; i < config->border_count; i++) {
        if (config->borders[i].guid == border.guid && config->borders[i].port == border.port) {
            return mcsm_parse_error(parser, parser->line,
                                    "the border port %s stands already in line %d", name,
                                    config->borders[i].line);
        }
    }
    if (!border_words(parser, &border, value)) {
        return 0;
    }
    added = mcsm_grow(parser, (void **)&config->borders, &config->border_count, sizeof(*added));
    if (added == NULL) {
        return 0;
    }
    *added = border;
    return 1;
}

static int neighbour_lids(struct mcsm_parser *parser, struct mcsm_neighbour *neighbour,
                          const char *value)
{
    char from[16], to[16], rest[8];
    const char *words = value;
    uint64_t low, high;

    if (!mcsm_next_word(&words, " -", from, sizeof(from)) ||
        !mcsm_next_word(&words, " -", to, sizeof(to)) ||
        mcsm_next_word(&words, " -", rest, sizeof(rest)) ||
        mcsm_parse_number(from, 1, MCSM_LID_MAX, &low) < 0 ||
        mcsm_parse_number(to, low, MCSM_LID_MAX, &high) < 0) {
        return mcsm_parse_error(parser, parser->line,
                                "lids = %s: expected FROM-TO, such as 1000-1999", value);
    }
    neighbour->lids = (struct mcsm_range){low, high};
    return 1;
}

int mcsm_parse_neighbour(struct mcsm_parser *parser, const char *which, const char *name,
                         const char *value)
{
    int index = add_neighbour(parser, which);
    struct mcsm_neighbour *neighbour;

    if (index < 0) {
        return 0;
    }
    neighbour = &parser->config->neighbours[index];
    neighbour->line = parser->line;
    if (strcmp(name, "lids") == 0) {
        return neighbour_lids(parser, neighbour, value);
    }
    if (strcmp(name, "lid-database") == 0) {
        if (mcsm_lid_db_read(value, parser->err, &neighbour->db) < 0) {
            return mcsm_parse_error(parser, parser->line, "lid-database = %s cannot be used",
                                    value);
        }
        return 1;
    }
    if (strcmp(name, "passes-to") == 0) {
        if (strlen(neighbour->passes_names) + strlen(value) + 2 > sizeof(neighbour->passes_names)) {
            return mcsm_parse_error(parser, parser->line, "passes-to: more than %zu characters",
                                    sizeof(neighbour->passes_names) - 2);
        }
        strcat(strcat(neighbour->passes_names, " "), value);
        return 1;
    }
    if (strcmp(name, "via") == 0) {
        if (strlen(value) > MCSM_NAME_MAX) {
            return mcsm_parse_error(parser, parser->line, "via: a name has at most 31 characters");
        }
        strcpy(neighbour->via_name, value);
        return 1;
    }
    return mcsm_parse_error(
        parser, parser->line,
        "[neighbour %s] has no key \"%s\": it has lids, lid-database, via and passes-to", which,
        name);
}

static struct mcsm_partition *find_partition(struct mcsm_parser *parser, const char *name)
{
    struct mcsm_config *config = parser->config;
    struct mcsm_partition *partition;

    for (size_t i = 0; i < config->partition_count; i++) {
        if (strcmp(config->partitions[i].name, name) == 0) {
            return &config->partitions[i];
        }
    }
    if (name[0] == '\0' || strlen(name) > MCSM_NAME_MAX) {
        mcsm_parse_error(parser, parser->line, "[partition NAME]: expected 1 to 31 characters");
        return NULL;
    }
    partition = mcsm_grow(parser, (void **)&config->partitions, &config->partition_count,
                          sizeof(*partition));
    if (partition == NULL) {
        return NULL;
    }
    strcpy(partition->name, name);
    partition->qkey = 0x0b1b;
    partition->mtu = 4;
    partition->rate = 3;
    partition->line = parser->line;
    return partition;
}

static int partition_members(struct mcsm_parser *parser, struct mcsm_partition *partition,
                             const char *name, const char *value)
{
    bool full = strcmp(name, "full") == 0;
    void **array = full ? (void **)&partition->full : (void **)&partition->limited;
    size_t *count = full ? &partition->full_count : &partition->limited_count;
    char word[64];
    uint64_t guid, *added;

    while (mcsm_next_word(&value, " ,\t\n", word, sizeof(word))) {
        if (strcmp(word, "all") == 0) {
            partition->all = true;
            partition->all_full |= full;
            continue;
        }
        if (mcsm_parse_guid(word, &guid) < 0) {
            return mcsm_parse_error(parser, parser->line, "%s = %s: expected port GUIDs, or all",
                                    name, word);
        }
        added = mcsm_grow(parser, array, count, sizeof(*added));
        if (added == NULL) {
            return 0;
        }
        *added = guid;
    }
    return 1;
}

int mcsm_parse_partition(struct mcsm_parser *parser, const char *which, const char *name,
                         const char *value)
{
    static const struct {
        const char *name;
        uint64_t min, max;
    } keys[] = {{"pkey", 1, 0xffff},
                {"sl", 0, 15},
                {"qkey", 0, UINT32_MAX},
                {"mtu", 1, 5},
                {"rate", 2, 24}};
    struct mcsm_partition *partition = find_partition(parser, which);
    uint64_t result;

    if (partition == NULL) {
        return 0;
    }
    if (strcmp(name, "full") == 0 || strcmp(name, "limited") == 0) {
        return partition_members(parser, partition, name, value);
    }
    if (strcmp(name, "ipoib") == 0) {
        return mcsm_parse_bool(value, &partition->ipoib) == 0 ?
                   1 :
                   mcsm_parse_error(parser, parser->line, "ipoib = %s: expected yes or no", value);
    }
    for (int i = 0; i < 5; i++) {
        if (strcmp(name, keys[i].name) != 0) {
            continue;
        }
        if (mcsm_parse_number(value, keys[i].min, keys[i].max, &result) < 0) {
            return mcsm_parse_error(parser, parser->line, "%s = %s: expected %lu to %lu", name,
                                    value, keys[i].min, keys[i].max);
        }
        switch (i) {
        case 0:
            partition->pkey = result & 0x7fff;
            break;
        case 1:
            partition->sl = result;
            break;
        case 2:
            partition->qkey = result;
            break;
        case 3:
            partition->mtu = result;
            break;
        default:
            partition->rate = result;
        }
        return 1;
    }
    return mcsm_parse_error(parser, parser->line,
                            "[partition %s] has no key \"%s\" (see mcsm.conf(5))", which, name);
}

/* Follow `via` up to the adjacent cluster that routes go through. */
static void resolve_via(struct mcsm_parser *parser, struct mcsm_neighbour *neighbour)
{
    struct mcsm_config *config = parser->config;
    int at = neighbour - config->neighbours;

    for (size_t steps = 0; config->neighbours[at].via_name[0] != '\0'; steps++) {
        int next = find_neighbour(config, config->neighbours[at].via_name);

        if (next < 0 || steps > config->neighbour_count) {
            mcsm_parse_error(parser, neighbour->line, "[neighbour %s] via = %s: %s",
                             neighbour->name, config->neighbours[at].via_name,
                             next < 0 ? "there is no such neighbour" : "that goes in a circle");
            return;
        }
        at = next;
    }
    neighbour->via = at;
    for (size_t i = 0; i < config->border_count; i++) {
        if (config->borders[i].neighbour == at && config->borders[i].transit) {
            return;
        }
    }
    mcsm_parse_error(parser, neighbour->line,
                     "[neighbour %s]: no border port to %s has the word transit, so that no route "
                     "leads there",
                     neighbour->name, config->neighbours[at].name);
}

/* "passes-to": names of neighbours. */
static void resolve_passes(struct mcsm_parser *parser, struct mcsm_neighbour *neighbour)
{
    const char *words = neighbour->passes_names;
    char word[64];

    while (mcsm_next_word(&words, " ,\t\n", word, sizeof(word))) {
        int index = find_neighbour(parser->config, word);

        if (index < 0) {
            mcsm_parse_error(parser, neighbour->line,
                             "[neighbour %s] passes-to = %s: there is no such neighbour",
                             neighbour->name, word);
        } else {
            neighbour->passes[index] = true;
        }
    }
}

static void range_of_db(struct mcsm_lid_db *db, struct mcsm_range *range)
{
    *range = (struct mcsm_range){MCSM_LID_MAX, 0};
    for (size_t i = 0; i < db->count; i++) {
        range->from = db->entries[i].lid < range->from ? db->entries[i].lid : range->from;
        range->to = db->entries[i].lid > range->to ? db->entries[i].lid : range->to;
    }
}

/* The LIDs that a cluster may give, in a set of 64 K bits. */
static void add_lids(uint64_t *set, const struct mcsm_lid_db *db, struct mcsm_range range)
{
    for (size_t i = 0; i < db->count; i++) {
        set[db->entries[i].lid / 64] |= 1ULL << db->entries[i].lid % 64;
    }
    for (unsigned lid = range.from; db->count == 0 && lid <= range.to; lid++) {
        set[lid / 64] |= 1ULL << lid % 64;
    }
}

unsigned mcsm_common_lid(const struct mcsm_lid_db *a, struct mcsm_range ra,
                         const struct mcsm_lid_db *b, struct mcsm_range rb)
{
    uint64_t of_a[1024] = {0}, of_b[1024] = {0};

    add_lids(of_a, a, ra);
    add_lids(of_b, b, rb);
    for (unsigned i = 0; i < 1024; i++) {
        if ((of_a[i] & of_b[i]) != 0) {
            return i * 64 + __builtin_ctzll(of_a[i] & of_b[i]);
        }
    }
    return 0;
}

static void check_neighbour(struct mcsm_parser *parser, struct mcsm_neighbour *neighbour)
{
    struct mcsm_config *config = parser->config;
    unsigned lid;

    if (neighbour->db.count > 0 && neighbour->lids.from > neighbour->lids.to) {
        range_of_db(&neighbour->db, &neighbour->lids);
    }
    if (neighbour->lids.from > neighbour->lids.to) {
        mcsm_parse_error(
            parser, neighbour->line,
            "neighbour %s has no LIDs: add a section [neighbour %s] with lids = FROM-TO "
            "or lid-database = FILE",
            neighbour->name, neighbour->name);
    }
    if (strcmp(neighbour->name, config->name) == 0) {
        mcsm_parse_error(parser, neighbour->line, "%s is this cluster, not a neighbour",
                         neighbour->name);
    }
    lid = mcsm_common_lid(&config->db, config->lids, &neighbour->db, neighbour->lids);
    if (lid != 0) {
        mcsm_parse_error(parser, neighbour->line, "LID %u is both ours and neighbour %s's", lid,
                         neighbour->name);
    }
    for (struct mcsm_neighbour *other = config->neighbours; other < neighbour; other++) {
        lid = mcsm_common_lid(&other->db, other->lids, &neighbour->db, neighbour->lids);
        if (lid != 0) {
            mcsm_parse_error(parser, neighbour->line, "LID %u is that of both %s and %s", lid,
                             other->name, neighbour->name);
        }
    }
    resolve_via(parser, neighbour);
    resolve_passes(parser, neighbour);
}

static void add_default_partition(struct mcsm_parser *parser)
{
    struct mcsm_config *config = parser->config;

    for (size_t i = 0; i < config->partition_count; i++) {
        if (config->partitions[i].pkey == 0) {
            mcsm_parse_error(parser, config->partitions[i].line, "[partition %s] has no pkey",
                             config->partitions[i].name);
        }
        for (size_t k = 0; k < i; k++) {
            if (config->partitions[k].pkey == config->partitions[i].pkey) {
                mcsm_parse_error(parser, config->partitions[i].line,
                                 "pkey 0x%04x is also that of [partition %s]",
                                 config->partitions[i].pkey, config->partitions[k].name);
            }
        }
        if (config->partitions[i].pkey == 0x7fff) {
            return;
        }
    }
    struct mcsm_partition *partition = find_partition(parser, "default");
    if (partition != NULL) {
        partition->pkey = 0x7fff;
        partition->all = partition->all_full = partition->ipoib = true;
    }
}

/* The place of an adjacent cluster in the order of clusters. The top cluster has the lowest LIDs. The
 * cluster above another one is the next cluster on the route to the top. */
enum place { ABOVE, BELOW, BESIDE };

/* The index of the top cluster, or -1 if this cluster is the top. */
static int find_top(const struct mcsm_config *config)
{
    unsigned lowest = config->lids.from;
    int top = -1;

    for (size_t i = 0; i < config->neighbour_count; i++) {
        if (config->neighbours[i].lids.from < lowest) {
            lowest = config->neighbours[i].lids.from;
            top = i;
        }
    }
    return top;
}

static enum place place_of(const struct mcsm_config *config, int neighbour)
{
    int top = find_top(config);

    if (top < 0 || config->neighbours[neighbour].passes[top]) {
        return BELOW;
    }
    return config->neighbours[top].via == neighbour ? ABOVE : BESIDE;
}

/* Packets that come up from a cluster may go on to each cluster. Packets that come down, or from a
 * cluster beside, only go further down. Of two clusters beside each other, the cluster with the lower
 * LIDs also allows the way back. */
static bool is_in_order(const struct mcsm_config *config, int from, int to)
{
    enum place place = place_of(config, from);

    if (place == BELOW || place_of(config, to) == BELOW) {
        return true;
    }
    return place == BESIDE && from == to && config->lids.from < config->neighbours[from].lids.from;
}

bool mcsm_config_has_transit(const struct mcsm_config *config)
{
    for (size_t i = 0; i < config->border_count; i++) {
        if (config->borders[i].transit) {
            return true;
        }
    }
    return false;
}

bool mcsm_config_allows(const struct mcsm_config *config, const struct mcsm_border *e,
                        const struct mcsm_border *f)
{
    if (is_in_order(config, e->neighbour, f->neighbour)) {
        return true;
    }
    if (e->neighbour == f->neighbour) {
        return false;
    }
    if (e->joint && f->joint && config->multicast_sl == 0) {
        return true;
    }
    for (size_t i = 0; i < config->neighbour_count && f->transit; i++) {
        if (config->neighbours[e->neighbour].passes[i] &&
            config->neighbours[i].via == f->neighbour) {
            return true;
        }
    }
    return false;
}

/* Lanes are for pairs inside of the cluster: packets of other clusters come in on lane 0. */
static void check_lanes(struct mcsm_parser *parser)
{
    const struct mcsm_config *config = parser->config;
    bool lanes = config->engine == MCSM_ENGINE_LASH || config->engine == MCSM_ENGINE_TORUS;

    for (size_t i = 0; i < config->border_count && lanes; i++) {
        if (config->borders[i].transit) {
            mcsm_parse_error(parser, config->borders[i].line,
                             "engine = %s cannot have transit ports: packets of other clusters all "
                             "use one lane. Use auto or updn",
                             mcsm_engine_name(config->engine));
            return;
        }
    }
    for (size_t i = 0; i < config->partition_count && lanes; i++) {
        if (config->partitions[i].sl != 0) {
            mcsm_parse_error(parser, config->partitions[i].line,
                             "engine = %s chooses the service levels: remove sl, or use engine "
                             "auto, which gives each level the lanes of lash or torus",
                             mcsm_engine_name(config->engine));
        }
    }
    if (lanes && config->qos.rule_count > 0) {
        mcsm_parse_error(parser, config->qos.rules[0].line,
                         "engine = %s chooses the service levels, so it cannot have [rule %s]: use "
                         "engine auto, which gives each level the lanes of lash or torus",
                         mcsm_engine_name(config->engine), config->qos.rules[0].name);
    }
    if (lanes && config->set_sl2vl) {
        mcsm_parse_error(
            parser, 0,
            "engine = %s sets sl2vl itself: remove the key, or use engine auto or updn, "
            "whose routes then use one lane",
            mcsm_engine_name(config->engine));
    }
}

/* Lists the levels of rules and partitions. Lanes of the routes can divide them if the file leaves
 * sl2vl to mcsm, groups have no level of their own, and no packets of other clusters come in. */
static void find_classes(struct mcsm_config *config)
{
    bool given[16] = {true};

    config->own_levels = config->set_sl2vl;
    for (size_t i = 0; i < config->qos.rule_count; i++) {
        config->own_levels = true;
        given[config->qos.rules[i].sl] = true;
    }
    for (size_t i = 0; i < config->partition_count; i++) {
        config->own_levels |= config->partitions[i].sl > 0;
        given[config->partitions[i].sl & 15] = true;
    }
    for (int sl = 0; sl < 16; sl++) {
        if (given[sl]) {
            config->classes[config->class_count++] = sl;
        }
    }
    config->shares_lanes = config->own_levels && !config->set_sl2vl && config->multicast_sl == 0 &&
                           config->border_count == 0;
}

void mcsm_config_finish(struct mcsm_parser *parser)
{
    struct mcsm_config *config = parser->config;

    if (config->name[0] == '\0') {
        mcsm_parse_error(parser, 0, "[cluster] has no name");
    }
    if (config->db.count > 0 && !parser->lids_set) {
        range_of_db(&config->db, &config->lids);
    }
    if (config->lids.from > config->lids.to) {
        mcsm_parse_error(parser, 0, "lid-min %u is above lid-max %u", config->lids.from,
                         config->lids.to);
    }
    for (size_t i = 0; i < config->db.count; i++) {
        if (!mcsm_range_has(config->lids, config->db.entries[i].lid)) {
            mcsm_parse_error(parser, 0, "the database gives LID %u, outside of lid-min to lid-max",
                             config->db.entries[i].lid);
        }
    }
    if (config->socket[0] == '\0') {
        snprintf(config->socket, sizeof(config->socket), "/run/mcsm/%s.sock", config->name);
    }
    for (size_t i = 0; i < config->neighbour_count; i++) {
        check_neighbour(parser, &config->neighbours[i]);
    }
    if (config->engine != MCSM_ENGINE_UPDN && config->engine != MCSM_ENGINE_AUTO &&
        config->root_count > 0) {
        mcsm_parse_error(parser, 0, "[routing] has roots, but its engine is not updn or auto");
    }
    if (config->engine != MCSM_ENGINE_DOR && config->engine != MCSM_ENGINE_TORUS &&
        config->dimension_count > 0) {
        mcsm_parse_error(parser, 0, "[routing] has dimensions, but its engine is not dor or torus");
    }
    check_lanes(parser);
    add_default_partition(parser);
    mcsm_qos_check(parser);
    find_classes(config);
}
