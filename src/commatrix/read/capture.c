#include "capture.h"

#include "packet.h"
#include "source.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LIVE_BUFFER = 64 << 20,
    LIVE_TIMEOUT_MS = 100,
    LIVE_SNAPLEN = 512,
    FIRST_LOOK = 1000000, /* frames by which clocks are compared */
    COPY_BUFFER = 1 << 16
};

/* One file, or the interface, and its next frame. */
struct reader {
    const char *name;
    int copy;             /* of a pipe: a temporary file; -1: none */
    struct cm_file *file; /* NULL: not open, or live */
    pcap_t *pcap;         /* live */
    struct cm_frame frame;
    struct cm_clock clock;
};

struct cm_capture {
    struct reader *readers;
    struct reader **heap; /* readers that have a frame, the earliest first */
    int num_readers, num_heap;
    bool taken; /* the caller has the first frame of the heap: its reader has to go on */
    bool damaged;
    volatile bool stopped;
    uint64_t scale_ns; /* live: nanoseconds of a unit of the time stamp */
    uint64_t earliest_ns;
    uint64_t timeless;
};

static void report(struct cm_capture *capture, const char *name, const char *why)
{
    fprintf(stderr, "commatrix: %s: %s\n", name, why);
    capture->damaged = true;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Copies a pipe to a file that has no name. Returns its descriptor, or -1. */
static int copy_pipe(struct cm_capture *capture, const char *name, int fd)
{
    FILE *file = tmpfile();
    char buffer[COPY_BUFFER];
    ssize_t len = 0;
    int copy = -1;

    while (file != NULL && (len = read(fd, buffer, sizeof(buffer))) != 0) {
        if ((len < 0 && errno != EINTR) ||
            (len > 0 && fwrite(buffer, 1, (size_t)len, file) != (size_t)len)) {
            break;
        }
    }
    if (file == NULL || len != 0 || fflush(file) != 0) {
        char *why = g_strdup_printf("cannot be copied to a temporary file: %s", g_strerror(errno));

        report(capture, name, why);
        g_free(why);
    } else {
        copy = dup(fileno(file));
    }
    if (file != NULL) {
        fclose(file);
    }
    return copy;
}

static bool is_pipe(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* `twice`: the file is read more than once. */
static int reader_fd(struct cm_capture *capture, struct reader *reader, bool twice)
{
    int fd = reader->copy >= 0 ? dup(reader->copy) : cm_source_fd(reader->name);

    if (fd < 0) {
        report(capture, reader->name, g_strerror(errno));
        return -1;
    }
    if (reader->copy < 0 && twice && is_pipe(fd)) {
        reader->copy = copy_pipe(capture, reader->name, fd);
        if (fd != STDIN_FILENO) {
            close(fd);
        }
        fd = reader->copy >= 0 ? dup(reader->copy) : -1;
    }
    if (reader->copy >= 0 || (twice && fd == STDIN_FILENO)) {
        (void)lseek(fd, 0, SEEK_SET);
    }
    return fd;
}

static bool open_file(struct cm_capture *capture, struct reader *reader, bool twice)
{
    int fd = reader_fd(capture, reader, twice);
    char *error = NULL;

    if (fd < 0) {
        return false;
    }
    reader->file = cm_file_open(fd, &error);
    if (reader->file == NULL) {
        report(capture, reader->name, error);
        g_free(error);
    }
    return reader->file != NULL;
}

/* The end of a file: where damage or an unknown link type is reported. */
static void end_file(struct cm_capture *capture, struct reader *reader)
{
    char *damage = cm_file_damage(reader->file), *why;

    if (damage != NULL) {
        report(capture, reader->name, damage);
        g_free(damage);
    }
    if (cm_file_unknown_link(reader->file) >= 0) {
        why = cm_link_reason(cm_file_unknown_link(reader->file));
        fprintf(stderr, "commatrix: %s: %s; its packets are kind \"other\"\n", reader->name, why);
        g_free(why);
    }
    capture->timeless += cm_file_timeless(reader->file);
}

static uint64_t corrected(const struct cm_clock *clock, uint64_t time_ns)
{
    return clock->corrected ? (uint64_t)MAX((int64_t)time_ns - clock->ahead_ns, 0) : time_ns;
}

/* Reads the files once, for the earliest time and the clocks. Leaves no file open. */
static void look_at_files(struct cm_capture *capture, bool earliest)
{
    struct cm_look **looks = g_new0(struct cm_look *, capture->num_readers + 1);
    struct cm_clock *clocks = g_new0(struct cm_clock, capture->num_readers + 1);
    bool compare = capture->num_readers > 1;
    struct cm_frame frame;
    uint64_t first = UINT64_MAX, n;
    int i;

    for (i = 0; i < capture->num_readers; i++) {
        struct reader *reader = &capture->readers[i];

        looks[i] = cm_look_new(compare);
        if (!open_file(capture, reader, true)) {
            continue;
        }
        for (n = 0; (earliest || n < FIRST_LOOK) && cm_file_next(reader->file, &frame); n++) {
            cm_look_add(looks[i], &frame);
        }
        cm_file_close(reader->file);
        reader->file = NULL;
    }
    if (compare) {
        cm_clocks_compare(looks, clocks, capture->num_readers);
    }
    for (i = 0; i < capture->num_readers; i++) {
        struct cm_clock *clock = &capture->readers[i].clock;

        *clock = clocks[i];
        if (cm_look_earliest(looks[i]) != UINT64_MAX) {
            first = MIN(first, corrected(clock, cm_look_earliest(looks[i])));
        }
        cm_look_free(looks[i]);
    }
    capture->earliest_ns = earliest && first != UINT64_MAX ? first : 0;
    g_free(looks);
    g_free(clocks);
}

/* ---- the order of time ----------------------------------------------------------------------- */

/* Waits for packets. libpcap's own time-out begins with a packet, so without traffic it never ends. */
static void wait_live(struct reader *reader)
{
    struct pollfd ready = {.fd = pcap_get_selectable_fd(reader->pcap), .events = POLLIN};

    (void)poll(&ready, 1, LIVE_TIMEOUT_MS);
}

static bool next_live(struct cm_capture *capture, struct reader *reader)
{
    struct pcap_pkthdr *header;
    const uint8_t *data;
    int status = pcap_next_ex(reader->pcap, &header, &data);

    if (status != 1) {
        if (status == PCAP_ERROR) {
            report(capture, reader->name, pcap_geterr(reader->pcap));
        }
        capture->stopped |= status < 0;
        if (status == 0) {
            wait_live(reader);
        }
        return false;
    }
    reader->frame.data = data;
    reader->frame.captured = header->caplen;
    reader->frame.wire = header->len;
    reader->frame.time_ns =
        (uint64_t)header->ts.tv_sec * 1000000000 + (uint64_t)header->ts.tv_usec * capture->scale_ns;
    return true;
}

static bool advance(struct cm_capture *capture, struct reader *reader)
{
    if (!cm_file_next(reader->file, &reader->frame)) {
        end_file(capture, reader);
        return false;
    }
    reader->frame.time_ns = corrected(&reader->clock, reader->frame.time_ns);
    return true;
}

static bool earlier(const struct reader *a, const struct reader *b)
{
    return a->frame.time_ns < b->frame.time_ns || (a->frame.time_ns == b->frame.time_ns && a < b);
}

static void sift_down(struct cm_capture *capture, int at)
{
    struct reader **heap = capture->heap, *moved = heap[at];
    int child;

    while ((child = 2 * at + 1) < capture->num_heap) {
        if (child + 1 < capture->num_heap && earlier(heap[child + 1], heap[child])) {
            child++;
        }
        if (!earlier(heap[child], moved)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static struct cm_capture *capture_new(int num_readers)
{
    struct cm_capture *capture = g_new0(struct cm_capture, 1);
    int i;

    capture->readers = g_new0(struct reader, num_readers);
    capture->heap = g_new0(struct reader *, num_readers);
    capture->num_readers = num_readers;
    capture->scale_ns = 1;
    for (i = 0; i < num_readers; i++) {
        capture->readers[i].copy = -1;
    }
    return capture;
}

struct cm_capture *cm_capture_open(char *const *names, int num_names,
                                   const struct cm_capture_options *options)
{
    struct cm_capture *capture = capture_new(num_names);
    bool twice = options->earliest || num_names > 1, opened = false;
    int i;

    for (i = 0; i < num_names; i++) {
        capture->readers[i].name = names[i];
    }
    if (twice) {
        look_at_files(capture, options->earliest);
        capture->damaged = false; /* the second reading reports damage again */
    }
    for (i = 0; i < num_names; i++) {
        if (open_file(capture, &capture->readers[i], twice)) {
            opened = true;
            if (advance(capture, &capture->readers[i])) {
                capture->heap[capture->num_heap++] = &capture->readers[i];
            }
        }
    }
    for (i = capture->num_heap / 2 - 1; i >= 0; i--) {
        sift_down(capture, i);
    }
    if (!opened) {
        cm_capture_close(capture);
        return NULL;
    }
    return capture;
}

/* ---- an interface ---------------------------------------------------------------------------- */

/* Headers, and the first bytes of the user data, where the rank stands. */
static bool activate(pcap_t *pcap, char *errbuf)
{
    pcap_set_snaplen(pcap, LIVE_SNAPLEN);
    pcap_set_promisc(pcap, 1);
    pcap_set_timeout(pcap, LIVE_TIMEOUT_MS);
    pcap_set_buffer_size(pcap, LIVE_BUFFER);
    pcap_set_tstamp_precision(pcap, PCAP_TSTAMP_PRECISION_NANO);
    if (pcap_activate(pcap) < 0) {
        g_strlcpy(errbuf, pcap_geterr(pcap), PCAP_ERRBUF_SIZE);
        return false;
    }
    return pcap_setnonblock(pcap, 1, errbuf) == 0;
}

static bool check_live_link(struct cm_capture *capture, struct reader *reader)
{
    char *why;

    reader->frame.link_type = pcap_datalink(reader->pcap);
    if (cm_link_supported(reader->frame.link_type)) {
        return true;
    }
    why = cm_link_reason(reader->frame.link_type);
    report(capture, reader->name, why);
    g_free(why);
    return false;
}

struct cm_capture *cm_capture_live(const char *interface)
{
    struct cm_capture *capture = capture_new(1);
    struct reader *reader = &capture->readers[0];
    char errbuf[PCAP_ERRBUF_SIZE];

    reader->name = interface;
    reader->pcap = pcap_create(interface, errbuf);
    if (reader->pcap == NULL) {
        report(capture, interface, errbuf);
    } else if (!activate(reader->pcap, errbuf)) {
        report(capture, interface, errbuf);
    } else if (check_live_link(capture, reader)) {
        capture->scale_ns =
            pcap_get_tstamp_precision(reader->pcap) == PCAP_TSTAMP_PRECISION_NANO ? 1 : 1000;
        return capture;
    }
    cm_capture_close(capture);
    return NULL;
}

/* ---- both ------------------------------------------------------------------------------------ */

bool cm_capture_next(struct cm_capture *capture, struct cm_frame *frame)
{
    struct reader *live = &capture->readers[0];

    if (live->pcap != NULL) {
        if (capture->stopped || !next_live(capture, live)) {
            return false;
        }
        *frame = live->frame;
        return true;
    }
    if (capture->taken && capture->num_heap > 0) {
        if (!advance(capture, capture->heap[0])) {
            capture->heap[0] = capture->heap[--capture->num_heap];
        }
        if (capture->num_heap > 1) {
            sift_down(capture, 0);
        }
    }
    capture->taken = true;
    if (capture->num_heap == 0) {
        capture->stopped = true;
        return false;
    }
    *frame = capture->heap[0]->frame;
    return true;
}

void cm_capture_stop(struct cm_capture *capture)
{
    capture->stopped = true;
    if (capture->readers[0].pcap != NULL) {
        pcap_breakloop(capture->readers[0].pcap);
    }
}

bool cm_capture_stopped(const struct cm_capture *capture)
{
    return capture->stopped;
}

bool cm_capture_damaged(const struct cm_capture *capture)
{
    return capture->damaged;
}

double cm_capture_progress(const struct cm_capture *capture)
{
    double sum = 0;
    int files = 0, i;

    for (i = 0; i < capture->num_readers; i++) {
        if (capture->readers[i].file != NULL) {
            double part = cm_file_progress(capture->readers[i].file);

            if (part < 0) {
                return -1;
            }
            sum += part;
            files++;
        }
    }
    return files > 0 ? sum / files : -1;
}

uint64_t cm_capture_earliest(const struct cm_capture *capture)
{
    return capture->earliest_ns;
}

int cm_capture_num_files(const struct cm_capture *capture)
{
    return capture->num_readers;
}

const char *cm_capture_name(const struct cm_capture *capture, int i)
{
    return capture->readers[i].name;
}

const struct cm_clock *cm_capture_clock(const struct cm_capture *capture, int i)
{
    return &capture->readers[i].clock;
}

uint64_t cm_capture_timeless(const struct cm_capture *capture)
{
    return capture->timeless;
}

uint64_t cm_capture_dropped(struct cm_capture *capture)
{
    struct pcap_stat stat;

    if (capture->readers[0].pcap == NULL || pcap_stats(capture->readers[0].pcap, &stat) != 0) {
        return 0;
    }
    return (uint64_t)stat.ps_drop + stat.ps_ifdrop;
}

void cm_capture_close(struct cm_capture *capture)
{
    int i;

    for (i = 0; i < capture->num_readers; i++) {
        struct reader *reader = &capture->readers[i];

        if (reader->pcap != NULL) {
            pcap_close(reader->pcap);
        }
        if (reader->file != NULL) {
            cm_file_close(reader->file);
        }
        if (reader->copy >= 0) {
            close(reader->copy);
        }
    }
    g_free(capture->readers);
    g_free(capture->heap);
    g_free(capture);
}
