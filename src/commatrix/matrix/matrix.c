#include "matrix.h"

#include <inttypes.h>
#include <string.h>

const char *const cm_by_names[CM_NUM_BY] = {"lid", "gid", "ip", "host", "qp", "rank"};
const char *const cm_count_names[CM_NUM_COUNT] = {"wire",     "payload", "packets",
                                                  "messages", "mean",    "largest"};

/* Gives each side of a flow its row or column. */
struct builder {
    const struct cm_traffic *traffic;
    const struct cm_map *map;
    struct cm_ranks *ranks;
    enum cm_by by;
    uint32_t job;          /* only this one; 0: all */
    GHashTable *names;     /* name -> number + 1 */
    GPtrArray *list;       /* the names by their numbers */
    GPtrArray *hosts;      /* the host of each name */
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
    uint64_t messages = cm_counts_messages(counts);

    switch (count) {
    case CM_COUNT_WIRE:
        return (double)counts->wire;
    case CM_COUNT_PAYLOAD:
        return (double)counts->payload;
    case CM_COUNT_PACKETS:
        return (double)counts->packets;
    case CM_COUNT_MESSAGES:
        return (double)messages;
    case CM_COUNT_MEAN:
        return messages != 0 ? (double)counts->payload / (double)messages : 0;
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
    struct cm_process process = {0, cm_map_rank(builder->map, address, qpn)};

    builder->several |= process.rank == CM_RANK_SEVERAL;
    if (process.rank < 0 && builder->ranks != NULL) {
        process = cm_ranks_of(builder->ranks, id, qpn);
    }
    if (process.rank < 0) {
        builder->unknown = true;
        return qp_name(builder, address, qpn);
    }
    if (process.job != 0 && builder->job == 0 && cm_ranks_jobs(builder->ranks) > 1) {
        return g_strdup_printf("job %u rank %" PRId64, process.job, process.rank);
    }
    return g_strdup_printf("%" PRId64, process.rank);
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
    return cm_mix(GPOINTER_TO_SIZE(key));
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
        g_ptr_array_add(builder->hosts,
                        host_name(builder, cm_traffic_address(builder->traffic, id)));
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

static void permute(GPtrArray *texts, const uint32_t *order)
{
    gpointer *old = g_memdup2(texts->pdata, texts->len * sizeof(gpointer));
    guint i;

    for (i = 0; i < texts->len; i++) {
        texts->pdata[i] = old[order[i]];
    }
    g_free(old);
}

/* Puts the names in order. Returns the new number of each old one, to be freed. */
static uint32_t *sort_names(GPtrArray *names, GPtrArray *hosts)
{
    uint32_t *order = g_new(uint32_t, names->len + 1), *place = g_new(uint32_t, names->len + 1);
    guint i;

    for (i = 0; i < names->len; i++) {
        order[i] = i;
    }
    g_qsort_with_data(order, (gint)names->len, sizeof(*order), compare_names, names);
    for (i = 0; i < names->len; i++) {
        place[order[i]] = i;
    }
    permute(names, order);
    permute(hosts, order);
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
        if (flow->signs != NULL) {
            if (cell->signs == NULL) {
                cell->signs = g_new0(struct cm_signs, 1);
            }
            cm_signs_add(cell->signs, flow->signs);
        }
    }
}

/* CNPs whose queue pair is not known count for the hosts. */
static bool has_lone_cnps(const struct builder *builder, const struct cm_flow *flow)
{
    return flow->signs != NULL && flow->signs->cnps != 0 && builder->by != CM_BY_QP &&
           builder->by != CM_BY_RANK;
}

/* A flow that only tells the partner of a connection has no traffic of its own. */
static bool is_shown(const struct builder *builder, const struct cm_flow *flow)
{
    if (flow->counts.packets == 0 && !has_lone_cnps(builder, flow)) {
        return false;
    }
    return builder->job == 0 ||
           (cm_ranks_of(builder->ranks, flow->key.src, cm_flow_src_qpn(flow)).job == builder->job &&
            cm_ranks_of(builder->ranks, flow->key.dst, flow->key.dst_qpn).job == builder->job);
}

static void make_slices(struct cm_matrix *matrix, struct builder *builder, const uint32_t *place)
{
    const GArray *entries = builder->traffic->windows;
    GArray *parts = g_array_new(FALSE, FALSE, sizeof(struct part));
    uint64_t width = builder->traffic->options.window_ns;
    struct cm_slice *slice = NULL;
    guint i;

    for (i = 1; i < entries->len; i++) {
        const struct cm_window_entry *entry = &g_array_index(entries, struct cm_window_entry, i);
        const struct cm_flow *flow = cm_traffic_flow(builder->traffic, entry->flow);
        struct part part;

        if (!is_shown(builder, flow)) {
            continue;
        }
        part = part_of(builder, flow);
        part = (struct part){place[part.from], place[part.to], i, entry->window};
        g_array_append_val(parts, part);
    }
    g_array_sort(parts, compare_parts);
    for (i = 0; i < parts->len; i++) {
        const struct part *part = &g_array_index(parts, struct part, i);
        const struct cm_window_entry *entry =
            &g_array_index(entries, struct cm_window_entry, part->number);

        uint64_t begin = (uint64_t)MAX(part->window, 0) * width;

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

/* Signs alone make no cell. */
static void drop_empty_cells(struct cm_matrix *matrix)
{
    guint kept = 0, i;

    for (i = 0; i < matrix->cells->len; i++) {
        struct cm_cell *cell = &g_array_index(matrix->cells, struct cm_cell, i);

        if (cell->counts.packets != 0) {
            g_array_index(matrix->cells, struct cm_cell, kept++) = *cell;
        } else {
            g_free(cell->signs);
        }
    }
    g_array_set_size(matrix->cells, kept);
}

static void build(struct cm_matrix *matrix, struct builder *builder)
{
    GArray *parts =
        g_array_sized_new(FALSE, FALSE, sizeof(struct part), builder->traffic->num_flows);
    uint32_t *place;
    guint i;

    for (i = 0; i < builder->traffic->num_flows; i++) {
        const struct cm_flow *flow = cm_traffic_flow(builder->traffic, i);

        if (is_shown(builder, flow)) {
            struct part part = part_of(builder, flow);

            g_array_append_val(parts, part);
        }
    }
    place = sort_names(builder->list, builder->hosts);
    for (i = 0; i < parts->len; i++) {
        struct part *part = &g_array_index(parts, struct part, i);

        part->from = place[part->from];
        part->to = place[part->to];
    }
    g_array_sort(parts, compare_parts);
    /* At once: an array that grows needs the memory twice. */
    g_array_free(matrix->cells, TRUE);
    matrix->cells = g_array_sized_new(FALSE, FALSE, sizeof(struct cm_cell), parts->len);
    make_cells(matrix, builder, parts);
    drop_empty_cells(matrix);
    g_array_free(parts, TRUE);
    if (builder->traffic->options.window_ns != 0) {
        make_slices(matrix, builder, place);
    }
    g_free(place);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* The number of the host of each address: addresses with one name in the map are one host. */
static uint32_t *number_hosts(const struct builder *builder)
{
    guint n = builder->traffic->addresses->len, i;
    GHashTable *named = g_hash_table_new(g_str_hash, g_str_equal);
    uint32_t *hosts = g_new(uint32_t, n + 1);

    for (i = 0; i < n; i++) {
        const char *name = cm_map_host(builder->map, cm_traffic_address(builder->traffic, i));
        gpointer first = name != NULL ? g_hash_table_lookup(named, name) : NULL;

        hosts[i] = first != NULL ? GPOINTER_TO_UINT(first) - 1 : i;
        if (name != NULL && first == NULL) {
            g_hash_table_insert(named, (gpointer)name, GUINT_TO_POINTER(i + 1));
        }
    }
    g_hash_table_destroy(named);
    return hosts;
}

/* Finds the ranks. If there are none, the matrix has hosts, and the note has the reason. */
static void find_ranks(struct cm_matrix *matrix, struct builder *builder, const uint32_t *hosts)
{
    char *why = NULL;

    builder->ranks = cm_ranks_new(builder->traffic, hosts, &why);
    if (builder->ranks != NULL) {
        matrix->mpi = cm_mpi_names[cm_ranks_mpi(builder->ranks)];
        matrix->jobs = cm_ranks_jobs(builder->ranks);
        return;
    }
    if (!cm_map_has_ranks(builder->map)) {
        matrix->note = g_strconcat("no ranks, hosts instead: ", why, NULL);
        matrix->by = builder->by = CM_BY_HOST;
    }
    g_free(why);
}

static void add_note(struct cm_matrix *matrix, char *text)
{
    char *before = matrix->note;

    matrix->note = before != NULL ? g_strconcat(before, "; ", text, NULL) : g_strdup(text);
    g_free(before);
    g_free(text);
}

static void note_jobs(struct cm_matrix *matrix, const struct builder *builder)
{
    GString *sizes;
    uint32_t job;

    if (matrix->jobs < 2) {
        return;
    }
    sizes = g_string_new(NULL);
    for (job = 1; job <= MIN(matrix->jobs, 8); job++) {
        g_string_append_printf(sizes, "%s%u", job > 1 ? ", " : "",
                               cm_ranks_size(builder->ranks, job));
    }
    add_note(matrix, g_strdup_printf("%u jobs, of %s%s ranks; --job N shows one", matrix->jobs,
                                     sizes->str, matrix->jobs > 8 ? ", ..." : ""));
    g_string_free(sizes, TRUE);
}

static void note_missing_ranks(struct cm_matrix *matrix, const struct builder *builder)
{
    uint32_t refuted = builder->ranks != NULL ? cm_ranks_refuted(builder->ranks) : 0;

    note_jobs(matrix, builder);
    if (refuted > 0) {
        add_note(matrix, g_strdup_printf("%u processes name ranks that contradict each other: "
                                         "these ranks are not used",
                                         refuted));
    }
    if (builder->several && builder->unknown) {
        add_note(matrix, g_strdup("not all ranks: the map file has several ranks on a host; \"qp\" "
                                  "behind the host tells them apart"));
    } else if (builder->unknown) {
        add_note(matrix, g_strdup("not all ranks: the capture has no message of MPI_COMM_WORLD "
                                  "from the queue pairs that are shown as such"));
    }
}

/* ---- sums and peaks -------------------------------------------------------------------------- */

static gint compare_cells(gconstpointer a, gconstpointer b)
{
    const struct cm_cell *x = a, *y = b;

    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return x->to == y->to ? 0 : x->to < y->to ? -1 : 1;
}

static void sum_sides(struct cm_matrix *matrix)
{
    guint n = matrix->names->len + 1, i;

    matrix->sent = g_renew(struct cm_counts, matrix->sent, n);
    matrix->received = g_renew(struct cm_counts, matrix->received, n);
    memset(matrix->sent, 0, n * sizeof(*matrix->sent));
    memset(matrix->received, 0, n * sizeof(*matrix->received));
    for (i = 0; i < matrix->cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(matrix->cells, struct cm_cell, i);

        cm_counts_add(&matrix->sent[cell->from], &cell->counts);
        cm_counts_add(&matrix->received[cell->to], &cell->counts);
    }
}

static void find_peaks(struct cm_matrix *matrix)
{
    guint i, k;

    for (i = 0; i < matrix->slices->len; i++) {
        const GArray *cells = g_array_index(matrix->slices, struct cm_slice, i).cells;

        for (k = 0; k < cells->len; k++) {
            const struct cm_cell *part = &g_array_index(cells, struct cm_cell, k);
            guint at;

            if (g_array_binary_search(matrix->cells, part, compare_cells, &at)) {
                struct cm_cell *cell = &g_array_index(matrix->cells, struct cm_cell, at);

                cell->peak = MAX(cell->peak, part->counts.wire);
            }
        }
    }
}

/* ---- another order --------------------------------------------------------------------------- */

const char *const cm_order_names[CM_NUM_ORDER] = {"name", "traffic", "cluster"};

enum { MAX_CLUSTER = 8192 }; /* names: the order costs their square */

static void renumber(GArray *cells, const uint32_t *place)
{
    guint i;

    for (i = 0; i < cells->len; i++) {
        struct cm_cell *cell = &g_array_index(cells, struct cm_cell, i);

        cell->from = place[cell->from];
        cell->to = place[cell->to];
    }
    g_array_sort(cells, compare_cells);
}

static gint compare_traffic(gconstpointer a, gconstpointer b, gpointer user)
{
    const struct cm_matrix *matrix = user;
    const uint32_t *x = a, *y = b;
    uint64_t by_x = matrix->sent[*x].wire + matrix->received[*x].wire;
    uint64_t by_y = matrix->sent[*y].wire + matrix->received[*y].wire;

    return by_x == by_y ? (*x < *y ? -1 : 1) : by_x > by_y ? -1 : 1;
}

/*
 * Neighbours stand together: next comes the name that has the most traffic with a name that stands
 * already (Prim's order of a maximum spanning tree). `order` is by traffic at first.
 */
static void cluster(const struct cm_matrix *matrix, uint32_t *order)
{
    guint n = matrix->names->len, i, k;
    double *link = g_new0(double, (gsize)n + 1);
    double **rows = g_new0(double *, (gsize)n + 1);
    bool *placed = g_new0(bool, (gsize)n + 1);
    uint32_t *by_traffic = g_memdup2(order, n * sizeof(*order));

    for (i = 0; i < matrix->cells->len; i++) {
        const struct cm_cell *cell = &g_array_index(matrix->cells, struct cm_cell, i);
        uint32_t side[2] = {cell->from, cell->to};

        for (k = 0; k < 2; k++) {
            if (rows[side[k]] == NULL) {
                rows[side[k]] = g_new0(double, n);
            }
            rows[side[k]][side[1 - k]] += (double)cell->counts.wire;
        }
    }
    for (i = 0; i < n; i++) {
        uint32_t best = UINT32_MAX;

        for (k = 0; k < n; k++) {
            uint32_t name = by_traffic[k];

            if (!placed[name] && (best == UINT32_MAX || link[name] > link[best])) {
                best = name;
            }
        }
        placed[best] = true;
        order[i] = best;
        for (k = 0; k < n && rows[best] != NULL; k++) {
            link[k] = MAX(link[k], rows[best][k]);
        }
    }
    for (i = 0; i < n; i++) {
        g_free(rows[i]);
    }
    g_free(rows);
    g_free(link);
    g_free(placed);
    g_free(by_traffic);
}

static void reorder(struct cm_matrix *matrix, enum cm_order by)
{
    guint n = matrix->names->len, i;
    uint32_t *order = g_new(uint32_t, n + 1), *place = g_new(uint32_t, n + 1);

    for (i = 0; i < n; i++) {
        order[i] = i;
    }
    g_qsort_with_data(order, (gint)n, sizeof(*order), compare_traffic, matrix);
    if (by == CM_ORDER_CLUSTER && n <= MAX_CLUSTER) {
        cluster(matrix, order);
    }
    for (i = 0; i < n; i++) {
        place[order[i]] = i;
    }
    permute(matrix->names, order);
    permute(matrix->hosts, order);
    renumber(matrix->cells, place);
    for (i = 0; i < matrix->slices->len; i++) {
        renumber(g_array_index(matrix->slices, struct cm_slice, i).cells, place);
    }
    sum_sides(matrix);
    g_free(order);
    g_free(place);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void fill(struct cm_matrix *matrix, struct builder *builder, enum cm_order order)
{
    build(matrix, builder);
    if (builder->by == CM_BY_RANK) {
        note_missing_ranks(matrix, builder);
    }
    sum_sides(matrix);
    find_peaks(matrix);
    if (order != CM_ORDER_NAME && matrix->names->len > 0) {
        reorder(matrix, order);
    }
}

struct cm_matrix *cm_matrix_new(const struct cm_traffic *traffic, const struct cm_map *map,
                                const struct cm_matrix_options *options, char **error_p)
{
    struct cm_matrix *matrix = g_new0(struct cm_matrix, 1);
    struct builder builder = {.traffic = traffic, .map = map, .by = options->by};
    uint32_t *hosts = number_hosts(&builder);

    matrix->by = options->by;
    matrix->cells = g_array_new(FALSE, FALSE, sizeof(struct cm_cell));
    matrix->slices = g_array_new(FALSE, FALSE, sizeof(struct cm_slice));
    matrix->phases = cm_phases_find(&traffic->activity, cm_traffic_zero(traffic));
    matrix->names = builder.list = g_ptr_array_new_with_free_func(g_free);
    matrix->hosts = builder.hosts = g_ptr_array_new_with_free_func(g_free);
    builder.names = g_hash_table_new(g_str_hash, g_str_equal);
    builder.sides = g_hash_table_new(pair_hash, g_direct_equal);
    if (options->by == CM_BY_RANK) {
        find_ranks(matrix, &builder, hosts);
    }
    builder.job = options->job;
    if (options->job > matrix->jobs) {
        *error_p =
            g_strdup_printf("there is no job %u: the capture shows %u", options->job, matrix->jobs);
    } else {
        fill(matrix, &builder, options->order);
    }
    g_hash_table_destroy(builder.names);
    g_hash_table_destroy(builder.sides);
    if (builder.ranks != NULL) {
        cm_ranks_free(builder.ranks);
    }
    g_free(hosts);
    if (options->job > matrix->jobs) {
        cm_matrix_free(matrix);
        return NULL;
    }
    return matrix;
}

void cm_matrix_free(struct cm_matrix *matrix)
{
    guint i;

    for (i = 0; i < matrix->slices->len; i++) {
        g_array_free(g_array_index(matrix->slices, struct cm_slice, i).cells, TRUE);
    }
    for (i = 0; i < matrix->cells->len; i++) {
        g_free(g_array_index(matrix->cells, struct cm_cell, i).signs);
    }
    g_array_free(matrix->slices, TRUE);
    g_array_free(matrix->phases, TRUE);
    g_array_free(matrix->cells, TRUE);
    g_ptr_array_free(matrix->names, TRUE);
    g_ptr_array_free(matrix->hosts, TRUE);
    g_free(matrix->sent);
    g_free(matrix->received);
    g_free(matrix->note);
    g_free(matrix);
}
