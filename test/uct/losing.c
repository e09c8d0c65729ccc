/*
 * vc/glex_mpq.c as compiled for a NIC that loses messages when a queue is full. The tests call
 * its uct_glex_mpq_init(): Iface::make_losing(). All other functions are those of the module.
 */
#include "base/glex_nic.h"
#undef UCT_GLEX_NIC_LOSSLESS
#define UCT_GLEX_NIC_LOSSLESS 0
#include "vc/glex_mpq.c"
