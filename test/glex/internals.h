/* Parts of the library's inside for tests, for C++. */
#ifndef GLEX_TEST_INTERNALS_H
#define GLEX_TEST_INTERNALS_H

#include <glex.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Whether the slow part of a claim finds room in the MPQ of `addr` for a producer that saw this
 *  tail. */
bool internals_can_claim(glex_ep_handle_t ep, glex_ep_addr_t addr, uint64_t tail);

/** Move both rings of an idle endpoint without attached peers to a position. */
void internals_move_rings(glex_ep_handle_t ep, uint64_t position);

/** Path of an endpoint's segment. */
void internals_segment_path(uint64_t addr, char *path, size_t size);

/** Bytes of storage that a segment's file has. */
uint64_t internals_segment_storage(uint64_t addr);

/** Path of the fabric's directory. */
void internals_fabric_path(char *path, size_t size);

/* The field of a segment's file to damage. */
enum internals_field {
    INTERNALS_MAGIC,
    INTERNALS_VERSION,
    INTERNALS_BASE_SIZE,
    INTERNALS_ADDR,
    INTERNALS_INCARNATION,
    INTERNALS_MPQ_CAPACITY,
    INTERNALS_EQ_CAPACITY,
    /* From here on any number is a good one */
    INTERNALS_PID,
    INTERNALS_MMT_READY
};
void internals_damage(const char *path, enum internals_field what, uint64_t value);

/** The cookie by which peers recognize this process. */
uint64_t *internals_cookie(glex_ep_handle_t ep);

/** The file with the robust mutex of this process: its descriptor, or -1; and its random number. */
int internals_robust_fd(glex_ep_handle_t ep);
uint64_t internals_robust_id(glex_ep_handle_t ep);

/** Offset in the file of the control word of a slot of the MPQ (which = 0) or EQ (1). */
uint64_t internals_slot_offset(glex_ep_handle_t ep, int which, uint64_t position);

/** Offset in the file of a registration's table entry. */
uint64_t internals_mmt_offset(glex_ep_handle_t ep, uint32_t index);

/** The collective area of an endpoint that has posted a COLL request. */
void *internals_coll_area(glex_ep_handle_t ep, size_t *size);

/** How many positions of a ring were ever claimed. `which`: 0 MPQ, 1 EQ, 2 the queue of control
 *  packets of an endpoint that has posted a COLL request. */
uint64_t internals_claimed(glex_ep_handle_t ep, int which);

/** Make a descriptor of an area the next to be executed, with any contents. */
void internals_coll_offer(void *area, unsigned index);

/** As if the table's entry of no registration had been used so many times more. */
void internals_age_registration(glex_ep_handle_t ep, uint32_t index, uint32_t times);

/** Claim the position of another endpoint's queue, and of the same queue once more. For debug builds,
 *  which end the process. */
void internals_claim_twice(glex_ep_handle_t ep, glex_ep_addr_t peer);

/** Claim a position as a producer does, and do no more: as if killed then. */
void internals_claim_only(glex_ep_handle_t ep, glex_ep_addr_t peer, int which);

/** Post an empty message without a wake-up, as if killed after the publication. */
void internals_post_without_waking(glex_ep_handle_t ep, glex_ep_addr_t peer);

/** A copy that another endpoint may help with. */
struct internals_job {
    uint64_t type, mh, offset, addr, len;
    uint64_t number, next; /* of the copy; its next granule */
    uint64_t late;         /* the report belongs to a copy so many before */
    uint64_t for_another;  /* not 0: the copy is for another helper */
};

/** `ep` asks `helper` for help, and copies nothing itself. */
void internals_help_job(glex_ep_handle_t ep, glex_ep_handle_t helper,
                        const struct internals_job *job);

/** Claims and reports count granules of so many bytes. */
#define INTERNALS_GRANULE 32768u

/** How many granules the helper has reported. */
unsigned internals_help_reported(glex_ep_handle_t ep, bool *failed);

/** As a helper, claim the next piece of the endpoint that asks for help, and do no more. @return Its
 *  first granule, or -1. */
int internals_help_claim(glex_ep_handle_t helper, unsigned *num_p);

/** As a helper, report the claimed piece of so many granules, copied or not, or its failure. */
void internals_help_report(glex_ep_handle_t helper, unsigned num, bool failed);

/** Forget that a peer was slow to help, or did not come: the next copy asks for its help. */
void internals_help_forget(glex_ep_handle_t ep, uint64_t peer_addr);

/** The helper's piece, in granules, that begins at a granule of a copy. */
unsigned internals_help_piece(uint64_t len, unsigned first);

/** Call `hook` before each store into private memory of a process. */
void internals_on_storing(void (*hook)(void));

/** Call `hook` before each load from private memory of a process. */
void internals_on_fetching(void (*hook)(void));

/** How often this process has read private memory of a process, and how many pieces of memory. */
unsigned internals_fetches(void);
unsigned internals_fetched_pieces(void);

/** Whether anybody asks this endpoint for help. */
bool internals_help_asked(glex_ep_handle_t helper);

/** Whether the endpoint is for several threads. */
bool internals_has_lock(glex_ep_handle_t ep);

/** Whether the owner of an endpoint sleeps until a message comes. */
bool internals_is_armed(glex_ep_handle_t ep);

/** How often this process has asked whether a file is locked, that is whether an endpoint lives. */
unsigned internals_lock_queries(void);

/** How often this process has called prctl(PR_SET_PTRACER). */
unsigned internals_ptracer_calls(void);

/** The next `num` reservations of storage fail with EINTR. @return How many were still to. */
unsigned internals_interrupt_reservations(unsigned num);

/** Call `hook` in the middle of giving a segment its name; NULL: no more. */
void internals_on_naming(void (*hook)(void));

/** Call `hook` before each level of the fabric's directory is made; NULL: no more. */
void internals_on_making_directory(void (*hook)(void));

/** From now on this process is one with other privileges than its caller, as a set-user-id program
 *  is. */
void internals_be_privileged(void);

#ifdef __cplusplus
}
#endif

#endif
