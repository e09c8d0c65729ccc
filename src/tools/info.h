/*
 * glex_info: shows a fabric. First collects data (info_collect.c), then prints it for people
 * (info_print.c) or programs (info_json.c).
 */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include "tool.h"

#include <api/inspect.h>

struct info_options {
    bool json;
    bool clean;
    bool all; /* fabrics */
    bool verbose;
    bool devices; /* without the endpoints */
    double watch; /* seconds between two looks, or 0: one look */
};

struct info_device {
    uint32_t index;
    struct glex_device_attr attr;
    struct glex_ext_device_attr ext;
};

/* A segment of a dead owner that was removed, or could not be removed. */
struct info_removal {
    struct glex_inspect_ep ep;
    bool removed;
};

struct info {
    struct glex_inspect_fabric fabric;
    uint32_t num_devices;
    struct info_device *devices;
    uint32_t num_eps;
    struct glex_inspect_ep *eps; /* by address */
    uint32_t num_removals;
    struct info_removal *removals;
    uint32_t num_names;
    char **names; /* files of names that were removed */
    uint32_t num_others;
    char **others; /* files that are not libglex's */
};

/** Both return false, with a message, where not all could be found out. */
bool info_collect_devices(struct info *info);
bool info_collect_fabric(struct info *info, bool clean);

/** Whether a file of the fabric is the name of an endpoint of the libfabric provider. */
bool info_is_name(const char *file);

/** Copies the file of a removed name into info->names. */
void info_add_name(struct info *info, const char *file);

typedef void (*info_name_fn)(struct info *info, const char *file);

/** Removes the names whose owners are dead, and calls `removed` for each removed file. Returns false, with a
 * message, if a name could not be removed. */
bool info_clean_names(struct info *info, info_name_fn removed);

/* Looks once at the fabric that GLEX_FABRIC names. */
typedef bool (*info_look_fn)(const struct info_options *options);

/** Visits every fabric of this user, as root of all users. Returns false, with a message, if a
 * fabric could not be visited. */
bool info_all(const struct info_options *options, info_look_fn look);

void info_free_fabric(struct info *info);
void info_free(struct info *info);

void info_print(const struct info *info, const struct info_options *options);
void info_print_json(const struct info *info, const struct info_options *options);

/** Prints the functions of the vendor's interface that this NIC supports. */
void info_print_api(void);

const char *info_type_name(enum glex_ep_type type);
const char *info_state_name(enum glex_inspect_state state);

/** The name of an owner's command, without characters that would disturb a terminal. */
void info_command(const struct glex_inspect_ep *ep, char command[17]);

/** Seconds since the endpoint was made, by this machine's clock. */
double info_age(const struct glex_inspect_ep *ep);

#endif
