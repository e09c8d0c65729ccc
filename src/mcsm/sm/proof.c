#include "proof.h"

#include "base/log.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <sys/random.h>

static void compute(uint64_t key, enum mcsm_role role, uint64_t challenge, uint32_t what,
                    const uint8_t *body, uint8_t proof[MCSM_PROOF_SIZE])
{
    uint8_t secret[8], text[1 + 8 + 4 + MCSM_SMI_PROOF], mac[EVP_MAX_MD_SIZE];

    mcsm_put64(secret, 0, key);
    text[0] = role;
    mcsm_put64(text, 1, challenge);
    mcsm_put32(text, 9, what);
    memcpy(text + 13, body, MCSM_SMI_PROOF);
    if (HMAC(EVP_sha256(), secret, sizeof(secret), text, sizeof(text), mac, NULL) == NULL) {
        mcsm_error("libcrypto refuses HMAC-SHA256: the SM_Key cannot be proven");
        abort();
    }
    memcpy(proof, mac, MCSM_PROOF_SIZE);
}

void mcsm_proof_write(uint64_t key, enum mcsm_role role, uint64_t challenge, uint32_t what,
                      uint8_t *body)
{
    compute(key, role, challenge, what, body, body + MCSM_SMI_PROOF);
}

bool mcsm_proof_is_right(uint64_t key, enum mcsm_role role, uint64_t challenge, uint32_t what,
                         const uint8_t *body)
{
    uint8_t proof[MCSM_PROOF_SIZE];

    compute(key, role, challenge, what, body, proof);
    return CRYPTO_memcmp(proof, body + MCSM_SMI_PROOF, sizeof(proof)) == 0;
}

uint64_t mcsm_random(void)
{
    uint64_t number = 0;

    while (number == 0) {
        if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
            mcsm_error("the kernel gives no random numbers: keys would be guessable");
            abort();
        }
    }
    return number;
}
