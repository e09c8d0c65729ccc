#include "access.h"
#include "../lib/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool access_url_valid(const char *url)
{
    return !strncmp(url, "http://", 7) || !strncmp(url, "https://", 8);
}

void access_prepare(CURL *curl, const char *url, const struct access_options *options,
                    long timeout_ms)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "udmon-collector");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    if (options->ca_file != NULL) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, options->ca_file);
    }
    if (options->cert_file != NULL) {
        curl_easy_setopt(curl, CURLOPT_SSLCERT, options->cert_file);
        curl_easy_setopt(curl, CURLOPT_SSLKEY, options->key_file);
    }
}

/* The first line of a file, without the newline. */
static bool access_read(const char *path, const char *what, char *line, size_t size)
{
    static struct udmon_log_limit limit;
    FILE *file = fopen(path, "re");
    int found = (file != NULL) && (fgets(line, (int)size, file) != NULL);

    if (file != NULL) {
        fclose(file);
    }
    if (!found) {
        udmon_warn_limited(&limit, "%s: cannot read %s: %s", what, path, strerror(errno));
        return false;
    }
    line[strcspn(line, "\r\n")] = '\0';
    return true;
}

void access_authorize(CURL *curl, const struct access_options *options, const char *what)
{
    char line[4096];

    if ((options->user_file != NULL) && access_read(options->user_file, what, line, sizeof(line))) {
        curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        curl_easy_setopt(curl, CURLOPT_USERPWD, line);
    }
    if ((options->token_file != NULL) &&
        access_read(options->token_file, what, line, sizeof(line))) {
        curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, line);
    }
}
