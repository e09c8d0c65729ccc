/*
 * Ping-pong of messages between two processes.
 *
 *   mp_pingpong                                  prints its address and answers one peer
 *   mp_pingpong [-n ROUNDS] [-s BYTES] ADDRESS   sends to it, checks every byte, and times
 *
 * The first messages have every length that the NIC accepts, including 0. Then ROUNDS messages are
 * timed. The answer is the complement of the message, so a process cannot mistake its own data for
 * the answer.
 */
#include "client.h"

#include <getopt.h>
#include <inttypes.h>
#include <time.h>

/* The first message: how many of each sort will follow. */
struct hello {
    uint32_t checked;
    uint32_t timed;
};

struct side {
    glex_device_handle_t dev;
    struct glex_device_attr attr;
    glex_ep_handle_t ep;
};

static uint8_t pattern(uint32_t seq, uint32_t i)
{
    return (uint8_t)(seq * 31 + i * 7 + 1);
}

static uint8_t answered(uint8_t byte)
{
    return byte ^ 0xff;
}

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void open_side(struct side *side)
{
    side->dev = client_open_device(&side->attr);
    side->ep = client_create_ep(side->dev, 13, GLEX_EP_MPQ_CAPACITY_DEFAULT);
}

static void close_side(struct side *side)
{
    client_check_no_errors(side->ep);
    CLIENT_CHECK(glex_destroy_ep(side->ep));
    CLIENT_CHECK(glex_close_device(side->dev));
}

/* Length 0 goes with no buffer at all. */
static void send_bytes(struct side *side, glex_ep_addr_t to, uint8_t *data, uint32_t len)
{
    client_send(side->ep, to, (len == 0) ? NULL : data, len);
}

/* The answering side copies messages out with receive. */
static void receive_checked(struct side *side, uint32_t seq, uint32_t expected_len,
                            glex_ep_addr_t *src, uint8_t *data)
{
    uint32_t len = 0xdeadbeef; /* output only: the previous value has no meaning */
    glex_ret_t ret = GLEX_NO_MP;
    uint32_t i;

    for (i = 0; i < CLIENT_SPINS && ret == GLEX_NO_MP; i++) {
        ret = glex_receive_mp(side->ep, 0, src, data, &len);
    }
    if (ret == GLEX_NO_MP) {
        ret = glex_receive_mp(side->ep, CLIENT_WAIT_MS, src, data, &len);
    }
    client_check(ret, "glex_receive_mp");
    if (len != expected_len) {
        CLIENT_FAIL("message %u has %u bytes, not %u", seq, len, expected_len);
    }
    for (i = 0; i < len; i++) {
        if (data[i] != pattern(seq, i)) {
            CLIENT_FAIL("message %u differs at byte %u of %u", seq, i, len);
        }
    }
}

static void answer(void)
{
    glex_ep_addr_t self, src, from;
    uint32_t len, seq, i, size;
    uint8_t data[1024];
    struct hello hello;
    struct side side;
    void *mp;

    open_side(&side);
    if (side.attr.max_imm_mp_data_len > sizeof(data)) {
        CLIENT_FAIL("room for %zu bytes only", sizeof(data));
    }
    CLIENT_CHECK(glex_get_ep_addr(side.ep, &self));
    printf("address 0x%016" PRIx64 "\n", self.v);
    fflush(stdout);

    client_check(client_probe(side.ep, &from, &mp, &len), "no peer: glex_probe_first_mp");
    if (len != sizeof(hello) + sizeof(size)) {
        CLIENT_FAIL("the first message has %u bytes", len);
    }
    memcpy(&hello, mp, sizeof(hello));
    memcpy(&size, (char *)mp + sizeof(hello), sizeof(size));
    CLIENT_CHECK(glex_discard_probed_mp(side.ep));
    send_bytes(&side, from, NULL, 0);

    for (seq = 0; seq < hello.checked + hello.timed; seq++) {
        len = (seq < hello.checked) ? seq : size;
        receive_checked(&side, seq, len, &src, data);
        if (src.v != from.v || src.s.ep_num != from.ep_num || src.nic_id != from.s.nic_id) {
            CLIENT_FAIL("message %u says it is of endpoint %u", seq, src.ep_num);
        }
        for (i = 0; i < len; i++) {
            data[i] = answered(data[i]);
        }
        send_bytes(&side, src, data, len);
    }
    close_side(&side);
    printf("answered %u messages\n", seq);
}

/* The asking side reads messages in place. */
static void one_round(struct side *side, glex_ep_addr_t peer, uint32_t seq, uint32_t size)
{
    glex_ep_addr_t src;
    uint8_t data[1024];
    uint32_t len, i;
    void *mp;

    for (i = 0; i < size; i++) {
        data[i] = pattern(seq, i);
    }
    send_bytes(side, peer, data, size);
    memset(data, 0, size); /* the NIC has copied it */
    client_check(client_probe(side->ep, &src, &mp, &len), "no answer: glex_probe_first_mp");
    if (len != size || src.v != peer.v) {
        CLIENT_FAIL("answer %u: %u bytes of endpoint %u, not %u of %u", seq, len, src.s.ep_num,
                    size, peer.s.ep_num);
    }
    for (i = 0; i < len; i++) {
        if (((uint8_t *)mp)[i] != answered(pattern(seq, i))) {
            CLIENT_FAIL("answer %u differs at byte %u of %u", seq, i, len);
        }
    }
    CLIENT_CHECK(glex_discard_probed_mp(side->ep));
}

static void wait_greeting(struct side *side, glex_ep_addr_t peer)
{
    glex_ep_addr_t src;
    uint32_t len;
    void *mp;

    client_check(client_probe(side->ep, &src, &mp, &len), "nobody answers: glex_probe_first_mp");
    if (src.v != peer.v || len != 0) {
        CLIENT_FAIL("the greeting has %u bytes, of endpoint %u", len, src.s.ep_num);
    }
    CLIENT_CHECK(glex_discard_probed_mp(side->ep));
}

static void ask(uint64_t address, uint32_t rounds, uint32_t size)
{
    uint8_t first[sizeof(struct hello) + sizeof(size)];
    uint32_t nic_id, ep_num, seq;
    glex_ep_addr_t peer, composed;
    struct hello hello;
    struct side side;
    double start;

    open_side(&side);
    if (size > side.attr.max_imm_mp_data_len) {
        CLIENT_FAIL("this NIC's messages hold %u bytes", side.attr.max_imm_mp_data_len);
    }
    peer.v = address;
    CLIENT_CHECK(glex_decompose_ep_addr(peer, GLEX_EP_TYPE_NORMAL, &nic_id, &ep_num));
    CLIENT_CHECK(glex_compose_ep_addr(nic_id, ep_num, GLEX_EP_TYPE_NORMAL, &composed));
    if (composed.v != peer.v) {
        CLIENT_FAIL("an address taken apart and put together is another one");
    }

    hello.checked = side.attr.max_imm_mp_data_len + 1;
    hello.timed = rounds;
    memcpy(first, &hello, sizeof(hello));
    memcpy(first + sizeof(hello), &size, sizeof(size));
    client_send(side.ep, peer, first, sizeof(first));
    wait_greeting(&side, peer);

    for (seq = 0; seq < hello.checked; seq++) {
        one_round(&side, peer, seq, seq);
    }
    start = now();
    for (; seq < hello.checked + rounds; seq++) {
        one_round(&side, peer, seq, size);
    }
    start = now() - start;
    close_side(&side);
    printf("%u lengths checked; latency of %u bytes, one way: %.3f us\n", hello.checked, size,
           (rounds == 0) ? 0.0 : start / rounds / 2 * 1e6);
}

int main(int argc, char **argv)
{
    uint32_t rounds = 10000, size = 8;
    int opt;

    while ((opt = getopt(argc, argv, "n:s:")) != -1) {
        if (opt == 'n') {
            rounds = (uint32_t)strtoul(optarg, NULL, 0);
        } else if (opt == 's') {
            size = (uint32_t)strtoul(optarg, NULL, 0);
        } else {
            fprintf(stderr, "usage: %s [[-n rounds] [-s bytes] address]\n", argv[0]);
            return 2;
        }
    }
    if (optind < argc) {
        ask(strtoull(argv[optind], NULL, 0), rounds, size);
    } else {
        answer();
    }
    return 0;
}
