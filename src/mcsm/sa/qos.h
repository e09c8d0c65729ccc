/* Rules for quality of service: which rule gives a path its service level. */
#ifndef MCSM_SA_QOS_H
#define MCSM_SA_QOS_H

#include "sm/sm.h"

/* An end of a path. Of a port in another cluster only LID and GUID are known; the GUID is 0 if the
 * cluster gave a range and no database. */
struct mcsm_path_end {
    const struct mcsm_port *port;
    uint16_t lid;
    uint64_t guid;
};

/* What rules match. */
struct mcsm_qos_path {
    const struct mcsm_path_end *from, *to;
    uint16_t pkey;
    bool has_service, has_class; /* the client names a service or class */
    uint64_t service_id;
    uint16_t qos_class;
};

/** Returns the first rule that matches, or NULL. */
const struct mcsm_rule *mcsm_qos_find(const struct mcsm_sm *sm, const struct mcsm_qos_path *path);

/** Whether a client may choose the service level for a path that no rule matches: without rules,
 * any level with a lane that is not the lane of groups. */
bool mcsm_qos_may_choose(const struct mcsm_config *config, uint8_t sl);

#endif
