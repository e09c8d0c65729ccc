/*
 * Any Prometheus endpoint on the node, as node_exporter or an application's: scraped here, sent by
 * udmon. A thread waits for the answer; the agent's loop makes samples of it.
 */
#include "exposition.h"
#include "graph.h"
#include "../lib/log.h"
#include "../lib/net/loop.h"

#include <curl/curl.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SCRAPE_MAX = 16 << 20 };

/* One scrape at a time; the thread and the node have it in turn, by `running`. */
typedef struct scrape {
    char node[GRAPH_NAME_MAX]; /* its name: after SIGHUP the node is another one */
    char url[400];
    long timeout_ms;
    pthread_t thread;
    int running;           /* the thread has `text` and `error` */
    udmon_source_t source; /* eventfd: the thread is done */
    char *text;
    char error[200];
    udmon_log_limit_t failed, wrong;
} scrape_t;

static const char *const scrape_options[] = {"url", "timeout", NULL};

static size_t scrape_add(char *data, size_t size, size_t count, void *answer)
{
    return ((ftell(answer) + (size * count)) > SCRAPE_MAX) ? 0 : fwrite(data, size, count, answer);
}

static void *scrape_run(void *arg)
{
    scrape_t *scrape = arg;
    size_t length;
    FILE *answer = open_memstream(&scrape->text, &length);
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
    }
    curl_easy_cleanup(curl);
    if ((answer != NULL) && (fclose(answer) != 0)) {
        code = CURLE_OUT_OF_MEMORY;
    }
    scrape->error[0] = '\0';
    if (code != CURLE_OK) {
        snprintf(scrape->error, sizeof(scrape->error), "%s", curl_easy_strerror(code));
    } else if (status != 200) {
        snprintf(scrape->error, sizeof(scrape->error), "HTTP status %ld", status);
    }
    eventfd_write(scrape->source.fd, 1);
    return NULL;
}

static void scrape_ready(udmon_source_t *source, uint32_t events)
{
    scrape_t *scrape = source->arg;
    udmon_node_t *node = graph_find(agent_graph, scrape->node);
    exposition_result_t result = {0};
    samples_t *samples;
    eventfd_t count;

    (void)events;
    eventfd_read(source->fd, &count);
    pthread_join(scrape->thread, NULL);
    scrape->running = 0;
    if (scrape->error[0] != '\0') {
        udmon_warn_limited(&scrape->failed, "node %s: cannot scrape %s: %s", scrape->node,
                           scrape->url, scrape->error);
    } else if (scrape->text != NULL) {
        samples = samples_begin(node);
        exposition_read(scrape->text, samples, &result);
        samples_end(samples);
    }
    if (result.bad_line > 0) {
        udmon_warn_limited(&scrape->wrong, "node %s: %s: line %d is no sample", scrape->node,
                           scrape->url, result.bad_line);
    }
    free(scrape->text);
    scrape->text = NULL;
}

static void scrape_tick(udmon_node_t *node, void *state)
{
    scrape_t *scrape = state;

    (void)node;
    if (scrape->running) {
        return; /* the endpoint is slower than the interval */
    }
    scrape->running = (udmon_thread_start(&scrape->thread, scrape_run, scrape) == 0);
}

static void scrape_destroy(void *state)
{
    scrape_t *scrape = state;

    if (scrape->running) {
        pthread_join(scrape->thread, NULL); /* for `timeout` at most */
    }
    udmon_loop_delete(&agent_loop, &scrape->source);
    close(scrape->source.fd);
    free(scrape->text);
    free(scrape);
}

static int scrape_create(udmon_node_t *node, void **state_p)
{
    const char *url = udmon_node_option(node, "url");
    scrape_t *scrape;
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
    snprintf(scrape->node, sizeof(scrape->node), "%s", node->name);
    snprintf(scrape->url, sizeof(scrape->url), "%s", url);
    scrape->timeout_ms = timeout * 1000;
    scrape->source.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    scrape->source.ready = scrape_ready;
    scrape->source.arg = scrape;
    if ((scrape->source.fd < 0) ||
        (udmon_loop_add(&agent_loop, &scrape->source, EPOLLIN) < 0)) {
        free(scrape);
        return -EIO;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    *state_p = scrape;
    return 0;
}

const udmon_node_type_t sensor_prometheus = {
    .name = "prometheus",
    .options = scrape_options,
    .create = scrape_create,
    .destroy = scrape_destroy,
    .tick = scrape_tick,
    .has_output = 1,
};
