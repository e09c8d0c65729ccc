/*
 * glex_info's output for programs: one JSON object.
 */
#include "info.h"

static void json_u64(const char *name, uint64_t value)
{
    printf(",\"%s\":%llu", name, (unsigned long long)value);
}

static void json_text(const char *name, const char *value)
{
    printf(",\"%s\":", name);
    tool_json_string(stdout, value);
}

static const char *json_bool(bool value)
{
    return value ? "true" : "false";
}

static void json_fabric(const struct glex_inspect_fabric *fabric)
{
    printf("\"fabric\":{\"name\":");
    tool_json_string(stdout, fabric->name);
    json_text("path", fabric->path);
    printf(",\"exists\":%s", json_bool(fabric->exists));
    if (fabric->space_known) {
        json_u64("free_bytes", fabric->space_free);
        json_u64("total_bytes", fabric->space_total);
    }
    printf("},\"libglex\":");
    tool_json_string(stdout, glex_ext_version());
}

static void json_device(const struct info_device *device)
{
    const struct glex_device_attr *attr = &device->attr;
    char missing[sizeof(device->ext.missing) + 1];

    snprintf(missing, sizeof(missing), "%.*s", (int)sizeof(device->ext.missing),
             device->ext.missing);
    printf("{\"index\":%u,\"nic_id\":%u", device->index, attr->nic_id);
    printf(",\"capabilities\":{\"map\":%s,\"private_rdma\":%s,\"sleep\":%s,\"coll\":%s}",
           json_bool(device->ext.caps & GLEX_EXT_CAP_MAP),
           json_bool(device->ext.caps & GLEX_EXT_CAP_PRIVATE_RDMA),
           json_bool(device->ext.caps & GLEX_EXT_CAP_SLEEP),
           json_bool(device->ext.caps & GLEX_EXT_CAP_COLL));
    json_text("missing", missing);
    json_text("network", device->ext.network_text);
    json_u64("max_fast_ep_num", attr->max_fast_ep_num);
    json_u64("max_ep_num", attr->max_ep_num);
    json_u64("max_emulate_ep_num", attr->max_emulate_ep_num);
    json_u64("mmt_units", attr->mmt_units);
    json_u64("max_imm_mp_data_len", attr->max_imm_mp_data_len);
    json_u64("max_imm_rdma_data_len", attr->max_imm_rdma_data_len);
    json_u64("max_rdma_data_len", attr->max_rdma_data_len);
    json_u64("def_ep_mpq_capacity", attr->def_ep_mpq_capacity);
    json_u64("max_ep_mpq_capacity", attr->max_ep_mpq_capacity);
    json_u64("def_ep_eq_capacity", attr->def_ep_eq_capacity);
    json_u64("max_ep_eq_capacity", attr->max_ep_eq_capacity);
    putchar('}');
}

static void json_ring(const char *name, const struct glex_inspect_ring *ring)
{
    printf(",\"%s\":{\"capacity\":%u,\"used\":%u,\"head\":%llu,\"tail\":%llu,\"asleep\":%s}", name,
           ring->capacity, ring->used, (unsigned long long)ring->head,
           (unsigned long long)ring->tail, json_bool(ring->asleep));
}

static void json_counters(const struct glex_inspect_ep *ep)
{
    const char *name;
    uint64_t value;
    uint32_t i;

    printf(",\"counters\":{");
    for (i = 0; (name = glex_inspect_counter(&ep->counters, i, &value)) != NULL; i++) {
        printf("%s\"%s\":%llu", i ? "," : "", name, (unsigned long long)value);
    }
    putchar('}');
}

static bool json_peer(const struct glex_inspect_peer *peer, void *arg)
{
    const char **comma = arg;

    printf("%s{\"nic_id\":%u,\"ep_num\":%u,\"ip\":\"%u.%u.%u.%u\"", *comma, peer->addr.nic_id,
           peer->addr.ep_num, peer->ip >> 24, peer->ip >> 16 & 255, peer->ip >> 8 & 255,
           peer->ip & 255);
    json_text("to", peer->to != NULL ? peer->to : "");
    json_text("from", peer->from != NULL ? peer->from : "");
    json_u64("sent", peer->sent);
    json_u64("open", peer->open);
    json_u64("failed", peer->failed);
    json_u64("received", peer->received);
    putchar('}');
    *comma = ",";
    return true;
}

static void json_peers(const struct glex_inspect_ep *ep)
{
    const char *comma = "";

    printf(",\"other_hosts\":[");
    (void)glex_inspect_peers(ep, json_peer, &comma); /* none where the endpoint has ended since */
    putchar(']');
}

/* The address is text: it does not fit the numbers of every JSON reader. */
static void json_ep(const struct glex_inspect_ep *ep)
{
    printf("{\"nic_id\":%u,\"ep_num\":%u,\"address\":\"0x%016llx\",\"state\":\"%s\"",
           ep->addr.nic_id, ep->addr.ep_num, (unsigned long long)ep->addr.v,
           info_state_name(ep->state));
    printf(",\"owned\":%s", json_bool(ep->owned));
    json_u64("file_bytes", ep->file_bytes);
    json_u64("memory_bytes", ep->bytes);
    if (ep->state == GLEX_INSPECT_DAMAGED) {
        json_text("problem", ep->problem);
    } else {
        json_text("type", info_type_name(ep->type));
        json_u64("pid", ep->pid);
        json_text("command", ep->command);
        printf(",\"start_time\":%.3f", (double)ep->start_time * 1e-9);
        json_ring("mpq", &ep->mpq);
        json_ring("eq", &ep->eq);
        json_u64("registrations", ep->registrations);
        json_u64("registered_bytes", ep->registered_bytes);
        json_u64("peers", ep->peers);
        json_counters(ep);
        json_peers(ep);
    }
    putchar('}');
}

static void json_removals(const struct info *info)
{
    const char *comma = "";
    uint32_t i;

    printf(",\"removed\":[");
    for (i = 0; i < info->num_removals; i++) {
        if (info->removals[i].removed) {
            fputs(comma, stdout);
            json_ep(&info->removals[i].ep);
            comma = ",";
        }
    }
    printf("],\"removed_names\":[");
    for (i = 0; i < info->num_names; i++) {
        fputs(i ? "," : "", stdout);
        tool_json_string(stdout, info->names[i]);
    }
    putchar(']');
}

void info_print_json(const struct info *info, const struct info_options *options)
{
    uint32_t i;

    putchar('{');
    json_fabric(&info->fabric);
    printf(",\"devices\":[");
    for (i = 0; i < info->num_devices; i++) {
        fputs(i ? "," : "", stdout);
        json_device(&info->devices[i]);
    }
    printf("],\"endpoints\":[");
    for (i = 0; i < info->num_eps; i++) {
        fputs(i ? "," : "", stdout);
        json_ep(&info->eps[i]);
    }
    printf("],\"other_files\":[");
    for (i = 0; i < info->num_others; i++) {
        fputs(i ? "," : "", stdout);
        tool_json_string(stdout, info->others[i]);
    }
    putchar(']');
    if (options->clean) {
        json_removals(info);
    }
    puts("}");
}
