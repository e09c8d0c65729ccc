#include "model.h"

#include <json-c/json.h>

static const char *owner_name(const struct check_model *model, int link, int *port_p)
{
    int owner = mcsm_graph_owner(model->graph, link);

    *port_p = link - model->graph->sw[owner].first_link;
    return model->switch_count > 0 ? model->switches[owner]->desc : "";
}

void check_print(const struct check_model *model, const struct check_report *report, FILE *out)
{
    int port;
    const char *name = owner_name(model, report->max_load_link, &port);

    fprintf(out, "clusters          %zu\n", model->cluster_count);
    fprintf(out, "switches          %d\nend nodes         %d\n", model->switch_count,
            model->host_count);
    fprintf(out, "pairs             %lu, of them reachable %lu\n", report->pairs,
            report->reachable);
    fprintf(out, "lost, loops       %lu, %lu\n", report->lost, report->loops);
    fprintf(out, "hidden            %lu (hosts and LIDs of switches of another cluster)\n",
            report->hidden);
    fprintf(out, "switches passed   at most %u, on average %.2f\n", report->hops_max,
            report->reachable ? (double)report->hops_sum / report->reachable : 0.0);
    fprintf(out, "load of a link    at most %lu pairs (%s port %d), on average %.1f\n",
            report->max_load, name, port,
            report->loaded_links ? (double)report->load_sum / report->loaded_links : 0.0);
    fprintf(out, "credit loops      %s\n", report->credit_loop > 0 ? "yes" : "none");
    fprintf(out, "LID conflicts     %u\nborders of one side %u\n", report->lid_conflicts,
            report->one_sided_borders);
    fprintf(out, "multicast         %u groups, %u loops, %u one-way links\n", report->groups,
            report->multicast_loops, report->multicast_cut);
    fprintf(out, "%s\n", check_is_good(report) ? "good" : "FAULTY");
}

void check_print_json(const struct check_model *model, const struct check_report *report, FILE *out)
{
    struct json_object *json = json_object_new_object(), *hops = json_object_new_object();
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"clusters", model->cluster_count},
                   {"switches", model->switch_count},
                   {"end_nodes", model->host_count},
                   {"pairs", report->pairs},
                   {"reachable", report->reachable},
                   {"lost", report->lost},
                   {"hidden", report->hidden},
                   {"loops", report->loops},
                   {"hops_max", report->hops_max},
                   {"max_load", report->max_load},
                   {"loaded_links", report->loaded_links},
                   {"lid_conflicts", report->lid_conflicts},
                   {"one_sided_borders", report->one_sided_borders},
                   {"groups", report->groups},
                   {"multicast_loops", report->multicast_loops},
                   {"multicast_cut", report->multicast_cut},
                   {"credit_loop", report->credit_loop > 0 ? report->credit_loop : 0}};
    char key[12];

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        json_object_object_add(json, numbers[i].key, json_object_new_int64(numbers[i].value));
    }
    for (int i = 0; i < 256; i++) {
        snprintf(key, sizeof(key), "%d", i);
        if (report->by_hops[i] > 0) {
            json_object_object_add(hops, key, json_object_new_int64(report->by_hops[i]));
        }
    }
    json_object_object_add(json, "pairs_by_hops", hops);
    json_object_object_add(json, "seconds", json_object_new_double(report->seconds));
    json_object_object_add(json, "good", json_object_new_boolean(check_is_good(report)));
    fprintf(out, "%s\n", json_object_to_json_string_ext(json, JSON_C_TO_STRING_PRETTY));
    json_object_put(json);
}
