/* Calls for plans: make, show as a picture, apply, undo. */
#include "handlers.h"
#include "inm/server/act/plan.h"

#include <stdio.h>
#include <string.h>

#define MAX_NAMES 1000 /* hosts that a reply names */

static struct json_object *host_names(const struct inmd *d, const struct inm_plan *plan,
                                      uint8_t kind)
{
    struct json_object *list = json_object_new_array();
    char name[INM_NAME_MAX];
    uint32_t nic;

    for (nic = 0; nic < d->topo->num_nic && json_object_array_length(list) < MAX_NAMES; nic++) {
        if (plan->host[nic] == kind) {
            json_object_array_add(
                list, json_object_new_string(inm_chip_name(d->topo, d->topo->num_nrc + nic, name)));
        }
    }
    return list;
}

static void put_link(struct json_object *o, const struct inmd *d, const char *name, uint32_t port)
{
    char text[INM_NAME_MAX];

    if (port != INM_NONE) {
        PUT_TEXT(o, name, inm_port_name(d->topo, port, text));
    } else {
        json_object_object_add(o, name, NULL);
    }
}

static struct json_object *plan_json(const struct inmd *d, const struct inm_plan *p)
{
    struct json_object *o = json_object_new_object();

    PUT_INT(o, "id", p->id);
    PUT_TEXT(o, "action", plan_action_name(p->action));
    PUT_TEXT(o, "target", p->target);
    PUT_TEXT(o, "other", p->other);
    PUT_INT(o, "chips_drained", p->chips);
    PUT_INT(o, "hosts_lost", p->hosts_lost);
    PUT_INT(o, "hosts_without_redundancy", p->hosts_fragile);
    PUT_INT(o, "routers_cut_off", p->routers_cut_off);
    PUT_INT(o, "routes_changed", p->changes.entries);
    PUT_INT(o, "tables_changed", p->changes.chips);
    PUT_INT(o, "writes", p->changes.writes);
    PUT_REAL(o, "worst_load_before", p->load_before);
    PUT_REAL(o, "worst_load_after", p->load_after);
    put_link(o, d, "worst_link_before", p->worst_before);
    put_link(o, d, "worst_link_after", p->worst_after);
    PUT_BOOL(o, "deadlock_free", p->deadlock_free);
    json_object_object_add(o, "lost", host_names(d, p, 1));
    json_object_object_add(o, "without_redundancy", host_names(d, p, 2));
    return o;
}

void post_plan(struct call *call)
{
    const struct inm_plan *plan;
    char error[200];

    if (call_begin_long(call)) {
        plan = plan_make(call->d, plan_action_parse(call_text(call, "action")),
                         call_text(call, "target"), call_text(call, "other"), error, sizeof(error));
        if (plan != NULL) {
            call->reply = plan_json(call->d, plan);
        } else {
            call_error(call, 422, "%s", error);
        }
        call_end_long(call);
    }
}

static void reply_result(struct call *call, bool ok, const struct route_result *r)
{
    if (!ok) {
        call_error(call, 409, "%s", r->message);
        return;
    }
    call->reply = json_object_new_object();
    PUT_INT(call->reply, "tables_changed", r->chips);
    PUT_INT(call->reply, "writes", r->runs);
    PUT_INT(call->reply, "checked", r->checked);
    PUT_REAL(call->reply, "seconds", r->seconds);
}

void post_apply(struct call *call)
{
    struct route_result r;
    bool ok;

    if (call_begin_long(call)) {
        ok = plan_apply(call->d, (uint32_t)call_number(call, "id", 0), &r);
        reply_result(call, ok, &r);
        call_end_long(call);
    }
}

void post_undo(struct call *call)
{
    struct route_result r;
    bool ok;

    if (call_begin_long(call)) {
        ok = plan_undo(call->d, &r);
        reply_result(call, ok, &r);
        call_end_long(call);
    }
}

void get_plans(struct call *call)
{
    struct json_object *list = json_object_new_array(), *o;
    const struct inm_applied *applied;
    uint32_t i, num;

    pthread_mutex_lock(&call->d->lock);
    num = plan_applied(call->d, &applied);
    for (i = 0; i < num; i++) {
        o = json_object_new_object();
        PUT_REAL(o, "time", applied[i].when);
        PUT_TEXT(o, "action", plan_action_name(applied[i].action));
        PUT_TEXT(o, "target", applied[i].target);
        PUT_TEXT(o, "other", applied[i].other);
        json_object_array_add(list, o);
    }
    pthread_mutex_unlock(&call->d->lock);
    call->reply = json_object_new_object();
    json_object_object_add(call->reply, "applied", list);
}

/* ---- the picture ----------------------------------------------------------------------------- */

#define BAR_X 190
#define BAR_W 380

/* Two bars: the most loaded link of a level and direction, before and after. */
static void draw_level(FILE *out, uint32_t level, unsigned direction, const struct inm_plan *p,
                       double most, int y)
{
    double before = p->level_before[level][direction], after = p->level_after[level][direction];

    fprintf(out,
            "<text x=\"%d\" y=\"%d\" class=\"name\">%s, %s</text>"
            "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"9\" class=\"before\"/>"
            "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"9\" class=\"%s\"/>"
            "<text x=\"%.1f\" y=\"%d\">%.0f</text><text x=\"%.1f\" y=\"%d\">%.0f</text>\n",
            BAR_X - 10, y + 14, inm_level_name(level), direction == 0 ? "up" : "down", BAR_X, y,
            BAR_W * before / most, BAR_X, y + 11, BAR_W * after / most,
            after > before * 1.0001 ? "more" : "after", BAR_X + BAR_W * before / most + 6, y + 9,
            before, BAR_X + BAR_W * after / most + 6, y + 20, after);
}

static void draw_plan(FILE *out, const struct inm_plan *p)
{
    double most = p->load_before > p->load_after ? p->load_before : p->load_after;
    int y = 150;
    uint32_t level;
    unsigned k;

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 680 430\" width=\"680\" "
            "height=\"430\" role=\"img\"><title>Plan %u: %s %s %s</title><style>"
            "svg{background:#fff;font:13px sans-serif}text{fill:#1d2733}.name{text-anchor:end}"
            ".title{font-size:18px;font-weight:600}.dim{fill:#51606f}.before{fill:#9aa7b4}"
            ".after{fill:#2474b5}.more{fill:#c4502b}"
            "@media(prefers-color-scheme:dark){svg{background:#19212b}text{fill:#e4eaf1}"
            ".dim{fill:#a9b6c4}.before{fill:#6d7c8c}.after{fill:#5aa9ef}.more{fill:#ef7d33}}"
            "</style>\n",
            p->id, plan_action_name(p->action), p->target, p->other);
    fprintf(out, "<text x=\"20\" y=\"32\" class=\"title\">Plan %u: %s %s %s</text>\n", p->id,
            plan_action_name(p->action), p->target, p->other);
    fprintf(out,
            "<text x=\"20\" y=\"58\">%u hosts lose their connection, %u their redundancy; %u "
            "routers are cut off from the server.</text>\n",
            p->hosts_lost, p->hosts_fragile, p->routers_cut_off);
    fprintf(out,
            "<text x=\"20\" y=\"78\">%llu routes change in the tables of %u routers, by %u "
            "writes.</text>\n",
            (unsigned long long)p->changes.entries, p->changes.chips, p->changes.writes);
    fprintf(out,
            "<text x=\"20\" y=\"98\">Most loaded link: %.0f pairs of hosts before, %.0f after "
            "(%+.1f %%).</text>\n",
            p->load_before, p->load_after,
            p->load_before > 0 ? (p->load_after / p->load_before - 1) * 100 : 0);
    fprintf(out, "<text x=\"20\" y=\"128\" class=\"dim\">Pairs of hosts on the most loaded link of "
                 "each level, before (grey) and after (blue; orange: more)</text>\n");
    for (level = INM_LEVEL_BOTTOM_EDGE; level < INM_LEVEL_NUM; level++) {
        for (k = 0; k < 2; k++) {
            if (most > 0 && (p->level_before[level][k] > 0 || p->level_after[level][k] > 0)) {
                draw_level(out, level, k, p, most, y);
                y += 30;
            }
        }
    }
    fprintf(out, "</svg>\n");
}

void get_plan_picture(struct call *call)
{
    const struct inm_plan *plan;
    FILE *out;

    if (!call_begin_long(call)) {
        return;
    }
    plan = plan_find(call->d, (uint32_t)call_number(call, "id", 0));
    out = plan != NULL ? open_memstream(&call->text, &call->text_len) : NULL;
    if (out != NULL) {
        draw_plan(out, plan);
        fclose(out);
        call->type = "image/svg+xml";
    } else {
        call_error(call, plan == NULL ? 404 : 500, "%s",
                   plan == NULL ? "no plan has this number" : "no memory");
    }
    call_end_long(call);
}
