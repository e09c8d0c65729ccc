/* Any Prometheus endpoint on the node, as node_exporter or an application's: read here, sent by udmon. */
#include "exposition.h"
#include "node.h"
#include "types.h"
#include "../lib/base/log.h"

#include <curl/curl.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SCRAPE_MAX = 16 << 20 };

struct scrape {
    char url[400];
    long timeout_ms;
    struct udmon_log_limit failed, wrong;
};

static const char *const scrape_options[] = {"url", "timeout", NULL};

static size_t scrape_add(char *data, size_t size, size_t count, void *answer)
{
    return ((ftell(answer) + (size * count)) > SCRAPE_MAX) ? 0 : fwrite(data, size, count, answer);
}

/*
 * The text of the endpoint, of the caller's; NULL with the reason in `error`. *openmetrics_p: whether
 * the text is in OpenMetrics format.
 */
static char *scrape_get(const struct scrape *scrape, bool *openmetrics_p, char *error, size_t size)
{
    const char *type = NULL;
    char *text = NULL;
    size_t length;
    FILE *answer = open_memstream(&text, &length);
    CURL *curl = curl_easy_init();
    CURLcode code = CURLE_OUT_OF_MEMORY;
    long status = 0;

    if ((curl != NULL) && (answer != NULL)) {
        curl_easy_setopt(curl, CURLOPT_URL, scrape->url);
        curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
        curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, scrape->timeout_ms);
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, scrape_add);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
        code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
        *openmetrics_p = (type != NULL) && !strncasecmp(type, "application/openmetrics-text", 28);
    }
    curl_easy_cleanup(curl);
    if ((answer != NULL) && (fclose(answer) != 0)) {
        code = CURLE_OUT_OF_MEMORY;
    }
    if ((code == CURLE_OK) && (status == 200)) {
        return text;
    }
    free(text);
    if (code != CURLE_OK) {
        snprintf(error, size, "%s", curl_easy_strerror(code));
    } else {
        snprintf(error, size, "HTTP status %ld", status);
    }
    return NULL;
}

static void scrape_tick(struct udmon_node *node, void *state)
{
    struct scrape *scrape = state;
    struct exposition_result result = {0};
    struct samples *samples;
    bool openmetrics = false;
    char label[GRAPH_NAME_MAX], error[200];
    char *text = scrape_get(scrape, &openmetrics, error, sizeof(error));

    if (text == NULL) {
        udmon_warn_limited(&scrape->failed, "node %s: cannot scrape %s: %s", node->name,
                           scrape->url, error);
    }
    samples = samples_begin(node);
    if (text != NULL) {
        exposition_read(text, openmetrics, samples, &result);
    }
    samples_label(label, sizeof(label), node->name);
    samples_add(samples, 0, (text == NULL) || (result.bad_line > 0) || (result.skipped > 0),
                "udmon_agent_scrape_error{sensor=\"%s\"}", label);
    samples_end(samples);
    free(text);
    if (result.bad_line > 0) {
        udmon_warn_limited(&scrape->wrong, "node %s: %s: line %d is no sample", node->name,
                           scrape->url, result.bad_line);
    }
}

static int scrape_create(struct udmon_node *node, void **state_p)
{
    const char *url = udmon_node_option(node, "url");
    struct scrape *scrape;
    double timeout;

    if ((url == NULL) || strncmp(url, "http", 4) || (strlen(url) >= sizeof(scrape->url))) {
        udmon_node_error(node, (url != NULL) ? "url" : NULL,
                         "needs an option \"url\", as http://localhost:9100/metrics");
        return -EINVAL;
    }
    if (udmon_node_number(node, "timeout", 2, 0.01, 60, &timeout) < 0) {
        return -EINVAL;
    }
    scrape = calloc(1, sizeof(*scrape));
    if (scrape == NULL) {
        return -ENOMEM;
    }
    snprintf(scrape->url, sizeof(scrape->url), "%s", url);
    scrape->timeout_ms = timeout * 1000;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    *state_p = scrape;
    return 0;
}

const struct udmon_node_type sensor_prometheus = {
    .name = "prometheus",
    .options = scrape_options,
    .create = scrape_create,
    .destroy = free,
    .tick = scrape_tick,
    .has_output = 1,
    .blocking = 1,
};
