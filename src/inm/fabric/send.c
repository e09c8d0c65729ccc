/* Requests of a NIC: to the chip, served there, and back. */
#include "walk.h"

#include "inm/wire/flit.h"

/* When the response leaves the chip that got its request at `arrival`. */
static uint64_t serve_ns(struct fab_chip *chip, const struct nmp_desc *req, uint64_t arrival)
{
    double begin = (double)(arrival > chip->busy_ns ? arrival : chip->busy_ns);
    double more = req->data.count > 1 ? req->data.count - 1 : 0;
    double work, latency;

    switch (req->nmp_type) {
    case NMP_EEP_READ_REQ:
        work = MODEL_EEPROM_NS - MODEL_REGISTER_NS + more * MODEL_EEPROM_READ_NS;
        latency = MODEL_EEPROM_NS + more * MODEL_EEPROM_READ_NS;
        break;
    case NMP_EEP_WRITE_REQ:
        work = MODEL_EEPROM_NS - MODEL_REGISTER_NS + more * MODEL_EEPROM_WRITE_NS;
        latency = MODEL_EEPROM_NS + more * MODEL_EEPROM_WRITE_NS;
        break;
    case NMP_REG_READ_REQ:
        work = MODEL_SECOND_REG_NS * (1 + more);
        latency = MODEL_REGISTER_NS + more * MODEL_SECOND_REG_NS;
        break;
    default: /* a write is answered before it is done (4.1) */
        work = MODEL_SECOND_REG_NS * (1 + more);
        latency = MODEL_REGISTER_NS;
    }
    chip->busy_ns = (uint64_t)(begin + work + 0.5);
    return (uint64_t)(begin + latency + 0.5);
}

static void respond(struct fabric *fab, uint32_t chip, uint64_t time_ns, struct nmp_desc *rsp,
                    bool local)
{
    struct walk w = {.chip = chip};

    if (fab_chance(fab, fab->lose_ppm)) {
        fab->counters.lost_fault++;
        return;
    }
    if (local || walk_route(fab, &w, &rsp->backward)) {
        fab->counters.hops += w.hops;
        arrive(fab, &w, time_ns + (uint64_t)(way_ns(fab, w.hops) + 0.5), rsp,
               &fab->counters.responses);
    }
}

/* The packet is in the chip that its route leads to: check, serve, answer. */
static void absorb(struct fabric *fab, const struct walk *w, uint64_t time_ns,
                   const uint8_t packet[PACKET_BYTES], bool local)
{
    struct fab_chip *chip = &fab->chips[w->chip];
    uint8_t buf[NMP_DESC_BYTES];
    struct nmp_desc req, rsp;

    if (!flit_unpack(packet, buf)) {
        chip->drop_crc++;
        fab_event(fab, w->chip, NMP_EVENT_CRC, 0, chip->drop_crc);
        return;
    }
    if (!nmp_decode(buf, &req)) {
        chip->drop_format++;
        return;
    }
    if (chip->mute || chip->dead) {
        fab->counters.lost_mute++;
        return;
    }
    if (nma_serve(fab, w->chip, &req, &rsp)) {
        respond(fab, w->chip, serve_ns(chip, &req, time_ns), &rsp, local);
    }
}

void fab_send(struct fabric *fab, uint32_t nic_chip, uint64_t time_ns,
              const uint8_t desc[NMP_DESC_BYTES])
{
    struct walk w = {.chip = nic_chip};
    uint8_t packet[PACKET_BYTES];
    struct nmp_route forward;
    bool local;

    fab->counters.requests++;
    if (!fab->modelled) {
        time_ns = real_ns();
    }
    if (time_ns > fab->now_ns) {
        fab->now_ns = time_ns;
    }
    if (!nmp_get_route(desc, NMP_BIT_FROUTE, &forward)) {
        fab->chips[nic_chip].drop_format++;
        return;
    }
    /* A request to the host's own NIC does not leave it. */
    local = forward.num == 0 &&
            nmp_get_bits(desc, NMP_BIT_DEST_TYPE, NMP_WIDTH_DEST_TYPE) == NMP_CHIP_NIC;
    if (!local && !walk_route(fab, &w, &forward)) {
        return;
    }
    flit_pack(desc, packet);
    if (w.corrupt) {
        packet[fab_random(fab, PACKET_BYTES)] ^= (uint8_t)(1u << fab_random(fab, 8));
    }
    fab->counters.hops += w.hops;
    if (fab->modelled) {
        time_ns += (uint64_t)(way_ns(fab, w.hops) + 0.5);
    }
    absorb(fab, &w, time_ns, packet, local);
}
