/*
 * glex_info's output for people.
 */
#include "info.h"

#define TEXT 24 /* any number with its unit */

/* A number of bytes as people write it. */
static const char *bytes_text(uint64_t bytes, char text[TEXT])
{
    static const char units[] = "BKMGTPE";
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1000 && unit < sizeof(units) - 2) {
        value /= 1024;
        unit++;
    }
    snprintf(text, TEXT, (unit == 0 || value >= 10) ? "%.0f %c%s" : "%.1f %c%s", value, units[unit],
             unit ? "iB" : "");
    return text;
}

static const char *age_text(double age, char text[TEXT])
{
    unsigned long seconds = (unsigned long)age;

    if (seconds < 60) {
        snprintf(text, TEXT, "%lus", seconds);
    } else if (seconds < 3600) {
        snprintf(text, TEXT, "%lum%02lus", seconds / 60, seconds % 60);
    } else if (seconds < 100 * 3600) {
        snprintf(text, TEXT, "%luh%02lum", seconds / 3600, seconds / 60 % 60);
    } else {
        snprintf(text, TEXT, "%lud", seconds / 86400);
    }
    return text;
}

static void print_device(const struct info_device *device)
{
    static const struct {
        uint32_t cap;
        const char *name;
    } caps[] = {
        {GLEX_EXT_CAP_MAP, "memory that peers map"},
        {GLEX_EXT_CAP_PRIVATE_RDMA, "RDMA to private memory"},
        {GLEX_EXT_CAP_SLEEP, "a descriptor to sleep on"},
        {GLEX_EXT_CAP_COLL, "collective offload"},
    };
    const struct glex_device_attr *attr = &device->attr;
    size_t i;

    printf("device %u  NIC %08x\n", device->index, attr->nic_id);
    for (i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
        printf("  %-24s %s\n", caps[i].name, (device->ext.caps & caps[i].cap) ? "yes" : "no");
    }
    if (device->ext.missing[0] != '\0') {
        printf("  %-24s %.*s\n", "why not", (int)sizeof(device->ext.missing), device->ext.missing);
    }
    printf("  %-24s %s\n", "other hosts",
           device->ext.network != 0 ? device->ext.network_text :
                                      "not reached: GLEX_NET is not set");
    printf("  %-24s %u fast, %u normal, %u emulate\n", "endpoints, at most", attr->max_fast_ep_num,
           attr->max_ep_num, attr->max_emulate_ep_num);
    printf("  %-24s MPQ %u (at most %u), EQ %u (at most %u)\n", "queue capacities",
           attr->def_ep_mpq_capacity, attr->max_ep_mpq_capacity, attr->def_ep_eq_capacity,
           attr->max_ep_eq_capacity);
    printf("  %-24s message %u, immediate put %u, RDMA %u\n", "bytes, at most",
           attr->max_imm_mp_data_len, attr->max_imm_rdma_data_len, attr->max_rdma_data_len);
}

static void print_counters(const struct glex_inspect_ep *ep)
{
    const char *name, *comma = "";
    uint64_t value;
    uint32_t i;

    printf("      ");
    for (i = 0; (name = glex_inspect_counter(&ep->counters, i, &value)) != NULL; i++) {
        if (value != 0) {
            printf("%s %s %llu", comma, name, (unsigned long long)value);
            comma = ",";
        }
    }
    puts(*comma ? "" : " no traffic");
}

static void print_ring(const char *name, const struct glex_inspect_ring *ring, uint64_t high)
{
    printf("       %s %u of %u in use: head %llu, tail %llu, most %llu%s\n", name, ring->used,
           ring->capacity, (unsigned long long)ring->head, (unsigned long long)ring->tail,
           (unsigned long long)high, ring->asleep ? ", owner asleep on it" : "");
}

static bool print_peer(const struct glex_inspect_peer *peer, void *arg)
{
    (void)arg;
    printf("       peer %u.%u.%u.%u endpoint %u: to it %s, %llu requests, %llu open, %llu failed; "
           "from it %s, %llu requests\n",
           peer->ip >> 24, peer->ip >> 16 & 255, peer->ip >> 8 & 255, peer->ip & 255,
           peer->addr.ep_num, peer->to != NULL ? peer->to : "no connection",
           (unsigned long long)peer->sent, (unsigned long long)peer->open,
           (unsigned long long)peer->failed, peer->from != NULL ? peer->from : "no connection",
           (unsigned long long)peer->received);
    return true;
}

static void print_details(const struct glex_inspect_ep *ep)
{
    char memory[TEXT];

    printf("       address 0x%016llx, posts to %u peers\n", (unsigned long long)ep->addr.v,
           ep->peers);
    print_ring("MPQ", &ep->mpq, ep->counters.mpq_high);
    print_ring("EQ", &ep->eq, ep->counters.eq_high);
    printf("       %u registrations, %s\n", ep->registrations,
           bytes_text(ep->registered_bytes, memory));
    (void)glex_inspect_peers(ep, print_peer, NULL); /* none where the endpoint has ended since */
}

static void print_ep(const struct glex_inspect_ep *ep, bool verbose)
{
    char command[17], mpq[TEXT], eq[TEXT], memory[TEXT], age[TEXT];

    printf("%08x %5u  ", ep->addr.nic_id, ep->addr.ep_num);
    bytes_text(ep->bytes, memory);
    if (ep->state == GLEX_INSPECT_DAMAGED) {
        printf("%-8s %s, %s, %s\n", "damaged", ep->problem, ep->owned ? "in use" : "nobody's",
               memory);
        return;
    }
    info_command(ep, command);
    snprintf(mpq, sizeof(mpq), "%u/%u", ep->mpq.used, ep->mpq.capacity);
    snprintf(eq, sizeof(eq), "%u/%u", ep->eq.used, ep->eq.capacity);
    printf("%-8s %-7s %8u %-16s %8s %11s %11s %5u %9s\n", info_state_name(ep->state),
           info_type_name(ep->type), ep->pid, command, age_text(info_age(ep), age), mpq, eq,
           ep->registrations, memory);
    if (verbose) {
        print_details(ep);
    }
    print_counters(ep);
}

static void print_removals(const struct info *info)
{
    const struct glex_inspect_ep *ep;
    char command[17], memory[TEXT];
    uint32_t i, removed = 0;

    for (i = 0; i < info->num_removals; i++) {
        ep = &info->removals[i].ep;
        if (!info->removals[i].removed) {
            continue;
        }
        removed++;
        bytes_text(ep->bytes, memory);
        if (ep->state == GLEX_INSPECT_DAMAGED) {
            printf("removed %s, %s: %s\n", ep->name, memory, ep->problem);
        } else {
            info_command(ep, command);
            printf("removed %s, %s: its owner %s (pid %u) is dead\n", ep->name, memory, command,
                   ep->pid);
        }
    }
    for (i = 0; i < info->num_names; i++) {
        printf("removed %s: the owner of this name is dead\n", info->names[i]);
    }
    if (removed == 0 && info->num_names == 0) {
        puts("nothing to remove");
    }
}

static void print_fabric(const struct glex_inspect_fabric *fabric)
{
    char free_text[TEXT], total_text[TEXT];

    printf("fabric %s, libglex %s\n", fabric->name, glex_ext_version());
    printf("  %s%s\n", fabric->path,
           fabric->exists ? "" : " does not exist: nobody has an endpoint");
    if (fabric->space_known) {
        printf("  %s of %s free\n", bytes_text(fabric->space_free, free_text),
               bytes_text(fabric->space_total, total_text));
    } else {
        printf("  GLEX_SHM_DIR=%s is no directory that can be read\n", fabric->shm_dir);
    }
}

static void print_eps(const struct info *info, bool verbose)
{
    uint32_t i;

    if (info->num_eps == 0) {
        puts("no endpoints");
        return;
    }
    printf("%-8s %5s  %-8s %-7s %8s %-16s %8s %11s %11s %5s %9s\n", "NIC", "EP", "OWNER", "TYPE",
           "PID", "COMMAND", "AGE", "MPQ", "EQ", "REGS", "MEMORY");
    for (i = 0; i < info->num_eps; i++) {
        print_ep(&info->eps[i], verbose);
    }
}

/* Names come from other users, so control characters are removed before printing. */
static void print_others(const struct info *info)
{
    const char *c;
    uint32_t i;

    for (i = 0; i < info->num_others; i++) {
        printf("not of libglex, left alone: ");
        for (c = info->others[i]; *c != '\0'; c++) {
            putchar((*c < ' ' || *c > '~') ? '?' : *c);
        }
        putchar('\n');
    }
}

void info_print(const struct info *info, const struct info_options *options)
{
    uint32_t i;

    if (options->clean) {
        print_removals(info);
        return;
    }
    print_fabric(&info->fabric);
    for (i = 0; i < info->num_devices; i++) {
        print_device(&info->devices[i]);
    }
    if (!options->devices) {
        print_eps(info, options->verbose);
        print_others(info);
    }
}
