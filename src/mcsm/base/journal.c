#include "journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int channel = -1;
static struct sockaddr_un journald;
static char own_cluster[64];

/* Whether stderr is the stream with the device and inode of JOURNAL_STREAM. A program that redirects
 * stderr inherits the variable, too. */
static bool is_stream(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char expected[64];
    struct stat about;

    if (stream == NULL || fstat(STDERR_FILENO, &about) < 0) {
        return false;
    }
    snprintf(expected, sizeof(expected), "%lu:%lu", (unsigned long)about.st_dev,
             (unsigned long)about.st_ino);
    return strcmp(stream, expected) == 0;
}

bool mcsm_journal_open(const char *path, const char *cluster)
{
    if (channel >= 0) {
        close(channel);
        channel = -1;
    }
    if (!is_stream() || strlen(path) >= sizeof(journald.sun_path)) {
        return false;
    }
    channel = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    journald.sun_family = AF_UNIX;
    strcpy(journald.sun_path, path);
    snprintf(own_cluster, sizeof(own_cluster), "%s", cluster);
    return channel >= 0;
}

bool mcsm_journal_send(enum mcsm_log_level level, const struct mcsm_log_fields *fields,
                       const char *text)
{
    static const int priorities[] = {3, 4, 6, 7}; /* as in syslog(3) */
    char entry[2048];
    size_t size = sizeof(entry);
    int length, text_length = strcspn(text, "\n"); /* a field ends with its line */

    if (channel < 0) {
        return false;
    }
    length = snprintf(entry, size,
                      "MESSAGE=%.*s\nPRIORITY=%d\nSYSLOG_IDENTIFIER=mcsm\nMCSM_CLUSTER=%s\n",
                      text_length, text, priorities[level], own_cluster);
    if (fields != NULL && fields->event != NULL && length < (int)size) {
        length += snprintf(entry + length, size - length, "MCSM_EVENT=%s\n", fields->event);
    }
    if (fields != NULL && fields->guid != 0 && length < (int)size) {
        length += snprintf(entry + length, size - length, "MCSM_GUID=0x%016lx\nMCSM_PORT=%u\n",
                           fields->guid, fields->port);
    }
    return length < (int)size &&
           sendto(channel, entry, length, MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)&journald, sizeof(journald)) == length;
}
