/*
 * Several servers, each for a region (a range of cabinets). Each asks the others how they are. 
 * If a server does not answer, the living server of the lowest rank takes the region over. The
 * new server tells the chips of the region to report to itself, and polls them. When
 * the failed server starts again, the chips of its region report to it again.
 */
#include "region.h"
#include "inm/server/act/chips.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

static size_t ignore(char *data, size_t size, size_t num, void *arg)
{
    (void)data;
    (void)arg;
    return size * num;
}

static bool healthy(const struct inm_config *config, const struct inm_peer_config *peer)
{
    bool local = strncmp(peer->url, "unix:", 5) == 0;
    CURL *curl = curl_easy_init();
    char url[200];
    long status = 0;
    CURLcode ret;

    if (curl == NULL) {
        return false;
    }
    snprintf(url, sizeof(url), "%s/healthz", local ? "http://localhost" : peer->url);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    if (local) {
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, peer->url + 5);
    }
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)config->heartbeat_ms);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    ret = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    return ret == CURLE_OK && status == 200;
}

/* Returns whether this server takes over: no living server has a lower rank. */
static bool our_turn(const struct inmd *d, uint32_t dead)
{
    uint32_t i;

    for (i = 0; i < d->config.num_peers; i++) {
        if (i != dead && d->peers[i].alive && d->config.peers[i].rank < d->config.rank) {
            return false;
        }
    }
    return true;
}

static void took_over(struct inmd *d, uint32_t i)
{
    const struct inm_peer_config *peer = &d->config.peers[i];

    inm_log(LOG_WARNING, "server %s is dead: taking over cabinets %u to %u", peer->name,
            peer->first_cabinet, peer->last_cabinet);
    push_config(d, peer->first_cabinet, peer->last_cabinet);
    history_log(d->history, &(struct log_entry){.kind = "change",
                                                .severity = SEVERITY_MAJOR,
                                                .user = "inmd",
                                                .place = peer->name,
                                                .text = "takes over the region of this server"});
}

static void watch(struct inmd *d, uint32_t i)
{
    struct inm_region_state *state = &d->peers[i];
    bool ok = healthy(&d->config, &d->config.peers[i]), take = false;

    pthread_mutex_lock(&d->lock);
    if (ok) {
        if (!state->alive && state->since != 0) {
            inm_log(LOG_NOTICE, "server %s is back", d->config.peers[i].name);
        }
        d->dirty = d->dirty || !state->alive;
        *state = (struct inm_region_state){.alive = true, .since = now_seconds()};
    } else if (++state->misses >= d->config.heartbeat_misses) {
        d->dirty = d->dirty || state->alive || state->since == 0;
        state->alive = false;
        state->since = state->since != 0 ? state->since : now_seconds();
        take = !state->taken && our_turn(d, i);
        state->taken = state->taken || take;
    }
    pthread_mutex_unlock(&d->lock);
    if (take) {
        took_over(d, i);
    }
}

void regions_watch(struct inmd *d)
{
    uint32_t i;

    for (i = 0; i < d->config.num_peers; i++) {
        watch(d, i);
    }
}
