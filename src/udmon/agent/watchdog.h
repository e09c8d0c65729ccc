#ifndef UDMON_AGENT_WATCHDOG_H
#define UDMON_AGENT_WATCHDOG_H

/** Begins to notify systemd's watchdog, if systemd requests it. */
void watchdog_start(void);

#endif
