/* Prints the calls as OpenAPI; docs/inm-openapi.yaml is this output. */
#include "api.h"

#include <string.h>

static const char head[] =
    "openapi: 3.0.3\n"
    "info:\n"
    "  title: openglex in-band network management\n"
    "  version: \"1\"\n"
    "  description: >\n"
    "    The interface of inmd; \"inmd --openapi\" prints this file. Over the Unix socket, root "
    "and the\n"
    "    user of inmd are administrators. Over TCP a session is needed: POST /api/v1/login sets "
    "the\n"
    "    cookie inm_session. Its reply has the CSRF token, which every POST bears in the header\n"
    "    X-CSRF-Token. Chips and ports have the names of docs/inm.md, such as r12f3n5 and "
    "r12f3n5:7.\n"
    "    Errors have a body {\"error\": \"...\"}. 400: a wrong, unknown or missing argument. 401: "
    "no\n"
    "    session. 403: role or token. 404: the thing does not exist. 409: a long operation is "
    "running,\n"
    "    or the network has changed. 413: the body is too long. 421: the Host header is not "
    "allowed.\n"
    "    422: the chip refuses. 429: too many requests or tries. 502: no network. 504: the chip "
    "does\n"
    "    not answer. HEAD is allowed wherever GET is.\n"
    "paths:\n";

static void print_words(FILE *out, const char *words)
{
    const char *p = words, *end;

    fputs("{type: string, enum: [", out);
    while (p != NULL) {
        end = strchr(p, '|');
        fprintf(out, "%s\"%.*s\"", p == words ? "" : ", ",
                (int)(end != NULL ? end - p : (long)strlen(p)), p);
        p = end != NULL ? end + 1 : NULL;
    }
    fputs("]}", out);
}

static void print_schema(FILE *out, const struct param *p)
{
    switch (p->kind) {
    case PARAM_WHOLE:
        fprintf(out, "{type: integer, minimum: %.0f, maximum: %.0f}", p->min, p->max);
        break;
    case PARAM_REAL:
        fprintf(out, "{type: number, minimum: %.17g, maximum: %.17g}", p->min, p->max);
        break;
    case PARAM_TEXT:
        fprintf(out, "{type: string, minLength: %.0f, maxLength: %.0f}", p->min, p->max);
        break;
    case PARAM_WORD:
        print_words(out, p->words);
        break;
    case PARAM_NUMBER:
        fputs("{type: string, pattern: '^(0x[0-9a-fA-F]{1,16}|[0-9]{1,20})$'}", out);
        break;
    case PARAM_HEX:
        fprintf(out,
                "{type: string, pattern: '^([0-9a-fA-F]{2})*$', minLength: %.0f, maxLength: %.0f}",
                p->min * 2, p->max * 2);
        break;
    default:
        fputs("{type: object}", out);
    }
}

static void print_query(FILE *out, const struct param *p)
{
    fputs("      parameters:\n", out);
    for (; p->kind != PARAM_END; p++) {
        fprintf(
            out,
            "        - name: %s\n          in: query\n          required: %s\n          schema: ",
            p->name, p->required ? "true" : "false");
        print_schema(out, p);
        fputc('\n', out);
        if (p->help != NULL) {
            fprintf(out, "          description: \"%s\"\n", p->help);
        }
    }
}

static void print_body(FILE *out, const struct param *params)
{
    const struct param *p;
    bool first = true;

    fputs("      requestBody:\n        content:\n          application/json:\n            schema:\n"
          "              type: object\n              additionalProperties: false\n",
          out);
    for (p = params; p->kind != PARAM_END; p++) {
        if (p->required) {
            fprintf(out, "%s%s", first ? "              required: [" : ", ", p->name);
            first = false;
        }
    }
    fputs(first ? "              properties:\n" : "]\n              properties:\n", out);
    for (p = params; p->kind != PARAM_END; p++) {
        fprintf(out, "                %s: ", p->name);
        print_schema(out, p);
        fputc('\n', out);
    }
}

static void print_call(FILE *out, const struct api *a)
{
    bool get = strcmp(a->method, "GET") == 0;

    fprintf(out, "    %s:\n      summary: \"%s\"\n      description: \"Role: %s.%s%s%s\"\n",
            get ? "get" : "post", a->summary, auth_role_name(a->role),
            a->reply != NULL ? " Reply: " : "", a->reply != NULL ? a->reply : "",
            a->reply != NULL ? "." : "");
    if (a->params != NULL && get) {
        print_query(out, a->params);
    } else if (a->params != NULL) {
        print_body(out, a->params);
    }
    if (a->role != ROLE_NONE) {
        fputs("      security:\n        - session: []\n", out);
    }
    fputs("      responses:\n        \"200\": {description: done}\n"
          "        default: {description: \"see info\"}\n",
          out);
}

void api_describe(FILE *out)
{
    const struct api *a, *b;

    fputs(head, out);
    for (a = api_calls; a->path != NULL; a++) {
        for (b = api_calls; b < a && strcmp(a->path, b->path) != 0; b++) {
        }
        if (b < a) {
            continue; /* another method of a path that has been printed */
        }
        fprintf(out, "  %s:\n", a->path);
        for (b = a; b->path != NULL; b++) {
            if (strcmp(a->path, b->path) == 0) {
                print_call(out, b);
            }
        }
    }
    fputs("components:\n  securitySchemes:\n"
          "    session: {type: apiKey, in: cookie, name: inm_session}\n",
          out);
}
