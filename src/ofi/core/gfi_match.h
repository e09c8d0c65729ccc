/*
 * Matching of messages with receives, in MPI's order: a message takes the earliest posted receive
 * that accepts it, a receive takes the earliest message that it accepts.
 *
 * A receive names one source or accepts any source, and compares the bits of the tag that it does
 * not ignore. Receives with equal ignored bits and with a source form a *class*; without a source
 * they form another class. Inside a class a receive is an exact value: (source, tag without the
 * ignored bits). So a hash table finds the receive. Programs use few classes: MPI over libfabric
 * about five. Up to GFI_MATCH_CLASSES classes have tables. Receives of further classes are in a
 * plain list, which is slower.
 *
 * A posted receive is in the table of receives once, under its own class. An unexpected message is
 * in the table of messages once for each known class. So a receive of any class finds the earliest
 * message at once.
 *
 * Entries with the same class and value form a queue in order of arrival. Only the head of a queue
 * is in a bucket, so thousands of equal entries do not make a bucket long.
 *
 * The *front* is a receive that was posted while no other receive existed. The front is in no
 * table. While it is posted, it is the earliest receive, so a message is compared with the front
 * first. A program that posts one receive at a time never uses the tables.
 *
 * A message looks up each class that has receives, and takes the candidate that was posted first
 * (`seq`). Only the tables allocate memory. They grow with the number of queues. The functions take
 * no locks: the caller holds the domain's lock.
 */
#ifndef GFI_MATCH_H
#define GFI_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GFI_MATCH_CLASSES  8
#define GFI_MATCH_NO_CLASS GFI_MATCH_CLASSES
#define GFI_MATCH_FRONT    (GFI_MATCH_CLASSES + 1)
#define GFI_ANY_SOURCE     UINT64_MAX

struct gfi_list {
    struct gfi_list *next, *prev;
};

/* One place in a table. The head of a queue is in a bucket; the others hang behind it. */
struct gfi_match_node {
    struct gfi_match_node *bucket_next; /* head: the next head of the same bucket */
    struct gfi_match_node *next, *prev; /* queue; prev of the head is the tail, tail's next NULL */
    uint64_t source, tag;               /* the value, without the bits that the class ignores */
    uint32_t hash;                      /* of class and value */
    uint8_t class_id;
    bool is_head;
};

/** A posted receive. The caller sets source, tag and ignore; the rest belongs to gfi_match. */
struct gfi_match_recv {
    struct gfi_match_node node;
    struct gfi_list all; /* in the order of posting */
    uint64_t source, tag, ignore;
    uint64_t seq;
};

/** An unexpected message. The caller sets source and tag; the rest belongs to gfi_match. */
struct gfi_match_msg {
    struct gfi_match_node node[GFI_MATCH_CLASSES];
    struct gfi_list all; /* in the order of arrival */
    uint64_t source, tag;
};

struct gfi_match_table {
    struct gfi_match_node **buckets;
    size_t size, heads;
};

struct gfi_match_class {
    uint64_t ignore;
    bool any_source;
    size_t posted; /* receives of this class */
};

struct gfi_match {
    struct gfi_match_table recvs, msgs;
    struct gfi_match_class classes[GFI_MATCH_CLASSES];
    unsigned num_classes;
    size_t unclassed;             /* posted receives without a class */
    struct gfi_match_recv *front; /* or NULL */
    uint64_t seq;
    struct gfi_list all_recvs, all_msgs;
    size_t num_recvs, num_msgs;
};

static inline void gfi_list_init(struct gfi_list *head)
{
    head->next = head->prev = head;
}

static inline bool gfi_list_is_empty(const struct gfi_list *head)
{
    return head->next == head;
}

static inline void gfi_list_add(struct gfi_list *head, struct gfi_list *item)
{
    item->next = head;
    item->prev = head->prev;
    head->prev->next = item;
    head->prev = item;
}

static inline void gfi_list_del(struct gfi_list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
}

#define gfi_list_entry(item, type, field) ((type *)((char *)(item) - offsetof(type, field)))
#define gfi_list_for_each(item, head)                                                              \
    for ((item) = (head)->next; (item) != (head); (item) = (item)->next)
#define gfi_list_for_each_safe(item, following, head)                                              \
    for ((item) = (head)->next, (following) = (item)->next; (item) != (head);                      \
         (item) = (following), (following) = (item)->next)

/** @return 0, or -FI_ENOMEM. */
int gfi_match_init(struct gfi_match *match);

/** Free the tables. Entries that are still in them belong to the caller: see all_recvs, all_msgs. */
void gfi_match_cleanup(struct gfi_match *match);

/** Add a receive, behind all that were posted before. It stays the caller's memory. */
static inline void gfi_match_post(struct gfi_match *match, struct gfi_match_recv *recv);

/** Take a posted receive out. */
static inline void gfi_match_unpost(struct gfi_match *match, struct gfi_match_recv *recv);

/** The earliest posted receive that accepts a message, or NULL. It stays posted. */
static inline struct gfi_match_recv *gfi_match_find_recv(struct gfi_match *match, uint64_t source,
                                                         uint64_t tag);

/** Add an unexpected message, behind all that came before. It stays the caller's memory. */
void gfi_match_add_msg(struct gfi_match *match, struct gfi_match_msg *msg);

/** Take an unexpected message out. */
void gfi_match_remove_msg(struct gfi_match *match, struct gfi_match_msg *msg);

/** The earliest unexpected message that a receive would accept, or NULL. It stays there. */
struct gfi_match_msg *gfi_match_find_msg(struct gfi_match *match, uint64_t source, uint64_t tag,
                                         uint64_t ignore);

/* ---- the path of each expected message, inline ---- */

/** Another place with the same class and value as `head`. */
void gfi_match_append(struct gfi_match_node *head, struct gfi_match_node *node);

/** Remove a place from a queue with several places. */
void gfi_match_delete_queued(struct gfi_match_table *table, struct gfi_match_node *node);

/** Make the table larger, if there is memory. */
void gfi_match_grow(struct gfi_match_table *table);

/** Make a new class and enter all unexpected messages for it. */
unsigned gfi_match_new_class(struct gfi_match *match, bool any_source, uint64_t ignore);

/** The earliest receive without a class that accepts a message, if it was posted before `best`. */
struct gfi_match_recv *gfi_match_find_unclassed(struct gfi_match *match,
                                                struct gfi_match_recv *best, uint64_t source,
                                                uint64_t tag);

static inline uint32_t gfi_match_hash(unsigned class_id, uint64_t source, uint64_t tag)
{
    uint64_t h = tag * 0x9e3779b97f4a7c15ull;

    h ^= (source + class_id) * 0xc2b2ae3d27d4eb4full;
    return (uint32_t)((h ^ (h >> 29)) * 0xbf58476d1ce4e5b9ull >> 32);
}

static inline struct gfi_match_node **gfi_match_bucket(const struct gfi_match_table *table,
                                                       uint32_t hash)
{
    return &table->buckets[hash & (table->size - 1)];
}

static inline struct gfi_match_node *gfi_match_find(const struct gfi_match_table *table,
                                                    uint32_t hash, unsigned class_id,
                                                    uint64_t source, uint64_t tag)
{
    struct gfi_match_node *node = *gfi_match_bucket(table, hash);

    while (node != NULL &&
           (node->tag != tag || node->source != source || node->class_id != class_id)) {
        node = node->bucket_next;
    }
    return node;
}

static inline void gfi_match_insert(struct gfi_match_table *table, struct gfi_match_node *node,
                                    unsigned class_id, uint64_t source, uint64_t tag)
{
    uint32_t hash = gfi_match_hash(class_id, source, tag);
    struct gfi_match_node *head = gfi_match_find(table, hash, class_id, source, tag), **bucket;

    node->source = source;
    node->tag = tag;
    node->hash = hash;
    node->class_id = (uint8_t)class_id;
    node->next = NULL;
    if (head != NULL) {
        gfi_match_append(head, node);
        return;
    }
    if (__builtin_expect(table->heads++ >= table->size, 0)) {
        gfi_match_grow(table);
    }
    bucket = gfi_match_bucket(table, hash);
    node->is_head = true;
    node->prev = node;
    node->bucket_next = *bucket;
    *bucket = node;
}

static inline void gfi_match_delete(struct gfi_match_table *table, struct gfi_match_node *node)
{
    struct gfi_match_node **link = gfi_match_bucket(table, node->hash);

    if (!node->is_head || node->next != NULL) {
        gfi_match_delete_queued(table, node);
        return;
    }
    while (*link != node) {
        link = &(*link)->bucket_next;
    }
    *link = node->bucket_next;
    table->heads--;
}

static inline uint64_t gfi_match_source(const struct gfi_match_class *cls, uint64_t source)
{
    return cls->any_source ? GFI_ANY_SOURCE : source;
}

/** The class of a receive, or GFI_MATCH_NO_CLASS. */
static inline unsigned gfi_match_class_of(struct gfi_match *match, uint64_t source, uint64_t ignore)
{
    bool any_source = (source == GFI_ANY_SOURCE);
    unsigned i;

    for (i = 0; i < match->num_classes; i++) {
        if (match->classes[i].ignore == ignore && match->classes[i].any_source == any_source) {
            return i;
        }
    }
    return gfi_match_new_class(match, any_source, ignore);
}

static inline void gfi_match_post(struct gfi_match *match, struct gfi_match_recv *recv)
{
    unsigned i;

    recv->seq = match->seq++;
    gfi_list_add(&match->all_recvs, &recv->all);
    if (match->num_recvs++ == 0) {
        recv->node.class_id = GFI_MATCH_FRONT;
        match->front = recv;
        return;
    }
    i = gfi_match_class_of(match, recv->source, recv->ignore);
    if (__builtin_expect(i == GFI_MATCH_NO_CLASS, 0)) {
        recv->node.class_id = GFI_MATCH_NO_CLASS;
        match->unclassed++;
        return;
    }
    match->classes[i].posted++;
    gfi_match_insert(&match->recvs, &recv->node, i, recv->source, recv->tag & ~recv->ignore);
}

static inline void gfi_match_unpost(struct gfi_match *match, struct gfi_match_recv *recv)
{
    gfi_list_del(&recv->all);
    match->num_recvs--;
    if (recv == match->front) {
        match->front = NULL;
        return;
    }
    if (__builtin_expect(recv->node.class_id == GFI_MATCH_NO_CLASS, 0)) {
        match->unclassed--;
        return;
    }
    match->classes[recv->node.class_id].posted--;
    gfi_match_delete(&match->recvs, &recv->node);
}

static inline bool gfi_match_accepts(const struct gfi_match_recv *recv, uint64_t source,
                                     uint64_t tag)
{
    return ((recv->tag ^ tag) & ~recv->ignore) == 0 &&
           (recv->source == source || recv->source == GFI_ANY_SOURCE);
}

static inline struct gfi_match_recv *gfi_match_find_recv(struct gfi_match *match, uint64_t source,
                                                         uint64_t tag)
{
    struct gfi_match_recv *best = NULL, *recv;
    const struct gfi_match_class *cls;
    struct gfi_match_node *node;
    uint64_t class_source, class_tag;
    unsigned i;

    if (match->front != NULL && gfi_match_accepts(match->front, source, tag)) {
        return match->front;
    }
    for (i = 0; i < match->num_classes; i++) {
        cls = &match->classes[i];
        if (cls->posted == 0) {
            continue;
        }
        class_source = gfi_match_source(cls, source);
        class_tag = tag & ~cls->ignore;
        node = gfi_match_find(&match->recvs, gfi_match_hash(i, class_source, class_tag), i,
                              class_source, class_tag);
        if (node != NULL) {
            recv = gfi_list_entry(node, struct gfi_match_recv, node);
            if (best == NULL || recv->seq < best->seq) {
                best = recv;
            }
        }
    }
    return __builtin_expect(match->unclassed == 0, 1) ?
               best :
               gfi_match_find_unclassed(match, best, source, tag);
}

#endif
