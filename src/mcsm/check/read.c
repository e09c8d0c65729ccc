/* Reading dumps: lines of words, each checked. */
#include "model.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>

struct reader {
    struct check_model *model;
    const char *path;
    int line;
    int cluster;
    bool ended;
};

static int bad(const struct reader *reader, const char *what)
{
    fprintf(stderr, "%s:%d: %s; is it a dump of mcsm-ctl dump fabric?\n", reader->path,
            reader->line, what);
    return -EINVAL;
}

static void *append(void **array, size_t *count, size_t size)
{
    /* Room doubles: it is always the next power of two. */
    if ((*count & (*count - 1)) == 0) {
        void *more = realloc(*array, (*count ? *count * 2 : 1) * size);

        if (more == NULL) {
            return NULL;
        }
        *array = more;
    }
    return memset((char *)*array + (*count)++ * size, 0, size);
}

static bool guid_word(const char **text, uint64_t *guid_p)
{
    char word[32];

    return mcsm_next_word(text, " \n", word, sizeof(word)) && mcsm_parse_guid(word, guid_p) == 0;
}

static bool number_word(const char **text, uint64_t max, uint64_t *number_p)
{
    char word[32];

    return mcsm_next_word(text, " \n", word, sizeof(word)) &&
           mcsm_parse_number(word, 0, max, number_p) == 0;
}

static int read_cluster(struct reader *reader, const char *text)
{
    char name[MCSM_NAME_MAX + 1], (*added)[MCSM_NAME_MAX + 1];
    struct check_model *model = reader->model;

    if (!mcsm_next_word(&text, " \n", name, sizeof(name))) {
        return bad(reader, "cluster without a name");
    }
    added = append((void **)&model->clusters, &model->cluster_count, sizeof(*added));
    if (added == NULL) {
        return -ENOMEM;
    }
    strcpy(*added, name);
    reader->cluster = model->cluster_count - 1;
    return 0;
}

static int read_node(struct reader *reader, const char *text)
{
    struct check_node *node, *old;
    uint64_t guid, nports;
    char type[16];

    if (!mcsm_next_word(&text, " \n", type, sizeof(type)) || !guid_word(&text, &guid) ||
        !number_word(&text, 254, &nports) || reader->cluster < 0) {
        return bad(reader, "expected: node switch|ca GUID PORTS \"NAME\"");
    }
    old = check_find(reader->model, guid);
    if (old != NULL) {
        fprintf(stderr, "%s:%d: 0x%016lx is both in cluster %s and in %s: a border is missing\n",
                reader->path, reader->line, guid, reader->model->clusters[old->cluster],
                reader->model->clusters[reader->cluster]);
        return -EINVAL;
    }
    node = calloc(1, sizeof(*node));
    if (node == NULL) {
        return -ENOMEM;
    }
    node->guid = guid;
    node->sw = strcmp(type, "switch") == 0;
    node->nports = nports;
    node->cluster = reader->cluster;
    node->index = node->attached = -1;
    text += strspn(text, " \"");
    mcsm_clean_text(node->desc, sizeof(node->desc), text, strcspn(text, "\"\n"));
    HASH_ADD(hh, reader->model->nodes, guid, sizeof(guid), node);
    return 0;
}

static int read_lid(struct reader *reader, const char *text)
{
    struct check_model *model = reader->model;
    uint64_t guid, port, port_guid, lid;
    struct check_node *node;

    if (!guid_word(&text, &guid) || !number_word(&text, 254, &port) ||
        !guid_word(&text, &port_guid) || !number_word(&text, MCSM_LID_MAX, &lid) || lid == 0) {
        return bad(reader, "expected: lid GUID PORT PORT-GUID LID");
    }
    node = check_find(model, guid);
    if (node == NULL) {
        return bad(reader, "a LID of a node that is not there");
    }
    if (model->lid_owner[lid] != 0) {
        model->lid_conflicts++;
        fprintf(stderr, "LID %lu is both that of 0x%016lx and of 0x%016lx\n", lid,
                model->lid_owner[lid], guid);
        return 0;
    }
    model->lid_owner[lid] = guid;
    model->lid_port[lid] = port;
    if (node->lid == 0) {
        node->lid = lid;
    }
    return 0;
}

static int read_link(struct reader *reader, const char *text)
{
    uint64_t a, b, a_port, b_port;
    struct check_link *link;

    if (!guid_word(&text, &a) || !number_word(&text, 254, &a_port) || !guid_word(&text, &b) ||
        !number_word(&text, 254, &b_port)) {
        return bad(reader, "expected: link GUID PORT GUID PORT");
    }
    link = append((void **)&reader->model->links, &reader->model->link_count, sizeof(*link));
    if (link == NULL) {
        return -ENOMEM;
    }
    *link = (struct check_link){a, b, a_port, b_port, false};
    return 0;
}

static int read_border(struct reader *reader, const char *text)
{
    uint64_t guid, peer_guid, port, peer_port;
    struct check_border *border;
    char name[64];

    if (!guid_word(&text, &guid) || !number_word(&text, 254, &port) ||
        !mcsm_next_word(&text, " \n", name, sizeof(name)) || !guid_word(&text, &peer_guid) ||
        !number_word(&text, 254, &peer_port)) {
        return bad(reader, "expected: border GUID PORT CLUSTER PEER-GUID PEER-PORT");
    }
    border =
        append((void **)&reader->model->borders, &reader->model->border_count, sizeof(*border));
    if (border == NULL) {
        return -ENOMEM;
    }
    *border = (struct check_border){guid, peer_guid, port, peer_port, reader->cluster};
    return 0;
}

/* Digits up to a character, which is passed over. A dump of a large fabric has millions of them. */
static bool digits(const char **text, char end, unsigned max, unsigned *number_p)
{
    const char *at = *text;
    unsigned number = 0;

    while (*at >= '0' && *at <= '9' && number <= max) {
        number = number * 10 + (*at++ - '0');
    }
    if (at == *text || *at != end || number > max) {
        return false;
    }
    *number_p = number;
    *text = at + (end != '\0');
    return true;
}

/* "1-18:5": these LIDs leave through this port. */
static bool read_run(const char *word, unsigned *from, unsigned *to, unsigned *port)
{
    return digits(&word, '-', MCSM_LID_MAX, from) && digits(&word, ':', MCSM_LID_MAX, to) &&
           digits(&word, '\0', 254, port) && *from <= *to;
}

static int read_lft(struct reader *reader, const char *text)
{
    struct check_lft *lft = calloc(1, sizeof(*lft));
    unsigned from, to, port;
    char word[48];

    if (lft == NULL || (lft->ports = malloc(MCSM_LFT_SIZE)) == NULL) {
        free(lft);
        return -ENOMEM;
    }
    memset(lft->ports, MCSM_DROP, MCSM_LFT_SIZE);
    if (!guid_word(&text, &lft->guid)) {
        free(lft->ports);
        free(lft);
        return bad(reader, "expected: lft GUID FROM-TO:PORT...");
    }
    HASH_ADD(hh, reader->model->lfts, guid, sizeof(lft->guid), lft);
    while (mcsm_next_word(&text, " \n", word, sizeof(word))) {
        if (!read_run(word, &from, &to, &port)) {
            return bad(reader, "expected FROM-TO:PORT");
        }
        memset(lft->ports + from, port, to - from + 1);
    }
    return 0;
}

static int read_mft(struct reader *reader, const char *text)
{
    uint64_t guid, mlid, port;
    struct check_mft *mft;

    if (!guid_word(&text, &guid) || !number_word(&text, 0xffff, &mlid) || mlid < MCSM_MLID_MIN) {
        return bad(reader, "expected: mft GUID MLID PORT...");
    }
    mft = append((void **)&reader->model->mfts, &reader->model->mft_count, sizeof(*mft));
    if (mft == NULL) {
        return -ENOMEM;
    }
    mft->guid = guid;
    mft->mlid = mlid;
    while (*(text += strspn(text, " \n")) != '\0') {
        if (!number_word(&text, 254, &port)) {
            return bad(reader, "expected a port");
        }
        mft->ports[port / 64] |= 1ULL << port % 64;
    }
    return 0;
}

static int read_multicast_sl(struct reader *reader, const char *text)
{
    uint64_t sl;

    if (!number_word(&text, 15, &sl)) {
        return bad(reader, "expected: multicast-sl NUMBER");
    }
    reader->model->multicast_sl = sl;
    return 0;
}

static int read_row(struct reader *reader, const char *text, struct check_lanes *row)
{
    if (row == NULL) {
        return -ENOMEM;
    }
    if (!guid_word(&text, &row->guid)) {
        return bad(reader, "expected: lanes GUID DIGITS, or rings GUID DIGITS");
    }
    text += strspn(text, " ");
    row->digits = strndup(text, strspn(text, "0123456789abcdef"));
    return row->digits ? 0 : -ENOMEM;
}

static int read_lanes(struct reader *reader, const char *text)
{
    struct check_model *model = reader->model;

    return read_row(reader, text,
                    append((void **)&model->lanes, &model->lanes_count, sizeof(*model->lanes)));
}

static int read_rings(struct reader *reader, const char *text)
{
    struct check_model *model = reader->model;

    return read_row(reader, text,
                    append((void **)&model->rings, &model->rings_count, sizeof(*model->rings)));
}

static int read_line(struct reader *reader, const char *text)
{
    static const struct {
        const char *word;
        int (*read)(struct reader *, const char *);
    } kinds[] = {
        {"cluster", read_cluster}, {"node", read_node},     {"lid", read_lid},
        {"link", read_link},       {"border", read_border}, {"lft", read_lft},
        {"mft", read_mft},         {"lanes", read_lanes},   {"multicast-sl", read_multicast_sl},
        {"rings", read_rings}};
    char word[16];

    if (!mcsm_next_word(&text, " \n", word, sizeof(word))) {
        return 0;
    }
    if (strcmp(word, "end") == 0) {
        reader->ended = true;
        return 0;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(word, kinds[i].word) == 0) {
            return reader->cluster < 0 && i > 0 ? bad(reader, "there is no cluster yet") :
                                                  kinds[i].read(reader, text);
        }
    }
    return bad(reader, "unknown line");
}

int check_read(struct check_model *model, const char *path)
{
    struct reader reader = {.model = model, .path = path, .cluster = -1};
    FILE *file = fopen(path, "re");
    size_t size = 0;
    char *line = NULL;
    int status = 0, error = errno;

    if (model->lid_owner == NULL) {
        model->lid_owner = calloc(MCSM_LFT_SIZE, sizeof(*model->lid_owner));
        model->lid_port = calloc(MCSM_LFT_SIZE, 1);
    }
    if (model->lid_owner == NULL || model->lid_port == NULL) {
        status = -ENOMEM;
    } else if (file == NULL) {
        fprintf(stderr, "mcsm-check: %s: %s\n", path, strerror(error));
        status = -error;
    }
    while (status == 0 && getline(&line, &size, file) > 0) {
        if (++reader.line > 1) {
            status = read_line(&reader, line);
        } else if (strcmp(line, "mcsm-dump 1\n") != 0) {
            status = bad(&reader, "the first line is not \"mcsm-dump 1\"");
        }
    }
    if (status == 0 && !reader.ended) {
        status = bad(&reader, "the dump ends too early");
    }
    free(line);
    if (file != NULL) {
        fclose(file);
    }
    return status;
}
