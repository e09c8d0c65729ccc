#include "capture.h"
#include "packet.h"
#include "source.h"

#include <glib.h>
#include <inttypes.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <string.h>

enum { LIVE_BUFFER = 64 << 20, LIVE_TIMEOUT_MS = 100, LIVE_SNAPLEN = 512 };

/* One file, or the interface, and the frame that it stands at. */
struct reader {
    const char *name;
    struct cm_source *source; /* NULL: live */
    pcap_t *pcap;
    struct cm_frame frame;
};

struct cm_capture {
    struct reader *readers;
    struct reader **heap; /* those that have a frame, the earliest first */
    int num_readers, num_heap;
    bool taken; /* the first of the heap was handed out, and is to be moved on */
    bool damaged;
    volatile bool stopped;
    uint64_t scale_ns; /* live: nanoseconds of a unit of the time stamp */
};

static void report(struct cm_capture *capture, const char *name, const char *why)
{
    fprintf(stderr, "commatrix: %s: %s\n", name, why);
    capture->damaged = true;
}

static void report_damage(struct cm_capture *capture, struct reader *reader)
{
    const char *reason = cm_source_error(reader->source);
    char *why = g_strdup_printf("damaged at offset %" PRId64 "%s: %s; what stands before it counts",
                                (int64_t)ftello(cm_source_stream(reader->source)),
                                cm_source_position(reader->source) > 0 && *reason != '\0'
                                    ? " of the uncompressed data"
                                    : "",
                                *reason != '\0' ? reason : pcap_geterr(reader->pcap));

    report(capture, reader->name, why);
    g_free(why);
}

/* Move a reader on to its next frame; false: there is none. */
static bool advance(struct cm_capture *capture, struct reader *reader)
{
    struct pcap_pkthdr *header;
    const uint8_t *data;
    int status;

    do {
        status = pcap_next_ex(reader->pcap, &header, &data);
    } while (status == 0 && !capture->stopped); /* live: nothing came within the timeout */
    if (status != 1) {
        if (status == PCAP_ERROR && reader->source != NULL) {
            report_damage(capture, reader);
        } else if (status == PCAP_ERROR) {
            report(capture, reader->name, pcap_geterr(reader->pcap));
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

static bool check_link(struct cm_capture *capture, struct reader *reader)
{
    int link = pcap_datalink(reader->pcap);
    const char *name = pcap_datalink_val_to_name(link);
    char *why;

    reader->frame.link_type = link;
    if (cm_link_supported(link)) {
        return true;
    }
    why = g_strdup_printf("link type %d (%s) carries no RDMA that is known: InfiniBand, ERF, "
                          "Ethernet, Linux cooked and raw IP do",
                          link, name != NULL ? name : "unknown");
    report(capture, reader->name, why);
    g_free(why);
    return false;
}

static bool open_file(struct cm_capture *capture, struct reader *reader)
{
    char errbuf[PCAP_ERRBUF_SIZE], *error = NULL;
    const char *reason;

    reader->source = cm_source_open(reader->name, &error);
    if (reader->source == NULL) {
        report(capture, reader->name, error);
        g_free(error);
        return false;
    }
    reader->pcap = pcap_fopen_offline_with_tstamp_precision(cm_source_stream(reader->source),
                                                            PCAP_TSTAMP_PRECISION_NANO, errbuf);
    if (reader->pcap == NULL) {
        reason = cm_source_error(reader->source);
        report(capture, reader->name, *reason != '\0' ? reason : errbuf);
        fclose(cm_source_stream(reader->source));
        cm_source_free(reader->source);
        reader->source = NULL;
        return false;
    }
    return check_link(capture, reader);
}

static struct cm_capture *capture_new(int num_readers)
{
    struct cm_capture *capture = g_new0(struct cm_capture, 1);

    capture->readers = g_new0(struct reader, num_readers);
    capture->heap = g_new0(struct reader *, num_readers);
    capture->num_readers = num_readers;
    capture->scale_ns = 1;
    return capture;
}

struct cm_capture *cm_capture_open(char *const *names, int num_names)
{
    struct cm_capture *capture = capture_new(num_names);
    bool opened = false;
    int i;

    for (i = 0; i < num_names; i++) {
        struct reader *reader = &capture->readers[i];

        reader->name = names[i];
        if (open_file(capture, reader)) {
            opened = true;
            if (advance(capture, reader)) {
                capture->heap[capture->num_heap++] = reader;
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

/* Headers and the first bytes of the user data, in which the rank stands, are enough. */
static bool activate(pcap_t *pcap)
{
    pcap_set_snaplen(pcap, LIVE_SNAPLEN);
    pcap_set_promisc(pcap, 1);
    pcap_set_timeout(pcap, LIVE_TIMEOUT_MS);
    pcap_set_buffer_size(pcap, LIVE_BUFFER);
    pcap_set_tstamp_precision(pcap, PCAP_TSTAMP_PRECISION_NANO);
    return pcap_activate(pcap) >= 0;
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
    } else if (!activate(reader->pcap)) {
        report(capture, interface, pcap_geterr(reader->pcap));
    } else if (check_link(capture, reader)) {
        capture->scale_ns =
            pcap_get_tstamp_precision(reader->pcap) == PCAP_TSTAMP_PRECISION_NANO ? 1 : 1000;
        capture->heap[capture->num_heap++] = reader;
        capture->taken = true; /* the first packet is waited for by cm_capture_next() */
        return capture;
    }
    cm_capture_close(capture);
    return NULL;
}

bool cm_capture_next(struct cm_capture *capture, struct cm_frame *frame)
{
    if (capture->taken && capture->num_heap > 0) {
        if (!advance(capture, capture->heap[0])) {
            capture->heap[0] = capture->heap[--capture->num_heap];
        }
        if (capture->num_heap > 1) {
            sift_down(capture, 0);
        }
    }
    capture->taken = true;
    if (capture->num_heap == 0 || capture->stopped) {
        return false;
    }
    *frame = capture->heap[0]->frame;
    return true;
}

void cm_capture_stop(struct cm_capture *capture)
{
    capture->stopped = true;
    if (capture->num_readers > 0 && capture->readers[0].pcap != NULL) {
        pcap_breakloop(capture->readers[0].pcap);
    }
}

bool cm_capture_damaged(const struct cm_capture *capture)
{
    return capture->damaged;
}

double cm_capture_progress(const struct cm_capture *capture)
{
    uint64_t size = 0, position = 0;
    int i;

    for (i = 0; i < capture->num_readers; i++) {
        if (capture->readers[i].source != NULL) {
            if (cm_source_size(capture->readers[i].source) == 0) {
                return -1;
            }
            size += cm_source_size(capture->readers[i].source);
            position += cm_source_position(capture->readers[i].source);
        }
    }
    return size > 0 ? (double)position / (double)size : -1;
}

uint64_t cm_capture_dropped(struct cm_capture *capture)
{
    struct pcap_stat stat;

    if (capture->num_readers != 1 || capture->readers[0].source != NULL ||
        pcap_stats(capture->readers[0].pcap, &stat) != 0) {
        return 0;
    }
    return (uint64_t)stat.ps_drop + stat.ps_ifdrop;
}

void cm_capture_close(struct cm_capture *capture)
{
    int i;

    for (i = 0; i < capture->num_readers; i++) {
        if (capture->readers[i].pcap != NULL) {
            pcap_close(capture->readers[i].pcap); /* and the stream */
        }
        if (capture->readers[i].source != NULL) {
            cm_source_free(capture->readers[i].source);
        }
    }
    g_free(capture->readers);
    g_free(capture->heap);
    g_free(capture);
}
