/*
 * Alerts: alarms that are sent to people. A rule of the configuration names the alarms, how long they
 * have to be active, and a target: a webhook in the format of Alertmanager, or a command that gets
 * the text on its standard input. Silences hold alerts of a place back for a time.
 */
#ifndef INM_ALERTS_H
#define INM_ALERTS_H

#include "inm/server/core/inmd.h"

#define MAX_SILENCES 64

struct inm_silence {
    uint32_t id;
    char place[32];
    double until;
    char user[64];
    char comment[200];
};

bool alerts_init(struct inmd *d);
void alerts_free(struct inmd *d);

/** Sends new alerts, and the end of alerts that were sent. Blocks while targets answer. */
void alerts_run(struct inmd *d);

/** @return The id; 0: there are MAX_SILENCES already. Takes the lock. */
uint32_t alerts_silence(struct inmd *d, const char *place, double until, const char *user,
                        const char *comment);
bool alerts_end_silence(struct inmd *d, uint32_t id);

/** With the lock held. */
uint32_t alerts_silences(const struct inmd *d, const struct inm_silence **silences);
bool alerts_silenced(const struct inmd *d, const char *place);

#endif
