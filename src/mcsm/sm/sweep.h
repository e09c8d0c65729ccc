/*
 * The sweep that runs, and when the next sweep starts. A sweep works in phases. Each phase sends its
 * SMPs at once and ends with the last answer:
 *
 *     IDLE -> DISCOVER -> MANAGERS -> PORTS -> TABLES -> ARM -> ACTIVATE -> IDLE    a heavy sweep
 *     IDLE -> LIGHT -> ARM -> ACTIVATE -> IDLE       a light sweep: border links may have come
 *     IDLE -> LIGHT -> IDLE -> DISCOVER ...          a light sweep that found a change
 *     IDLE -> MULTICAST -> IDLE                      members came or went
 *
 * sm.c moves from phase to phase. Times are in milliseconds of mcsm_now().
 */
#ifndef MCSM_SWEEP_H
#define MCSM_SWEEP_H

#include "config/config.h"

enum mcsm_phase {
    MCSM_PHASE_IDLE,
    MCSM_PHASE_DISCOVER,
    MCSM_PHASE_MANAGERS,
    MCSM_PHASE_PORTS,
    MCSM_PHASE_TABLES,
    MCSM_PHASE_ARM,
    MCSM_PHASE_ACTIVATE,
    MCSM_PHASE_LIGHT,
    MCSM_PHASE_MULTICAST
};

struct mcsm_sweep {
    enum mcsm_phase phase;
    bool wanted;       /* a heavy sweep */
    bool multicast;    /* new multicast tables are wanted */
    bool changed;      /* the light sweep found a change */
    bool incomplete;   /* a node did not answer or refused: the sweep is repeated soon */
    bool reregister;   /* clients must register again: this manager has just become the master */
    bool distrust;     /* another manager may have written the tables: write all of them */
    unsigned failures; /* sweeps in a row that were incomplete */
    uint16_t former_master; /* LID of the master whose registrations are known here; 0: none */
    uint64_t started, next_light, next_poll, retry_at;
};

/** Whether a heavy sweep, new multicast tables, a light sweep or a poll of the master is due. True
 * ends the order: the caller starts the sweep. */
bool mcsm_sweep_heavy_due(struct mcsm_sweep *sweep, uint64_t now);
bool mcsm_sweep_multicast_due(struct mcsm_sweep *sweep);
bool mcsm_sweep_light_due(struct mcsm_sweep *sweep, const struct mcsm_config *config, uint64_t now);
bool mcsm_sweep_poll_due(struct mcsm_sweep *sweep, const struct mcsm_config *config, uint64_t now);

/** A heavy sweep begins; discovery failed, and nothing can be set up; a heavy sweep is over. */
void mcsm_sweep_begin(struct mcsm_sweep *sweep, uint64_t now);
void mcsm_sweep_put_off(struct mcsm_sweep *sweep, uint64_t now);
void mcsm_sweep_end(struct mcsm_sweep *sweep, const struct mcsm_config *config, uint64_t now);

#endif
