#include "../core/gfi_match.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#define GFI_MATCH_BUCKETS 256 /* to begin with; a power of two */

/* ---- one table ---- */

/* Without memory for a larger table the old one goes on, with longer buckets */
void gfi_match_grow(struct gfi_match_table *table)
{
    struct gfi_match_node **old = table->buckets, **bucket, *node, *next;
    size_t old_size = table->size, i;

    bucket = calloc(old_size * 4, sizeof(*bucket));
    if (bucket == NULL) {
        return;
    }
    table->buckets = bucket;
    table->size = old_size * 4;
    for (i = 0; i < old_size; i++) {
        for (node = old[i]; node != NULL; node = next) {
            next = node->bucket_next;
            bucket = gfi_match_bucket(table, node->hash);
            node->bucket_next = *bucket;
            *bucket = node;
        }
    }
    free(old);
}

void gfi_match_append(struct gfi_match_node *head, struct gfi_match_node *node)
{
    node->is_head = false;
    node->prev = head->prev;
    node->prev->next = node;
    head->prev = node;
}

/* The next one of the queue takes the place of its head in the bucket */
static void gfi_match_replace_head(struct gfi_match_table *table, struct gfi_match_node *node)
{
    struct gfi_match_node **link = gfi_match_bucket(table, node->hash), *next = node->next;

    while (*link != node) {
        link = &(*link)->bucket_next;
    }
    next->is_head = true;
    next->prev = node->prev;
    next->bucket_next = node->bucket_next;
    *link = next;
}

void gfi_match_delete_queued(struct gfi_match_table *table, struct gfi_match_node *node)
{
    struct gfi_match_node *head;

    if (node->is_head) {
        gfi_match_replace_head(table, node);
        return;
    }
    node->prev->next = node->next;
    if (node->next != NULL) {
        node->next->prev = node->prev;
    } else {
        head = gfi_match_find(table, node->hash, node->class_id, node->source, node->tag);
        head->prev = node->prev;
    }
}

/* ---- classes ---- */

static void gfi_match_add_to_class(struct gfi_match *match, struct gfi_match_msg *msg, unsigned i)
{
    const struct gfi_match_class *class = &match->classes[i];

    gfi_match_insert(&match->msgs, &msg->node[i], i, gfi_match_source(class, msg->source),
                     msg->tag & ~class->ignore);
}

unsigned gfi_match_new_class(struct gfi_match *match, bool any_source, uint64_t ignore)
{
    struct gfi_list *item;
    unsigned i = match->num_classes;

    if (i == GFI_MATCH_CLASSES) {
        return GFI_MATCH_NO_CLASS;
    }
    match->classes[i].ignore = ignore;
    match->classes[i].any_source = any_source;
    match->classes[i].posted = 0;
    match->num_classes = i + 1;
    gfi_list_for_each(item, &match->all_msgs) {
        gfi_match_add_to_class(match, gfi_list_entry(item, struct gfi_match_msg, all), i);
    }
    return i;
}

/* ---- both together ---- */

static int gfi_match_table_init(struct gfi_match_table *table)
{
    table->buckets = calloc(GFI_MATCH_BUCKETS, sizeof(*table->buckets));
    table->size = GFI_MATCH_BUCKETS;
    table->heads = 0;
    return table->buckets != NULL ? 0 : -FI_ENOMEM;
}

int gfi_match_init(struct gfi_match *match)
{
    match->num_classes = 0;
    match->unclassed = 0;
    match->front = NULL;
    match->seq = 0;
    match->num_recvs = match->num_msgs = 0;
    gfi_list_init(&match->all_recvs);
    gfi_list_init(&match->all_msgs);
    if (gfi_match_table_init(&match->recvs) != 0) {
        return -FI_ENOMEM;
    }
    if (gfi_match_table_init(&match->msgs) != 0) {
        free(match->recvs.buckets);
        return -FI_ENOMEM;
    }
    return 0;
}

void gfi_match_cleanup(struct gfi_match *match)
{
    free(match->recvs.buckets);
    free(match->msgs.buckets);
}

struct gfi_match_recv *gfi_match_find_unclassed(struct gfi_match *match,
                                                struct gfi_match_recv *best, uint64_t source,
                                                uint64_t tag)
{
    struct gfi_match_recv *recv;
    struct gfi_list *item;

    gfi_list_for_each(item, &match->all_recvs) {
        recv = gfi_list_entry(item, struct gfi_match_recv, all);
        if (best != NULL && recv->seq > best->seq) {
            break;
        }
        if (recv->node.class_id == GFI_MATCH_NO_CLASS && gfi_match_accepts(recv, source, tag)) {
            return recv;
        }
    }
    return best;
}

void gfi_match_add_msg(struct gfi_match *match, struct gfi_match_msg *msg)
{
    unsigned i;

    gfi_list_add(&match->all_msgs, &msg->all);
    match->num_msgs++;
    for (i = 0; i < match->num_classes; i++) {
        gfi_match_add_to_class(match, msg, i);
    }
}

void gfi_match_remove_msg(struct gfi_match *match, struct gfi_match_msg *msg)
{
    unsigned i;

    gfi_list_del(&msg->all);
    match->num_msgs--;
    for (i = 0; i < match->num_classes; i++) {
        gfi_match_delete(&match->msgs, &msg->node[i]);
    }
}

struct gfi_match_msg *gfi_match_find_msg(struct gfi_match *match, uint64_t source, uint64_t tag,
                                         uint64_t ignore)
{
    struct gfi_match_recv recv = {.source = source, .tag = tag, .ignore = ignore};
    struct gfi_match_node *node;
    struct gfi_match_msg *msg;
    struct gfi_list *item;
    unsigned i;

    if (match->num_msgs == 0) {
        return NULL;
    }
    i = gfi_match_class_of(match, source, ignore);
    if (i != GFI_MATCH_NO_CLASS) {
        tag &= ~ignore;
        node = gfi_match_find(&match->msgs, gfi_match_hash(i, source, tag), i, source, tag);
        return node == NULL ? NULL : gfi_list_entry(node - i, struct gfi_match_msg, node);
    }
    gfi_list_for_each(item, &match->all_msgs) {
        msg = gfi_list_entry(item, struct gfi_match_msg, all);
        if (gfi_match_accepts(&recv, msg->source, msg->tag)) {
            return msg;
        }
    }
    return NULL;
}
