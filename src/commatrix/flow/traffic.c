#include "traffic.h"

#include "count.h"
#include "rank.h"
#include "tables.h"

#include <stdlib.h>
#include <string.h>

/*
 * A request that was seen: by its sequence number the answer finds out which flow it belongs to.
 * Two hosts may have several queue pairs that use the same numbers: as long as two such requests
 * wait for their answers, nothing is concluded from one.
 */
struct recent {
    struct cm_flow *flow;
    uint32_t psn, eec;
    bool shared;
};

/* The first fragment of a packet. */
struct started {
    struct cm_flow *flow;
    uint32_t ip_id;
    enum cm_kind kind;
};

/* ---- requests and their answers -------------------------------------------------------------- */

/* `eec` is 0 but for reliable datagrams. */
static struct recent *recent_slot(struct cm_traffic *traffic, uint32_t src, uint32_t dst,
                                  uint32_t psn, uint32_t eec)
{
    return &traffic
                ->recent[cm_mix(((uint64_t)src << 32 | dst) ^ cm_mix((uint64_t)eec << 32 | psn)) >>
                         (32 - RECENT_BITS)];
}

static bool is_between(const struct cm_flow *flow, uint32_t src, uint32_t dst)
{
    return flow->key.src == src && flow->key.dst == dst;
}

static bool is_answered(const struct track *track, uint32_t psn)
{
    return ((track->answered - psn) & CM_PSN_MASK) < (CM_PSN_MASK >> 1);
}

static void remember_request(struct cm_traffic *traffic, struct cm_flow *flow, uint32_t psn,
                             uint32_t eec)
{
    struct recent *slot = recent_slot(traffic, flow->key.src, flow->key.dst, psn, eec);

    slot->shared = slot->flow != NULL && slot->flow != flow && slot->psn == psn &&
                   slot->eec == eec && is_between(slot->flow, flow->key.src, flow->key.dst) &&
                   !is_answered(cm_track_of(traffic, slot->flow), psn);
    slot->flow = flow;
    slot->psn = psn;
    slot->eec = eec;
}

/* The flow whose request an answer from `src` to `dst` bears the number of, or NULL. */
static struct cm_flow *answered_flow(struct cm_traffic *traffic, uint32_t src, uint32_t dst,
                                     uint32_t psn, uint32_t eec)
{
    struct recent *slot = recent_slot(traffic, dst, src, psn, eec);

    return slot->flow != NULL && slot->psn == psn && slot->eec == eec && !slot->shared &&
                   is_between(slot->flow, dst, src)
               ? slot->flow
               : NULL;
}

static bool is_connected(const struct cm_packet *packet)
{
    return packet->transport == CM_RC || packet->transport == CM_UC || packet->transport == CM_XRC;
}

static void vote_partner(struct cm_partner *partner, uint32_t qpn)
{
    if (partner->lead == 0) {
        partner->qpn = qpn & CM_PSN_MASK;
        partner->lead = 1;
    } else if (partner->qpn != qpn) {
        partner->lead--;
    } else if (partner->lead < 255) {
        partner->lead++;
    }
}

/*
 * An answer goes to the queue pair that the request came from: so it tells which one that is. Each
 * learns the other's number.
 */
static void learn_partner(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t src,
                          uint32_t dst)
{
    struct cm_flow *request = answered_flow(traffic, src, dst, packet->psn, 0);
    struct cm_flow_key key = {src, dst, packet->dst_qpn, CM_QPN_NONE};

    if (request == NULL || request->key.src_qpn != CM_QPN_NONE) {
        return;
    }
    cm_track_of(traffic, request)->answered = packet->psn;
    vote_partner(&request->partner, packet->dst_qpn);
    vote_partner(&cm_find_flow(traffic, &key)->partner, request->key.dst_qpn);
}

static void note_nak(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t src,
                     uint32_t dst)
{
    struct cm_flow *request = answered_flow(traffic, src, dst, packet->psn, 0);

    /* The number is that of a packet that is missing, which perhaps nobody has seen. */
    if (request == NULL) {
        request = answered_flow(traffic, src, dst, (packet->psn - 1) & CM_PSN_MASK, 0);
    }
    if (request != NULL) {
        cm_psn_nak(&cm_track_of(traffic, request)->psn, packet->psn);
    }
}

/* A read takes as many sequence numbers as its answer has packets. */
static uint32_t read_numbers(const struct track *track, const struct cm_packet *packet)
{
    uint32_t mtu = track->path_mtu != 0 ? track->path_mtu : 256;

    return packet->dma_len > mtu ? (packet->dma_len - 1) / mtu : 0;
}

static void exclude(struct cm_traffic *traffic, const struct cm_packet *packet, enum cm_kind kind)
{
    traffic->excluded[kind].packets++;
    traffic->excluded[kind].wire += packet->wire;
}

/* ---- sequence numbers ------------------------------------------------------------------------ */

/* RD: an answer names the queue pair that it goes to, but not the one that it comes from. */
static void find_answerer(struct cm_traffic *traffic, struct sender *sender,
                          const struct cm_packet *packet, struct cm_flow_key *key)
{
    struct cm_flow *request = answered_flow(traffic, key->src, key->dst, packet->psn, packet->eec);

    if (request != NULL) {
        sender->answers_qpn = request->key.dst_qpn;
    } else if (cm_begins_message(packet->operation)) {
        sender->answers_qpn = CM_QPN_NONE;
    }
    key->src_qpn = sender->answers_qpn;
}

static struct cm_psn *answer_psn(struct track *track)
{
    if (track->answer_psn == NULL) {
        track->answer_psn = g_new0(struct cm_psn, 1);
    }
    return track->answer_psn;
}

/* Where the packet's number counts; NULL: it bears none that is known. */
static struct cm_psn *numbers_of(struct track *track, struct sender *sender,
                                 const struct cm_packet *packet)
{
    if (sender != NULL) {
        return cm_is_answer(packet) ? &sender->answer_psn : &sender->psn;
    }
    if (!is_connected(packet)) {
        return NULL;
    }
    return cm_is_answer(packet) ? answer_psn(track) : &track->psn;
}

/* Gaps between answers are no loss: the numbers belong to requests that need none of their own. */
static bool gap_is_loss(const struct cm_packet *packet)
{
    return !cm_is_answer(packet) || packet->operation == CM_READ_MIDDLE ||
           packet->operation == CM_READ_LAST;
}

static enum cm_psn_verdict judge(struct cm_traffic *traffic, struct cm_flow *flow,
                                 struct cm_psn *psn, const struct cm_packet *packet)
{
    enum cm_psn_verdict verdict;
    uint32_t lost;

    verdict = cm_psn_arrive(psn, packet->psn, (uint32_t)(packet->time_ns / 1000),
                            traffic->options.skew_us, &lost);
    if (verdict == CM_PSN_NEW && lost != 0 && gap_is_loss(packet)) {
        flow->counts.lost += lost;
        traffic->capture.lost += lost;
    } else if (verdict == CM_PSN_LATE && flow->counts.lost > 0) {
        flow->counts.lost--;
        traffic->capture.lost--;
    }
    return verdict;
}

/* ---- a packet -------------------------------------------------------------------------------- */

static uint32_t started_slot(uint32_t src, uint32_t dst, uint32_t ip_id)
{
    return cm_mix(((uint64_t)src << 32 | dst) ^ cm_mix(ip_id)) % NUM_STARTED;
}

/* A fragment goes with the first one of its packet. */
static void add_fragment(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t src,
                         uint32_t dst)
{
    struct started *started = &traffic->started[started_slot(src, dst, packet->ip_id)];

    if (started->flow == NULL || started->ip_id != packet->ip_id || started->flow->key.src != src ||
        started->flow->key.dst != dst) {
        exclude(traffic, packet, CM_KIND_OTHER); /* of something else, or the first one is lost */
    } else if (traffic->options.kinds >> started->kind & 1) {
        cm_count(traffic, started->flow, packet, false);
    } else {
        exclude(traffic, packet, started->kind);
    }
}

static void note_started(struct cm_traffic *traffic, const struct cm_packet *packet,
                         struct cm_flow *flow)
{
    struct started *started =
        &traffic->started[started_slot(flow->key.src, flow->key.dst, packet->ip_id)];

    started->flow = flow;
    started->ip_id = packet->ip_id;
    started->kind = packet->kind;
}

/* So short that only the addresses are known. */
static void add_cut(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t src,
                    uint32_t dst)
{
    struct cm_flow_key key = {src, dst, CM_QPN_NONE, CM_QPN_NONE};

    if (packet->kind == CM_KIND_DATA) {
        traffic->capture.cut_headers++;
        if (traffic->options.kinds >> CM_KIND_DATA & 1) {
            cm_count(traffic, cm_find_flow(traffic, &key), packet, false);
            return;
        }
    }
    exclude(traffic, packet, packet->kind);
}

/* A request: the answer will find it by its number. */
static void note_request(struct cm_traffic *traffic, struct cm_flow *flow, struct cm_psn *psn,
                         const struct cm_packet *packet)
{
    if (packet->transport == CM_UC || packet->transport == CM_UD) {
        return;
    }
    remember_request(traffic, flow, packet->psn, packet->eec);
    if (packet->operation == CM_READ_REQUEST) {
        cm_psn_pass_over(psn, read_numbers(cm_track_of(traffic, flow), packet));
    }
}

static void add_numbered(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t src,
                         uint32_t dst)
{
    struct cm_flow_key key = {src, dst, packet->dst_qpn, packet->src_qpn};
    struct sender *sender = NULL;
    enum cm_psn_verdict verdict = CM_PSN_NEW;
    struct cm_flow *flow;
    struct cm_psn *psn;

    if (packet->transport == CM_UD) {
        sender = cm_find_sender(traffic, src, UINT32_MAX, packet->src_qpn);
    } else if (packet->transport == CM_RD) {
        sender = cm_find_sender(traffic, src, dst, packet->eec);
        if (cm_is_answer(packet)) {
            find_answerer(traffic, sender, packet, &key);
        }
    } else if (cm_is_answer(packet)) {
        learn_partner(traffic, packet, src, dst);
    }
    flow = cm_find_flow(traffic, &key);
    psn = numbers_of(cm_track_of(traffic, flow), sender, packet);
    if (psn != NULL) {
        verdict = judge(traffic, flow, psn, packet);
    }
    if (verdict == CM_PSN_DUPLICATE) {
        traffic->capture.duplicates++;
        return;
    }
    traffic->capture.retransmissions += verdict == CM_PSN_RETRANSMISSION;
    if (packet->first_fragment) {
        note_started(traffic, packet, flow);
    }
    if (psn != NULL && !cm_is_answer(packet) && verdict != CM_PSN_RETRANSMISSION) {
        note_request(traffic, flow, psn, packet);
    }
    if (packet->kind == CM_KIND_NAK) {
        note_nak(traffic, packet, src, dst);
    }
    if (!(traffic->options.kinds >> packet->kind & 1)) {
        exclude(traffic, packet, packet->kind);
        return;
    }
    if (packet->kind == CM_KIND_DATA) {
        cm_rank_vote(flow->votes, packet);
    }
    cm_count(traffic, flow, packet, verdict == CM_PSN_RETRANSMISSION);
}

/* Captures are not always in order: the first one is not always the earliest. */
static bool in_time(struct cm_traffic *traffic, const struct cm_packet *packet)
{
    struct cm_capture_counts *capture = &traffic->capture;
    uint64_t time_ns;

    if (!traffic->started_reading) {
        traffic->started_reading = true;
        traffic->first_read_ns = capture->first_ns = packet->time_ns;
    }
    time_ns =
        packet->time_ns > traffic->first_read_ns ? packet->time_ns - traffic->first_read_ns : 0;
    return time_ns >= traffic->options.from_ns &&
           (traffic->options.to_ns == 0 || time_ns < traffic->options.to_ns);
}

void cm_traffic_add(struct cm_traffic *traffic, const struct cm_packet *original, uint32_t captured)
{
    struct cm_capture_counts *capture = &traffic->capture;
    struct cm_packet packet = *original;
    uint32_t src, dst;

    if (!in_time(traffic, &packet)) {
        return;
    }
    capture->packets++;
    capture->wire += packet.wire;
    capture->cut += captured < packet.wire;
    capture->first_ns = MIN(capture->first_ns, packet.time_ns);
    capture->last_ns = MAX(capture->last_ns, packet.time_ns);
    if (packet.kind == CM_KIND_OTHER && !packet.fragment) {
        exclude(traffic, &packet, packet.kind);
        return;
    }
    if (packet.kind == CM_KIND_RAW && !packet.src.has_lid) {
        exclude(traffic, &packet, packet.kind);
        return;
    }
    src = cm_find_address(traffic, &packet.src, 0);
    dst = cm_find_address(traffic, &packet.dst, 1);
    if (packet.fragment) {
        add_fragment(traffic, &packet, src, dst);
    } else if (packet.cut || packet.kind == CM_KIND_RAW) {
        add_cut(traffic, &packet, src, dst);
    } else {
        add_numbered(traffic, &packet, src, dst);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct cm_traffic *cm_traffic_new(const struct cm_traffic_options *options)
{
    struct cm_traffic *traffic = g_new0(struct cm_traffic, 1);
    struct cm_window_entry none = {0};

    traffic->options = *options;
    traffic->activity.width_ns = 1000;
    traffic->windows = g_array_new(FALSE, FALSE, sizeof(struct cm_window_entry));
    g_array_append_val(traffic->windows, none);
    cm_tables_init(traffic);
    traffic->recent = g_new0(struct recent, 1 << RECENT_BITS);
    traffic->started = g_new0(struct started, NUM_STARTED);
    return traffic;
}

void cm_traffic_finish(struct cm_traffic *traffic)
{
    if (traffic->tracks != NULL) {
        cm_tables_finish(traffic);
        g_free(traffic->recent);
        g_free(traffic->started);
    }
}

void cm_traffic_free(struct cm_traffic *traffic)
{
    cm_traffic_finish(traffic);
    g_ptr_array_free(traffic->blocks, TRUE);
    g_ptr_array_free(traffic->addresses, TRUE);
    g_array_free(traffic->windows, TRUE);
    g_free(traffic);
}
