/*
 * A peer dies: its endpoints are told, what was posted to it ends with an error, all it had comes
 * back, and everybody else goes on.
 */
#include "traffic.h"

#include <signal.h>
#include <unistd.h>

namespace
{

const uint8_t AM_VICTIM = 1, AM_FRIEND = 2, AM_FLOOD = 3;

class Death : public WithSetting
{
};

/* Process 0 survives, process 1 dies, process 2 is a friend who talks to 0 all the time */
enum { SURVIVOR, VICTIM, FRIEND };

/* Flags of the team */
enum { READY, OVER, STOP };

/* The victim: does something until it is killed */
void be_victim(Team &team, Iface &iface, const std::function<void()> &action)
{
    team.may_die();
    team.flag(READY) = 1;
    for (;;) {
        waiting_for("death");
        action();
        progress();
    }
}

void be_friend(Team &team, Iface &iface)
{
    Plan plan = mixed_plan(iface, 2, 3000);
    Sender sender(iface, team.blob(SURVIVOR), AM_FRIEND, FRIEND, plan);
    Sink sink(iface, AM_FRIEND, SURVIVOR, plan);

    while (!team.flag(OVER)) {
        sender.send();
        progress_until("the survivor's answer", [&] { return sink.received == sender.sent; });
    }
    EXPECT_OK(sender.ep.flush());
    sender.drain();
    team_barrier(team);
    EXPECT_TRUE(iface.failed.empty()) << "the wrong one was reported as dead";
}

/* The survivor's side of the friendship: every message of the friend is answered */
class Friendship
{
  public:
    Friendship(Team &team, Iface &iface)
        : sender_(iface, team.blob(FRIEND), AM_FRIEND, SURVIVOR, mixed_plan(iface, 2, 3000)),
          sink_(iface, AM_FRIEND, FRIEND, mixed_plan(iface, 2, 3000))
    {
    }

    /* Answer what has come */
    void go_on()
    {
        progress();
        while ((sender_.sent < sink_.received) && sender_.try_send()) {
        }
    }

    /* Go on until `done` */
    void until(const char *what, const std::function<bool()> &done)
    {
        while (!done()) {
            waiting_for(what);
            go_on();
        }
    }

    void exchange(unsigned count)
    {
        unsigned before = sink_.received;

        until("messages of the friend", [&] { return sink_.received >= before + count; });
    }

    void end(Team &team)
    {
        team.flag(OVER) = 1;
        team.barrier([this] { go_on(); });
        EXPECT_OK(sender_.ep.flush());
        sender_.drain();
    }

  private:
    Sender sender_;
    Sink sink_;
};

void kill_victim(Team &team)
{
    EXPECT_EQ(kill(team.pid(VICTIM), SIGKILL), 0);
}

void expect_failed_once(const Iface &iface, const Ep &ep)
{
    EXPECT_EQ(iface.failed.size(), 1u) << "each endpoint is told once, others not at all";
    EXPECT_EQ(iface.failed.front().first, ep.handle);
    EXPECT_TRUE((iface.failed.front().second == UCS_ERR_ENDPOINT_TIMEOUT) ||
                (iface.failed.front().second == UCS_ERR_CONNECTION_RESET))
        << ucs_status_string(iface.failed.front().second);
    EXPECT_TRUE(UCS_STATUS_IS_ERR(uct_ep_am_short(ep.handle, AM_VICTIM, 0, NULL, 0)) &&
                (uct_ep_am_short(ep.handle, AM_VICTIM, 0, NULL, 0) != UCS_ERR_NO_RESOURCE))
        << "an endpoint that failed says so";
}

/* What the dead had of ours comes back: as if only the friend were there */
void expect_nothing_leaked(const Iface &iface)
{
    progress_until("FIFOs and entries that the dead had", [&] {
        bool held = false;

        for (unsigned i = 0; i < iface.internals()->num_vcs; ++i) {
            const uct_glex_vc_t *vc = iface.internals()->vcs[i];

            held = held || (uct_glex_vc_is_over(vc) &&
                            ((vc->lent != UCT_GLEX_LENT_NONE) || (vc->mp_rx.window > 0)));
        }
        return !held;
    });
    iface.check_credits();
    for (unsigned i = 0; i < iface.internals()->num_vcs; ++i) {
        const uct_glex_vc_t *vc = iface.internals()->vcs[i];

        if (vc->state == UCT_GLEX_VC_FAILED) {
            EXPECT_EQ(vc->er_tx, nullptr);
            EXPECT_TRUE(ucs_list_is_empty((ucs_list_link_t *)&vc->rx));
            EXPECT_TRUE(ucs_queue_is_empty((ucs_queue_head_t *)&vc->tx_ops));
        }
    }
}

/* The frame of all: open, connect, let the survivor do its part, check what is left */
void survive(const Env &env, const std::function<void(Team &, Iface &)> &victim,
             const std::function<void(Team &, Iface &, Ep &, Friendship &)> &survivor)
{
    team(3, env, [&](Team &team) {
        Md md;
        Iface iface(md);

        team.publish(iface.address());
        team.barrier();
        if (team.rank() == VICTIM) {
            victim(team, iface);
        } else if (team.rank() == FRIEND) {
            be_friend(team, iface);
        } else {
            Friendship friendship(team, iface);
            Ep ep(iface, team.blob(VICTIM));

            iface.on_am(AM_VICTIM, [](const void *, size_t) {});
            friendship.exchange(20);
            friendship.until("the victim", [&] { return team.flag(READY) != 0; });
            survivor(team, iface, ep, friendship);
            expect_failed_once(iface, ep);
            friendship.exchange(100);
            friendship.end(team);
            expect_nothing_leaked(iface);
        }
    });
}

/* Post messages until the one that fails or is refused for ever; the handler tells the end */
void send_until_failed(Iface &iface, Ep &ep, Friendship &friendship)
{
    std::vector<uint8_t> data(200);

    friendship.until("the error handler", [&] {
        struct Bytes {
            static size_t pack(void *dest, void *arg)
            {
                return 200;
            }
        };
        uct_ep_am_bcopy(ep.handle, AM_VICTIM, Bytes::pack, NULL, 0);
        return ep.failed();
    });
}

void listen(Team &team, Iface &iface)
{
    iface.on_am(AM_VICTIM, [](const void *, size_t) {});
    be_victim(team, iface, [] {});
}

/* It dies while the survivor floods it */
TEST_P(Death, WhileItIsFlooded)
{
    survive(env(), listen, [](Team &team, Iface &iface, Ep &ep, Friendship &friendship) {
        for (unsigned i = 0; i < 500; ++i) {
            friendship.until("room", [&] {
                return uct_ep_am_short(ep.handle, AM_VICTIM, i, NULL, 0) == UCS_OK;
            });
        }
        kill_victim(team);
        send_until_failed(iface, ep, friendship);
    });
}

/* It dies in the middle of sending: what it has filled and not told about stays empty */
TEST_P(Death, WhileItFloods)
{
    auto flood = [](Team &team, Iface &iface) {
        Sender sender(iface, team.blob(SURVIVOR), AM_VICTIM, VICTIM, mixed_plan(iface, 1, 3000));

        be_victim(team, iface, [&] { sender.try_send(); });
    };

    survive(env(), flood, [](Team &team, Iface &iface, Ep &ep, Friendship &friendship) {
        friendship.exchange(50);
        kill_victim(team);
        send_until_failed(iface, ep, friendship);
    });
}

/* It never connects: dead before the first message */
TEST_P(Death, BeforeTheFirstMessage)
{
    survive(env(), listen, [](Team &team, Iface &iface, Ep &ep, Friendship &friendship) {
        kill_victim(team);
        friendship.exchange(20);
        send_until_failed(iface, ep, friendship);
    });
}

/* It sleeps when the survivor has used up all credits, then dies: nothing more is posted, so
 * nothing fails by itself. What is pending and the flush must be told nevertheless. */
TEST_P(Death, WhilePendingWaits)
{
    struct Request {
        static ucs_status_t on_turn(uct_pending_req_t *uct)
        {
            return uct_ep_am_short(((Request *)uct)->ep, AM_VICTIM, 0, NULL, 0);
        }

        uct_pending_req_t uct;
        uct_ep_h ep;
    };
    auto hang = [](Team &team, Iface &iface) {
        unsigned received = 0;

        iface.on_am(AM_VICTIM, [&](const void *, size_t) { ++received; });
        progress_until("the first message", [&] { return received > 0; });
        be_victim(team, iface, [] { pause(); });
    };
    auto survivor = [](Team &team, Iface &iface, Ep &ep, Friendship &friendship) {
        Request request;
        ucs_status_t status;
        unsigned purged = 0;

        do {
            friendship.go_on();
            status = uct_ep_am_short(ep.handle, AM_VICTIM, 0, NULL, 0);
        } while (status == UCS_OK);
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, status);
        request.uct.func = Request::on_turn;
        request.ep = ep.handle;
        EXPECT_OK(uct_ep_pending_add(ep.handle, &request.uct, 0));
        friendship.exchange(20);
        EXPECT_FALSE(ep.failed()) << "it only sleeps";
        kill_victim(team);
        friendship.until("the error handler", [&] { return ep.failed(); });
        uct_ep_pending_purge(
            ep.handle, [](uct_pending_req_t *, void *arg) { ++*(unsigned *)arg; }, &purged);
        EXPECT_LE(purged, 1u);
    };

    team(3, env(), [&](Team &team) {
        Md md;
        Iface iface(md);

        team.publish(iface.address());
        team.barrier();
        if (team.rank() == VICTIM) {
            hang(team, iface);
        } else if (team.rank() == FRIEND) {
            be_friend(team, iface);
        } else {
            Friendship friendship(team, iface);
            Ep ep(iface, team.blob(VICTIM));

            friendship.until("the first message", [&] {
                return uct_ep_am_short(ep.handle, AM_VICTIM, 0, NULL, 0) == UCS_OK;
            });
            friendship.until("the victim", [&] { return team.flag(READY) != 0; });
            survivor(team, iface, ep, friendship);
            expect_failed_once(iface, ep);
            friendship.exchange(100);
            friendship.end(team);
            expect_nothing_leaked(iface);
        }
    });
}

/* Zero-copy messages and a flush are on their way: their completions come, with an error */
TEST_P(Death, WhileZcopyIsOnItsWay)
{
    /* listens until it is told to stop, so that the survivor has credits again */
    auto hang = [](Team &team, Iface &iface) {
        iface.on_am(AM_VICTIM, [](const void *, size_t) {});
        progress_until("an order to stop", [&] { return team.flag(STOP) != 0; });
        be_victim(team, iface, [] { pause(); });
    };

    team(3, env(), [&](Team &team) {
        Md md;
        Iface iface(md);

        team.publish(iface.address());
        team.barrier();
        if (team.rank() == VICTIM) {
            hang(team, iface);
        } else if (team.rank() == FRIEND) {
            be_friend(team, iface);
        } else {
            Friendship friendship(team, iface);
            Ep ep(iface, team.blob(VICTIM));
            Memory memory(md, 5000, Memory::PRIVATE);
            uct_iov_t iov = piece(memory.data, 5000, memory.memh);
            Completion comp, flush;

            friendship.until("the first message", [&] {
                return uct_ep_am_short(ep.handle, AM_VICTIM, 0, NULL, 0) == UCS_OK;
            });
            friendship.until("credits", [&] {
                return (ep.vc()->er_tx != NULL) || (uct_glex_credit_avail(&ep.vc()->mp_tx) > 0);
            });
            team.flag(STOP) = 1;
            friendship.until("the victim", [&] { return team.flag(READY) != 0; });
            EXPECT_STATUS(UCS_INPROGRESS,
                          uct_ep_am_zcopy(ep.handle, AM_VICTIM, NULL, 0, &iov, 1, 0, &comp.uct));
            EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(ep.handle, 0, &flush.uct));
            friendship.exchange(20);
            EXPECT_EQ(comp.done + flush.done, 0);
            kill_victim(team);
            friendship.until("the completions",
                             [&] { return (comp.done > 0) && (flush.done > 0); });
            EXPECT_NE(comp.uct.status, UCS_OK);
            EXPECT_NE(flush.uct.status, UCS_OK);
            friendship.until("the error handler", [&] { return ep.failed(); });
            expect_failed_once(iface, ep);
            friendship.exchange(50);
            friendship.end(team);
            expect_nothing_leaked(iface);
        }
    });
}

/* Idle, and asked: uct_ep_check() is what UCP's keepalive uses */
TEST_P(Death, FoundByCheck)
{
    survive(env(), listen, [](Team &team, Iface &iface, Ep &ep, Friendship &friendship) {
        EXPECT_OK(uct_ep_check(ep.handle, 0, NULL));
        friendship.exchange(20);
        EXPECT_FALSE(ep.failed());
        kill_victim(team);
        friendship.until("the error handler", [&] {
            uct_ep_check(ep.handle, 0, NULL);
            return ep.failed();
        });
    });
}

/* Somebody sends so much that there is always something to take: the death is found all the same */
TEST_P(Death, FoundWhileOthersSend)
{
    survive(env(), listen, [](Team &team, Iface &iface, Ep &ep, Friendship &friendship) {
        Iface other(iface.md);
        Ep flood(other, iface.address());

        for (int i = 0; i < 100; ++i) {
            friendship.until("room", [&] {
                return uct_ep_am_short(ep.handle, AM_VICTIM, i, NULL, 0) == UCS_OK;
            });
        }
        iface.on_am(AM_FLOOD, [](const void *, size_t) {});
        friendship.until("the first message", [&] {
            return uct_ep_am_short(flood.handle, AM_FLOOD, 0, NULL, 0) == UCS_OK;
        });
        kill_victim(team);
        while (!ep.failed()) {
            waiting_for("the error handler");
            while (uct_ep_am_short(flood.handle, AM_FLOOD, 0, NULL, 0) == UCS_OK) {
            }
            iface.progress();
            other.progress();
        }
        flood.flush();
    });
}

/* It kills itself at its n-th request to the NIC: at every step of connecting and talking */
TEST_P(Death, AtEveryRequest)
{
    for (unsigned n = 1; n <= 24; n += (n < 8) ? 1 : 4) {
        SCOPED_TRACE("at request " + std::to_string(n));
        team(3, env(), [&](Team &team) {
            if (team.rank() == VICTIM) {
                setenv("GLEX_FAULT", ("kill=" + std::to_string(n)).c_str(), 1);
            }
            Md md;
            Iface iface(md);

            team.publish(iface.address());
            team.barrier();
            if (team.rank() == VICTIM) {
                Sender sender(iface, team.blob(SURVIVOR), AM_VICTIM, VICTIM,
                              mixed_plan(iface, 1, 3000));

                iface.on_am(AM_VICTIM, [](const void *, size_t) {});
                be_victim(team, iface, [&] {
                    sender.try_send();
                    if (sender.sent >= 1000) {
                        raise(SIGKILL); /* a stream over ER needs no more requests */
                    }
                });
            } else if (team.rank() == FRIEND) {
                be_friend(team, iface);
            } else {
                Friendship friendship(team, iface);
                Ep ep(iface, team.blob(VICTIM));

                iface.on_am(AM_VICTIM, [](const void *, size_t) {});
                send_until_failed(iface, ep, friendship);
                expect_failed_once(iface, ep);
                friendship.exchange(20);
                friendship.end(team);
                expect_nothing_leaked(iface);
            }
        });
    }
}

/* It dies with puts that no flush has followed. UCP then flushes to cancel, and closes when that
 * has ended. */
TEST_P(Death, WithPutsThatWereNotFlushed)
{
    team(2, env(), [](Team &team) {
        Md md;
        Iface iface(md);
        Memory memory(md, 4096, Memory::PRIVATE);

        team.publish(iface.address());
        team.barrier();
        const std::string address = team.blob(VICTIM);
        team.barrier();
        team.publish(memory.describe());
        team.barrier();
        if (team.rank() == VICTIM) {
            listen(team, iface);
            return;
        }
        RemoteMemory remote(team.blob(VICTIM));
        Ep ep(iface, address);
        Completion comp;
        char data[200] = {1};

        EXPECT_OK(ep.am_short(AM_VICTIM, 0, NULL, 0));
        EXPECT_OK(ep.put_short(data, 8, remote.address, remote.rkey.rkey));
        EXPECT_TRUE(ep.vc()->dirty);
        progress_until("the victim", [&] { return team.flag(READY) != 0; });
        kill_victim(team);
        progress_until("the error handler", [&] {
            uct_ep_check(ep.handle, 0, NULL);
            return ep.failed();
        });
        if (uct_ep_flush(ep.handle, UCT_FLUSH_FLAG_CANCEL, &comp.uct) == UCS_INPROGRESS) {
            comp.wait("the flush");
        }
        EXPECT_EQ(iface.internals()->ops.outstanding, 0u);
    });
}

FOR_CHANNELS(Death);

} // namespace
