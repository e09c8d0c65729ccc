#include "traffic.h"

#include "count.h"
#include "rank.h"
#include "tables.h"

#include <stdlib.h>
#include <string.h>

/*
 * A request of the capture. An answer bears the sequence number of its request, and so finds the
 * request's flow. Two hosts may have several queue pairs that use the same numbers. While two
 * requests with one number wait for their answers, an answer tells nothing (`shared`).
 */
struct recent {
    struct cm_flow *flow;
    uint32_t psn, eec;
    bool shared;
    uint64_t time_ns;
};

/*
 * A packet that came in fragments: its flow, once the first fragment has come. Fragments that come
 * before it wait.
 */
struct started {
    struct cm_flow *flow;
    uint32_t src, dst, ip_id;
    enum cm_kind kind;
    struct cm_excluded waiting;
    struct cm_packet last; /* of those that wait */
};

/* ---- requests and their answers -------------------------------------------------------------- */

/*
 * `eec` is 0 but for reliable datagrams. Four consecutive numbers are neighbors in the table, because
 * the cache misses of this table take most of the time of a packet.
 */
static struct recent *recent_slot(struct cm_traffic *traffic, uint32_t src, uint32_t dst,
                                  uint32_t psn, uint32_t eec)
{
    uint32_t four = cm_mix(((uint64_t)src << 32 | dst) ^ cm_mix((uint64_t)eec << 32 | psn >> 2)) >>
                    (32 - RECENT_BITS + 2);

    return &traffic->recent[four << 2 | (psn & 3)];
}

static bool is_between(const struct cm_flow *flow, uint32_t src, uint32_t dst)
{
    return flow->key.src == src && flow->key.dst == dst;
}

static bool is_answered(const struct track *track, uint32_t psn)
{
    return ((track->answered - psn) & CM_PSN_MASK) < (CM_PSN_MASK >> 1);
}

static void remember_request(struct cm_traffic *traffic, struct cm_flow *flow,
                             const struct cm_packet *packet)
{
    uint32_t psn = packet->psn, eec = packet->eec;
    struct recent *slot = recent_slot(traffic, flow->key.src, flow->key.dst, psn, eec);

    slot->shared = slot->flow != NULL && slot->flow != flow && slot->psn == psn &&
                   slot->eec == eec && is_between(slot->flow, flow->key.src, flow->key.dst) &&
                   !is_answered(cm_track_of(traffic, slot->flow), psn);
    slot->flow = flow;
    slot->psn = psn;
    slot->eec = eec;
    slot->time_ns = packet->time_ns;
}

/* The request that an answer from `src` to `dst` answers, or NULL. */
static struct recent *answered_request(struct cm_traffic *traffic, uint32_t src, uint32_t dst,
                                       uint32_t psn, uint32_t eec)
{
    struct recent *slot = recent_slot(traffic, dst, src, psn, eec);

    return slot->flow != NULL && slot->psn == psn && slot->eec == eec && !slot->shared &&
                   is_between(slot->flow, dst, src) ?
               slot :
               NULL;
}

/* The flow of that request, or NULL. */
static struct cm_flow *answered_flow(struct cm_traffic *traffic, uint32_t src, uint32_t dst,
                                     uint32_t psn, uint32_t eec)
{
    struct recent *request = answered_request(traffic, src, dst, psn, eec);

    return request != NULL ? request->flow : NULL;
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

/* An answer names the queue pair of the requester. Each flow learns the other's queue pair. */
static void learn_partner(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t src,
                          uint32_t dst)
{
    struct cm_flow *request = answered_flow(traffic, src, dst, packet->psn, 0);
    struct cm_flow_key key = {src, dst, packet->dst_qpn, CM_QPN_NONE};

    if (request == NULL || request->key.src_qpn != CM_QPN_NONE) {
        return;
    }
    cm_track_of(traffic, request)->answered = packet->psn;
    if (packet->kind != CM_KIND_NAK) {
        cm_psn_ack(&cm_track_of(traffic, request)->psn);
    }
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
    if (traffic->counting) {
        traffic->excluded[kind].packets++;
        traffic->excluded[kind].wire += packet->wire;
    }
}

/* The time from a request to the packet that answers it, the first one if there are several. */
static void note_delay(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t src,
                       uint32_t dst)
{
    struct recent *request = answered_request(traffic, src, dst, packet->psn, packet->eec);

    if (request != NULL && traffic->counting && request->time_ns != 0 &&
        packet->time_ns >= request->time_ns) {
        cm_count_delay(request->flow, packet->time_ns - request->time_ns);
        request->time_ns = 0;
    }
}

/*
 * A receiver of marked packets sends a CNP to the queue pair of their sender. The sign belongs to
 * the flow from that queue pair.
 */
static void note_cnp(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t src,
                     uint32_t dst)
{
    struct cm_flow_key back = {src, dst, packet->dst_qpn, CM_QPN_NONE};
    struct cm_flow_key key = {dst, src, CM_QPN_NONE, CM_QPN_NONE};
    const struct cm_flow *answers = cm_known_flow(traffic, &back);

    if (!traffic->counting) {
        return;
    }
    if (answers != NULL && answers->partner.lead > 0) {
        key.dst_qpn = answers->partner.qpn;
    }
    cm_signs_of(cm_find_flow(traffic, &key))->cnps++;
}

/* ---- new connections ------------------------------------------------------------------------- */

/*
 * REQ and REP of the communication management name the sender's queue pair of a new connection:
 * the numbers of the packets to it start anew.
 */
static void note_connection(struct cm_traffic *traffic, const struct cm_packet *packet,
                            uint32_t src, uint32_t dst)
{
    struct cm_flow_key key = {dst, src, 0, CM_QPN_NONE};
    uint32_t at = packet->data_len > CM_MAD_ATTRIBUTE + 2 ?
                      cm_cm_qpn_at(cm_be16(packet->data + CM_MAD_ATTRIBUTE)) :
                      0;
    struct cm_flow *flow;
    struct track *track;

    if (at == 0 || packet->data_len < at + 3) {
        return;
    }
    key.dst_qpn = cm_be24(packet->data + at);
    flow = cm_known_flow(traffic, &key);
    if (flow == NULL) {
        return;
    }
    track = cm_track_of(traffic, flow);
    cm_psn_reset(&track->psn);
    if (track->answer_psn != NULL) {
        cm_psn_reset(track->answer_psn);
    }
    flow->partner.lead = 0;
}

/* ---- sequence numbers ------------------------------------------------------------------------ */

/* RD: an answer does not name the queue pair of its sender. The request does. */
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

/* Where the packet's number counts. NULL: the packet bears no number that is known. */
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

/*
 * Management datagrams have no numbers that are worth counting: a device may send all of them with
 * number 0, and all devices share the permissive LID.
 */
static bool is_unnumbered(const struct cm_packet *packet)
{
    return packet->transport == CM_UD &&
           (packet->src_qpn <= 1 || packet->dst_qpn <= 1 ||
            (packet->src.has_lid && packet->src.lid == CM_LID_PERMISSIVE));
}

/* Gaps between answers are no loss: the numbers belong to requests that need no answer. */
static bool gap_is_loss(const struct cm_packet *packet)
{
    return !cm_is_answer(packet) || packet->operation == CM_READ_MIDDLE ||
           packet->operation == CM_READ_LAST;
}

static bool is_wanted(const struct cm_traffic *traffic, enum cm_kind kind)
{
    return traffic->options.kinds >> kind & 1;
}

/*
 * Packets are missing. UD numbers the datagrams of a queue pair over all receivers: a capture that
 * does not see all receivers cannot tell a lost datagram from a datagram to another receiver.
 */
static void add_lost(struct cm_traffic *traffic, struct cm_flow *flow,
                     const struct cm_packet *packet, uint32_t lost)
{
    if (!traffic->counting) {
        return;
    }
    if (packet->transport == CM_UD) {
        traffic->capture.unsure += lost;
    } else {
        flow->counts.lost += lost;
        traffic->capture.lost += lost;
    }
}

static void take_lost(struct cm_traffic *traffic, struct cm_flow *flow,
                      const struct cm_packet *packet, uint32_t found)
{
    if (packet->transport == CM_UD) {
        traffic->capture.unsure -= MIN(found, traffic->capture.unsure);
    } else {
        found = MIN(found, flow->counts.lost);
        flow->counts.lost -= found;
        traffic->capture.lost -= found;
    }
}

static enum cm_psn_verdict judge(struct cm_traffic *traffic, struct cm_flow *flow,
                                 struct cm_psn *psn, const struct cm_packet *packet)
{
    struct cm_psn_result result = cm_psn_arrive(
        psn, packet->psn, (uint32_t)(packet->time_ns / 1000), traffic->options.skew_us);

    if (!is_wanted(traffic, packet->kind)) {
        return result.verdict;
    }
    if (result.lost != 0 && gap_is_loss(packet)) {
        add_lost(traffic, flow, packet, result.lost);
    } else if (result.verdict == CM_PSN_LATE && gap_is_loss(packet)) {
        take_lost(traffic, flow, packet, 1);
    }
    if (traffic->counting) {
        traffic->capture.numbered++;
        traffic->capture.restarts += result.restarted;
    }
    return result.verdict;
}

/* ---- a packet -------------------------------------------------------------------------------- */

static uint32_t started_slot(uint32_t src, uint32_t dst, uint32_t ip_id)
{
    return cm_mix(((uint64_t)src << 32 | dst) ^ cm_mix(ip_id)) % NUM_STARTED;
}

static struct started *find_started(struct cm_traffic *traffic, const struct cm_packet *packet,
                                    uint32_t src, uint32_t dst)
{
    struct started *started = &traffic->started[started_slot(src, dst, packet->ip_id)];

    if (started->src != src || started->dst != dst || started->ip_id != packet->ip_id) {
        traffic->excluded[CM_KIND_OTHER].packets += started->waiting.packets;
        traffic->excluded[CM_KIND_OTHER].wire += started->waiting.wire;
        memset(started, 0, sizeof(*started));
        started->src = src;
        started->dst = dst;
        started->ip_id = packet->ip_id;
    }
    return started;
}

static void count_fragment(struct cm_traffic *traffic, const struct started *started,
                           const struct cm_packet *packet)
{
    if (is_wanted(traffic, started->kind)) {
        cm_count(traffic, started->flow, packet, false);
    } else {
        exclude(traffic, packet, started->kind);
    }
}

/* A fragment belongs to the flow of the packet's first fragment, or waits for that one. */
static void add_fragment(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t src,
                         uint32_t dst)
{
    struct started *started = find_started(traffic, packet, src, dst);

    if (started->flow != NULL) {
        count_fragment(traffic, started, packet);
    } else if (traffic->counting) {
        started->waiting.packets++;
        started->waiting.wire += packet->wire;
        started->last = *packet;
    }
}

static void note_started(struct cm_traffic *traffic, const struct cm_packet *packet,
                         struct cm_flow *flow)
{
    struct started *started = find_started(traffic, packet, flow->key.src, flow->key.dst);
    uint64_t i, packets = started->waiting.packets;
    struct cm_packet fragment = started->last;

    started->flow = flow;
    started->kind = packet->kind;
    for (i = 0; i < packets; i++) {
        fragment.wire = (uint32_t)(started->waiting.wire * (i + 1) / packets -
                                   started->waiting.wire * i / packets);
        count_fragment(traffic, started, &fragment);
    }
    started->waiting = (struct cm_excluded){0};
}

/* Only the addresses are known. */
static void add_addresses(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t src,
                          uint32_t dst)
{
    struct cm_flow_key key = {src, dst, CM_QPN_NONE, CM_QPN_NONE};
    struct cm_packet whole = *packet;

    whole.cut = true; /* the user data of the packet is not known */
    if (is_wanted(traffic, packet->kind)) {
        cm_count(traffic, cm_find_flow(traffic, &key), &whole, false);
    } else {
        exclude(traffic, packet, packet->kind);
    }
}

/* The answer will find the request by its number. */
static void note_request(struct cm_traffic *traffic, struct cm_flow *flow, struct cm_psn *psn,
                         const struct cm_packet *packet)
{
    uint32_t found;

    if (packet->transport == CM_UC || packet->transport == CM_UD) {
        return;
    }
    remember_request(traffic, flow, packet);
    if (packet->operation == CM_READ_REQUEST) {
        found =
            cm_psn_pass_over(psn, packet->psn, read_numbers(cm_track_of(traffic, flow), packet));
        take_lost(traffic, flow, packet, found);
    }
}

/* A packet that is no copy tells of other packets: requests, connections, ranks. */
static void note_relations(struct cm_traffic *traffic, struct cm_flow *flow, struct cm_psn *psn,
                           const struct cm_packet *packet, bool again)
{
    if (packet->first_fragment) {
        note_started(traffic, packet, flow);
    }
    if (psn != NULL && !cm_is_answer(packet) && !again) {
        note_request(traffic, flow, psn, packet);
    }
    if (cm_is_answer(packet) && packet->kind != CM_KIND_NAK) {
        note_delay(traffic, packet, flow->key.src, flow->key.dst);
    }
    if (packet->kind == CM_KIND_NAK) {
        note_nak(traffic, packet, flow->key.src, flow->key.dst);
    } else if (packet->kind == CM_KIND_CNP) {
        note_cnp(traffic, packet, flow->key.src, flow->key.dst);
    } else if (packet->kind == CM_KIND_CM) {
        note_connection(traffic, packet, flow->key.src, flow->key.dst);
    } else if (packet->kind == CM_KIND_DATA) {
        cm_rank_vote(flow->votes, packet);
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

    if (packet->transport == CM_UD && !is_unnumbered(packet)) {
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
        traffic->capture.duplicates += traffic->counting;
        return;
    }
    traffic->capture.retransmissions += verdict == CM_PSN_RETRANSMISSION && traffic->counting;
    note_relations(traffic, flow, psn, packet, verdict == CM_PSN_RETRANSMISSION);
    if (is_wanted(traffic, packet->kind)) {
        cm_count(traffic, flow, packet, verdict == CM_PSN_RETRANSMISSION);
    } else {
        exclude(traffic, packet, packet->kind);
    }
}

/* Whether a packet counts. Packets outside of --from and --to still tell ranks and connections. */
static bool is_in_time(const struct cm_traffic *traffic, uint64_t time_ns)
{
    uint64_t zero = cm_traffic_zero(traffic), since = time_ns > zero ? time_ns - zero : 0;

    return since >= traffic->options.from_ns &&
           (traffic->options.to_ns == 0 || since < traffic->options.to_ns);
}

static void count_capture(struct cm_traffic *traffic, const struct cm_packet *packet,
                          uint32_t captured)
{
    struct cm_capture_counts *capture = &traffic->capture;

    capture->first_ns =
        capture->packets == 0 ? packet->time_ns : MIN(capture->first_ns, packet->time_ns);
    capture->last_ns = MAX(capture->last_ns, packet->time_ns);
    capture->packets++;
    capture->wire += packet->wire;
    capture->cut += captured < packet->wire;
    capture->cut_headers += packet->cut;
    capture->tunnels += packet->tunnels > 0;
    capture->closed[packet->closed]++;
}

void cm_traffic_add(struct cm_traffic *traffic, const struct cm_packet *packet, uint32_t captured)
{
    uint32_t src, dst;

    if (!traffic->started_reading || packet->time_ns < traffic->earliest_ns) {
        traffic->earliest_ns = packet->time_ns;
        traffic->started_reading = true;
    }
    traffic->counting = is_in_time(traffic, packet->time_ns);
    if (traffic->counting) {
        count_capture(traffic, packet, captured);
    }
    if ((packet->kind == CM_KIND_OTHER && !packet->fragment) ||
        (packet->kind == CM_KIND_RAW && !packet->src.has_lid)) {
        exclude(traffic, packet, packet->kind);
        return;
    }
    src = cm_find_address(traffic, &packet->src, 0);
    dst = cm_find_address(traffic, &packet->dst, 1);
    if (packet->fragment) {
        add_fragment(traffic, packet, src, dst);
    } else if (packet->cut || packet->kind == CM_KIND_RAW) {
        add_addresses(traffic, packet, src, dst);
    } else {
        add_numbered(traffic, packet, src, dst);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

struct cm_traffic *cm_traffic_new(const struct cm_traffic_options *options)
{
    struct cm_traffic *traffic = g_new0(struct cm_traffic, 1);
    struct cm_window_entry none = {0};

    traffic->options = *options;
    traffic->windows = g_array_new(FALSE, FALSE, sizeof(struct cm_window_entry));
    g_array_append_val(traffic->windows, none);
    cm_tables_init(traffic);
    traffic->recent = g_new0(struct recent, 1 << RECENT_BITS);
    traffic->started = g_new0(struct started, NUM_STARTED);
    return traffic;
}

/* Fragments whose first one never came. */
static void exclude_waiting(struct cm_traffic *traffic)
{
    int i;

    for (i = 0; i < NUM_STARTED; i++) {
        traffic->excluded[CM_KIND_OTHER].packets += traffic->started[i].waiting.packets;
        traffic->excluded[CM_KIND_OTHER].wire += traffic->started[i].waiting.wire;
    }
}

void cm_traffic_finish(struct cm_traffic *traffic)
{
    if (traffic->tracks != NULL) {
        exclude_waiting(traffic);
        cm_tables_finish(traffic);
        g_free(traffic->recent);
        g_free(traffic->started);
    }
}

void cm_traffic_free(struct cm_traffic *traffic)
{
    uint32_t i;

    cm_traffic_finish(traffic);
    for (i = 0; i < traffic->num_flows; i++) {
        g_free(cm_traffic_flow(traffic, i)->signs);
    }
    g_ptr_array_free(traffic->blocks, TRUE);
    g_ptr_array_free(traffic->addresses, TRUE);
    g_array_free(traffic->windows, TRUE);
    g_free(traffic);
}
