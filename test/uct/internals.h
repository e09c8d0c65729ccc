/* The transport's own headers, which are C11, for tests of protocol state or arithmetic. */
#ifndef UCT_TEST_INTERNALS_H
#define UCT_TEST_INTERNALS_H

#include <config.h> /* of UCX: decides the layout of its structures */

#include <uct/base/uct_iface.h>
#include <uct/base/uct_iov.inl>
#include <ucs/datastruct/arbiter.h>
#include <ucs/datastruct/mpool.inl>
#include <ucs/sys/sys.h>

#define _Static_assert static_assert
extern "C" {
#include "base/glex_credit.h"
#include "core/glex_ep.h"
#include "chan/glex_er.h"
#include "base/glex_fifo.h"
#include "vc/glex_mpq.h"
#include "chan/glex_op.h"
#include "chan/glex_rx.h"
#include "core/glex_vc.h"
#include "base/glex_wire.h"
}
#undef _Static_assert

#endif
