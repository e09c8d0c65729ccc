/* Writes forwarding tables: only blocks that differ from the switch's table. */
#include "phases.h"

#include <errno.h>
#include <stdlib.h>

/* arg2 is the node; the attribute modifier of the answer says which block was written. */
static void got_lft(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_node *node = arg2;
    unsigned block;

    if (mad == NULL) {
        node->lft_valid = false;
        mcsm_sm_set_done(arg, &node->ports[0], mad, status);
        return;
    }
    block = mcsm_get32(mad, MCSM_MAD_MOD);
    if ((block + 1) * 64 <= node->lft_known_size) {
        memcpy(node->lft_known + block * 64, node->lft + block * 64, 64);
    }
}

static int make_known(struct mcsm_node *node)
{
    uint8_t *more;

    if (node->lft_known_size >= node->lft_size) {
        return 0;
    }
    more = realloc(node->lft_known, node->lft_size);
    if (more == NULL) {
        return -ENOMEM;
    }
    /* A block that was never written differs from any wanted block. */
    for (unsigned i = node->lft_known_size; i < node->lft_size; i++) {
        more[i] = ~node->lft[i];
    }
    node->lft_known = more;
    node->lft_known_size = node->lft_size;
    return 0;
}

static void write_lft(struct mcsm_sm *sm, struct mcsm_node *node)
{
    for (unsigned block = 0; block * 64 < node->lft_size; block++) {
        const uint8_t *wanted = node->lft + block * 64;

        if (node->lft_valid && memcmp(wanted, node->lft_known + block * 64, 64) == 0) {
            continue;
        }
        sm->stats.lft_blocks++;
        mcsm_smp(sm->mads, &node->path, MCSM_SET, MCSM_LFT, block, wanted, got_lft, sm, node);
    }
    node->lft_valid = true; /* unless an answer fails to come */
}

static void got_mft(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_node *node = arg2;
    const struct mcsm_sm *sm = arg;
    unsigned mod, position, block;

    if (mad == NULL) {
        node->mft_valid = false;
        mcsm_sm_set_done(arg, &node->ports[0], mad, status);
        return;
    }
    mod = mcsm_get32(mad, MCSM_MAD_MOD);
    position = mod >> 28;
    block = mod & 0x1ff;
    if ((int)position < mcsm_mft_positions(node) && (block + 1) * 32 <= sm->config->mlids) {
        memcpy(node->mft_known + position * sm->config->mlids + block * 32,
               node->mft + position * sm->config->mlids + block * 32, 64);
    }
}

void mcsm_sm_write_mft(struct mcsm_sm *sm, struct mcsm_node *node)
{
    unsigned mlids = sm->config->mlids, cap = mcsm_get16(node->sw_info, MCSM_SI_MFT_CAP);
    uint8_t body[64];

    for (unsigned block = 0; (block + 1) * 32 <= mlids && block * 32 < cap; block++) {
        for (int position = 0; position < mcsm_mft_positions(node); position++) {
            const uint16_t *wanted = node->mft + position * mlids + block * 32;
            uint32_t mod = (uint32_t)position << 28 | block;

            if (node->mft_valid &&
                memcmp(wanted, node->mft_known + position * mlids + block * 32, 64) == 0) {
                continue;
            }
            for (int i = 0; i < 32; i++) {
                mcsm_put16(body, 2 * i, wanted[i]);
            }
            sm->stats.mft_blocks++;
            mcsm_smp(sm->mads, &node->path, MCSM_SET, MCSM_MFT, mod, body, got_mft, sm, node);
        }
    }
    node->mft_valid = true;
}

static void got_switch(void *arg, void *arg2, const uint8_t *mad, unsigned status)
{
    struct mcsm_node *node = arg2;

    if (mad == NULL) {
        mcsm_sm_set_done(arg, &node->ports[0], mad, status);
        return;
    }
    memcpy(node->sw_info, mad + MCSM_SMP_BODY, sizeof(node->sw_info));
}

/* The top of the table, the lifetime of packets; and the bit that a port changed is cleared by
 * writing it, when its ports have been read. */
static void write_switch_info(struct mcsm_sm *sm, struct mcsm_node *node)
{
    uint8_t info[64], life = sm->config->packet_life << 3;
    unsigned top = sm->graph->lid_top, mlids = sm->config->mlids;
    unsigned cap = mcsm_get16(node->sw_info, MCSM_SI_MFT_CAP);

    memcpy(info, node->sw_info, sizeof(info));
    mcsm_put16(info, MCSM_SI_LFT_TOP, top);
    if (mcsm_get32(node->ports[0].info, MCSM_PI_CAPABILITY) & MCSM_CAP_MFT_TOP) {
        mcsm_put16(info, MCSM_SI_MFT_TOP, MCSM_MLID_MIN + (mlids < cap ? mlids : cap) - 1);
    }
    info[MCSM_SI_LIFE] = (info[MCSM_SI_LIFE] & 3) | life | (node->sw_info[MCSM_SI_LIFE] & 4);
    if (memcmp(info, node->sw_info, sizeof(info)) == 0 && !(info[MCSM_SI_LIFE] & 4)) {
        return;
    }
    mcsm_smp(sm->mads, &node->path, MCSM_SET, MCSM_SWITCH_INFO, 0, info, got_switch, sm, node);
}

/* A restarted switch has empty tables: its own LID or the top of its table is gone. */
static void notice_restart(struct mcsm_node *node)
{
    if (mcsm_get16(node->ports[0].info, MCSM_PI_SM_LID) == 0 ||
        mcsm_get16(node->sw_info, MCSM_SI_LFT_TOP) == 0) {
        node->lft_valid = node->mft_valid = false;
    }
}

void mcsm_sm_write_tables(struct mcsm_sm *sm)
{
    for (int i = 0; i < sm->next->switch_count; i++) {
        struct mcsm_node *node = sm->next->switches[i];

        if (node->sw_info[MCSM_SI_LFT_CAP] == 0 && node->sw_info[1] == 0) {
            continue; /* SwitchInfo of this switch is not known */
        }
        if (mcsm_get16(node->sw_info, MCSM_SI_LFT_CAP) <= sm->graph->lid_top) {
            mcsm_error("0x%016lx (%s) has room for %u LIDs, and %u are needed", node->guid,
                       node->desc, mcsm_get16(node->sw_info, MCSM_SI_LFT_CAP),
                       sm->graph->lid_top + 1);
        }
        if (mcsm_get16(node->sw_info, MCSM_SI_MFT_CAP) < sm->config->mlids) {
            mcsm_error("0x%016lx (%s) has room for %u MLIDs, and mlids = %u: groups with a higher "
                       "MLID do not pass it. Lower mlids in all clusters",
                       node->guid, node->desc, mcsm_get16(node->sw_info, MCSM_SI_MFT_CAP),
                       sm->config->mlids);
        }
        notice_restart(node);
        if (sm->sweep.distrust) {
            node->lft_valid = node->mft_valid = false;
        }
        if (make_known(node) < 0) {
            sm->sweep.incomplete = true;
            continue;
        }
        write_switch_info(sm, node);
        write_lft(sm, node);
        mcsm_sm_write_mft(sm, node);
    }
    sm->sweep.distrust = false;
}
