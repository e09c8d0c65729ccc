#include "base/glex_config.h"
#include "base/glex_credit.h"
#include "base/glex_fifo.h"
#include "base/glex_wire.h"

#include <ucs/debug/log.h>
#include <ucs/sys/math.h>
#include <ucs/sys/string.h>
#include <inttypes.h>

static const char *uct_glex_channel_names[] = {
    [UCT_GLEX_CHANNEL_ER] = "er", [UCT_GLEX_CHANNEL_SR] = "sr", [UCT_GLEX_CHANNEL_LAST] = NULL};

#define UCT_GLEX_CONFIG(_field) ucs_offsetof(uct_glex_iface_config_t, _field)

ucs_config_field_t uct_glex_iface_config_table[] = {
    {"", "", NULL, UCT_GLEX_CONFIG(super), UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

    {"CHANNELS", "er,sr",
     "Channels that carry active messages\n"
     " - er : exclusive remote FIFO per pair of peers, fastest\n"
     " - sr : buffers shared by all peers, least memory",
     UCT_GLEX_CONFIG(channels), UCS_CONFIG_TYPE_BITMAP(uct_glex_channel_names)},

    {"EP_MPQ_POOL_UNITS", "0",
     "Message queue entries for credits beyond the first of each peer. 0: no limit; on a NIC\n"
     "whose full queues lose messages, a quarter of what the reserve for connections leaves",
     UCT_GLEX_CONFIG(ep_mpq_pool_units), UCS_CONFIG_TYPE_UINT},

    {"SRQ_CAPACITY", "128",
     "SR buffers for sending, and as many for receiving, at most; they are allocated in use",
     UCT_GLEX_CONFIG(srq_capacity), UCS_CONFIG_TYPE_UINT},

    {"SRQ_UNIT_SIZE", "8256", "Size of an SR buffer: the largest am_bcopy",
     UCT_GLEX_CONFIG(srq_unit_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"ER_THRESH", "64",
     "Messages to a peer that go through SR before an ER channel to it is asked for; 0 where\n"
     "memory is not mapped, as between hosts. A channel takes 44 KiB or more of the peer's\n"
     "memory, and about 100 us to set up",
     UCT_GLEX_CONFIG(er_thresh), UCS_CONFIG_TYPE_UINT},

    {"ER_MAX_CHANNELS", "64",
     "Peers that have an ER channel to this process at once; the others share SR",
     UCT_GLEX_CONFIG(er_max_channels), UCS_CONFIG_TYPE_UINT},

    {"ER_MAX_MEM", "16M", "Memory for the FIFOs of ER channels to this process",
     UCT_GLEX_CONFIG(er_max_mem), UCS_CONFIG_TYPE_MEMUNITS},

    {"ERQ_UNIT_SIZE", "64", "Unit of an ER FIFO, in bytes: a power of two",
     UCT_GLEX_CONFIG(erq_unit_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"ERQ_SIZE", "auto",
     "Size of an ER FIFO: a power of two. It takes 8 KiB more for short messages.\n"
     "auto: 256 KiB for the first 4 that are lent at once, 32 KiB for others",
     UCT_GLEX_CONFIG(erq_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"ERQ_SPACING", "auto",
     "Messages of more than 512 bytes take a multiple of this in an ER FIFO: a power of two.\n"
     "A unit that is larger, or a sixteenth of the FIFO that is smaller, replaces it.\n"
     "auto: 2 KiB in FIFOs of 256 KiB or more on processors of AMD, else the unit",
     UCT_GLEX_CONFIG(erq_spacing), UCS_CONFIG_TYPE_MEMUNITS},

    {"RMA_BUF_SIZE", "8k", "Largest put_bcopy and get_bcopy", UCT_GLEX_CONFIG(rma_buf_size),
     UCS_CONFIG_TYPE_MEMUNITS},

    {"RMA_REQ_CAPACITY", "256", "RMA requests on their way at once",
     UCT_GLEX_CONFIG(rma_req_capacity), UCS_CONFIG_TYPE_UINT},

    {"ZC_REQ_CAPACITY", "128", "Zero-copy active messages on their way at once",
     UCT_GLEX_CONFIG(zc_req_capacity), UCS_CONFIG_TYPE_UINT},

    {"ZC_MAX_SIZE", "auto",
     "Largest am_zcopy. UCP allocates as much for each unexpected message, whatever its length.\n"
     "auto: no am_zcopy over the software NIC on one host, else as the largest am_bcopy, up to 64k",
     UCT_GLEX_CONFIG(zc_max_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"MIN_RNDV", "auto",
     "The shortest message that UCP sends by rendezvous; 0: UCP decides alone.\n"
     "At most ZC_MAX_SIZE if am_zcopy is offered.\n"
     "auto: 16385 over the software NIC on one host without am_zcopy, else 0",
     UCT_GLEX_CONFIG(min_rndv), UCS_CONFIG_TYPE_MEMUNITS},

    {"SR_CREDIT_START", "8", "Messages that a new peer may send", UCT_GLEX_CONFIG(sr_credit_start),
     UCS_CONFIG_TYPE_UINT},

    {"SR_CREDIT_INC", "16", "Least growth when a peer asks for more credits",
     UCT_GLEX_CONFIG(sr_credit_inc), UCS_CONFIG_TYPE_UINT},

    {"SR_CREDIT_MAX", "1024", "Most messages that a peer may send", UCT_GLEX_CONFIG(sr_credit_max),
     UCS_CONFIG_TYPE_UINT},

    {NULL}};

ucs_status_t uct_glex_config_check_ranges(const uct_glex_config_range_t *ranges, unsigned count)
{
    const uct_glex_config_range_t *range;

    for (range = ranges; range < ranges + count; ++range) {
        if (range->zero_ok && (range->value == 0)) {
            continue;
        }
        if ((range->value < range->min) || (range->value > range->max)) {
            ucs_error("UCX_GLEX_%s=%" PRIu64 " is out of range: %s%" PRIu64 " to %" PRIu64,
                      range->name, range->value, range->zero_ok ? "0 (default) or " : "",
                      range->min, range->max);
            return UCS_ERR_INVALID_PARAM;
        }
    }
    return UCS_OK;
}

static ucs_status_t uct_glex_config_check_pow2(const char *name, uint64_t value)
{
    if (!ucs_is_pow2(value)) {
        ucs_error("UCX_GLEX_%s=%" PRIu64 " must be a power of two", name, value);
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

size_t uct_glex_config_fifo_size(const uct_glex_iface_config_t *config)
{
    return (config->erq_size != UCS_MEMUNITS_AUTO) ?
               config->erq_size :
               ucs_max(32768, config->erq_unit_size * UCT_GLEX_FIFO_MIN_UNITS);
}

ucs_status_t uct_glex_iface_config_check(const uct_glex_iface_config_t *config)
{
    size_t fifo_size = uct_glex_config_fifo_size(config);
    size_t spacing = (config->erq_spacing == UCS_MEMUNITS_AUTO) ? 64 : config->erq_spacing;
    size_t zc_max_size =
        (config->zc_max_size == UCS_MEMUNITS_AUTO) ? UCT_GLEX_ZC_MAX_LEN : config->zc_max_size;
    const uct_glex_config_range_t ranges[] = {
        {"EP_MPQ_POOL_UNITS", config->ep_mpq_pool_units, 1, 65536, 1},
        {"SRQ_CAPACITY", config->srq_capacity, 2, 16384, 0},
        {"SRQ_UNIT_SIZE", config->srq_unit_size, 256, 1 << 20, 0},
        {"ER_THRESH", config->er_thresh, 0, UINT16_MAX, 0},
        {"ER_MAX_CHANNELS", config->er_max_channels, 1, 32768, 0},
        {"ER_MAX_MEM", config->er_max_mem, fifo_size, UINT64_MAX, 0},
        {"ERQ_UNIT_SIZE", config->erq_unit_size, 64, 4096, 0},
        {"ERQ_SIZE", fifo_size, ucs_max(1024, config->erq_unit_size * UCT_GLEX_FIFO_MIN_UNITS),
         ucs_min(16UL << 20, config->erq_unit_size * UCT_GLEX_FIFO_MAX_UNITS), 0},
        {"ERQ_SPACING", spacing, 64, 4096, 0},
        {"RMA_BUF_SIZE", config->rma_buf_size, 64, 1 << 20, 0},
        {"RMA_REQ_CAPACITY", config->rma_req_capacity, 1, 16384, 0},
        {"ZC_REQ_CAPACITY", config->zc_req_capacity, 1, 16384, 0},
        {"ZC_MAX_SIZE", zc_max_size, 256, UCT_GLEX_ZC_MAX_LEN, 0},
        {"MIN_RNDV", (config->min_rndv == UCS_MEMUNITS_AUTO) ? 0 : config->min_rndv, 0, 1 << 30, 0},
        {"SR_CREDIT_MAX", config->sr_credit_max, 1, UCT_GLEX_CREDIT_MAX, 0},
        {"SR_CREDIT_START", config->sr_credit_start, 1, config->sr_credit_max, 0},
        {"SR_CREDIT_INC", config->sr_credit_inc, 1, UCT_GLEX_CREDIT_MAX, 0},
    };

    if (config->channels == 0) {
        ucs_error("UCX_GLEX_CHANNELS is empty: name er, sr or both");
        return UCS_ERR_INVALID_PARAM;
    }
    if ((uct_glex_config_check_pow2("ERQ_UNIT_SIZE", config->erq_unit_size) != UCS_OK) ||
        (uct_glex_config_check_pow2("ERQ_SIZE", fifo_size) != UCS_OK) ||
        (uct_glex_config_check_pow2("ERQ_SPACING", spacing) != UCS_OK)) {
        return UCS_ERR_INVALID_PARAM;
    }
    return uct_glex_config_check_ranges(ranges, ucs_static_array_size(ranges));
}
