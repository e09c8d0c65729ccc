// Pieces of the server: the plan of tests, the configuration.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <queue>
#include <random>
#include <vector>
#include <unistd.h>

extern "C" {
#include "inm/server/act/bist.h"
#include "inm/server/core/config.h"
#include "inm/server/core/history.h"
#include "inm/server/http/auth.h"
}

static size_t reached(const inm_topo *t, const std::vector<uint8_t> &round, int now)
{
    std::vector<bool> seen(t->num_nrc);
    std::queue<uint32_t> queue;
    queue.push(t->peer[inm_topo_port(t, t->server, 0)] / 24);
    seen[queue.front()] = true;
    size_t n = 0;
    while (!queue.empty()) {
        uint32_t chip = queue.front();
        queue.pop();
        n++;
        for (uint32_t p = chip * 24; p < chip * 24 + 24; p++) {
            uint32_t peer = t->peer[p];
            if (peer < t->num_nrc * 24 && round[p] != now && !seen[peer / 24]) {
                seen[peer / 24] = true;
                queue.push(peer / 24);
            }
        }
    }
    return n;
}

TEST(Bist, NoRoundCutsARouterOff)
{
    char error[200];
    for (const char *what : {"small", "th2"}) {
        inm_topo *t = inm_topo_make(what, error, sizeof(error));
        std::vector<uint8_t> want(inm_topo_ports(t), 1), round(inm_topo_ports(t));
        uint32_t rounds = bist_plan(t, t->peer, t->server, want.data(), round.data()), tested = 0;
        ASSERT_GE(rounds, 2u);
        for (uint32_t r = 1; r <= rounds; r++) {
            ASSERT_EQ(t->num_nrc, reached(t, round, r)) << what << " round " << r;
        }
        for (uint32_t p = 0; p < round.size(); p++) {
            ASSERT_TRUE(t->peer[p] == INM_NONE || round[p] == round[t->peer[p]]);
            tested += round[p] != 0 && round[p] != 255;
        }
        EXPECT_EQ(2 * t->num_links - 2, tested) << what; // all but the server's own
        inm_topo_free(t);
    }
}

TEST(Bist, BridgesAreLeftOut)
{
    inm_topo *t = inm_topo_new(3, 1);
    inm_topo_wire(t, inm_topo_port(t, 0, 0), inm_topo_port(t, 3, 0));
    inm_topo_wire(t, 1, 24 + 1);
    inm_topo_wire(t, 24 + 2, 48 + 2);
    inm_topo_wire(t, 24 + 3, 48 + 3);
    t->server = 3;
    std::vector<uint8_t> want(inm_topo_ports(t), 1), round(inm_topo_ports(t));
    EXPECT_EQ(2u, bist_plan(t, t->peer, t->server, want.data(), round.data()));
    EXPECT_EQ(255, round[1]);
    EXPECT_EQ(3, round[24 + 2] + round[24 + 3]);
    inm_topo_free(t);
}

static std::string read_config(const std::string &text)
{
    std::string path = testing::TempDir() + "inm-config-" + std::to_string(getpid());
    std::ofstream(path) << text;
    inm_config config;
    char error[600];
    bool ok = config_read(path.c_str(), &config, error, sizeof(error));
    unlink(path.c_str());
    return ok ? "" : error + path.size();
}

TEST(Config, ErrorsNameTheLine)
{
    EXPECT_EQ("", read_config("[server]\nname = x\n[peer two]\nurl = unix:/x\nrank = 3\n"));
    EXPECT_EQ(":3: [network] has no option \"windo\"", read_config("[network]\n\nwindo = 4\n"));
    EXPECT_EQ(":2: window: \"0\" is not a number from 1 to 8192",
              read_config("[network]\nwindow = 0\n"));
    EXPECT_EQ(":2: no such section: [netwrk]", read_config("[netwrk]\nx = 1\n"));
    EXPECT_EQ(":3: is neither [section] nor option = value, or is too long",
              read_config("[http]\nport = 1\nrubbish\n"));
    EXPECT_EQ(":2: url is http://HOST:PORT, https://HOST:PORT or unix:/PATH",
              read_config("[peer a]\nurl = ftp://x\n"));
    EXPECT_EQ(": [poll] mode is single, loop or compare, not \"never\"",
              read_config("[poll]\nmode = never\n"));
    EXPECT_EQ(": [http] tls_cert and tls_key need each other",
              read_config("[http]\ntls_key = x\n"));
}

TEST(Auth, PasswordsSessionsAndLimits)
{
    std::string path = testing::TempDir() + "inm-auth-" + std::to_string(getpid());
    char error[200];
    history *h = history_open(path.c_str(), error, sizeof(error));
    ASSERT_NE(nullptr, h) << error;
    inm_config config;
    ASSERT_TRUE(config_read(nullptr, &config, error, sizeof(error)));
    config.login_tries = 3;
    auth *a = auth_open(h, &config);
    ASSERT_TRUE(auth_set_user(a, "ann", ROLE_OPERATOR, "right password"));
    EXPECT_FALSE(auth_set_user(a, "ann'; --", ROLE_OPERATOR, "right password"));
    EXPECT_FALSE(auth_set_user(a, "bob", ROLE_OPERATOR, "short"));
    struct auth_session s, t;
    EXPECT_EQ(LOGIN_WRONG, auth_login(a, "ann", "wrong", "1.1.1.1", &s));
    EXPECT_EQ(LOGIN_WRONG, auth_login(a, "nobody", "wrong", "1.1.1.1", &s));
    EXPECT_EQ(LOGIN_WRONG, auth_login(a, "ann", "", "1.1.1.1", &s));
    EXPECT_EQ(LOGIN_TOO_MANY, auth_login(a, "ann", "right password", "1.1.1.1", &s));
    ASSERT_EQ(LOGIN_OK, auth_login(a, "ann", "right password", "2.2.2.2", &s));
    EXPECT_EQ(ROLE_OPERATOR, s.role);
    ASSERT_TRUE(auth_find_session(a, s.token, &t));
    EXPECT_FALSE(auth_find_session(a, "", &t));
    EXPECT_FALSE(auth_find_session(a, s.csrf, &t));
    ASSERT_TRUE(auth_set_user(a, "ann", ROLE_VIEWER, "new password"));
    EXPECT_FALSE(auth_find_session(a, s.token, &t)); // a new password ends sessions
    auth_close(a);
    history_close(h);
    for (const char *end : {"", "-wal", "-shm"}) {
        unlink((path + end).c_str());
    }
}

TEST(History, KeepsAlarmsAndEvents)
{
    std::string path = testing::TempDir() + "inm-history-" + std::to_string(getpid());
    char error[200];
    for (int round = 0; round < 2; round++) {
        history *h = history_open(path.c_str(), error, sizeof(error));
        ASSERT_NE(nullptr, h) << error;
        inm_alarm *alarms = nullptr;
        if (round == 0) {
            inm_alarm a = {};
            a.key = 5ull << 40 | 7;
            a.cause = CAUSE_HOT;
            a.chip = 7;
            a.port = INM_NONE;
            a.raised = 12.5;
            uint64_t id = history_alarm_raised(h, &a, "place", "text");
            a.key++;
            history_alarm_cleared(h, history_alarm_raised(h, &a, "place", "text"), 13);
            history_alarm_acknowledged(h, id, "ann");
            inm_event e = {};
            e.id = 41;
            e.time = 1;
            history_event(h, &e);
        } else {
            ASSERT_EQ(1u, history_active(h, &alarms));
            EXPECT_EQ(5ull << 40 | 7, alarms[0].key);
            EXPECT_EQ(INM_NONE, alarms[0].port);
            EXPECT_STREQ("ann", alarms[0].acknowledged);
            EXPECT_EQ(12.5, alarms[0].raised);
            EXPECT_EQ(41u, history_last_event(h));
            free(alarms);
        }
        history_close(h);
    }
    for (const char *end : {"", "-wal", "-shm"}) {
        unlink((path + end).c_str());
    }
}
