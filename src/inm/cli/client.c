/* The command line's side of the HTTP interface, by libcurl. */
#include "cli.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CURL *curl;
static struct curl_slist *headers;

struct answer {
    char *text;
    size_t len;
};

static size_t take(char *data, size_t size, size_t num, void *arg)
{
    struct answer *a = arg;
    char *more = realloc(a->text, a->len + size * num + 1);

    if (more == NULL) {
        return 0;
    }
    a->text = more;
    memcpy(a->text + a->len, data, size * num);
    a->len += size * num;
    a->text[a->len] = '\0';
    return size * num;
}

char *client_escape(const char *text)
{
    char *escaped = curl_easy_escape(curl, text, 0), *copy = strdup(escaped != NULL ? escaped : "");

    curl_free(escaped);
    return copy;
}

static int report(struct cli *cli, CURLcode ret, long status, struct json_object *reply,
                  const char *path)
{
    struct json_object *error;

    if (ret != CURLE_OK) {
        fprintf(stderr, "inm: no server at %s: %s; is inmd running?\n", cli->server,
                curl_easy_strerror(ret));
        return CLI_NO_SERVER;
    }
    if (status != 200 || reply == NULL) {
        if (reply != NULL && json_object_object_get_ex(reply, "error", &error)) {
            fprintf(stderr, "inm: %s\n", json_object_get_string(error));
        } else {
            fprintf(stderr, "inm: the server answered %ld to %s\n", status, path);
        }
        return CLI_REFUSED;
    }
    return CLI_OK;
}

/* One request. `answer` is the caller's to free. */
static CURLcode request(struct cli *cli, const char *path, struct json_object *body,
                        struct answer *answer, long *status)
{
    bool local = strncmp(cli->server, "unix:", 5) == 0;
    char url[1000];
    CURLcode ret;

    snprintf(url, sizeof(url), "%s%s", local ? "http://localhost" : cli->server, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, local ? cli->server + 5 : NULL);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_COOKIEFILE, "");
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    if (body != NULL) {
        curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS,
                         json_object_to_json_string_ext(body, JSON_C_TO_STRING_PLAIN));
        json_object_put(body);
    } else {
        curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
    }
    ret = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    return ret;
}

int client_call(struct cli *cli, const char *path, struct json_object *body,
                struct json_object **reply)
{
    struct answer answer = {NULL, 0};
    long status = 0;
    CURLcode ret = request(cli, path, body, &answer, &status);
    int result;

    *reply = answer.text != NULL ? json_tokener_parse(answer.text) : NULL;
    free(answer.text);
    result = report(cli, ret, status, *reply, path);
    if (result != CLI_OK) {
        json_object_put(*reply);
        *reply = NULL;
    }
    return result;
}

int client_text(struct cli *cli, const char *path)
{
    struct answer answer = {NULL, 0};
    struct json_object *reply = NULL;
    long status = 0;
    CURLcode ret = request(cli, path, NULL, &answer, &status);
    int result = CLI_OK;

    if (ret != CURLE_OK || status != 200 || answer.text == NULL) {
        reply = answer.text != NULL ? json_tokener_parse(answer.text) : NULL;
        result = report(cli, ret, status, status == 200 ? NULL : reply, path);
        json_object_put(reply);
    } else {
        fwrite(answer.text, 1, answer.len, stdout);
    }
    free(answer.text);
    return result;
}

static int login(struct cli *cli)
{
    const char *user = getenv("INM_USER"), *password = getenv("INM_PASSWORD");
    struct json_object *body, *reply, *csrf;
    char header[100];
    int result;

    if (user == NULL || password == NULL) {
        fprintf(stderr, "inm: over HTTP, INM_USER and INM_PASSWORD say who you are\n");
        return CLI_USAGE;
    }
    body = json_object_new_object();
    json_object_object_add(body, "name", json_object_new_string(user));
    json_object_object_add(body, "password", json_object_new_string(password));
    result = client_call(cli, "/api/v1/login", body, &reply);
    if (result == CLI_OK && json_object_object_get_ex(reply, "csrf", &csrf)) {
        snprintf(header, sizeof(header), "X-CSRF-Token: %s", json_object_get_string(csrf));
        headers = curl_slist_append(headers, header);
    }
    json_object_put(reply);
    return result;
}

int client_open(struct cli *cli)
{
    curl_global_init(CURL_GLOBAL_ALL);
    curl = curl_easy_init();
    if (curl == NULL) {
        fprintf(stderr, "inm: no memory\n");
        return CLI_NO_SERVER;
    }
    headers = curl_slist_append(NULL, "Content-Type: application/json");
    return strncmp(cli->server, "unix:", 5) == 0 ? CLI_OK : login(cli);
}

void client_close(void)
{
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    curl_global_cleanup();
}
