/*
 * Messages of glex_ext_post_mp(), and events of glex_ext_post_event(), which have two words and no
 * data, for tests.
 */
#ifndef GLEX_TEST_MESSAGE_H
#define GLEX_TEST_MESSAGE_H

#include "nic.h"

static const uint32_t MAX_LEN = 88; /* behind the first 8 bytes */

/* A message whose every byte follows from its number. */
struct Message {
    explicit Message(uint64_t number, uint32_t length = MAX_LEN) : len(length)
    {
        head = number * 0x9e3779b97f4a7c15;
        for (uint32_t i = 0; i < MAX_LEN; i++) {
            data[i] = static_cast<unsigned char>(number * 7 + i);
        }
        word_0 = number;
        word_1 = ~number;
    }

    uint64_t word_0, word_1, head;
    unsigned char data[MAX_LEN];
    uint32_t len;
};

enum Kind { EVENT, MP };

inline glex_ret_t post(Kind kind, glex_ep_handle_t ep, glex_ep_addr_t to, const Message &m)
{
    return kind == EVENT ? glex_ext_post_event(ep, to, m.word_0, m.word_1) :
                           glex_ext_post_mp(ep, to, m.word_0, m.word_1, m.head, m.data, m.len);
}

inline Kind kind_of(const glex_ext_arrival &arrival)
{
    return arrival.event != nullptr ? EVENT : MP;
}

/* The first word of an arrived message: the number of a Message. */
inline uint64_t number_of(const glex_ext_arrival &arrival)
{
    return arrival.event != nullptr ? arrival.event->cookie_0 :
                                      *static_cast<uint64_t *>(arrival.data);
}

/* Everything of it, as it was posted. */
inline void expect_message(const Message &m, const glex_ext_arrival &arrival)
{
    unsigned char *data = static_cast<unsigned char *>(arrival.data);
    uint64_t words[3];

    if (arrival.event != nullptr) {
        ASSERT_EQ(m.word_0, arrival.event->cookie_0);
        ASSERT_EQ(m.word_1, arrival.event->cookie_1);
        return;
    }
    ASSERT_EQ(0u, reinterpret_cast<uintptr_t>(data) % 8);
    ASSERT_EQ(sizeof(words) + m.len, arrival.len);
    memcpy(words, data, sizeof(words));
    ASSERT_EQ(m.word_0, words[0]);
    ASSERT_EQ(m.word_1, words[1]);
    ASSERT_EQ(m.head, words[2]);
    ASSERT_EQ(0, memcmp(data + sizeof(words), m.data, m.len));
}

#endif
