/* inm, the command line: what its files share. */
#ifndef INM_CLI_H
#define INM_CLI_H

#include <json-c/json.h>
#include <stdbool.h>

/* Exit statuses. */
enum { CLI_OK = 0, CLI_REFUSED = 1, CLI_USAGE = 2, CLI_NO_SERVER = 3, CLI_ALARMS = 4 };

struct cli {
    const char *server; /* unix:/path, or http(s)://host:port */
    bool json;
};

/** Log in if the server is reached by HTTP; user and password from INM_USER, INM_PASSWORD. */
int client_open(struct cli *cli);
void client_close(void);

/**
 * Ask the server. `body` NULL: GET, else POST; it is given away.
 * @return An exit status; *reply is the caller's on CLI_OK.
 */
int client_call(struct cli *cli, const char *path, struct json_object *body,
                struct json_object **reply);

/** Ask for text instead of JSON and print it. @return An exit status. */
int client_text(struct cli *cli, const char *path);

/** Text for an URL; to be freed. */
char *client_escape(const char *text);

/** Print a list of objects as a table. `columns`: names of members, and NULL at the end. */
void table_print(struct json_object *list, const char *const *columns);
/** Print an object, a member a line. */
void table_object(struct json_object *object);
/** Print the summary of the network. */
void table_summary(struct json_object *object);
/** Print a plan. */
void table_plan(struct json_object *object);

int cli_command(struct cli *cli, int argc, char **argv);

#endif
