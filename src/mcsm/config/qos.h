/*
 * Rules for quality of service: [group NAME] names ports, [rule NAME] gives the paths between them a
 * service level. A path gets the level of the first rule whose criteria all match.
 */
#ifndef MCSM_QOS_H
#define MCSM_QOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MCSM_QOS_NAME = 32, MCSM_QOS_DESC = 65 };

/* Numbers from..to, both included. */
struct mcsm_span {
    uint64_t from, to;
};

struct mcsm_spans {
    struct mcsm_span *list;
    size_t count;
};

/* A shell pattern for the description of a node. */
struct mcsm_node_pattern {
    char text[2 * MCSM_QOS_DESC];
    uint8_t port; /* 0: all ports of the node */
};

/* A port is in the group if one of the lists has it. */
struct mcsm_port_group {
    char name[MCSM_QOS_NAME];
    struct mcsm_spans guids, lids, pkeys; /* P_Keys without the membership bit */
    struct mcsm_node_pattern *nodes;
    size_t node_count;
    bool types[4]; /* by NodeInfo: 1 CA, 2 switch, 3 router */
    bool self;     /* the port of the manager */
    int line;
};

/* A group that a rule names. */
struct mcsm_group_ref {
    char name[MCSM_QOS_NAME];
    int group; /* index into the groups of the configuration */
    int line;
};

struct mcsm_group_refs {
    struct mcsm_group_ref *list;
    size_t count;
};

/* An empty list matches every path. */
struct mcsm_rule {
    char name[MCSM_QOS_NAME];
    struct mcsm_spans service_ids, pkeys, classes;
    struct mcsm_group_refs sources, destinations;
    uint8_t sl;
    bool has_sl;
    int line;
};

struct mcsm_qos {
    struct mcsm_port_group *groups;
    size_t group_count;
    struct mcsm_rule *rules;
    size_t rule_count;
};

/** Whether one of the spans has the number. */
bool mcsm_spans_have(const struct mcsm_spans *spans, uint64_t number);

/** Whether the rule matches every path, because it has no criterion. */
bool mcsm_rule_is_open(const struct mcsm_rule *rule);

void mcsm_qos_free(struct mcsm_qos *qos);

#endif
