/* ServiceRecord: services that hosts offer, by name or number, with a lease. */
#include "part.h"

#include <stdlib.h>

enum { SR_GID = 8, SR_LEASE = 28, SR_KEY = 32, SR_SIZE = 176, FOREVER = -1 };

static const struct mcsm_component parts[] = {{0, 64},   {64, 128},  {192, 16}, {208, 16},
                                              {224, 32}, {256, 128}, {384, 512}};

static bool is_same(const struct mcsm_service *service, const uint8_t *record)
{
    /* Service ID, GID and P_Key identify a record. */
    return memcmp(service->record, record, 26) == 0;
}

static struct mcsm_service **find(struct mcsm_sa *sa, const uint8_t *record)
{
    struct mcsm_service **at = &sa->services;

    while (*at != NULL && !is_same(*at, record)) {
        at = &(*at)->next;
    }
    return at;
}

static void send_record(struct mcsm_sa *sa, struct mcsm_standby *to,
                        const struct mcsm_service *service, bool gone)
{
    uint8_t payload[MCSM_STATE_PAYLOAD] = {0};
    uint64_t now = mcsm_now(), left = service->expires;

    if (left != 0) {
        left = left > now ? left - now : 1;
    }
    mcsm_put64(payload, 0, service->owner);
    mcsm_put64(payload, 8, left);
    memcpy(payload + 16, service->record, SR_SIZE);
    mcsm_standbys_send(sa->standbys, to, MCSM_STATE_SERVICE, gone, payload);
}

static void forget(struct mcsm_sa *sa, struct mcsm_service **at)
{
    struct mcsm_service *service = *at;

    send_record(sa, NULL, service, true);
    *at = service->next;
    free(service);
    sa->stats.services--;
}

static void set(struct mcsm_query *query)
{
    struct mcsm_service **at = find(query->sa, query->data), *service = *at;
    uint32_t lease = mcsm_get32(query->data, SR_LEASE);
    uint64_t guid = mcsm_get64(query->data, SR_GID + 8);

    if ((query->mask & 3) != 3) {
        query->status = MCSM_SA_FEW_COMPONENTS;
        return;
    }
    if (guid != query->client->guid ||
        (service != NULL && memcmp(service->record + SR_KEY, query->data + SR_KEY, 16) != 0)) {
        query->status = MCSM_SA_DENIED;
        return;
    }
    if (service == NULL) {
        if (query->sa->stats.services >= MCSM_MAX_SERVICES ||
            (service = calloc(1, sizeof(*service))) == NULL) {
            query->status = MCSM_SA_NO_RESOURCES;
            return;
        }
        service->next = query->sa->services;
        query->sa->services = service;
        query->sa->stats.services++;
        service->owner = query->client->guid;
    }
    memcpy(service->record, query->data, SR_SIZE);
    if (!mcsm_asks(query, 4)) {
        mcsm_put32(service->record, SR_LEASE, lease = FOREVER);
    }
    service->expires = lease == (uint32_t)FOREVER ? 0 : mcsm_now() + lease * 1000ULL + 1;
    send_record(query->sa, NULL, service, false);
    mcsm_answer_add(query, service->record);
}

static void delete(struct mcsm_query *query)
{
    struct mcsm_service **at = find(query->sa, query->data);

    if (*at == NULL || (*at)->owner != query->client->guid) {
        query->status = *at ? MCSM_SA_DENIED : MCSM_SA_NO_RECORDS;
        return;
    }
    mcsm_answer_add(query, (*at)->record);
    forget(query->sa, at);
}

static void list(struct mcsm_query *query)
{
    uint8_t record[SR_SIZE];

    for (const struct mcsm_service *service = query->sa->services; service != NULL;
         service = service->next) {
        if (!mcsm_matches(query, service->record, parts, sizeof(parts) / sizeof(*parts))) {
            continue;
        }
        memcpy(record, service->record, SR_SIZE);
        memset(record + SR_KEY, 0, 16);
        if (!mcsm_answer_add(query, record)) {
            return;
        }
    }
}

static void serve(struct mcsm_query *query)
{
    switch (query->method) {
    case MCSM_SET:
        set(query);
        break;
    case MCSM_DELETE:
        delete (query);
        break;
    default:
        list(query);
    }
}

static void drop(struct mcsm_sa *sa, uint64_t gone)
{
    struct mcsm_service **at = &sa->services;

    while (*at != NULL) {
        if (mcsm_sa_is_gone(sa, (*at)->owner, gone)) {
            forget(sa, at);
        } else {
            at = &(*at)->next;
        }
    }
}

static void expire(struct mcsm_sa *sa, uint64_t now)
{
    struct mcsm_service **at = &sa->services;

    while (*at != NULL) {
        if ((*at)->expires != 0 && (*at)->expires <= now) {
            forget(sa, at);
        } else {
            at = &(*at)->next;
        }
    }
}

/* ---- records of standby managers ---- */

static void send_all(void *arg, struct mcsm_standbys *standbys, struct mcsm_standby *to)
{
    struct mcsm_sa *sa = arg;

    (void)standbys;
    for (const struct mcsm_service *service = sa->services; service != NULL;
         service = service->next) {
        send_record(sa, to, service, false);
    }
}

static void take(void *arg, bool gone, const uint8_t *payload)
{
    struct mcsm_sa *sa = arg;
    struct mcsm_service **at = find(sa, payload + 16), *service = *at;
    uint64_t left = mcsm_get64(payload, 8);

    if (gone) {
        if (service != NULL) {
            forget(sa, at);
        }
        return;
    }
    if (service == NULL && (service = *at = calloc(1, sizeof(*service))) != NULL) {
        sa->stats.services++;
    }
    if (service != NULL) {
        memcpy(service->record, payload + 16, SR_SIZE);
        service->owner = mcsm_get64(payload, 0);
        service->expires = left != 0 ? mcsm_now() + left : 0;
    }
}

static void end(struct mcsm_sa *sa)
{
    while (sa->services != NULL) {
        forget(sa, &sa->services);
    }
}

static void clear(void *arg)
{
    end(arg);
}

static const struct mcsm_sa_record records[] = {{MCSM_SA_SERVICE, SR_SIZE, .serve = serve}};
static const struct mcsm_state_ops states[] = {{MCSM_STATE_SERVICE, send_all, take, clear}};

const struct mcsm_sa_part mcsm_sa_services = {.records = records,
                                              .record_count = 1,
                                              .states = states,
                                              .state_count = 1,
                                              .end = end,
                                              .drop = drop,
                                              .expire = expire};
