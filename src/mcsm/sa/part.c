/* What the parts of the administration share. */
#include "part.h"

bool mcsm_sa_is_gone(const struct mcsm_sa *sa, uint64_t owner, uint64_t gone)
{
    return gone != 0 ? owner == gone : mcsm_fabric_find_port(sa->sm->fabric, owner) == NULL;
}
