/*
 * Access to another HTTP server by libcurl: URL, credentials, TLS. Remote write (remote.h) and
 * queries of old values (query.h) use the same options.
 */
#ifndef UDMON_COLLECTOR_ACCESS_H
#define UDMON_COLLECTOR_ACCESS_H

#include <curl/curl.h>
#include <stdbool.h>

struct access_options {
    const char *user_file, *token_file;         /* USER:PASSWORD; a bearer token; or NULL */
    const char *ca_file, *cert_file, *key_file; /* of HTTPS, or NULL */
};

/** Whether the text begins as a URL of HTTP or HTTPS. */
bool access_url_valid(const char *url);
/** Sets URL, TLS, time limit and the options that all requests share. */
void access_prepare(CURL *curl, const char *url, const struct access_options *options,
                    long timeout_ms);
/**
 * Adds the credentials. Reads the files again, so a new password needs no restart. `what` begins the
 * message about a file that cannot be read.
 */
void access_authorize(CURL *curl, const struct access_options *options, const char *what);

#endif
