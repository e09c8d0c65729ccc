/*
 * Collective offload: this NIC has none, and says so.
 */
#include "common.h"

glex_ret_t glex_coll_compose_mp_swap_addr_data(uint32_t num, glex_ep_addr_t *addr_list,
                                               uint32_t *len, void *data)
{
    (void)num, (void)addr_list, (void)len, (void)data;
    return GLEX_NOT_IMPLEMENTED;
}

glex_ret_t glex_coll_compose_mp_reduce_data(uint32_t num, enum glex_coll_reduce_op op,
                                            enum glex_coll_reduce_data_bits bits,
                                            union glex_coll_data_loc *list, uint32_t *len,
                                            void *data)
{
    (void)num, (void)op, (void)bits, (void)list, (void)len, (void)data;
    return GLEX_NOT_IMPLEMENTED;
}

glex_ret_t glex_coll_decompose_mp_reduce_data(void *data, uint32_t len, uint32_t num,
                                              enum glex_coll_reduce_data_bits bits,
                                              union glex_coll_data_loc *list)
{
    (void)data, (void)len, (void)num, (void)bits, (void)list;
    return GLEX_NOT_IMPLEMENTED;
}

glex_ret_t glex_coll_compose_mp_set_data(uint32_t num, void *set, uint32_t *len, void *data)
{
    (void)num, (void)set, (void)len, (void)data;
    return GLEX_NOT_IMPLEMENTED;
}
