/* What the parts of the administration share. */
#include "part.h"

bool mcsm_sa_is_trusted(const struct mcsm_query *query)
{
    uint64_t secret = query->sa->sm->config->sm_key;

    return secret != 0 && mcsm_get64(query->mad, MCSM_SA_SM_KEY) == secret;
}

bool mcsm_sa_is_gone(const struct mcsm_sa *sa, uint64_t owner, uint64_t gone)
{
    return gone != 0 ? owner == gone : mcsm_fabric_find_port(sa->sm->fabric, owner) == NULL;
}
