/* Collects the data of glex_info with glex_inspect_*(), without disturbing a running job. */
#include "info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *info_type_name(enum glex_ep_type type)
{
    static const char *const names[] = {
        [GLEX_EP_TYPE_FAST] = "fast",
        [GLEX_EP_TYPE_NORMAL] = "normal",
        [GLEX_EP_TYPE_EMULATE] = "emulate",
        [GLEX_EP_TYPE_MANAGEMENT] = "management",
    };

    /* the type comes from a file that any process of this user may have written */
    return ((unsigned)type < sizeof(names) / sizeof(names[0])) ? names[type] : "unknown";
}

const char *info_state_name(enum glex_inspect_state state)
{
    return (state == GLEX_INSPECT_LIVING) ? "alive" :
           (state == GLEX_INSPECT_DEAD)   ? "dead" :
                                            "damaged";
}

void info_command(const struct glex_inspect_ep *ep, char command[17])
{
    int i;

    for (i = 0; i < 16 && ep->command[i] != '\0'; i++) {
        command[i] = (ep->command[i] < ' ' || ep->command[i] > '~') ? '?' : ep->command[i];
    }
    command[i] = '\0';
}

double info_age(const struct glex_inspect_ep *ep)
{
    struct timespec now;
    double age;

    clock_gettime(CLOCK_REALTIME, &now);
    age = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - (double)ep->start_time * 1e-9;
    return (age > 0) ? age : 0;
}

bool info_collect_devices(struct info *info)
{
    glex_ret_t ret;
    uint32_t num, i;

    ret = glex_num_of_device(&num);
    if (ret != GLEX_SUCCESS) {
        tool_error("cannot tell how many devices there are: %s", glex_error_str(ret));
        return false;
    }
    info->devices = calloc(num + 1ul, sizeof(*info->devices));
    if (info->devices == NULL) {
        tool_error("no memory for %u devices", num);
        return false;
    }
    for (i = 0; i < num; i++) {
        info->devices[i].index = i;
        ret = glex_inspect_device(i, &info->devices[i].attr, &info->devices[i].ext);
        if (ret != GLEX_SUCCESS) {
            tool_error("device %u cannot be used: %s", i,
                       (ret == GLEX_SYS_ERR) ? strerror(errno) : glex_error_str(ret));
            return false;
        }
        info->num_devices++;
    }
    return true;
}

/* Makes room for a further element at the end of an array. A full array doubles. */
static void *grow(void *array, uint32_t num, size_t size)
{
    void *larger = ((num & (num + 1)) == 0) ? realloc(array, (num + 1ul) * 2 * size) : array;

    if (larger == NULL) {
        tool_error("no memory for %u entries", num + 1);
        exit(TOOL_EXIT_FAIL);
    }
    return larger;
}

static bool add_ep(const struct glex_inspect_ep *ep, void *arg)
{
    struct info *info = arg;

    info->eps = grow(info->eps, info->num_eps, sizeof(*info->eps));
    info->eps[info->num_eps++] = *ep;
    return true;
}

static bool add_other(const char *name, void *arg)
{
    struct info *info = arg;

    if (info_is_name(name)) {
        return true;
    }
    info->others = grow(info->others, info->num_others, sizeof(*info->others));
    info->others[info->num_others] = strdup(name);
    info->num_others += (info->others[info->num_others] != NULL);
    return true;
}

void info_add_name(struct info *info, const char *file)
{
    info->names = grow(info->names, info->num_names, sizeof(*info->names));
    info->names[info->num_names] = strdup(file);
    info->num_names += (info->names[info->num_names] != NULL);
}

static void add_removal(const struct glex_inspect_ep *ep, bool removed, void *arg)
{
    struct info *info = arg;

    info->removals = grow(info->removals, info->num_removals, sizeof(*info->removals));
    info->removals[info->num_removals].ep = *ep;
    info->removals[info->num_removals++].removed = removed;
}

static int compare_eps(const void *a, const void *b)
{
    const struct glex_inspect_ep *x = a, *y = b;

    return strcmp(x->name, y->name); /* numbers of fixed width, NIC first */
}

static bool report_left(const struct info *info)
{
    const struct glex_inspect_ep *ep;
    bool ok = true;
    uint32_t i;

    for (i = 0; i < info->num_removals; i++) {
        ep = &info->removals[i].ep;
        if (!info->removals[i].removed) {
            tool_error("%s/%s could not be removed%s%s", info->fabric.path, ep->name,
                       ep->problem ? ": it is " : "", ep->problem ? ep->problem : "");
            ok = false;
        }
    }
    return ok;
}

bool info_collect_fabric(struct info *info, bool clean)
{
    glex_ret_t ret = GLEX_SUCCESS;
    int err;

    if (clean) {
        ret = glex_inspect_clean(add_removal, info);
    }
    if (ret == GLEX_SUCCESS) {
        ret = glex_inspect_endpoints(add_ep, info);
    }
    if (ret == GLEX_SUCCESS) {
        ret = glex_inspect_others(add_other, info);
    }
    err = errno;
    glex_inspect_fabric(&info->fabric);
    if (ret != GLEX_SUCCESS) {
        tool_error("cannot read the fabric %s: %s", info->fabric.path,
                   (ret == GLEX_SYS_ERR) ? strerror(err) : glex_error_str(ret));
        return false;
    }
    if (info->num_eps != 0) {
        qsort(info->eps, info->num_eps, sizeof(*info->eps), compare_eps);
    }
    return report_left(info);
}

void info_free_fabric(struct info *info)
{
    uint32_t i;

    for (i = 0; i < info->num_others; i++) {
        free(info->others[i]);
    }
    for (i = 0; i < info->num_names; i++) {
        free(info->names[i]);
    }
    free(info->others);
    free(info->names);
    free(info->eps);
    free(info->removals);
    info->others = NULL;
    info->names = NULL;
    info->eps = NULL;
    info->removals = NULL;
    info->num_others = 0;
    info->num_names = 0;
    info->num_eps = 0;
    info->num_removals = 0;
}

void info_free(struct info *info)
{
    info_free_fabric(info);
    free(info->devices);
    info->devices = NULL;
    info->num_devices = 0;
}
