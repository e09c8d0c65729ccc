/* The functions behind the calls of the HTTP interface. */
#ifndef INM_HANDLERS_H
#define INM_HANDLERS_H

#include "call.h"

#define EEPROM_CALL 4096 /* bytes of an EEPROM that one call reads or writes at most */

void get_health(struct call *call);
void get_metrics(struct call *call);
void get_session(struct call *call);
void get_summary(struct call *call);
void get_topology(struct call *call);
void get_alarms(struct call *call);
void get_state(struct call *call);
void get_differences(struct call *call);
void get_events(struct call *call);
void get_log(struct call *call);
void get_users(struct call *call);
void get_samples(struct call *call);
void get_chip(struct call *call);
void get_ports(struct call *call);
void get_reg(struct call *call);
void get_eeprom(struct call *call);
void get_trace(struct call *call);
void get_traffic(struct call *call);
void get_search(struct call *call);
void get_layout(struct call *call);
void get_config(struct call *call);
void post_login(struct call *call);
void post_logout(struct call *call);
void post_discover(struct call *call);
void post_scan(struct call *call);
void post_poll(struct call *call);
void post_config(struct call *call);
void post_routes(struct call *call);
void post_bist(struct call *call);
void post_reg(struct call *call);
void post_eeprom(struct call *call);
void post_ack(struct call *call);
void post_user(struct call *call);
void post_user_delete(struct call *call);
void post_layout(struct call *call);
void post_plan(struct call *call);
void post_apply(struct call *call);
void post_undo(struct call *call);
void get_plans(struct call *call);
void get_plan_picture(struct call *call);
void get_load(struct call *call);
void get_load_links(struct call *call);
void post_job(struct call *call);
void post_job_delete(struct call *call);
void get_past(struct call *call);
void get_chip_history(struct call *call);
void get_inventory(struct call *call);
void post_inventory(struct call *call);
void get_silences(struct call *call);
void post_silence(struct call *call);
void post_silence_delete(struct call *call);

#endif
