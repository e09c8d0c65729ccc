/* An alarm: a condition of the network that an operator has to know. */
#ifndef INM_ALARM_H
#define INM_ALARM_H

#include <stdint.h>

enum inm_severity { SEVERITY_INFO, SEVERITY_WARNING, SEVERITY_MAJOR, SEVERITY_CRITICAL };

/* The numbers are stored in databases: new causes are added at the end. */
enum inm_cause {
    CAUSE_CABINET_DEAD = 1,
    CAUSE_SWITCH_DEAD,
    CAUSE_CHIP_DEAD,
    CAUSE_LINK_DOWN,
    CAUSE_SWAPPED,
    CAUSE_MISWIRED,
    CAUSE_NO_ANSWER,
    CAUSE_HOT,
    CAUSE_RETRIES,
    CAUSE_FLAPPING,
    CAUSE_NARROW,
    CAUSE_SERVER_DEAD,
    CAUSE_NETWORK_GONE,
    CAUSE_UNKNOWN_CHIP,
    CAUSE_BIST,
    CAUSE_NO_LINK,
    CAUSE_WRONG_TOPOLOGY,
    CAUSE_MAX
};

struct inm_alarm {
    uint64_t key; /* cause << 40 | object */
    uint64_t id;  /* in the history */
    uint8_t cause, severity;
    uint32_t chip, port, other; /* INM_NONE: does not apply; other: a second port */
    uint32_t folded;            /* conditions that this alarm stands for */
    double raised;
    char acknowledged[272]; /* name of the user, and the comment */
};

/** Returns the name of a cause, such as "link_down". */
const char *alarm_cause(unsigned cause);

/** Returns the severity that alarms of a cause have. */
enum inm_severity alarm_severity(unsigned cause);

/** Returns the name of a severity, such as "major". */
const char *severity_name(unsigned severity);

#endif
