/*
 * The management agent of a chip (paper, section 3.5): the distributor by type of packet, the
 * access to registers and to the EEPROM.
 *
 * Dropped and counted: a packet for another chip's id, and what is no request. Answered by an error
 * response: a request that the chip cannot serve. A request is checked whole before it has an
 * effect.
 */
#include "fabric.h"

#include <string.h>

static void make_response(const struct nmp_desc *req, struct nmp_desc *rsp, unsigned type,
                          unsigned status)
{
    *rsp = *req;
    rsp->nmp_type = (uint8_t)type;
    rsp->dest_vp = req->src_vp;
    rsp->src_vp = req->dest_vp;
    rsp->data.status = (uint8_t)status;
}

static enum nmp_status serve_read(struct fabric *fab, uint32_t chip, const struct nmp_desc *req,
                                  uint64_t value[NMP_MAX_REGS])
{
    enum nmp_status status = NMP_OK;
    unsigned i;

    for (i = 0; i < req->data.count && status == NMP_OK; i++) {
        status = reg_read(fab, chip, req->data.addr[i], &value[i]);
    }
    return status;
}

static enum nmp_status serve_write(struct fabric *fab, uint32_t chip, const struct nmp_desc *req)
{
    enum nmp_status status = NMP_OK;
    unsigned i;

    for (i = 0; i < req->data.count && status == NMP_OK; i++) {
        status = reg_write(fab, chip, req->data.addr[i], req->data.reg[i]);
    }
    return status;
}

static bool serve_registers(struct fabric *fab, uint32_t chip, const struct nmp_desc *req,
                            struct nmp_desc *rsp)
{
    uint64_t value[NMP_MAX_REGS] = {0};
    enum nmp_status status;
    bool read = req->nmp_type == NMP_REG_READ_REQ;

    if (req->data.count == 0 || req->data.count > NMP_MAX_REGS) {
        status = NMP_BAD_COUNT;
    } else if (read) {
        status = serve_read(fab, chip, req, value);
    } else {
        status = serve_write(fab, chip, req);
    }
    if (status != NMP_OK) {
        fab->chips[chip].errors++;
        make_response(req, rsp, NMP_REG_ERR_RSP, status);
        return true;
    }
    make_response(req, rsp, read ? NMP_REG_READ_RSP : NMP_REG_WRITE_RSP, NMP_OK);
    if (read) {
        memcpy(rsp->data.reg, value, sizeof(value));
    }
    return true;
}

static bool serve_eeprom(struct fabric *fab, uint32_t chip, const struct nmp_desc *req,
                         struct nmp_desc *rsp)
{
    bool read = req->nmp_type == NMP_EEP_READ_REQ;
    unsigned i;

    if (req->data.count == 0 || req->data.count > NMP_MAX_BYTES) {
        fab->chips[chip].errors++;
        make_response(req, rsp, NMP_EEP_ERR_RSP, NMP_BAD_COUNT);
        return true;
    }
    make_response(req, rsp, read ? NMP_EEP_READ_RSP : NMP_EEP_WRITE_RSP, NMP_OK);
    for (i = 0; i < req->data.count; i++) {
        if (read) {
            rsp->data.byte[i] = fab_eeprom_read(fab, chip, req->data.addr[i]);
        } else if (!fab_eeprom_write(fab, chip, req->data.addr[i], req->data.byte[i])) {
            fab->chips[chip].errors++;
            make_response(req, rsp, NMP_EEP_ERR_RSP, NMP_BAD_VALUE);
            return true;
        }
    }
    return true;
}

/* A chip answers to its own id and to the id of all ones. A reader of a chip's id uses all ones. */
static bool for_this_chip(const struct fabric *fab, uint32_t chip, const struct nmp_desc *req)
{
    return req->dest_type == fab->topo->chips[chip].type &&
           (req->dest_id == inm_chip_id(fab->topo, chip) || req->dest_id == NMP_ID_NONE);
}

bool nma_serve(struct fabric *fab, uint32_t chip, const struct nmp_desc *req, struct nmp_desc *rsp)
{
    if (!for_this_chip(fab, chip, req)) {
        fab->chips[chip].drop_dest++;
        return false;
    }
    switch (req->nmp_type) {
    case NMP_REG_READ_REQ:
    case NMP_REG_WRITE_REQ:
        return serve_registers(fab, chip, req, rsp);
    case NMP_EEP_READ_REQ:
    case NMP_EEP_WRITE_REQ:
        return serve_eeprom(fab, chip, req, rsp);
    default:
        /* A response that went astray must not be answered: two chips would never stop. */
        fab->chips[chip].drop_format++;
        return false;
    }
}
