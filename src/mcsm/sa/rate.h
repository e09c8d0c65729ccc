/* Rates of links and paths: the codes of IBTA volume 1, PathRecord, and their values. */
#ifndef MCSM_RATE_H
#define MCSM_RATE_H

#include "fabric/fabric.h"

/** Mb/s of a rate code; 0 if there is no such code. */
unsigned mcsm_rate_speed(uint8_t code);

/** The code of a rate, or of the highest rate below it. */
uint8_t mcsm_rate_code(unsigned speed);

/** Returns the code of the next lower rate, or 0. */
uint8_t mcsm_rate_below(uint8_t code);

/** Mb/s of a link: bits of LinkWidthActive, LinkSpeedActive and LinkSpeedExtActive. */
unsigned mcsm_link_speed(uint8_t width, uint8_t speed, uint8_t extended);

/** The rate code of a port's link. */
uint8_t mcsm_port_rate(const struct mcsm_port *port);

#endif
