/*
 * Many senders, one receiver, one message queue.
 *
 *   many_to_one [-n SENDERS] [-m MESSAGES] [-c CAPACITY] [-o]
 *
 * Normally each sender has credits for its share of the queue, and the receiver returns credits as
 * it takes messages. No message may be lost or arrive twice. With -o the senders first send twice
 * the capacity of the queue without credits, while the receiver does not receive. A full queue of
 * messages must arrive, and the senders must get an error for each further message.
 */
#include "client.h"

#include <getopt.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SENDERS  64
#define MAX_MESSAGES 65536
#define MSG_MIN      ((uint32_t)sizeof(struct msg_head))
#define MSG_MAX      64
#define DRAIN_MS     300 /* a queue silent for so long, its senders being done, is empty */

struct msg_head {
    uint32_t sender;
    uint32_t seq;
};

/* The receiver's data for a sender, by pipe. */
struct order {
    glex_ep_addr_t receiver;
    uint32_t overflow; /* messages to send with no regard to credits */
    uint32_t messages;
    uint32_t credits;
};

/* The receiver's view of a sender. */
struct sender {
    pid_t pid;
    int down, up; /* pipes to and from it */
    glex_ep_addr_t addr;
    uint32_t arrived;
    uint32_t unreturned; /* credits */
    uint8_t seen[MAX_MESSAGES];
};

struct receiver {
    glex_device_handle_t dev;
    glex_ep_handle_t ep;
    uint32_t capacity;
    uint32_t num;
    struct sender senders[MAX_SENDERS];
};

static void write_all(int fd, const void *data, size_t len)
{
    if (write(fd, data, len) != (ssize_t)len) {
        CLIENT_FAIL("cannot write to a pipe");
    }
}

static void read_all(int fd, void *data, size_t len)
{
    size_t done = 0;
    ssize_t got;

    while (done < len) {
        got = read(fd, (char *)data + done, len - done);
        if (got <= 0) {
            CLIENT_FAIL("the other side of a pipe has gone");
        }
        done += (size_t)got;
    }
}

static uint32_t msg_len(uint32_t seq)
{
    return MSG_MIN + seq % (MSG_MAX - MSG_MIN + 1);
}

static uint8_t msg_byte(uint32_t sender, uint32_t seq, uint32_t i)
{
    return (uint8_t)(sender * 59 + seq * 3 + i);
}

/* ---- a sender ---- */

static void send_msg(glex_ep_handle_t ep, glex_ep_addr_t to, uint32_t sender, uint32_t seq)
{
    struct msg_head head = {.sender = sender, .seq = seq};
    uint8_t data[MSG_MAX];
    uint32_t i;

    memcpy(data, &head, sizeof(head));
    for (i = sizeof(head); i < msg_len(seq); i++) {
        data[i] = msg_byte(sender, seq, i);
    }
    client_send(ep, to, data, msg_len(seq));
}

/*
 * Collects the messages that were lost because the queue was full. Any other error fails the test.
 */
static uint32_t collect_lost(glex_ep_handle_t ep, uint32_t sender, uint8_t *lost, uint32_t sent)
{
    struct glex_err_req errs[8];
    struct msg_head head;
    uint32_t num = 8, i;

    CLIENT_CHECK(glex_poll_error_req(ep, &num, errs));
    for (i = 0; i < num; i++) {
        memcpy(&head, &errs[i].data0, sizeof(head));
        if (errs[i].op != GLEX_ERR_OP_IMM_MP || errs[i].status != GLEX_ERR_STATUS_DEST_MPQ_FULL) {
            CLIENT_FAIL("%s failed: %s", glex_error_req_opcode_str(errs[i].op),
                        glex_error_req_status_str(errs[i].status));
        }
        if (head.sender != sender || head.seq >= sent || lost[head.seq]++ != 0 ||
            errs[i].data1 != msg_len(head.seq)) {
            CLIENT_FAIL("sender %u is told of a message it did not lose: %u of %u", sender,
                        head.seq, head.sender);
        }
    }
    return num;
}

static void send_overflow(glex_ep_handle_t ep, const struct order *order, uint32_t sender, int down,
                          int up)
{
    static uint8_t lost[MAX_MESSAGES];
    uint32_t seq, arrived, num_lost = 0, waited;

    for (seq = 0; seq < order->overflow; seq++) {
        send_msg(ep, order->receiver, sender, seq);
        num_lost += collect_lost(ep, sender, lost, seq + 1);
    }
    write_all(up, &seq, sizeof(seq));
    read_all(down, &arrived, sizeof(arrived));
    for (waited = 0; num_lost < seq - arrived && waited < CLIENT_WAIT_MS; waited++) {
        usleep(1000);
        num_lost += collect_lost(ep, sender, lost, seq);
    }
    write_all(up, lost, order->overflow);
}

static uint32_t wait_credits(glex_ep_handle_t ep, glex_ep_addr_t receiver)
{
    glex_ep_addr_t src;
    uint32_t credits, len;
    void *mp;

    client_check(client_probe(ep, &src, &mp, &len), "no credits: glex_probe_first_mp");
    if (src.v != receiver.v || len != sizeof(credits)) {
        CLIENT_FAIL("%u bytes of endpoint %u are no credits", len, src.ep_num);
    }
    memcpy(&credits, mp, sizeof(credits));
    CLIENT_CHECK(glex_discard_probed_mp(ep));
    return credits;
}

/* Done when all credits have come home: then every message was taken. */
static void send_with_credits(glex_ep_handle_t ep, const struct order *order, uint32_t sender)
{
    uint32_t credits = order->credits;
    uint32_t seq;

    for (seq = 0; seq < order->messages; seq++) {
        while (credits == 0) {
            credits += wait_credits(ep, order->receiver);
        }
        send_msg(ep, order->receiver, sender, seq);
        credits--;
    }
    while (credits < order->credits) {
        credits += wait_credits(ep, order->receiver);
    }
    if (credits != order->credits) {
        CLIENT_FAIL("sender %u has %u credits of %u", sender, credits, order->credits);
    }
}

static void run_sender(uint32_t sender, int down, int up)
{
    struct glex_device_attr attr;
    glex_device_handle_t dev;
    struct order order;
    glex_ep_handle_t ep;

    read_all(down, &order, sizeof(order));
    dev = client_open_device(&attr);
    ep = client_create_ep(dev, 0x23, GLEX_EP_MPQ_CAPACITY_DEFAULT);
    if (attr.max_imm_mp_data_len < MSG_MAX) {
        CLIENT_FAIL("this NIC's messages hold %u bytes", attr.max_imm_mp_data_len);
    }
    if (order.overflow != 0) {
        send_overflow(ep, &order, sender, down, up);
    }
    send_with_credits(ep, &order, sender);
    client_check_no_errors(ep);
    CLIENT_CHECK(glex_destroy_ep(ep));
    CLIENT_CHECK(glex_close_device(dev));
}

/* ---- the receiver ---- */

static void give_credits(struct receiver *rx, struct sender *sender, uint32_t messages,
                         uint32_t window)
{
    if (sender->arrived == messages || sender->unreturned >= (window + 1) / 2) {
        client_send(rx->ep, sender->addr, &sender->unreturned, sizeof(sender->unreturned));
        sender->unreturned = 0;
    }
}

/* Checks a message where it lies; and writes there, as programs do that reuse the place. */
static struct sender *take_msg(struct receiver *rx, glex_ep_addr_t src, uint8_t *data, uint32_t len)
{
    struct sender *sender;
    struct msg_head head;
    uint32_t i;

    if (len < MSG_MIN) {
        CLIENT_FAIL("a message of %u bytes", len);
    }
    memcpy(&head, data, sizeof(head));
    if (head.sender >= rx->num || head.seq >= MAX_MESSAGES || len != msg_len(head.seq)) {
        CLIENT_FAIL("message %u of sender %u has %u bytes", head.seq, head.sender, len);
    }
    sender = &rx->senders[head.sender];
    if (sender->seen[head.seq]++ != 0) {
        CLIENT_FAIL("message %u of sender %u came twice", head.seq, head.sender);
    }
    for (i = sizeof(head); i < len; i++) {
        if (data[i] != msg_byte(head.sender, head.seq, i)) {
            CLIENT_FAIL("message %u of sender %u differs at byte %u", head.seq, head.sender, i);
        }
    }
    if (sender->addr.v == 0) {
        sender->addr = src;
    } else if (sender->addr.v != src.v) {
        CLIENT_FAIL("sender %u has moved to endpoint %u", head.sender, src.s.ep_num);
    }
    sender->arrived++;
    memset(data, 0xff, len);
    return sender;
}

/* How many messages are there, up to a number; none is removed, the cursor is moved. */
static uint32_t count_waiting(struct receiver *rx, uint32_t max, void **first)
{
    glex_ep_addr_t src;
    uint32_t num, len;
    void *data;

    client_check(client_probe(rx->ep, &src, first, &len), "no message: glex_probe_first_mp");
    for (num = 1; num < max; num++) {
        if (glex_probe_next_mp(rx->ep, &src, &data, &len) != GLEX_SUCCESS) {
            break;
        }
    }
    return num;
}

/* Probes a batch, returns to its start, takes it, and discards it at once. */
static void take_batch(struct receiver *rx, uint32_t messages, uint32_t window)
{
    struct sender *sender;
    glex_ep_addr_t src;
    void *first, *data;
    uint32_t num, i, len;

    num = count_waiting(rx, 16, &first);
    CLIENT_CHECK(glex_probe_first_mp(rx->ep, 0, &src, &data, &len));
    if (data != first) {
        CLIENT_FAIL("the first message is not where it was");
    }
    for (i = 0; i < num; i++) {
        if (i > 0) {
            CLIENT_CHECK(glex_probe_next_mp(rx->ep, &src, &data, &len));
        }
        sender = take_msg(rx, src, data, len);
        sender->unreturned++;
    }
    CLIENT_CHECK(glex_discard_probed_mp(rx->ep));
    for (i = 0; i < rx->num; i++) {
        if (rx->senders[i].unreturned != 0) {
            give_credits(rx, &rx->senders[i], messages, window);
        }
    }
}

static void forget_messages(struct receiver *rx)
{
    uint32_t i;

    for (i = 0; i < rx->num; i++) {
        rx->senders[i].arrived = 0;
        memset(rx->senders[i].seen, 0, sizeof(rx->senders[i].seen));
    }
}

static void receive_with_credits(struct receiver *rx, uint32_t messages, uint32_t window)
{
    uint32_t done, i;

    forget_messages(rx);
    do {
        take_batch(rx, messages, window);
        for (i = 0, done = 0; i < rx->num; i++) {
            done += (rx->senders[i].arrived == messages);
        }
    } while (done < rx->num);
    /* exactly once: the number of messages is right, and no message arrived twice */
}

static void check_lost(struct sender *sender, uint32_t index, uint32_t sent)
{
    static uint8_t lost[MAX_MESSAGES];
    uint32_t seq;

    read_all(sender->up, lost, sent);
    for (seq = 0; seq < sent; seq++) {
        if (lost[seq] + sender->seen[seq] != 1) {
            CLIENT_FAIL("message %u of sender %u %s", seq, index,
                        lost[seq] ? "arrived and is called lost" : "is lost and nobody was told");
        }
    }
}

static void receive_overflow(struct receiver *rx, uint32_t per_sender)
{
    uint32_t total = 0, i, len, sent;
    glex_ep_addr_t src;
    void *data;

    forget_messages(rx);
    for (i = 0; i < rx->num; i++) {
        read_all(rx->senders[i].up, &sent, sizeof(sent));
    }
    while (glex_probe_first_mp(rx->ep, DRAIN_MS, &src, &data, &len) == GLEX_SUCCESS) {
        take_msg(rx, src, data, len);
        CLIENT_CHECK(glex_discard_probed_mp(rx->ep));
        total++;
    }
    if (total < rx->capacity || total == per_sender * rx->num) {
        CLIENT_FAIL("%u of %u messages arrived in a queue of %u", total, per_sender * rx->num,
                    rx->capacity);
    }
    for (i = 0; i < rx->num; i++) {
        write_all(rx->senders[i].down, &rx->senders[i].arrived, sizeof(uint32_t));
        check_lost(&rx->senders[i], i, per_sender);
    }
    printf("%u messages to a queue of %u: %u arrived, of the others their senders were told\n",
           per_sender * rx->num, rx->capacity, total);
}

/* Before anything of GLEX is open: an endpoint belongs to one process. */
static void fork_senders(struct receiver *rx)
{
    int down[2], up[2];
    uint32_t i, older;

    for (i = 0; i < rx->num; i++) {
        if (pipe(down) != 0 || pipe(up) != 0) {
            CLIENT_FAIL("no pipe");
        }
        rx->senders[i].pid = fork();
        if (rx->senders[i].pid == -1) {
            CLIENT_FAIL("cannot fork");
        }
        if (rx->senders[i].pid == 0) {
            /* an inherited pipe of another sender would hide the receiver's death */
            for (older = 0; older < i; older++) {
                close(rx->senders[older].down);
                close(rx->senders[older].up);
            }
            close(down[1]);
            close(up[0]);
            run_sender(i, down[0], up[1]);
            exit(EXIT_SUCCESS);
        }
        close(down[0]);
        close(up[1]);
        rx->senders[i].down = down[1];
        rx->senders[i].up = up[0];
    }
}

static void wait_senders(struct receiver *rx)
{
    uint32_t i;
    int status;

    for (i = 0; i < rx->num; i++) {
        if (waitpid(rx->senders[i].pid, &status, 0) != rx->senders[i].pid || status != 0) {
            CLIENT_FAIL("sender %u failed", i);
        }
    }
}

static void run_receiver(struct receiver *rx, uint32_t messages, uint32_t capacity, int overflow)
{
    struct glex_device_attr dev_attr;
    struct glex_ep_attr ep_attr;
    struct order order;
    uint32_t i;

    rx->dev = client_open_device(&dev_attr);
    rx->ep = client_create_ep(rx->dev, 0x23, capacity);
    CLIENT_CHECK(glex_query_ep(rx->ep, &ep_attr));
    rx->capacity = ep_attr.mpq_capacity;
    if (rx->capacity < capacity || rx->capacity < rx->num) {
        CLIENT_FAIL("a queue of %u for %u senders", rx->capacity, rx->num);
    }
    CLIENT_CHECK(glex_get_ep_addr(rx->ep, &order.receiver));
    order.messages = messages;
    order.credits = rx->capacity / rx->num;
    order.overflow = overflow ? 2 * rx->capacity / rx->num + 1 : 0;
    if (order.overflow > MAX_MESSAGES) {
        CLIENT_FAIL("a queue of %u cannot be made to overflow", rx->capacity);
    }
    for (i = 0; i < rx->num; i++) {
        write_all(rx->senders[i].down, &order, sizeof(order));
    }
    if (overflow) {
        receive_overflow(rx, order.overflow);
    }
    receive_with_credits(rx, messages, order.credits);
    client_check_no_errors(rx->ep);
    CLIENT_CHECK(glex_destroy_ep(rx->ep));
    CLIENT_CHECK(glex_close_device(rx->dev));
    wait_senders(rx);
    printf("%u messages each of %u senders arrived, once\n", messages, rx->num);
}

int main(int argc, char **argv)
{
    static struct receiver rx = {.num = 8};
    uint32_t messages = 2000, capacity = 256;
    int overflow = 0, opt;

    while ((opt = getopt(argc, argv, "n:m:c:o")) != -1) {
        switch (opt) {
        case 'n':
            rx.num = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 'm':
            messages = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 'c':
            capacity = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 'o':
            overflow = 1;
            break;
        default:
            fprintf(stderr, "usage: %s [-n senders] [-m messages] [-c capacity] [-o]\n", argv[0]);
            return 2;
        }
    }
    if (rx.num == 0 || rx.num > MAX_SENDERS || messages == 0 || messages > MAX_MESSAGES) {
        fprintf(stderr, "1 to %d senders, 1 to %d messages\n", MAX_SENDERS, MAX_MESSAGES);
        return 2;
    }
    fork_senders(&rx);
    run_receiver(&rx, messages, capacity, overflow);
    return 0;
}
