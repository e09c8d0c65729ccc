/*
 * How a manager proves that it knows the SM_Key of the cluster, without showing the key.
 *
 * SMInfo has 24 bytes; the other 40 bytes of an SMP are unused by the standard. A manager of mcsm
 * puts two fields there: a challenge, which is a random number, and a proof. The proof is the
 * beginning of HMAC-SHA256(SM_Key, role, challenge of the reader, SMInfo, attribute modifier). Each
 * challenge is used once, so a recorded SMP proves nothing.
 */
#ifndef MCSM_PROOF_H
#define MCSM_PROOF_H

#include "mad/layout.h"

#include <stdbool.h>

enum {
    MCSM_SMI_SIZE = 24,
    MCSM_SMI_CHALLENGE = 24, /* offset of the sender's challenge in an SMInfo */
    MCSM_SMI_PROOF = 32,
    MCSM_PROOF_SIZE = 16
};

/* Whether the SMInfo is part of an answer or of a Set. Proofs of one kind are worthless in the
 * other. */
enum mcsm_role { MCSM_ROLE_ANSWER, MCSM_ROLE_ORDER };

/** Writes the proof into an SMInfo of 64 bytes. `challenge` is the reader's challenge, `what` the
 * attribute modifier. */
void mcsm_proof_write(uint64_t key, enum mcsm_role role, uint64_t challenge, uint32_t what,
                      uint8_t *body);

/** Whether the proof in an SMInfo of 64 bytes is right. */
bool mcsm_proof_is_right(uint64_t key, enum mcsm_role role, uint64_t challenge, uint32_t what,
                         const uint8_t *body);

/** A random number that is not 0. Ends the process if the kernel has no random numbers. */
uint64_t mcsm_random(void);

#endif
