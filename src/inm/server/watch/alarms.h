/* From conditions to alarms. */
#ifndef INM_ALARMS_H
#define INM_ALARMS_H

#include "inm/server/core/inmd.h"

/** With the lock held: computes the alarms; records which ones are new and which are over. */
void alarms_update(struct inmd *d);

/**
 * With the lock held: writes a letter for each chip, and a zero behind. . good, x dead or not
 * found, m no answer, h hot, w alarm of a link, p in maintenance, u unknown because this host has no
 * network.
 */
void chip_letters(const struct inmd *d, char *letters);

/** Reads the alarms of the last run from the history. */
void alarms_restore(struct inmd *d);

/** With the lock held: writes the place and the explanation of an alarm for people. */
void alarm_text(const struct inmd *d, const struct inm_alarm *alarm, char *place, size_t place_size,
                char *text, size_t text_size);

#endif
