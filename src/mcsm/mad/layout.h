/* The formats of the MADs that the manager sends and receives: IBTA volume 1, chapters 13 to 15. */
#ifndef MCSM_LAYOUT_H
#define MCSM_LAYOUT_H

#include "field.h"

enum {
    MCSM_MAD_SIZE = 256,
    MCSM_SMP_DATA = 64,

    /* Management classes. */
    MCSM_CLASS_SMP_LID = 0x01,
    MCSM_CLASS_SA = 0x03,
    MCSM_CLASS_PERF = 0x04,
    MCSM_CLASS_STATE = 0x0f, /* vendor specific: registrations for standby managers */
    MCSM_CLASS_SMP_DIRECT = 0x81,

    /* Methods. */
    MCSM_GET = 0x01,
    MCSM_SET = 0x02,
    MCSM_TRAP = 0x05,
    MCSM_REPORT = 0x06,
    MCSM_TRAP_REPRESS = 0x07,
    MCSM_GET_TABLE = 0x12,
    MCSM_GET_TRACE_TABLE = 0x13,
    MCSM_GET_MULTI = 0x14,
    MCSM_DELETE = 0x15,
    MCSM_RESPONSE = 0x80,

    /* Offsets in the header of every MAD. */
    MCSM_MAD_CLASS = 1,
    MCSM_MAD_METHOD = 3,
    MCSM_MAD_STATUS = 4,
    MCSM_MAD_TID = 8,
    MCSM_MAD_ATTR = 16,
    MCSM_MAD_MOD = 20,

    /* SMPs. */
    MCSM_SMP_HOP_COUNT = 7,
    MCSM_SMP_MKEY = 24,
    MCSM_SMP_DR_SLID = 32,
    MCSM_SMP_DR_DLID = 34,
    MCSM_SMP_BODY = 64,
    MCSM_SMP_PATH = 128,

    /* Attributes of subnet management. */
    MCSM_NOTICE = 0x02,
    MCSM_NODE_DESC = 0x10,
    MCSM_NODE_INFO = 0x11,
    MCSM_SWITCH_INFO = 0x12,
    MCSM_GUID_INFO = 0x14,
    MCSM_PORT_INFO = 0x15,
    MCSM_PKEY_TABLE = 0x16,
    MCSM_SL2VL = 0x17,
    MCSM_VLARB = 0x18,
    MCSM_LFT = 0x19,
    MCSM_MFT = 0x1b,
    MCSM_SM_INFO = 0x20,

    /* Performance management: attributes, and offsets in their data. */
    MCSM_PORT_COUNTERS = 0x12,
    MCSM_PORT_COUNTERS_EXTENDED = 0x1d,
    MCSM_PM_DATA = 64,
    MCSM_PM_PORT_SELECT = 1,
    MCSM_PM_COUNTER_SELECT = 2,

    /* PortInfo. The names of halves of a byte end in _HI or _LO. */
    MCSM_PI_MKEY = 0,
    MCSM_PI_PREFIX = 8,
    MCSM_PI_LID = 16,
    MCSM_PI_SM_LID = 18,
    MCSM_PI_CAPABILITY = 20,
    MCSM_PI_MKEY_LEASE = 26,
    MCSM_PI_WIDTH_ENABLED = 29,
    MCSM_PI_WIDTH_SUPPORTED = 30,
    MCSM_PI_WIDTH_ACTIVE = 31,
    MCSM_PI_STATE_LO = 32,
    MCSM_PI_PHYS_HI = 33,
    MCSM_PI_LMC = 34, /* M_Key protect bits, LMC */
    MCSM_PI_SPEED_ACTIVE_HI = 35,
    MCSM_PI_MTU_HI = 36, /* NeighborMTU, master SM's SL */
    MCSM_PI_VL_CAP_HI = 37,
    MCSM_PI_VL_HIGH_LIMIT = 38,
    MCSM_PI_ARB_HIGH_CAP = 39,
    MCSM_PI_ARB_LOW_CAP = 40,
    MCSM_PI_MTU_CAP_LO = 41,
    MCSM_PI_HOQ = 42,
    MCSM_PI_OPER_VLS_HI = 43,
    MCSM_PI_ENFORCE_PKEYS = 0x0c, /* in the low half: both directions */
    MCSM_PI_FILTERS = 0x0f,       /* and raw packets, both directions */
    MCSM_PI_SUBNET_TIMEOUT = 51,  /* and client reregister, bit 7 */
    MCSM_PI_SPEED_EXT_ACTIVE_HI = 62,
    MCSM_CAP_IS_SM = 1 << 1,
    MCSM_CAP_MFT_TOP = 1 << 30,
    MCSM_CLIENT_REREGISTER = 0x80,

    /* NodeInfo. */
    MCSM_NI_TYPE = 2,
    MCSM_NI_PORTS = 3,
    MCSM_NI_SYSTEM_GUID = 4,
    MCSM_NI_GUID = 12,
    MCSM_NI_PORT_GUID = 20,
    MCSM_NI_PARTITION_CAP = 28,
    MCSM_NI_LOCAL_PORT = 36,

    /* SwitchInfo. */
    MCSM_SI_LFT_CAP = 0,
    MCSM_SI_MFT_CAP = 4,
    MCSM_SI_LFT_TOP = 6,
    MCSM_SI_LIFE = 11, /* life time, port state change (bit 2) */
    MCSM_SI_PARTITION_CAP = 14,
    MCSM_SI_MFT_TOP = 18,
    MCSM_SI_STATE_CHANGE = 0x04,

    /* SMInfo. */
    MCSM_SMI_GUID = 0,
    MCSM_SMI_KEY = 8,
    MCSM_SMI_ACT = 16,
    MCSM_SMI_STATE = 20, /* priority in the high half */

    /* Attribute modifiers of SubnSet(SMInfo). */
    MCSM_SM_HANDOVER = 1,
    MCSM_SM_ACKNOWLEDGE = 2,
    MCSM_SM_DISABLE = 3,
    MCSM_SM_STANDBY = 4,
    MCSM_SM_DISCOVER = 5,

    /* States of a subnet manager. */
    MCSM_SM_NOTACTIVE_STATE = 0,
    MCSM_SM_DISCOVERING_STATE = 1,
    MCSM_SM_STANDBY_STATE = 2,
    MCSM_SM_MASTER_STATE = 3,

    /* Subnet administration. */
    MCSM_SA_RMPP_VERSION = 24,
    MCSM_SA_RMPP_TYPE = 25,
    MCSM_SA_RMPP_FLAGS = 26,
    MCSM_SA_SM_KEY = 36,
    MCSM_SA_ATTR_OFFSET = 44,
    MCSM_SA_COMPONENTS = 48,
    MCSM_SA_DATA = 56,
    MCSM_SA_DATA_SIZE = 200
};

static inline uint8_t mcsm_hi(const uint8_t *data, unsigned offset)
{
    return data[offset] >> 4;
}

static inline uint8_t mcsm_lo(const uint8_t *data, unsigned offset)
{
    return data[offset] & 15;
}

static inline void mcsm_put_hi(uint8_t *data, unsigned offset, uint8_t value)
{
    data[offset] = (data[offset] & 15) | value << 4;
}

static inline void mcsm_put_lo(uint8_t *data, unsigned offset, uint8_t value)
{
    data[offset] = (data[offset] & 0xf0) | (value & 15);
}

#endif
