/* The abilities of the NIC on this system, found by trying. */
#ifndef GLEX_CAPS_H
#define GLEX_CAPS_H

#include "base/common.h"

/** Fill in the capabilities, and the reasons of missing capabilities. */
void glex_caps_probe(uint64_t fabric, struct glex_ext_device_attr *attr);

/** Let processes of the same user access this one's memory, where yama would forbid it. */
void glex_caps_allow_private(void);

/** A number that names the pid namespace of this process; 0: not known. */
uint64_t glex_caps_pid_space(void);

#endif
