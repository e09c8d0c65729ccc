/*
 * Each message in each state of a connection, also messages that no honest peer sends. The table
 * "state x message" of docs/protocol.md, section 4, is tested pair by pair. Whatever arrives, the
 * connection to a friend goes on, and when the peer is gone nothing of the peer is held. After each
 * progress call the flags of all connections are as the table "state x flag" allows.
 * UCT_STATES_SEED: other random messages; UCT_STATES_ROUNDS: more of them.
 */
#include "traffic.h"
#include "conn/glex_rules.h"

#include <algorithm>
#include <random>
#include <string>
#include <stdlib.h>
#include <string.h>

namespace
{

const uint8_t AM_ID = 6;

/* The states, "no VC", and OPEN when the peer has announced that it leaves */
enum Row { NO_VC, WAIT_MPQ, CONNECTING, ACCEPTING, OPEN, LEAVING, PEER_CLOSED, FAILED, ROWS };

enum Sent {
    CONNECT,      /* with the peer's known name of the VC */
    CONNECT_ANEW, /* with another name */
    ACCEPT,
    ACCEPT_ANEW, /* with another name */
    CTL,
    ACK,
    END_ORDERLY,
    END_FAILED,
    END_UNKNOWN,
    AM,
    SR,
    NO_TYPE, /* MP of type 0 */
    EVENT_ER,
    EVENT_RING,
    EVENT_OP,
    CTL_REQUEST, /* a CTL that asks for a FIFO */
    CTL_GRANT,   /* lends an impossible FIFO */
    CTL_REVOKE,  /* wants a FIFO back that was never lent */
    CTL_RELEASED,
    CTL_NACK,
    OLD_VERSION,     /* a CTL of another version of the protocol */
    TOO_SHORT,       /* an MP without a whole header */
    AM_EARLY,        /* the message after the next one */
    AM_AGAIN,        /* the last message once more */
    AM_ZC,           /* a zero-copy descriptor that is none */
    CONNECT_FOREIGN, /* for another interface */
    END_WORD,        /* the peer leaves in good order, and waits for a claim */
    END_NAMELESS,    /* refuses a CONNECT */
    EVENT_ER_LENT,   /* a message in a FIFO that is lent before, if the state lends one */
    COLUMNS
};

const char *const row_names[] = {"no VC", "WAIT_MPQ", "CONNECTING",  "ACCEPTING",
                                 "OPEN",  "leaving",  "PEER_CLOSED", "FAILED"};
const char *const sent_names[] = {"CONNECT",
                                  "CONNECT anew",
                                  "ACCEPT",
                                  "ACCEPT anew",
                                  "CTL",
                                  "ACK",
                                  "END orderly",
                                  "END",
                                  "END unknown",
                                  "AM",
                                  "SR",
                                  "type 0",
                                  "ER event",
                                  "ring",
                                  "op event",
                                  "CTL REQUEST",
                                  "CTL GRANT",
                                  "CTL REVOKE",
                                  "CTL RELEASED",
                                  "CTL NACK",
                                  "old version",
                                  "too short",
                                  "AM early",
                                  "AM again",
                                  "AM zero-copy",
                                  "CONNECT to another",
                                  "END with word",
                                  "END without names",
                                  "ER event, FIFO lent"};

/* The row of the newest VC after a message, by its first letter ("no VC" is N). docs/protocol.md
 * has the same table. */
const char *const expected[ROWS] = {
    /* CONNECT, ACCEPT: known, another name; CTL, ACK; END: orderly, failed, unknown; AM, SR, type 0;
     * events: ER, ring, operation; CTL: REQUEST, GRANT, REVOKE, RELEASED, NACK; another version, too
     * short; AM: early, again, zero-copy; CONNECT for another interface, END: with a word, without
     * names; ER event with a lent FIFO */
    /* no VC */ "OO NNNN NNN NNN NNN NNNNN NN NNN NNNN",
    /* WAIT_MPQ */ "AA WWWW WWW WWW WWW WFWWW WW WFW WWWW",
    /* CONNECTING */ "OO OOCC FFF CCC CCC CFCCC CC CFC CFFC",
    /* ACCEPTING */ "AA AAAA PPP AAA AAA AFAAA AA AFA APAA",
    /* OPEN */ "OO OFOO PFF OFO OOO OFOOO OO OFF OPOO",
    /* leaving */ "LO LFLL LLL PFL LLL LFLLL LL LFF LLLL",
    /* PEER_CLOSED */ "PO PPPP PPP PPP PPP PPPPP PP PPP PPPP",
    /* FAILED */ "OO FFFF FFF FFF FFF FFFFF FF FFF FFFF",
};

std::string without_spaces(std::string text)
{
    text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
    return text;
}

char letter(Row row)
{
    return "NWCAOLPF"[row];
}

struct Forged {
    uct_glex_hdr_t hdr;
    union {
        uct_glex_ctl_t ctl;
        uct_glex_end_t end;
        uct_glex_sr_t sr;
        uint8_t data[64];
    };
} __attribute__((packed));

/* `a` is tested. `b` is its peer, and the endpoint of the NIC that forged messages come from. */
class Stage
{
  public:
    Stage() : a(md_a), c(md_c)
    {
        a.on_am(AM_ID, [](const void *, size_t) {});
        b.reset(new Iface(md_b));
        b->on_am(AM_ID, [](const void *, size_t) {});
        c.on_am(AM_ID, [this](const void *, size_t) { ++at_c; });
        to_c.reset(new Ep(a, c.address()));
        expect_friend();
    }

    ~Stage()
    {
        back.reset();
        ep.reset();
        to_c.reset();
    }

    /* The newest VC to the present peer, or NULL. All others have failed. */
    uct_glex_vc_t *vc()
    {
        const uct_glex_iface_t *iface = a.internals();
        uct_glex_vc_t *found = NULL;

        for (unsigned i = 0; i < iface->num_vcs; ++i) {
            if ((iface->vcs[i]->peer == b->internals()->ep_addr) &&
                (iface->vcs[i]->peer_uuid == b->internals()->uuid) &&
                ((found == NULL) || (found->state == UCT_GLEX_VC_FAILED))) {
                found = iface->vcs[i];
            }
        }
        return found;
    }

    Row row()
    {
        const uct_glex_vc_t *now = vc();

        if (now == NULL) {
            return NO_VC;
        }
        switch (now->state) {
        case UCT_GLEX_VC_WAIT_MPQ:
            return WAIT_MPQ;
        case UCT_GLEX_VC_CONNECTING:
            return CONNECTING;
        case UCT_GLEX_VC_ACCEPTING:
            return ACCEPTING;
        case UCT_GLEX_VC_OPEN:
            return now->peer_left ? LEAVING : OPEN;
        case UCT_GLEX_VC_PEER_CLOSED:
            return PEER_CLOSED;
        default:
            return FAILED;
        }
    }

    void try_send()
    {
        if (ep == nullptr) {
            ep.reset(new Ep(a, b->address()));
        }
        (void)uct_ep_am_short(ep->handle, AM_ID, 0, NULL, 0);
    }

    /* No message finds room at the peer */
    void fill_peer()
    {
        glex_ep_addr_t peer = {};

        peer.v = b->internals()->ep_addr;
        while (glex_ext_post_mp(c.internals()->nic, peer, 0, 0, 0, NULL, 0) == GLEX_SUCCESS) {
        }
    }

    void open()
    {
        try_send();
        back.reset(new Ep(*b, a.address()));
        EXPECT_OK(back->am_short(AM_ID, 0, NULL, 0));
        progress_until("the connection", [this] {
            return (row() == OPEN) && (back->vc()->state == UCT_GLEX_VC_OPEN) &&
                   !vc()->ctl_inflight && !back->vc()->ctl_inflight && (vc()->rx_seq > 0);
        });
        EXPECT_OK(ep->flush());
        for (int i = 0; i < 10; ++i) {
            progress();
        }
    }

    void bring(Row wanted)
    {
        switch (wanted) {
        case NO_VC:
            break;
        case WAIT_MPQ:
            fill_peer();
            try_send();
            a.progress();
            break;
        case CONNECTING:
            try_send();
            a.progress();
            break;
        case ACCEPTING:
            fill_peer();
            send(CONNECT);
            take();
            break;
        case FAILED:
            open();
            fail_at_once(vc());
            a.progress();
            break;
        case LEAVING:
            open();
            send(END_ORDERLY, vc()->rx_seq + 1);
            take();
            break;
        case PEER_CLOSED:
            open();
            send(END_ORDERLY);
            take();
            break;
        default:
            open();
        }
    }

    /* Names of the VC: ours and the peer's. A peer that does not know them guesses right. */
    uint32_t our_id()
    {
        return (vc() != NULL) ? vc()->id : 0x12300001;
    }

    uint32_t peer_id()
    {
        return ((vc() != NULL) && (vc()->tx.vc_id != 0)) ? vc()->tx.vc_id : 0x32100001;
    }

    void send(Sent sent)
    {
        send(sent, (vc() != NULL) ? vc()->rx_seq : 0);
    }

    /* Sends a message of the peer. Names and numbers are right, but the state may forbid the message. */
    void send(Sent sent, uint16_t seq)
    {
        Forged forged = {};

        forged.hdr.vc_id = our_id();
        forged.hdr.seq = seq;
        switch (sent) {
        case CONNECT:
        case CONNECT_ANEW:
        case CONNECT_FOREIGN:
        case ACCEPT:
        case ACCEPT_ANEW:
        case CTL:
        case CTL_REQUEST:
        case CTL_GRANT:
        case CTL_REVOKE:
        case CTL_RELEASED:
        case CTL_NACK:
        case OLD_VERSION:
            forge_ctl(&forged, sent);
            post(forged, sizeof(forged.hdr) + sizeof(forged.ctl));
            return;
        case ACK:
            forged.hdr.type_am = UCT_GLEX_MP_ACK;
            forged.hdr.flags = UCT_GLEX_FLAG_ACK;
            post(forged, sizeof(forged.hdr));
            return;
        case END_ORDERLY:
        case END_FAILED:
        case END_UNKNOWN:
        case END_WORD:
        case END_NAMELESS:
            forge_end(&forged, sent, seq);
            post(forged, sizeof(forged.hdr) + sizeof(forged.end));
            return;
        case AM:
            forged.hdr.type_am = UCT_GLEX_MP_AM | (AM_ID << 3);
            post(forged, sizeof(forged.hdr) + 8);
            return;
        case SR: /* of memory that does not exist */
            forged.hdr.type_am = UCT_GLEX_MP_SR | (AM_ID << 3);
            forged.sr.length = 1000;
            forged.sr.mh = 0x7654321;
            post(forged, sizeof(forged.hdr) + sizeof(forged.sr));
            return;
        case AM_EARLY:
        case AM_AGAIN:
            forged.hdr.type_am = UCT_GLEX_MP_AM | (AM_ID << 3);
            forged.hdr.seq = (sent == AM_EARLY) ? seq + 1 : seq - 1;
            post(forged, sizeof(forged.hdr) + 8);
            return;
        case AM_ZC:
            forged.hdr.type_am = UCT_GLEX_MP_AM | (AM_ID << 3);
            forged.hdr.flags = UCT_GLEX_FLAG_ZC;
            post(forged, sizeof(forged.hdr) + 8);
            return;
        case TOO_SHORT:
            forged.hdr.type_am = UCT_GLEX_MP_AM | (AM_ID << 3);
            post(forged, sizeof(forged.hdr) - 1);
            return;
        case NO_TYPE:
            post(forged, sizeof(forged.hdr) + 8);
            return;
        case EVENT_ER:
            post_event(UCT_GLEX_EVENT_ER | ((uint64_t)our_id() << 16) | ((uint64_t)seq << 48));
            return;
        case EVENT_ER_LENT:
            send(CTL_REQUEST, seq);
            take();
            send(EVENT_ER, seq);
            return;
        case EVENT_RING:
            post_event(UCT_GLEX_EVENT_RING | ((uint64_t)our_id() << 16));
            return;
        default:
            post_event(uct_glex_op_cookie_1(UCT_GLEX_EVENT_OP, 0x12300001));
        }
    }

    /* Progress `a` until all that has come, and all errors of the NIC, are handled */
    void take()
    {
        struct glex_ext_queues queues;

        do {
            progress_a();
            EXPECT_EQ(GLEX_SUCCESS, glex_ext_query_queues(a.internals()->nic, &queues));
        } while ((queues.mps_taken < queues.mps_arrived) ||
                 (queues.events_taken < queues.events_arrived));
        a.internals()->until_errors = 1;
        a.internals()->errors_next = 0;
        a.internals()->watched = ucs_get_time(); /* looks at no peer now */
        progress_a();
        progress_a();
    }

    /* A message with the right type and other fields by chance */
    void send_spoiled(Sent sent, std::mt19937 *random)
    {
        random_ = random;
        send(sent);
        random_ = nullptr;
    }

    /* The program of `a` does something */
    void act(unsigned what)
    {
        switch (what % 5) {
        case 0:
            try_send();
            break;
        case 1:
            if (ep != nullptr) {
                (void)uct_ep_flush(ep->handle, 0, NULL);
            }
            break;
        case 2:
            if (ep != nullptr) {
                (void)uct_ep_check(ep->handle, 0, NULL);
            }
            break;
        case 3:
            ep.reset();
            break;
        default:
            b->progress();
        }
    }

    /* The friend's connection carries messages */
    void expect_friend()
    {
        unsigned before = at_c;

        EXPECT_OK(to_c->am_short(AM_ID, 0, NULL, 0));
        progress_until("the friend", [&] { return at_c == before + 1; });
        EXPECT_OK(to_c->flush());
        EXPECT_FALSE(to_c->failed());
    }

    /* Ends the peer. Then `a` must get back the memory that the peer had. */
    void expect_nothing_held()
    {
        uct_glex_iface_t *iface = a.internals();

        back.reset();
        b.reset();
        expect_friend();
        if (ep != nullptr) {
            (void)uct_ep_check(ep->handle, 0, NULL);
        }
        progress_until("all of the peer to be released", [&] {
            unsigned held = 0;

            iface->watched = 0; /* the next progress call looks for dead peers */
            iface->errors_next = 0;
            iface->until_errors = 1;
            for (unsigned i = 0; i < iface->num_vcs; ++i) {
                held += (iface->vcs[i] != to_c->vc()) &&
                        ((iface->vcs[i]->num_ops > 0) || (iface->vcs[i]->mp_rx.window > 0) ||
                         !uct_glex_vc_is_over(iface->vcs[i]));
            }
            return (held == 0) && ucs_list_is_empty(&iface->leases.list);
        });
    }

    Md md_a, md_b, md_c;
    Iface a, c;
    std::unique_ptr<Iface> b;
    std::unique_ptr<Ep> to_c, ep, back;
    unsigned at_c = 0;

  private:
    std::mt19937 *random_ = nullptr;

    static uint16_t ctl_flags(Sent sent)
    {
        switch (sent) {
        case CTL:
            return UCT_GLEX_CTL_CREDIT;
        case CTL_REQUEST:
            return UCT_GLEX_CTL_ER_REQUEST;
        case CTL_GRANT:
            return UCT_GLEX_CTL_ER_GRANT;
        case CTL_REVOKE:
            return UCT_GLEX_CTL_ER_REVOKE;
        case CTL_RELEASED:
            return UCT_GLEX_CTL_ER_RELEASED;
        case CTL_NACK:
            return UCT_GLEX_CTL_ER_NACK;
        default:
            return 0;
        }
    }

    void progress_a()
    {
        a.progress();
        expect_rules();
    }

    void expect_rules()
    {
        const uct_glex_iface_t *iface = a.internals();
        const char *flag;

        for (unsigned i = 0; i < iface->num_vcs; ++i) {
            flag = uct_glex_rules_broken(iface->vcs[i]);
            EXPECT_EQ(flag, nullptr)
                << (flag ? flag : "") << " in state " << (int)iface->vcs[i]->state;
        }
    }

    /* Before a message is sent, a random driver spoils the message. Half of the messages stay
     * plausible: only their flags are by chance, and the FIFO that they lend is possible. */
    void spoil(Forged *forged)
    {
        const size_t first = offsetof(Forged, hdr) + sizeof(forged->hdr.type_am);
        unsigned type = uct_glex_hdr_type(forged->hdr.word);
        unsigned count;

        if (random_ == nullptr) {
            return;
        }
        if ((*random_)() % 2 == 0) {
            for (count = 1 + (*random_)() % 3; count > 0; --count) {
                ((uint8_t *)forged)[first + (*random_)() % (sizeof(*forged) - first)] =
                    (*random_)();
            }
        } else if (type == UCT_GLEX_MP_END) {
            forged->end.flags = (*random_)();
        } else if ((type >= UCT_GLEX_MP_CONNECT) && (type <= UCT_GLEX_MP_CTL)) {
            forged->ctl.flags = (*random_)();
            forged->ctl.fifo_units = 64;
            forged->ctl.fifo_msgs = 1 + (*random_)() % 8;
            forged->ctl.unit_shift = forged->ctl.spacing_shift = 6;
            forged->ctl.fifo_mh = (*random_)();
        } else {
            forged->hdr.flags = (*random_)();
        }
    }

    void forge_ctl(Forged *forged, Sent sent)
    {
        uct_glex_ctl_t *ctl = &forged->ctl;

        int is_connect = (sent == CONNECT) || (sent == CONNECT_ANEW) || (sent == CONNECT_FOREIGN);

        int is_accept = (sent == ACCEPT) || (sent == ACCEPT_ANEW);

        forged->hdr.type_am = is_accept  ? UCT_GLEX_MP_ACCEPT :
                              is_connect ? UCT_GLEX_MP_CONNECT :
                                           UCT_GLEX_MP_CTL;
        forged->hdr.credits.mp_limit = 4;
        ctl->version = UCT_GLEX_WIRE_VERSION - (sent == OLD_VERSION);
        ctl->flags = ctl_flags(sent);
        ctl->vc_id =
            peer_id() + (((sent == CONNECT_ANEW) || (sent == ACCEPT_ANEW)) ? UCT_GLEX_VC_MAX : 0);
        ctl->uuid = a.internals()->uuid + ((sent == CONNECT_FOREIGN) ? 2 : 0);
        ctl->src_uuid = b->internals()->uuid;
        ctl->key = b->internals()->md->key;
        if (is_connect) {
            forged->hdr.vc_id = 0;
        }
    }

    static uint16_t end_flags(Sent sent)
    {
        switch (sent) {
        case END_ORDERLY:
            return UCT_GLEX_END_CLAIMS | UCT_GLEX_END_ORDERLY;
        case END_WORD:
            return UCT_GLEX_END_WORD | UCT_GLEX_END_ORDERLY;
        case END_UNKNOWN:
        case END_NAMELESS:
            return UCT_GLEX_END_CLAIMS | UCT_GLEX_END_UNKNOWN;
        default:
            return UCT_GLEX_END_CLAIMS;
        }
    }

    void forge_end(Forged *forged, Sent sent, uint16_t last_seq)
    {
        uct_glex_end_t *end = &forged->end;

        forged->hdr.type_am = UCT_GLEX_MP_END;
        end->version = UCT_GLEX_WIRE_VERSION;
        end->flags = end_flags(sent);
        end->vc_id = peer_id();
        end->uuid = a.internals()->uuid;
        end->src_uuid = b->internals()->uuid;
        end->last_seq = last_seq;
        end->rx_seq = (vc() != NULL) ? vc()->tx.seq : 0;
        if (sent == END_WORD) { /* of memory that does not exist */
            end->word_mh = 0x7654321;
        } else if (sent == END_NAMELESS) {
            forged->hdr.vc_id = 0;
            end->vc_id = 0;
            end->uuid = b->internals()->uuid; /* the interface that the refused CONNECT is for */
            end->src_uuid = b->internals()->uuid + 2;
        }
    }

    void post(Forged &forged, size_t length)
    {
        glex_imm_mp_req_t req = {};

        spoil(&forged);
        req.rmt_ep_addr.v = a.internals()->ep_addr;
        req.data = &forged;
        req.len = length;
        req.flag = GLEX_EXT_FLAG_NO_LOSS;
        (void)glex_send_imm_mp(b->internals()->nic, &req, NULL); /* a full queue: not sent */
    }

    void post_event(uint64_t word)
    {
        glex_ep_addr_t peer = {};

        peer.v = a.internals()->ep_addr;
        (void)glex_ext_post_event(b->internals()->nic, peer, word, 0);
    }
};

TEST(States, EachMessageInEachState)
{
    isolated({}, [] {
        for (int row = 0; row < ROWS; ++row) {
            std::string found;

            for (int sent = 0; sent < COLUMNS; ++sent) {
                ErrorLog log;
                Stage stage;

                waiting_for(sent_names[sent]);
                stage.bring((Row)row);
                EXPECT_EQ(letter(stage.row()), letter((Row)row)) << row_names[row];
                stage.send((Sent)sent);
                stage.take();
                EXPECT_TRUE((sent != EVENT_ER_LENT) || (row != OPEN) ||
                            uct_glex_er_is_lent(stage.vc()));
                found += letter(stage.row());
                stage.expect_friend();
                stage.expect_nothing_held();
            }
            EXPECT_EQ(found, without_spaces(expected[row])) << row_names[row];
        }
    });
}

/* The peer has left, and one message of the peer is missing. A message that is sent meanwhile is
 * accepted, and nobody delivers it: the next flush says so. */
TEST(States, MessageAfterTheEndIsReported)
{
    isolated({}, [] {
        ErrorLog log;
        Stage stage;
        ucs_status_t status = UCS_OK;

        stage.bring(LEAVING);
        EXPECT_OK(stage.ep->am_short(AM_ID, 0, NULL, 0));
        stage.send(AM);
        stage.take();
        EXPECT_EQ(letter(stage.row()), letter(PEER_CLOSED));
        progress_until("an answer of the flush", [&] {
            status = uct_ep_flush(stage.ep->handle, 0, NULL);
            return status != UCS_ERR_NO_RESOURCE;
        });
        EXPECT_EQ(status, UCS_ERR_CONNECTION_RESET);
    });
}

/* The peer has left in good order, and its last message never arrives: the receiver learns the loss. */
TEST(States, LastMessageThatNeverArrivesIsReported)
{
    isolated({}, [] {
        ErrorLog log;
        Stage stage;

        stage.bring(LEAVING);
        progress_until("an error of the connection", [&] { return stage.ep->failed(); });
        EXPECT_EQ(letter(stage.row()), letter(FAILED));
    });
}

/* An END that claims is followed by a message for the same connection. So the message is from another
 * connection of the peer, and the other connection learns the end. */
TEST(States, MessageAfterTheClaimIsAnswered)
{
    isolated({}, [] {
        ErrorLog log;
        Stage stage;

        stage.open();
        stage.send(END_FAILED);
        stage.send(AM);
        stage.take();
        EXPECT_EQ(letter(stage.row()), letter(FAILED));
        progress_until("the peer to learn the end", [&] { return stage.back->failed(); });
    });
}

/* Puts while a peer leaves that has not delivered all messages: they wait, as the connection is about
 * to fail, and then return the error. */
TEST(States, PutWhileMessagesAreLost)
{
    isolated({}, [] {
        ErrorLog log;
        Stage stage;
        Memory memory(stage.md_b, 4096, Memory::NIC);
        RemoteMemory remote(memory.describe());
        uint64_t value = 42;
        ucs_status_t status = UCS_OK;

        stage.open();
        EXPECT_OK(stage.ep->am_short(AM_ID, 0, NULL, 0));
        --stage.vc()->tx.seq; /* the forged END says that this message was not delivered */
        stage.send(END_ORDERLY, stage.vc()->rx_seq + 1);
        ++stage.vc()->tx.seq;
        stage.take();
        EXPECT_EQ(letter(stage.row()), letter(LEAVING));
        EXPECT_EQ(uct_ep_put_short(stage.ep->handle, &value, sizeof(value), remote.address,
                                   remote.rkey.rkey),
                  UCS_ERR_NO_RESOURCE);
        stage.send(AM);
        stage.take();
        progress_until("an answer of the put", [&] {
            status = uct_ep_put_short(stage.ep->handle, &value, sizeof(value), remote.address,
                                      remote.rkey.rkey);
            return status != UCS_ERR_NO_RESOURCE;
        });
        EXPECT_EQ(status, UCS_ERR_ENDPOINT_TIMEOUT);
        EXPECT_TRUE(stage.ep->failed());
        EXPECT_NE(*(uint64_t *)memory.data, value);
    });
}

unsigned number(const char *name, unsigned def)
{
    const char *text = getenv(name);

    return (text != NULL) ? strtoul(text, NULL, 10) : def;
}

/* Walks at random through the states, by messages of a peer that keeps no rule. Each pair (state,
 * message) is visited. */
class Driver
{
  public:
    explicit Driver(unsigned seed) : random_(seed)
    {
    }

    /* A connection from its beginning to its end */
    void walk()
    {
        ErrorLog log;
        Stage stage;
        Row row = pick_row();
        unsigned left = 2 + random_() % 6;

        waiting_for(row_names[row]);
        stage.bring(row);
        while (left-- > 0) {
            if (random_() % 4 == 0) {
                stage.act(random_());
            }
            step(stage);
        }
        stage.expect_friend();
        stage.expect_nothing_held();
    }

    unsigned missing() const
    {
        return std::count(&visited_[0][0], &visited_[0][0] + ROWS * COLUMNS, 0u);
    }

  private:
    /* Returns a state in which some message was not sent yet, else any state */
    Row pick_row()
    {
        unsigned first = random_() % ROWS;

        for (unsigned i = 0; i < ROWS; ++i) {
            unsigned row = (first + i) % ROWS;

            if (std::count(visited_[row], visited_[row] + COLUMNS, 0u) > 0) {
                return (Row)row;
            }
        }
        return (Row)first;
    }

    Sent pick_message(Row row)
    {
        unsigned first = random_() % COLUMNS;

        for (unsigned i = 0; i < COLUMNS; ++i) {
            unsigned sent = (first + i) % COLUMNS;

            if (visited_[row][sent] == 0) {
                return (Sent)sent;
            }
        }
        return (Sent)first;
    }

    void step(Stage &stage)
    {
        Row row = stage.row();
        Sent sent = pick_message(row);

        waiting_for(sent_names[sent]);
        if (random_() % 3 == 0) {
            stage.send_spoiled((Sent)(random_() % COLUMNS), &random_);
        } else {
            stage.send(sent);
            ++visited_[row][sent];
        }
        stage.take();
    }

    std::mt19937 random_;
    unsigned visited_[ROWS][COLUMNS] = {};
};

TEST(States, RandomMessages)
{
    unsigned seed = number("UCT_STATES_SEED", 1);
    unsigned rounds = number("UCT_STATES_ROUNDS", 60);
    const std::vector<Env> settings = {
        {}, {{"GLEX_FAULT", "nomap"}}, {{"UCX_GLEX_CHANNELS", "er"}}};

    for (const Env &env : settings) {
        isolated(env, [=] {
            Driver driver(seed);
            unsigned all = ROWS * COLUMNS, walks = 0;

            while ((walks < rounds) || ((driver.missing() > 0) && (walks < 1000))) {
                driver.walk();
                ++walks;
            }
            printf("seed %u, %u walks: %u of %u pairs (state, message)\n", seed, walks,
                   all - driver.missing(), all);
            fflush(stdout);
            EXPECT_EQ(driver.missing(), 0u);
        });
    }
}

} // namespace
