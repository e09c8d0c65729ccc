/* The configuration file of inmd; inmd.conf(5) describes the options. */
#ifndef INM_CONFIG_H
#define INM_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INM_MAX_PEERS  8
#define INM_MAX_ALERTS 16

/* Another server, which manages another range of cabinets. */
struct inm_peer_config {
    char name[32];
    char url[160];                        /* http://host:port, https://host:port or unix:/path */
    uint32_t first_cabinet, last_cabinet; /* its region */
    uint32_t rank; /* the living server of the lowest rank takes a region over */
};

/* Alarms that are sent, and where to. */
struct inm_alert_config {
    char name[32];
    uint32_t severity;         /* the lowest; enum inm_severity */
    char cause[32], place[32]; /* empty: all */
    uint32_t after_s;          /* an alarm has to be active for so long */
    uint32_t repeat_s;         /* until it is sent again; 0: never */
    char url[256];             /* of a webhook */
    char command[256];         /* command that reads the text of an alarm */
};

struct inm_config {
    char name[32];
    char topology[256];
    char fabric[108]; /* socket of the network */
    uint32_t nic;     /* id of this host's NIC; INM_NONE: the topology's server */
    uint32_t window, timeout_ms, retries;
    char address[64];
    uint32_t port;    /* 0: no TCP */
    char socket[108]; /* for local commands */
    char tls_cert[256], tls_key[256];
    char database[256];
    uint32_t keep_days;
    uint32_t poll_ms;
    char poll_mode[8];
    char host_names[256];      /* allowed in the Host header, separated by commas or spaces */
    char trusted_proxies[256]; /* addresses whose headers name the client */
    char user_header[64];      /* of a trusted proxy; empty: no single sign-on */
    char user_role[16];        /* of users of the proxy without a role of their own */
    uint32_t session_minutes, login_tries, rate_per_second;
    uint32_t hot_limit, retry_limit;
    uint32_t first_cabinet, last_cabinet, rank;
    uint32_t heartbeat_ms, heartbeat_misses;
    struct inm_peer_config peers[INM_MAX_PEERS];
    uint32_t num_peers;
    struct inm_alert_config alerts[INM_MAX_ALERTS];
    uint32_t num_alerts;
};

/** Reads a configuration file. @return false with `error` set; the text names the line. */
bool config_read(const char *path, struct inm_config *config, char *error, size_t size);

#endif
