/* The table of all calls; see api.h. */
#include "api.h"
#include "handlers.h"

#include <string.h>

#define END                                   {NULL, PARAM_END, 0, 0, NULL, false, NULL}
#define WHOLE(name, min, max, required, help) {name, PARAM_WHOLE, min, max, NULL, required, help}
#define REAL(name, min, max, required, help)  {name, PARAM_REAL, min, max, NULL, required, help}
#define TEXT(name, min, max, required, help)  {name, PARAM_TEXT, min, max, NULL, required, help}
#define WORD(name, words, required, help)     {name, PARAM_WORD, 0, 0, words, required, help}
#define PLACE(name, required, help)           TEXT(name, 1, 31, required, help)
#define PARAMS(name)                          static const struct param name[]

#define MAX_ID     9007199254740991.0 /* whole numbers up to here are exact in JSON */
#define MAX_TIME   4102444800.0       /* the year 2100 */
#define SEVERITIES "info|warning|major|critical"

PARAMS(login_params) = {TEXT("name", 1, 63, true, NULL), TEXT("password", 0, 256, true, NULL), END};
PARAMS(alarms_params) = {WHOLE("all", 0, 1, false, "1: also alarms that are over"), END};
PARAMS(ack_params) = {WHOLE("id", 1, MAX_ID, true, NULL), TEXT("comment", 0, 200, false, NULL),
                      END};
PARAMS(events_params) = {WHOLE("since", 0, MAX_ID, false, "id of the last known report"),
                         WHOLE("limit", 1, 2000, false, "default 200"), END};
PARAMS(log_params) = {
    WORD("severity", SEVERITIES, false, "the lowest severity"),
    TEXT("place", 1, 31, false, "a cabinet, switch, chip or port"),
    TEXT("user", 1, 63, false, NULL),
    WORD("kind", "raised|cleared|acknowledged|start|stop|discovery|change|part", false, NULL),
    REAL("from", 0, MAX_TIME, false, "seconds since 1970"),
    REAL("to", 0, MAX_TIME, false, "seconds since 1970"),
    WHOLE("before", 1, MAX_ID, false, "only entries with a lower id, for the next page"),
    WHOLE("limit", 1, 10000, false, "default 200"),
    WORD("format", "json|csv", false, NULL),
    END};
PARAMS(since_params) = {REAL("since", 0, MAX_TIME, false, "seconds since 1970"), END};
PARAMS(search_params) = {TEXT("q", 0, 31, false, NULL), END};
PARAMS(chip_params) = {PLACE("chip", true, NULL), END};
PARAMS(reg_params) = {PLACE("chip", true, NULL), WHOLE("addr", 0, 0xffff, true, NULL), END};
PARAMS(reg_write_params) = {PLACE("chip", true, NULL),
                            WHOLE("addr", 0, 0xffff, true, NULL),
                            {"value", PARAM_NUMBER, 0, 0, NULL, true, NULL},
                            END};
PARAMS(eeprom_params) = {PLACE("chip", true, NULL), WHOLE("addr", 0, 0xffff, true, NULL),
                         WHOLE("num", 1, EEPROM_CALL, true, NULL), END};
PARAMS(eeprom_write_params) = {PLACE("chip", true, NULL),
                               WHOLE("addr", 0, 0xffff, true, NULL),
                               {"bytes", PARAM_HEX, 1, EEPROM_CALL, NULL, true, NULL},
                               END};
PARAMS(trace_params) = {PLACE("from", true, NULL), PLACE("to", true, NULL), END};
PARAMS(config_params) = {WHOLE("hot_limit", 1, 150, false, NULL),
                         WHOLE("retry_limit", 0, 1000000000, false, NULL), END};
PARAMS(discover_params) = {WHOLE("window", 0, NET_MAX_WINDOW, false, NULL), END};
PARAMS(scan_params) = {WHOLE("window", 0, NET_MAX_WINDOW, false, NULL),
                       WHOLE("per_chip", 1, 1000, false, NULL), END};
PARAMS(poll_params) = {WORD("mode", "single|loop|compare", false, NULL),
                       WHOLE("interval_ms", 100, 86400000, false, NULL), END};
PARAMS(routes_params) = {WORD("action", "generate|load|verify|keep", true, NULL),
                         WORD("kind", "shortest|balanced|updown", false, NULL),
                         PLACE("chip", false, NULL), END};
PARAMS(bist_params) = {PLACE("target", true, NULL), WHOLE("us", 1, 10000000, false, NULL), END};
PARAMS(layout_params) = {{"cabinets", PARAM_OBJECT, 0, 0, NULL, false, NULL}, END};
PARAMS(user_params) = {TEXT("name", 1, 31, true, NULL),
                       WORD("role", "viewer|operator|administrator", true, NULL),
                       TEXT("password", 8, 256, true, NULL), END};
PARAMS(user_delete_params) = {TEXT("name", 1, 31, true, NULL), END};

PARAMS(job_params) = {TEXT("name", 1, 31, true, NULL),
                      TEXT("hosts", 1, 399, true, "hosts and ranges: r0f0h0-r0f0h31,r0f1h0"), END};
PARAMS(job_delete_params) = {TEXT("name", 1, 31, true, NULL), END};
PARAMS(past_params) = {REAL("time", 0, MAX_TIME, false, "seconds since 1970"), END};
PARAMS(chip_history_params) = {PLACE("chip", true, NULL),
                               REAL("since", 0, MAX_TIME, false, "default: a day ago"), END};
PARAMS(inventory_params) = {WORD("format", "json|csv|netbox", false, NULL),
                            WHOLE("all", 0, 1, false, "1: also parts that were replaced"), END};
PARAMS(silence_params) = {PLACE("place", true, NULL), WHOLE("minutes", 1, 525600, false, NULL),
                          TEXT("comment", 0, 199, false, NULL), END};
PARAMS(silence_delete_params) = {WHOLE("id", 1, UINT32_MAX, true, NULL), END};
PARAMS(plan_params) = {WORD("action", "drain|cut|add", true, NULL), PLACE("target", true, NULL),
                       PLACE("other", false, NULL), END};
PARAMS(plan_id_params) = {WHOLE("id", 1, UINT32_MAX, true, NULL), END};

const struct api api_calls[] = {
    {"GET", "/healthz", ROLE_NONE, false, get_health, "Whether the server lives",
     "name, network, up_seconds", NULL},
    {"GET", "/metrics", ROLE_NONE, false, get_metrics, "OpenMetrics text", "text", NULL},
    {"POST", "/api/v1/login", ROLE_NONE, true, post_login, "Log in: sets the cookie inm_session",
     "user, role, csrf", login_params},
    {"POST", "/api/v1/logout", ROLE_VIEWER, true, post_logout, "End the session", NULL, NULL},
    {"GET", "/api/v1/session", ROLE_VIEWER, false, get_session,
     "The user of this session, and the CSRF token", "user, role, csrf", NULL},
    {"GET", "/api/v1/summary", ROLE_VIEWER, false, get_summary,
     "The network as found, counters, alarms by severity", "server, topology, found, alarms, ...",
     NULL},
    {"GET", "/api/v1/topology", ROLE_VIEWER, false, get_topology,
     "All chips as columns of numbers, all links as pairs of ports",
     "name, nrc, nic, level[], cabinet[], ..., links[]", NULL},
    {"GET", "/api/v1/state", ROLE_VIEWER, false, get_state,
     "One letter a chip (. good, w link alarm, h hot, m no answer, x dead, u unknown), links that "
     "are down, alarms",
     "chips, down[], alarms[]", NULL},
    {"GET", "/api/v1/stream", ROLE_VIEWER, false, NULL,
     "Server-sent events: a message whenever something changed, at most five a second",
     "version, alarms, reports, events", NULL},
    {"GET", "/api/v1/differences", ROLE_VIEWER, false, get_differences,
     "Links that are missing, and links that the topology does not have; at most 1000",
     "differences[], missing, other, unknown_chips, network", NULL},
    {"GET", "/api/v1/alarms", ROLE_VIEWER, false, get_alarms,
     "Active alarms; with all=1, also those that are over", "alarms[]", alarms_params},
    {"POST", "/api/v1/alarms/ack", ROLE_OPERATOR, true, post_ack, "Acknowledge an active alarm",
     NULL, ack_params},
    {"GET", "/api/v1/silences", ROLE_VIEWER, false, get_silences,
     "Places whose alerts are held back", "silences[]", NULL},
    {"POST", "/api/v1/silences", ROLE_OPERATOR, true, post_silence,
     "Hold back the alerts of a place, for 60 minutes or the given time", "id", silence_params},
    {"POST", "/api/v1/silences/delete", ROLE_OPERATOR, true, post_silence_delete, "End a silence",
     NULL, silence_delete_params},
    {"GET", "/api/v1/log", ROLE_VIEWER, false, get_log,
     "The log: alarms, starts and stops, discoveries with differences; for administrators also the "
     "changes by users",
     "log[]", log_params},
    {"GET", "/api/v1/events", ROLE_VIEWER, false, get_events, "The latest reports of chips",
     "events[]", events_params},
    {"GET", "/api/v1/samples", ROLE_VIEWER, false, get_samples, "History of counters", "samples[]",
     since_params},
    {"GET", "/api/v1/traffic", ROLE_VIEWER, false, get_traffic,
     "Requests, responses, reports; retries by level and chip", "levels[], top[], requests, ...",
     NULL},
    {"GET", "/api/v1/load", ROLE_VIEWER, false, get_load,
     "The load of links by level and job, and the ten most loaded ports",
     "time, seconds (0: no result yet), levels[], top[], jobs[]", NULL},
    {"GET", "/api/v1/load/links", ROLE_VIEWER, false, get_load_links,
     "The load of all ports of routers: a letter each, - unknown, A to / in the order of base64 "
     "for 0 "
     "to 100 percent",
     "use", NULL},
    {"POST", "/api/v1/jobs", ROLE_OPERATOR, true, post_job, "Set a job: hosts whose load is shown",
     NULL, job_params},
    {"POST", "/api/v1/jobs/delete", ROLE_OPERATOR, true, post_job_delete, "Forget a job", NULL,
     job_delete_params},
    {"GET", "/api/v1/past", ROLE_VIEWER, false, get_past,
     "The network at a time of the past; without time, only which times there are",
     "first, last, time, chips, down[], use, alarms[]", past_params},
    {"GET", "/api/v1/chip/history", ROLE_VIEWER, false, get_chip_history,
     "Temperature, new retries and CRC errors, and the most loaded port of a router",
     "time[], temperature[], retries[], crc_errors[], use[]", chip_history_params},
    {"GET", "/api/v1/inventory", ROLE_VIEWER, false, get_inventory,
     "Serial numbers and firmware of all chips; also as CSV, and as CSV for Netbox", "parts[]",
     inventory_params},
    {"POST", "/api/v1/inventory", ROLE_OPERATOR, true, post_inventory, "Read the inventory now",
     "failed", NULL},
    {"GET", "/api/v1/search", ROLE_VIEWER, false, get_search, "Chips whose name begins so",
     "chips[]", search_params},
    {"GET", "/api/v1/chip", ROLE_VIEWER, false, get_chip,
     "A chip: place, temperature, whether it answers", "chip, place, type, level, ...",
     chip_params},
    {"GET", "/api/v1/ports", ROLE_VIEWER, false, get_ports,
     "Its ports: link, lanes, counters, peer", "ports[]", chip_params},
    {"GET", "/api/v1/reg", ROLE_VIEWER, false, get_reg, "A register",
     "addr, value (hexadecimal text)", reg_params},
    {"POST", "/api/v1/reg", ROLE_ADMINISTRATOR, true, post_reg, "Write a register", NULL,
     reg_write_params},
    {"GET", "/api/v1/eeprom", ROLE_VIEWER, false, get_eeprom, "Bytes of its EEPROM",
     "addr, bytes (hexadecimal text)", eeprom_params},
    {"POST", "/api/v1/eeprom", ROLE_ADMINISTRATOR, true, post_eeprom, "Write bytes of its EEPROM",
     NULL, eeprom_write_params},
    {"GET", "/api/v1/trace", ROLE_OPERATOR, false, get_trace,
     "The path between two hosts through the chips' routing tables", "hops[]", trace_params},
    {"GET", "/api/v1/config", ROLE_OPERATOR, false, get_config,
     "Read the chips' configuration back: how many differ", "differ, hot_limit, retry_limit", NULL},
    {"POST", "/api/v1/config", ROLE_ADMINISTRATOR, true, post_config,
     "Push configuration to all chips of the region, and read it back", "failed, differ",
     config_params},
    {"POST", "/api/v1/discover", ROLE_OPERATOR, true, post_discover, "Discover the network again",
     "nrc, nic, links, real_seconds, modelled_seconds, requests", discover_params},
    {"POST", "/api/v1/scan", ROLE_OPERATOR, true, post_scan,
     "The full scan of the paper: so many requests to each NRC",
     "requests, failed, bits, real_seconds, modelled_seconds, ...", scan_params},
    {"POST", "/api/v1/poll", ROLE_OPERATOR, true, post_poll, "Poll now; change mode and interval",
     "failed, seconds", poll_params},
    {"POST", "/api/v1/routes", ROLE_ADMINISTRATOR, true, post_routes,
     "Routing tables: generate, load, verify, keep", "ok, chips, ...", routes_params},
    {"POST", "/api/v1/plan", ROLE_OPERATOR, true, post_plan,
     "The effects of draining a place, cutting a link, or adding a link between two ports",
     "id, hosts_lost, hosts_without_redundancy, routes_changed, tables_changed, writes, "
     "worst_load_before, worst_load_after, ...",
     plan_params},
    {"GET", "/api/v1/plan/picture", ROLE_VIEWER, false, get_plan_picture,
     "A plan as an SVG picture", "image", plan_id_params},
    {"POST", "/api/v1/plan/apply", ROLE_ADMINISTRATOR, true, post_apply,
     "Do a plan, if the network has not changed since", "tables_changed, writes, checked",
     plan_id_params},
    {"POST", "/api/v1/plan/undo", ROLE_ADMINISTRATOR, true, post_undo,
     "Undo the plan that was applied last", "tables_changed, writes, checked", NULL},
    {"GET", "/api/v1/plans", ROLE_VIEWER, false, get_plans, "The applied plans, the oldest first",
     "applied[]", NULL},
    {"POST", "/api/v1/bist", ROLE_OPERATOR, true, post_bist,
     "Test links: of a port, chip, switch, cabinet, or all",
     "links, tested, rounds, bad, bridges, failed, bits, errors", bist_params},
    {"GET", "/api/v1/layout", ROLE_VIEWER, false, get_layout,
     "The layout of the page as people changed it", "cabinets", NULL},
    {"POST", "/api/v1/layout", ROLE_OPERATOR, true, post_layout, "Keep a layout", NULL,
     layout_params},
    {"GET", "/api/v1/users", ROLE_ADMINISTRATOR, false, get_users, "Names and roles", "users[]",
     NULL},
    {"POST", "/api/v1/users", ROLE_ADMINISTRATOR, true, post_user,
     "Add a user, or change role and password", NULL, user_params},
    {"POST", "/api/v1/users/delete", ROLE_ADMINISTRATOR, true, post_user_delete, "Remove a user",
     NULL, user_delete_params},
    {NULL, NULL, ROLE_NONE, false, NULL, NULL, NULL, NULL},
};

const struct api *api_find(const char *method, const char *path, bool *other_method)
{
    const struct api *a;

    *other_method = false;
    for (a = api_calls; a->path != NULL; a++) {
        if (strcmp(path, a->path) == 0) {
            if (strcmp(method, a->method) == 0) {
                return a;
            }
            *other_method = true;
        }
    }
    return NULL;
}
