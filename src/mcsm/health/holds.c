#include "holds.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

static void path_of(const struct mcsm_config *config, char *path, size_t size)
{
    snprintf(path, size, "%s/%s.holds", config->state_dir, config->name);
}

static bool parse(const char *line, uint64_t now, struct mcsm_hold *hold)
{
    char word[4][64];
    uint64_t until, holds, seconds = time(NULL);

    for (int i = 0; i < 4; i++) {
        if (!mcsm_next_word(&line, " \t\n", word[i], sizeof(word[i]))) {
            return false;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (mcsm_parse_guid_port(word[i], &hold->ends[i].guid, &hold->ends[i].port) < 0) {
            return false;
        }
    }
    if (mcsm_parse_number(word[2], 0, UINT32_MAX, &until) < 0 ||
        mcsm_parse_number(word[3], 1, UINT32_MAX, &holds) < 0) {
        return false;
    }
    hold->until = until > seconds ? now + (until - seconds) * 1000 : 0;
    hold->holds = holds;
    return true;
}

void mcsm_holds_remove(struct mcsm_hold **holds_p, uint64_t guid, uint8_t port)
{
    struct mcsm_hold *hold, *next;

    LL_FOREACH_SAFE(*holds_p, hold, next) {
        if (hold->ends[0].guid == guid && hold->ends[0].port == port) {
            LL_DELETE(*holds_p, hold);
            free(hold);
        }
    }
}

int mcsm_holds_add(struct mcsm_hold **holds_p, const struct mcsm_hold *hold)
{
    struct mcsm_hold *copy = malloc(sizeof(*copy));

    if (copy == NULL) {
        return -ENOMEM;
    }
    mcsm_holds_remove(holds_p, hold->ends[0].guid, hold->ends[0].port);
    *copy = *hold;
    LL_PREPEND(*holds_p, copy);
    return 0;
}

void mcsm_holds_read(const struct mcsm_config *config, uint64_t now, struct mcsm_hold **holds_p)
{
    char path[320], line[256];
    FILE *file;

    *holds_p = NULL;
    path_of(config, path, sizeof(path));
    file = fopen(path, "re");
    if (file == NULL) {
        if (errno != ENOENT && errno != ENOTDIR) {
            mcsm_warn("%s: %s: held links are used again", path, strerror(errno));
        }
        return;
    }
    for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        struct mcsm_hold read = {0};

        if (!parse(line, now, &read)) {
            mcsm_warn("%s:%d: expected two ends GUID/PORT, a time and a number", path, number);
            continue;
        }
        if (read.until != 0 && mcsm_holds_add(holds_p, &read) < 0) {
            mcsm_error("out of memory: a held link is used again");
        }
    }
    fclose(file);
}

void mcsm_holds_free(struct mcsm_hold **holds_p)
{
    struct mcsm_hold *hold, *next;

    LL_FOREACH_SAFE(*holds_p, hold, next) {
        free(hold);
    }
    *holds_p = NULL;
}

void mcsm_holds_write(const struct mcsm_config *config, const struct mcsm_link *links, uint64_t now)
{
    uint64_t seconds = time(NULL);
    char path[320], temporary[330];
    int error = 0;
    FILE *file;

    path_of(config, path, sizeof(path));
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    file = fopen(temporary, "we");
    if (file == NULL) {
        mcsm_warn("%s: %s: a restart will forget held links", temporary, strerror(errno));
        return;
    }
    for (const struct mcsm_link *link = links; link != NULL; link = link->hh.next) {
        if (link->held_until > now) {
            fprintf(file, "0x%016lx/%u 0x%016lx/%u %lu %u\n", link->ends[0].guid,
                    link->ends[0].port, link->ends[1].guid, link->ends[1].port,
                    seconds + (link->held_until - now + 999) / 1000, link->holds);
        }
    }
    error = ferror(file) ? EIO : 0;
    if (fclose(file) != 0) {
        error = errno;
    }
    if (error == 0 && rename(temporary, path) < 0) {
        error = errno;
    }
    if (error != 0) {
        mcsm_warn("%s: %s: a restart will forget held links", path, strerror(error));
        unlink(temporary);
    }
}
