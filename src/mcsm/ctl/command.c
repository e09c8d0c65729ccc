#include "ctl/command.h"

#include "base/text.h"

#include <string.h>

/* How many arguments a command needs, and how many it takes. */
static void count_arguments(const struct mcsm_command *command, int *least, int *most)
{
    const char *rest = command->arguments;
    char word[32];

    *least = *most = 0;
    while (mcsm_next_word(&rest, " ", word, sizeof(word))) {
        ++*most;
        *least += word[0] != '[';
    }
}

const struct mcsm_command *mcsm_command_find(const struct mcsm_command *commands, size_t count,
                                             const char *const *words, int word_count,
                                             const char *arguments[MCSM_COMMAND_ARGUMENTS])
{
    for (size_t i = 0; i < count && word_count > 0; i++) {
        const struct mcsm_command *command = &commands[i];
        int least, most, skipped = 1;

        if (command->name == NULL || strcmp(command->name, words[0]) != 0) {
            continue;
        }
        if (command->keyword[0] != '\0') {
            if (word_count < 2 || strcmp(command->keyword, words[1]) != 0) {
                continue;
            }
            skipped = 2;
        }
        count_arguments(command, &least, &most);
        if (word_count - skipped < least || word_count - skipped > most) {
            return NULL;
        }
        for (int k = 0; k < MCSM_COMMAND_ARGUMENTS; k++) {
            arguments[k] = skipped + k < word_count ? words[skipped + k] : "";
        }
        return command;
    }
    return NULL;
}

void mcsm_command_help(const struct mcsm_command *commands, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct mcsm_command *command = &commands[i];
        char line[64];

        if (command->name == NULL) {
            fprintf(out, "\n%s\n", command->help);
            continue;
        }
        snprintf(line, sizeof(line), "%s%s%s%s%s", command->name, command->keyword[0] ? " " : "",
                 command->keyword, command->arguments[0] ? " " : "", command->arguments);
        fprintf(out, "  %-20s %s\n", line, command->help);
    }
}
