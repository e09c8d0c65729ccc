/*
 * Fuzzing: the bytes of the input decide each action of a target. The input comes from a
 * deterministic generator (fuzz_main.c) or from libFuzzer, which calls the same function.
 */
#ifndef TEST_FAULTS_FUZZ_H
#define TEST_FAULTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/** The target, of each program its own. Ends the program by abort() where something is wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Called once, before all else. Set the environment here. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/** Counts of actions, printed at the end. A target without actions has tested nothing. */
struct fuzz_count {
    const char *name;
    uint64_t value;
};
extern struct fuzz_count fuzz_counts[];

/** The rest of the input */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};

/** So many bytes of the input as a number; 0 where there are no more. */
uint64_t fuzz_take(struct fuzz_input *input, unsigned bytes);

/** A number below a bound. */
uint32_t fuzz_below(struct fuzz_input *input, uint32_t bound);

/** A value of the kind that breaks things: at a border, small, or anything. */
uint64_t fuzz_value(struct fuzz_input *input);

/** Change some bytes of a buffer, or none. Returns how many places were changed. */
unsigned fuzz_mutate(struct fuzz_input *input, void *buffer, size_t length);

/** Print the error, and abort, so that the input is kept. */
void fuzz_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
