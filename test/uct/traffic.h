/*
 * Messages whose content sender and receiver can compute. The receiver compares every byte, number,
 * order and length.
 */
#ifndef UCT_TEST_TRAFFIC_H
#define UCT_TEST_TRAFFIC_H

#include "node.h"

enum class Op { SHORT, SHORT_IOV, BCOPY, ZCOPY };

struct Message {
    Op op;
    size_t length; /* as the handler sees it */
};

/* Content of message `n` of sender `sender`. The first 8 bytes contain `sender` and `n`. */
void fill(void *data, size_t length, uint32_t sender, uint32_t n);
void check(const void *data, size_t length, uint32_t sender, uint32_t n);

/* Which operation and which length message n has. Both sides know it. */
typedef std::function<Message(uint32_t n)> Plan;

/* All operations of an interface in random order, most lengths small, all up to the largest
 * possible; lengths beside the limits are frequent */
Plan mixed_plan(const Iface &iface, unsigned seed);

/* The same with an upper bound of the length, and at least 8 bytes, so that messages name their
 * sender */
Plan mixed_plan(const Iface &iface, unsigned seed, size_t max_length);

/* One sender's messages to one peer */
class Sender
{
  public:
    Sender(Iface &iface, const std::string &peer, uint8_t am_id, uint32_t id, const Plan &plan);
    ~Sender();

    /* Send the next one. Goes on with progress until it is posted. */
    void send();

    /* Send the next one if that is possible now */
    bool try_send();

    /* Wait until all zero-copy buffers are free */
    void drain();

    Ep ep;
    uint32_t sent = 0;

  private:
    struct Zcopy;

    ucs_status_t post();
    ucs_status_t post_iov(uint8_t *data, size_t length);
    ucs_status_t post_zcopy(uint8_t *data, size_t length);
    void reap();

    uint8_t am_id_;
    uint32_t id_;
    Plan plan_;
    std::list<std::unique_ptr<Zcopy>> zcopy_;
};

/* Receives the messages of one sender with one AM id */
class Sink
{
  public:
    Sink(Iface &iface, uint8_t am_id, uint32_t id, const Plan &plan);

    uint32_t received = 0;
};

/* The sender of a message of at least 8 bytes */
uint32_t sender_of(const void *data, size_t length);

/* Compare the next message of a sender */
void check_next(const void *data, size_t length, uint32_t sender, const Plan &plan,
                uint32_t *received);

/* ---- environments that tests are repeated with ---- */

struct Setting {
    const char *name;
    Env env;
};

/* For gtest's messages */
std::ostream &operator<<(std::ostream &os, const Setting &setting);
std::string setting_name(const testing::TestParamInfo<Setting> &info);

/* Channels er, sr, both; each also with tiny resources */
std::vector<Setting> channel_settings();

/* As before, and both channels on NICs that cannot do something or make trouble */
std::vector<Setting> all_settings();

class WithSetting : public testing::TestWithParam<Setting>
{
  protected:
    const Env &env() const
    {
        return GetParam().env;
    }
};

/* Processes with a network, which reach each other with GLEX_FAULT=far only. Skips the test if no
 * network is available */
void network_team(unsigned size, const Env &env, const std::function<void(Team &)> &body);

#define FOR_CHANNELS(_suite)                                                                       \
    INSTANTIATE_TEST_SUITE_P(Channels, _suite, testing::ValuesIn(channel_settings()), setting_name)
#define FOR_ALL(_suite)                                                                            \
    INSTANTIATE_TEST_SUITE_P(All, _suite, testing::ValuesIn(all_settings()), setting_name)

#endif
