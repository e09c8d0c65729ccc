#include "links.h"

#include "answer.h"
#include "base/text.h"

#include <stdlib.h>

/* ---- links, worst ---- */

static uint64_t total_errors(const struct mcsm_link *link)
{
    return mcsm_counters_noise(link->ends[0].counters.total) +
           mcsm_counters_noise(link->ends[1].counters.total);
}

static uint64_t last_errors(const struct mcsm_link *link)
{
    return mcsm_counters_noise(link->ends[0].counters.delta) +
           mcsm_counters_noise(link->ends[1].counters.delta);
}

static int descending(uint64_t a, uint64_t b)
{
    return a > b ? -1 : a < b;
}

/* Held links first, then by errors and flaps of the window, then by those of all time. */
static int worse_first(const void *a, const void *b)
{
    const struct mcsm_link *x = *(struct mcsm_link *const *)a, *y = *(struct mcsm_link *const *)b;
    int order = descending(x->held_until != 0, y->held_until != 0);

    if (order == 0) {
        order = descending(mcsm_health_errors(x) + mcsm_health_flaps(x),
                           mcsm_health_errors(y) + mcsm_health_flaps(y));
    }
    if (order == 0) {
        order = descending(total_errors(x) + x->total_flaps, total_errors(y) + y->total_flaps);
    }
    if (order == 0) {
        order = x->key.guid < y->key.guid ? -1 : x->key.guid > y->key.guid;
    }
    return order != 0 ? order : (int)x->key.port - (int)y->key.port;
}

static int by_place(const void *a, const void *b)
{
    const struct mcsm_link *x = *(struct mcsm_link *const *)a, *y = *(struct mcsm_link *const *)b;

    return x->key.guid != y->key.guid ? (x->key.guid < y->key.guid ? -1 : 1) :
                                        (int)x->key.port - (int)y->key.port;
}

/* Megabytes per second between the last two polls. */
static void add_rate(struct json_object *entry, const char *key, const struct mcsm_daemon *daemon,
                     uint64_t words)
{
    double seconds = mcsm_health_seconds(daemon->health);

    mcsm_add_decimal(entry, key, seconds > 0 ? words * 4 / seconds / 1e6 : 0);
}

static struct json_object *entry_of(const struct mcsm_daemon *daemon, const struct mcsm_link *link,
                                    uint64_t now)
{
    static const char *const states[] = {"up", "down", "kept", "held"};
    const struct mcsm_link_end *a = &link->ends[0], *b = &link->ends[1];
    struct json_object *entry = json_object_new_object();

    mcsm_add_guid(entry, "guid", a->guid);
    mcsm_add_number(entry, "port", a->port);
    mcsm_add_guid(entry, "peer_guid", b->guid);
    mcsm_add_number(entry, "peer_port", b->port);
    mcsm_add_text(entry, "state", states[mcsm_health_state(link)]);
    mcsm_add_number(entry, "errors", mcsm_health_errors(link));
    mcsm_add_number(entry, "flaps", mcsm_health_flaps(link));
    mcsm_add_number(entry, "last_errors", last_errors(link));
    mcsm_add_number(entry, "all_errors", total_errors(link));
    mcsm_add_number(entry, "all_flaps", link->total_flaps);
    add_rate(entry, "xmit_mb_s", daemon, a->counters.delta[MCSM_COUNTER_XMIT_DATA]);
    add_rate(entry, "rcv_mb_s", daemon, a->counters.delta[MCSM_COUNTER_RCV_DATA]);
    mcsm_add_number(entry, "held_for",
                    link->held_until > now ? (link->held_until - now + 999) / 1000 : 0);
    mcsm_add_number(entry, "holds", link->holds);
    mcsm_add_text(entry, "remark", link->kept);
    mcsm_add_text(entry, "description", mcsm_health_name(daemon->health, a));
    mcsm_add_text(entry, "peer", mcsm_health_name(daemon->health, b));
    return entry;
}

static void show(struct mcsm_daemon *daemon, const char *worst, FILE *out)
{
    size_t count = HASH_COUNT(mcsm_health_links(daemon->health)), n = 0;
    struct mcsm_link **sorted, *link, *next;
    uint64_t limit = count, now = mcsm_now();
    struct json_object *json;

    if (worst[0] != '\0' && mcsm_parse_number(worst, 1, UINT32_MAX, &limit) < 0) {
        fprintf(out, "error worst needs a number of links\n");
        return;
    }
    sorted = calloc(count + 1, sizeof(*sorted));
    if (sorted == NULL) {
        fprintf(out, "error out of memory\n");
        return;
    }
    HASH_ITER(hh, mcsm_health_links(daemon->health), link, next) {
        sorted[n++] = link;
    }
    qsort(sorted, n, sizeof(*sorted), worst[0] != '\0' ? worse_first : by_place);
    json = json_object_new_array();
    for (size_t i = 0; i < n && i < limit; i++) {
        json_object_array_add(json, entry_of(daemon, sorted[i], now));
    }
    free(sorted);
    mcsm_send_json(out, json);
}

void mcsm_links_all(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    (void)arguments;
    show(daemon, "", out);
}

void mcsm_links_worst(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    show(daemon, arguments[0][0] != '\0' ? arguments[0] : "10", out);
}

/* ---- counters, release ---- */

static struct mcsm_link *find(struct mcsm_daemon *daemon, const char *word, FILE *out)
{
    struct mcsm_link *link;
    uint64_t guid;
    uint8_t port;

    if (mcsm_parse_guid_port(word, &guid, &port) < 0) {
        fprintf(out, "error expected GUID/PORT, such as 0x0002c90200410a28/17\n");
        return NULL;
    }
    link = mcsm_health_find(daemon->health, guid, port);
    if (link == NULL) {
        fprintf(out, "error no link of this cluster is at %s\n", word);
    }
    return link;
}

void mcsm_links_counters(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const char *word = arguments[0];
    const struct mcsm_link *link = find(daemon, word, out);
    struct json_object *json;

    if (link == NULL) {
        return;
    }
    json = json_object_new_array();
    for (int i = 0; i < MCSM_COUNTERS; i++) {
        struct json_object *entry = json_object_new_object();

        mcsm_add_text(entry, "counter", mcsm_counter_name(i));
        mcsm_add_number(entry, "value", link->ends[0].counters.total[i]);
        mcsm_add_number(entry, "last", link->ends[0].counters.delta[i]);
        mcsm_add_number(entry, "peer_value", link->ends[1].counters.total[i]);
        mcsm_add_number(entry, "peer_last", link->ends[1].counters.delta[i]);
        json_object_array_add(json, entry);
    }
    mcsm_send_json(out, json);
}

void mcsm_links_release(struct mcsm_daemon *daemon, const char *const *arguments, FILE *out)
{
    const char *word = arguments[0];
    const struct mcsm_link *link = find(daemon, word, out);
    struct json_object *json;

    if (link == NULL) {
        return;
    }
    if (mcsm_health_release(daemon->health, link->key.guid, link->key.port) < 0) {
        fprintf(out, "error %s is not held\n", word);
        return;
    }
    json = json_object_new_object();
    mcsm_add_text(json, "released", word);
    mcsm_send_json(out, json);
}
