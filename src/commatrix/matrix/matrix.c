#include "matrix.h"

#include <inttypes.h>
#include <string.h>

const char *const cm_by_names[CM_NUM_BY] = {"lid", "gid", "ip", "host", "qp", "rank"};
const char *const cm_count_names[CM_NUM_COUNT] = {"wire",     "payload", "packets",
                                                  "messages", "mean",    "largest"};

/* One side of a flow: what a row or a column stands for. */
struct builder {
    const struct cm_traffic *traffic;
    const struct cm_map *map;
    struct cm_ranks *ranks;
    enum cm_by by;
    GHashTable *names;     /* name -> number + 1 */
    GPtrArray *list;       /* the names by their numbers */
    GHashTable *sides;     /* (address, queue pair) -> number + 1 */
    bool several, unknown; /* there are such ranks */
};

/* A flow, or an entry of a window, and its cell. */
struct part {
    uint32_t from, to, number;
    int32_t window;
};

double cm_cell_value(const struct cm_counts *counts, enum cm_count count)
{
    switch (count) {
    case CM_COUNT_WIRE:
        return (double)counts->wire;
    case CM_COUNT_PAYLOAD:
        return (double)counts->payload;
    case CM_COUNT_PACKETS:
        return (double)counts->packets;
    case CM_COUNT_MESSAGES:
        return (double)counts->messages;
    case CM_COUNT_MEAN:
        return counts->messages != 0 ? (double)counts->payload / (double)counts->messages : 0;
    default:
        return (double)counts->largest;
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static char *host_name(const struct builder *builder, const struct cm_address *address)
{
    const char *name = cm_map_host(builder->map, address);

    if (name != NULL) {
        return g_strdup(name);
    }
    return address->has_lid ? g_strdup_printf("lid %u", address->lid) : cm_address_ip(address);
}

static char *qp_name(const struct builder *builder, const struct cm_address *address, uint32_t qpn)
{
    char *host = host_name(builder, address), *name;

    name = qpn == CM_QPN_NONE ? g_strdup(host) : g_strdup_printf("%s qp %u", host, qpn);
    g_free(host);
    return name;
}

static char *rank_name(struct builder *builder, uint32_t id, uint32_t qpn)
{
    const struct cm_address *address = cm_traffic_address(builder->traffic, id);
    int64_t rank = cm_map_rank(builder->map, address, qpn);

    builder->several |= rank == CM_RANK_SEVERAL;
    if (rank < 0 && builder->ranks != NULL) {
        rank = cm_ranks_of(builder->ranks, id, qpn);
    }
    if (rank < 0) {
        builder->unknown = true;
        return qp_name(builder, address, qpn);
    }
    return g_strdup_printf("%" PRId64, rank);
}

static char *side_name(struct builder *builder, uint32_t id, uint32_t qpn)
{
    const struct cm_address *address = cm_traffic_address(builder->traffic, id);

    switch (builder->by) {
    case CM_BY_LID:
        return cm_address_lid(address);
    case CM_BY_GID:
        return cm_address_gid(address);
    case CM_BY_IP:
        return cm_address_ip(address);
    case CM_BY_HOST:
        return host_name(builder, address);
    case CM_BY_QP:
        return qp_name(builder, address, qpn);
    default:
        return rank_name(builder, id, qpn);
    }
}

static guint pair_hash(gconstpointer key)
{
    return (guint)((uint64_t)GPOINTER_TO_SIZE(key) * 0x9e3779b97f4a7c15u >> 32);
}

static uint32_t side_number(struct builder *builder, uint32_t id, uint32_t qpn)
{
    bool by_qp = builder->by == CM_BY_QP || builder->by == CM_BY_RANK;
    gpointer side = GSIZE_TO_POINTER(((gsize)id << 32 | (by_qp ? qpn : 0)) + 1), number;
    char *name;

    number = g_hash_table_lookup(builder->sides, side);
    if (number != NULL) {
        return GPOINTER_TO_UINT(number) - 1;
    }
    name = side_name(builder, id, qpn);
    number = g_hash_table_lookup(builder->names, name);
    if (number == NULL) {
        g_ptr_array_add(builder->list, name);
        number = GUINT_TO_POINTER(builder->list->len);
        g_hash_table_insert(builder->names, name, number);
    } else {
        g_free(name);
    }
    g_hash_table_insert(builder->sides, side, number);
    return GPOINTER_TO_UINT(number) - 1;
}

/* ---- the order of rows and columns ----------------------------------------------------------- */

static gint compare_names(gconstpointer a, gconstpointer b, gpointer list)
{
    const uint32_t *x = a, *y = b;
    const char *name_x = g_ptr_array_index((GPtrArray *)list, *x);
    const char *name_y = g_ptr_array_index((GPtrArray *)list, *y);
    bool number_x = g_ascii_isdigit(name_x[0]), number_y = g_ascii_isdigit(name_y[0]);

    /* Ranks before what is no rank; and 2 before 10. */
    return number_x != number_y ? (number_x ? -1 : 1) : strverscmp(name_x, name_y);
}

/* Put the names in order. Returns the new number of each old one, to be freed. */
static uint32_t *sort_names(GPtrArray *names)
{
    uint32_t *order = g_new(uint32_t, names->len + 1), *place = g_new(uint32_t, names->len + 1);
    gpointer *old = g_memdup2(names->pdata, names->len * sizeof(gpointer));
    guint i;

    for (i = 0; i < names->len; i++) {
        order[i] = i;
    }
    g_qsort_with_data(order, (gint)names->len, sizeof(*order), compare_names, names);
    for (i = 0; i < names->len; i++) {
        place[order[i]] = i;
        names->pdata[i] = old[order[i]];
    }
    g_free(old);
    g_free(order);
    return place;
}

static gint compare_parts(gconstpointer a, gconstpointer b)
{
    const struct part *x = a, *y = b;

    if (x->window != y->window) {
        return x->window < y->window ? -1 : 1;
    }
    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return x->to == y->to ? 0 : x->to < y->to ? -1 : 1;
}

/* ---- cells ----------------------------------------------------------------------------------- */

static struct part part_of(struct builder *builder, const struct cm_flow *flow)
{
    uint32_t src_qpn = cm_flow_src_qpn(flow);

    return (struct part){.from = side_number(builder, flow->key.src, src_qpn),
                         .to = side_number(builder, flow->key.dst, flow->key.dst_qpn),
                         .number = flow->number};
}

static struct cm_cell *next_cell(GArray *cells, uint32_t from, uint32_t to)
{
    struct cm_cell *last = NULL, fresh = {.from = from, .to = to};

    if (cells->len > 0) {
        last = &g_array_index(cells, struct cm_cell, cells->len - 1);
    }
    if (last == NULL || last->from != from || last->to != to) {
        g_array_append_val(cells, fresh);
        last = &g_array_index(cells, struct cm_cell, cells->len - 1);
    }
    return last;
}

static void make_cells(struct cm_matrix *matrix, struct builder *builder, GArray *parts)
{
    guint i;

    for (i = 0; i < parts->len; i++) {
        const struct part *part = &g_array_index(parts, struct part, i);
        const struct cm_flow *flow = cm_traffic_flow(builder->traffic, part->number);
        struct cm_cell *cell = next_cell(matrix->cells, part->from, part->to);

        cm_counts_add(&cell->counts, &flow->counts);
        cm_counts_add(&matrix->totals, &flow->counts);
    }
}

static void make_slices(struct cm_matrix *matrix, struct builder *builder, const uint32_t *place)
{
    const GArray *entries = builder->traffic->windows;
    GArray *parts = g_array_new(FALSE, FALSE, sizeof(struct part));
    uint64_t width = builder->traffic->options.window_ns;
    struct cm_slice *slice = NULL;
    int64_t first;
    guint i;

    for (i = 1; i < entries->len; i++) {
        const struct cm_window_entry *entry = &g_array_index(entries, struct cm_window_entry, i);
        struct part part = part_of(builder, cm_traffic_flow(builder->traffic, entry->flow));

        part = (struct part){place[part.from], place[part.to], i, entry->window};
        g_array_append_val(parts, part);
    }
    g_array_sort(parts, compare_parts);
    first = parts->len > 0 ? g_array_index(parts, struct part, 0).window : 0;
    for (i = 0; i < parts->len; i++) {
        const struct part *part = &g_array_index(parts, struct part, i);
        const struct cm_window_entry *entry =
            &g_array_index(entries, struct cm_window_entry, part->number);

        uint64_t begin = (uint64_t)((int64_t)part->window - first) * width;

        if (slice == NULL || slice->begin_ns != begin) {
            struct cm_slice fresh = {begin, begin + width,
                                     g_array_new(FALSE, FALSE, sizeof(struct cm_cell))};

            g_array_append_val(matrix->slices, fresh);
            slice = &g_array_index(matrix->slices, struct cm_slice, matrix->slices->len - 1);
        }
        cm_counts_add(&next_cell(slice->cells, part->from, part->to)->counts, &entry->counts);
    }
    g_array_free(parts, TRUE);
}

/* Flows that only tell the partner of a connection have no traffic of their own. */
static bool has_traffic(const struct cm_flow *flow)
{
    return flow->counts.packets != 0;
}

static void build(struct cm_matrix *matrix, struct builder *builder)
{
    GArray *parts = g_array_new(FALSE, FALSE, sizeof(struct part));
    uint32_t *place;
    guint i;

    for (i = 0; i < builder->traffic->num_flows; i++) {
        const struct cm_flow *flow = cm_traffic_flow(builder->traffic, i);

        if (has_traffic(flow)) {
            struct part part = part_of(builder, flow);

            g_array_append_val(parts, part);
        }
    }
    place = sort_names(builder->list);
    for (i = 0; i < parts->len; i++) {
        struct part *part = &g_array_index(parts, struct part, i);

        part->from = place[part->from];
        part->to = place[part->to];
    }
    g_array_sort(parts, compare_parts);
    make_cells(matrix, builder, parts);
    g_array_free(parts, TRUE);
    if (builder->traffic->options.window_ns != 0) {
        make_slices(matrix, builder, place);
    }
    g_free(place);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Ranks are asked for: find them, or fall back to hosts and say why. */
static void find_ranks(struct cm_matrix *matrix, struct builder *builder)
{
    char *why = NULL;

    builder->ranks = cm_ranks_new(builder->traffic, &why);
    if (builder->ranks != NULL) {
        matrix->mpi = cm_mpi_names[cm_ranks_mpi(builder->ranks)];
        return;
    }
    if (!cm_map_has_ranks(builder->map)) {
        matrix->note = g_strconcat("no ranks, hosts instead: ", why, NULL);
        matrix->by = builder->by = CM_BY_HOST;
    }
    g_free(why);
}

static void note_missing_ranks(struct cm_matrix *matrix, const struct builder *builder)
{
    if (builder->several && builder->unknown) {
        matrix->note = g_strdup("not all ranks: the map file has several ranks on a host; \"qp\" "
                                "behind the host tells them apart");
    } else if (builder->unknown) {
        matrix->note = g_strdup("not all ranks: of the queue pairs that are shown as such no "
                                "message of MPI_COMM_WORLD was captured");
    }
}

struct cm_matrix *cm_matrix_new(const struct cm_traffic *traffic, const struct cm_map *map,
                                enum cm_by by)
{
    struct cm_matrix *matrix = g_new0(struct cm_matrix, 1);
    struct builder builder = {.traffic = traffic, .map = map, .by = by};

    matrix->by = by;
    matrix->cells = g_array_new(FALSE, FALSE, sizeof(struct cm_cell));
    matrix->slices = g_array_new(FALSE, FALSE, sizeof(struct cm_slice));
    matrix->phases =
        cm_phases_find(&traffic->activity, traffic->first_read_ns - traffic->capture.first_ns);
    matrix->names = builder.list = g_ptr_array_new_with_free_func(g_free);
    builder.names = g_hash_table_new(g_str_hash, g_str_equal);
    builder.sides = g_hash_table_new(pair_hash, g_direct_equal);
    if (by == CM_BY_RANK) {
        find_ranks(matrix, &builder);
    }
    build(matrix, &builder);
    if (builder.by == CM_BY_RANK) {
        note_missing_ranks(matrix, &builder);
    }
    g_hash_table_destroy(builder.names);
    g_hash_table_destroy(builder.sides);
    if (builder.ranks != NULL) {
        cm_ranks_free(builder.ranks);
    }
    return matrix;
}

void cm_matrix_free(struct cm_matrix *matrix)
{
    guint i;

    for (i = 0; i < matrix->slices->len; i++) {
        g_array_free(g_array_index(matrix->slices, struct cm_slice, i).cells, TRUE);
    }
    g_array_free(matrix->slices, TRUE);
    g_array_free(matrix->phases, TRUE);
    g_array_free(matrix->cells, TRUE);
    g_ptr_array_free(matrix->names, TRUE);
    g_free(matrix->note);
    g_free(matrix);
}
