/*
 * fuzz_TARGET [RUNS [SEED]]: a target with deterministic inputs: the same runs every time.
 * fuzz_TARGET --input FILE: with one input, such as libFuzzer has found.
 */
#include "fuzz.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INPUT_SIZE 4096
#define RUNS       15000 /* a million changes, and more */

static uint64_t run, seed = 1;

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u); /* splitmix64 */

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Which input it was. Nothing else is safe to do in a handler. */
static void on_crash(int number)
{
    char text[128];
    int length =
        snprintf(text, sizeof(text), "fuzz: signal %d at run %" PRIu64 " of seed %" PRIu64 "\n",
                 number, run, seed);

    if (write(STDERR_FILENO, text, (size_t)length) < 0) {
        _exit(2);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void run_all(uint64_t runs)
{
    uint64_t input[INPUT_SIZE / sizeof(uint64_t)], state;
    size_t i;

    for (run = 0; run < runs; run++) {
        state = seed << 32 ^ run;
        for (i = 0; i < sizeof(input) / sizeof(input[0]); i++) {
            input[i] = next(&state);
        }
        LLVMFuzzerTestOneInput((const uint8_t *)input, sizeof(input));
    }
}

static void run_file(const char *path)
{
    static uint8_t input[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t size;

    if (file == NULL) {
        perror(path);
        exit(2);
    }
    size = fread(input, 1, sizeof(input), file);
    fclose(file);
    LLVMFuzzerTestOneInput(input, size);
}

static int report(void)
{
    const struct fuzz_count *count;
    int status = 0;

    for (count = fuzz_counts; count->name != NULL; count++) {
        printf("%-32s %12" PRIu64 "\n", count->name, count->value);
        status |= count->value == 0;
    }
    if (status != 0) {
        fprintf(stderr, "fuzz: something that was to be tested did not happen\n");
    }
    return status;
}

int main(int argc, char **argv)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
    size_t i;

    LLVMFuzzerInitialize(&argc, &argv);
    for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        signal(signals[i], on_crash);
    }
    if (argc == 3 && strcmp(argv[1], "--input") == 0) {
        run_file(argv[2]);
        return 0;
    }
    seed = argc > 2 ? strtoull(argv[2], NULL, 0) : seed;
    run_all(argc > 1 ? strtoull(argv[1], NULL, 0) : RUNS);
    return report();
}
