/* Names of causes and severities; see alarm.h. */
#include "alarm.h"

#include <stddef.h>

static const struct {
    const char *name;
    enum inm_severity severity;
} causes[CAUSE_MAX] = {
    [CAUSE_CABINET_DEAD] = {"cabinet_dead", SEVERITY_CRITICAL},
    [CAUSE_SWITCH_DEAD] = {"switch_dead", SEVERITY_CRITICAL},
    [CAUSE_CHIP_DEAD] = {"chip_dead", SEVERITY_CRITICAL},
    [CAUSE_LINK_DOWN] = {"link_down", SEVERITY_MAJOR},
    [CAUSE_SWAPPED] = {"fibres_swapped", SEVERITY_MAJOR},
    [CAUSE_MISWIRED] = {"miswired", SEVERITY_MAJOR},
    [CAUSE_NO_ANSWER] = {"no_answer", SEVERITY_MAJOR},
    [CAUSE_HOT] = {"hot", SEVERITY_MAJOR},
    [CAUSE_RETRIES] = {"retries", SEVERITY_WARNING},
    [CAUSE_FLAPPING] = {"flapping", SEVERITY_MAJOR},
    [CAUSE_NARROW] = {"narrow_link", SEVERITY_WARNING},
    [CAUSE_SERVER_DEAD] = {"server_dead", SEVERITY_CRITICAL},
    [CAUSE_NETWORK_GONE] = {"network_gone", SEVERITY_CRITICAL},
    [CAUSE_NO_LINK] = {"nic_no_link", SEVERITY_CRITICAL},
    [CAUSE_WRONG_TOPOLOGY] = {"wrong_topology", SEVERITY_CRITICAL},
    [CAUSE_UNKNOWN_CHIP] = {"unknown_chip", SEVERITY_WARNING},
    [CAUSE_BIST] = {"bist_errors", SEVERITY_MAJOR},
};

const char *alarm_cause(unsigned cause)
{
    return cause < CAUSE_MAX && causes[cause].name != NULL ? causes[cause].name : "unknown";
}

enum inm_severity alarm_severity(unsigned cause)
{
    return cause < CAUSE_MAX ? causes[cause].severity : SEVERITY_INFO;
}

const char *severity_name(unsigned severity)
{
    static const char *const names[] = {"info", "warning", "major", "critical"};

    return severity < 4 ? names[severity] : "unknown";
}
