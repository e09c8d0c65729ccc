/*
 * Senders that this interface has heard. Each stream of a sender has a window of sequence numbers.
 * The table is bounded: the sender that is silent longest is removed first.
 */
#include "ud_mon_iface.h"

void ud_mon_senders_init(uct_ud_mon_iface_t *iface)
{
    kh_init_inplace(ud_mon_senders, &iface->senders);
    ucs_list_head_init(&iface->senders_lru);
}

void ud_mon_senders_cleanup(uct_ud_mon_iface_t *iface)
{
    ud_mon_sender_t *sender;

    kh_foreach_value(&iface->senders, sender, { ucs_free(sender); })
        kh_destroy_inplace(ud_mon_senders, &iface->senders);
}

static void ud_mon_senders_evict(uct_ud_mon_iface_t *iface)
{
    ud_mon_sender_t *sender = ucs_list_extract_head(&iface->senders_lru, ud_mon_sender_t, lru);

    kh_del(ud_mon_senders, &iface->senders, kh_get(ud_mon_senders, &iface->senders, sender->key));
    ucs_free(sender);
    ++iface->stats.evicted;
}

static ud_mon_sender_t *ud_mon_senders_add(uct_ud_mon_iface_t *iface, ud_mon_sender_key_t key,
                                           uint64_t first)
{
    ud_mon_sender_t *sender;
    khiter_t iter;
    int ret;

    if (kh_size(&iface->senders) >= iface->config.max_senders) {
        ud_mon_senders_evict(iface);
    }
    sender = ucs_malloc(sizeof(*sender), "ud_mon sender");
    if (sender == NULL) {
        return NULL;
    }
    iter = kh_put(ud_mon_senders, &iface->senders, key, &ret);
    if (ret < 0) {
        ucs_free(sender);
        return NULL;
    }
    kh_value(&iface->senders, iter) = sender;
    sender->key = key;
    seqwin_init(&sender->win, first);
    ucs_list_add_tail(&iface->senders_lru, &sender->lru);
    return sender;
}

/* A known stream, now the one heard last; or NULL. */
static ud_mon_sender_t *ud_mon_senders_find(uct_ud_mon_iface_t *iface, ud_mon_sender_key_t key)
{
    ud_mon_sender_t *sender;
    khiter_t iter;

    if (!ucs_list_is_empty(&iface->senders_lru)) {
        sender = ucs_list_tail(&iface->senders_lru, ud_mon_sender_t, lru);
        if (ud_mon_sender_equal(sender->key, key)) {
            return sender; /* datagrams come in bursts */
        }
    }
    iter = kh_get(ud_mon_senders, &iface->senders, key);
    if (iter == kh_end(&iface->senders)) {
        return NULL;
    }
    sender = kh_value(&iface->senders, iter);
    ucs_list_del(&sender->lru);
    ucs_list_add_tail(&iface->senders_lru, &sender->lru);
    return sender;
}

/*
 * Records a datagram, and returns whether to deliver it. A stream starts at 0, so numbers before
 * the first datagram are lost. After an overflow of the table the stream may have been forgotten;
 * then these numbers do not count as lost.
 */
int ud_mon_senders_arrive(uct_ud_mon_iface_t *iface, const ud_mon_header_t *header)
{
    ud_mon_sender_key_t key = {
        .sender = le64toh(header->sender),
        .stream = le32toh(header->stream),
    };
    uint64_t gap, before, seq = le64toh(header->seq);
    int from_start = (iface->stats.evicted == 0);
    ud_mon_sender_t *sender = ud_mon_senders_find(iface, key);

    if (ucs_unlikely(sender == NULL)) {
        sender = ud_mon_senders_add(iface, key, from_start ? 0 : seq);
        if (sender == NULL) {
            return 1; /* no memory to count in is no reason to lose data */
        }
    }
    before = sender->win.lost;
    switch (seqwin_arrive(&sender->win, seq, &gap)) {
    case SEQWIN_NEW:
        iface->stats.lost += sender->win.lost - before;
        return 1;
    case SEQWIN_LATE:
        --iface->stats.lost;
        ++iface->stats.reordered;
        return 1;
    case SEQWIN_DUPLICATE:
        ++iface->stats.duplicated;
        return 0;
    case SEQWIN_STALE:
        break;
    }
    ++iface->stats.stale;
    return 0;
}

ucs_status_t
uct_ud_mon_iface_senders(uct_iface_h tl_iface,
                         void (*cb)(const uct_ud_mon_sender_stats_t *sender, void *arg), void *arg)
{
    uct_ud_mon_iface_t *iface = uct_ud_mon_iface_cast(tl_iface);
    uct_ud_mon_sender_stats_t stats;
    ud_mon_sender_t *sender;

    if (iface == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    ucs_list_for_each(sender, &iface->senders_lru, lru) {
        stats = (uct_ud_mon_sender_stats_t){
            .sender = sender->key.sender,
            .stream = sender->key.stream,
            .received = sender->win.received,
            .lost = sender->win.lost,
            .reordered = sender->win.reordered,
            .duplicated = sender->win.duplicated,
            .stale = sender->win.stale,
        };
        cb(&stats, arg);
    }
    return UCS_OK;
}
