/*
 * Descriptions of families: TYPE, UNIT and HELP. A family has one description for all nodes, as in
 * /metrics. The node that describes a family first owns the description. Another node can change
 * the description when the owner has not repeated it for DESCRIPTION_OLD_NS. A fuller description,
 * with the same texts and further texts, replaces the description at any time. All functions: with the
 * store's lock held.
 */
#ifndef UDMON_COLLECTOR_DESCRIPTION_H
#define UDMON_COLLECTOR_DESCRIPTION_H

#include "../include/udmon_module.h"

#include <stddef.h>
#include <stdint.h>

enum { DESCRIPTIONS_MAX = 20000, DESCRIPTIONS_OF_NODE = 1000 };
#define DESCRIPTION_OLD_NS UINT64_C(300000000000)

struct host;

struct descriptions {
    void *tree; /* of the descriptions, by name and kind */
    size_t count;
};

void descriptions_free(struct descriptions *descriptions);
/**
 * A node describes a family. 0 also if the present description stays. -ENOSPC: the node or all nodes
 * together have too many descriptions; -ENOMEM.
 */
int descriptions_put(struct descriptions *descriptions, struct host *owner,
                     const struct udmon_family *family, uint64_t now_ns);
/** The description of the family with the first `length` bytes of the name, or NULL. */
const struct udmon_family *descriptions_find(const struct descriptions *descriptions,
                                             const char *name, size_t length, int counter);
/** The node is freed: its descriptions have no owner from now on. */
void descriptions_leave(struct descriptions *descriptions, const struct host *owner);
/** Frees descriptions that were not repeated for `age_ns`. */
void descriptions_forget(struct descriptions *descriptions, uint64_t now_ns, uint64_t age_ns);

#endif
