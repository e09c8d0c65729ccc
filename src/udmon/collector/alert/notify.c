#include "notify.h"
#include "show.h"
#include "../../lib/base/clock.h"
#include "../../lib/base/log.h"
#include "../../lib/net/loop.h"

#include <curl/curl.h>

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOTIFY_TIMEOUT_S = 10, NOTIFY_COMMAND_S = 60, NOTIFY_POLL_MS = 50 };
#define NOTIFY_BACKOFF_NS     UINT64_C(1000000000)
#define NOTIFY_BACKOFF_MAX_NS UINT64_C(60000000000)

extern char **environ;

static int channel_index(const struct notify_channel *channel)
{
    return (int)(channel - channel->notify->channels);
}

static bool notify_is_stopping(struct notify *notify)
{
    bool stopping;

    pthread_mutex_lock(&notify->alerts->lock);
    stopping = notify->stopping;
    pthread_mutex_unlock(&notify->alerts->lock);
    return stopping;
}

/* ---- the webhook ----------------------------------------------------------------------------- */

/* The beginning of the receiver's answer, for the log. */
struct answer {
    char text[200];
    size_t length;
};

static size_t answer_add(char *bytes, size_t size, size_t count, void *arg)
{
    struct answer *answer = arg;
    size_t room = sizeof(answer->text) - 1 - answer->length;
    size_t length = (size * count < room) ? (size * count) : room;

    memcpy(answer->text + answer->length, bytes, length);
    answer->length += length;
    return size * count;
}

/* Ends a request when the collector ends. */
static int webhook_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total,
                            curl_off_t up)
{
    (void)total;
    (void)now;
    (void)up_total;
    (void)up;
    return notify_is_stopping(arg);
}

static bool webhook_post(struct notify *notify, const struct show_message *news)
{
    static struct udmon_log_limit limit;
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    struct answer answer = {.length = 0};
    CURL *curl = curl_easy_init();
    CURLcode result = CURLE_OUT_OF_MEMORY;
    long status = 0;

    if ((curl != NULL) && (headers != NULL)) {
        curl_easy_setopt(curl, CURLOPT_URL, notify->options.webhook);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(curl, CURLOPT_USERAGENT, "udmon-collector");
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, news->body);
        curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)NOTIFY_TIMEOUT_S);
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, answer_add);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, webhook_progress);
        curl_easy_setopt(curl, CURLOPT_XFERINFODATA, notify);
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        result = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    answer.text[strcspn(answer.text, "\r\n")] = '\0';
    if (result != CURLE_OK) {
        udmon_warn_limited(&limit, "alerts: %s does not take them: %s", notify->options.webhook,
                           curl_easy_strerror(result));
    } else if ((status < 200) || (status > 299)) {
        udmon_warn_limited(&limit, "alerts: %s does not take them: status %ld %s",
                           notify->options.webhook, status, answer.text);
    }
    return (result == CURLE_OK) && (status >= 200) && (status <= 299);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* The environment with the subject. The caller's, or NULL. */
static char **command_environment(char *subject)
{
    size_t count = 0;
    char **copy;

    while (environ[count] != NULL) {
        ++count;
    }
    copy = calloc(count + 2, sizeof(*copy));
    if (copy != NULL) {
        memcpy(copy, environ, count * sizeof(*copy));
        copy[count] = subject;
    }
    return copy;
}

/* A file with the text, at its beginning: the command need not read it. -1: none. */
static int command_input(const char *body)
{
    int fd = memfd_create("alerts", MFD_CLOEXEC);

    if ((fd >= 0) && ((write(fd, body, strlen(body)) != (ssize_t)strlen(body)) ||
                      (lseek(fd, 0, SEEK_SET) != 0))) {
        close(fd);
        return -1;
    }
    return fd;
}

static int command_spawn(const char *command, int input, char **environment, pid_t *pid_p)
{
    char *const arguments[] = {"sh", "-c", (char *)command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, pipes;
    int ret;

    sigemptyset(&none);
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE); /* the collector ignores it */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &pipes);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, 0);
    ret = posix_spawn(pid_p, "/bin/sh", &actions, &attributes, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return -ret;
}

/* Waits for the command. It is killed after NOTIFY_COMMAND_S, and when the collector ends. */
static bool command_wait(struct notify *notify, pid_t pid)
{
    static struct udmon_log_limit limit;
    const struct timespec pause = {.tv_nsec = NOTIFY_POLL_MS * 1000000L};
    uint64_t until_ns = udmon_now_ns() + (NOTIFY_COMMAND_S * UINT64_C(1000000000));
    int status = -1; /* stays if waitpid() fails: no exit status, so the command counts as failed */

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if ((udmon_now_ns() > until_ns) || notify_is_stopping(notify)) {
            kill(-pid, SIGKILL);
            waitpid(pid, &status, 0);
            break;
        }
        nanosleep(&pause, NULL);
    }
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0)) {
        return true;
    }
    udmon_warn_limited(&limit, "alerts: the command '%s' has failed (%s %d)",
                       notify->options.command, WIFEXITED(status) ? "status" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return false;
}

static bool command_run(struct notify *notify, const struct show_message *news)
{
    static struct udmon_log_limit limit;
    char subject[100], **environment;
    int input = command_input(news->body), ret = -ENOMEM;
    pid_t pid = 0;

    snprintf(subject, sizeof(subject), "UDMON_SUBJECT=udmon: %u %s firing, %u resolved",
             news->firing, (news->firing == 1) ? "alert" : "alerts", news->resolved);
    environment = command_environment(subject);
    if ((input >= 0) && (environment != NULL)) {
        ret = command_spawn(notify->options.command, input, environment, &pid);
    }
    free(environment);
    if (input >= 0) {
        close(input);
    }
    if (ret < 0) {
        udmon_warn_limited(&limit, "alerts: the command cannot be started: %s", strerror(-ret));
        return false;
    }
    return command_wait(notify, pid);
}

/* ---- channels -------------------------------------------------------------------------------- */

/* With the alerts' lock held. */
static void channel_wait(struct notify *notify, uint64_t wait_ns)
{
    uint64_t until_ns = udmon_now_ns() + wait_ns;
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                             .tv_nsec = (long)(until_ns % 1000000000)};

    pthread_cond_timedwait(&notify->alerts->changed, &notify->alerts->lock, &until);
}

/* Waits through other news until the channel may try again. With the alerts' lock held. */
static void channel_back_off(struct notify *notify, uint64_t wait_ns)
{
    uint64_t until_ns = udmon_now_ns() + wait_ns, now_ns;

    while (!notify->stopping && ((now_ns = udmon_now_ns()) < until_ns)) {
        channel_wait(notify, until_ns - now_ns);
    }
}

static void *channel_run(void *arg)
{
    struct notify_channel *channel = arg;
    struct notify *notify = channel->notify;
    struct alerts *alerts = notify->alerts;
    int index = channel_index(channel);
    uint64_t backoff_ns = NOTIFY_BACKOFF_NS, again_ns;
    struct show_message news;
    bool sent;

    again_ns = (index == ALERTS_WEBHOOK) ? NOTIFY_AGAIN_NS : 0;
    pthread_mutex_lock(&alerts->lock);
    while (!notify->stopping) {
        if (!show_news(alerts, index, index == ALERTS_COMMAND, again_ns, udmon_now_ns(),
                       (int64_t)(udmon_time_ns() / 1000000), &news)) {
            channel_wait(notify, NOTIFY_AGAIN_NS / 4);
            continue;
        }
        pthread_mutex_unlock(&alerts->lock);
        sent = (index == ALERTS_WEBHOOK) ? webhook_post(notify, &news) : command_run(notify, &news);
        free(news.body);
        pthread_mutex_lock(&alerts->lock);
        if (sent) {
            ++alerts->sent[index];
            show_told(alerts, index, news.batch, udmon_now_ns());
            backoff_ns = NOTIFY_BACKOFF_NS;
        } else {
            ++alerts->failed[index];
            channel_back_off(notify, backoff_ns);
            backoff_ns =
                (2 * backoff_ns < NOTIFY_BACKOFF_MAX_NS) ? (2 * backoff_ns) : NOTIFY_BACKOFF_MAX_NS;
        }
    }
    pthread_mutex_unlock(&alerts->lock);
    return NULL;
}

int notify_open(struct notify *notify, struct alerts *alerts, const struct notify_options *options)
{
    const char *const wanted[ALERTS_CHANNELS] = {
        [ALERTS_WEBHOOK] = options->webhook, [ALERTS_COMMAND] = options->command};
    struct notify_channel *channel;
    int i, ret;

    *notify = (struct notify){.alerts = alerts, .options = *options};
    if ((options->webhook != NULL) && strncmp(options->webhook, "http://", 7) &&
        strncmp(options->webhook, "https://", 8)) {
        udmon_error("alerts: '%s' is no URL: write as http://HOST:9093/api/v2/alerts",
                    options->webhook);
        return -EINVAL;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    for (i = 0; i < ALERTS_CHANNELS; ++i) {
        channel = &notify->channels[i];
        channel->notify = notify;
        if (wanted[i] == NULL) {
            continue;
        }
        ret = udmon_thread_start(&channel->thread, channel_run, channel);
        if (ret < 0) {
            udmon_error("no thread for messages about alerts: %s", strerror(-ret));
            notify_close(notify);
            return ret;
        }
        channel->started = true;
    }
    return 0;
}

void notify_close(struct notify *notify)
{
    int i;

    pthread_mutex_lock(&notify->alerts->lock);
    notify->stopping = 1;
    pthread_cond_broadcast(&notify->alerts->changed);
    pthread_mutex_unlock(&notify->alerts->lock);
    for (i = 0; i < ALERTS_CHANNELS; ++i) {
        if (notify->channels[i].started) {
            pthread_join(notify->channels[i].thread, NULL);
        }
    }
}
