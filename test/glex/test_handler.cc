/* Signal handlers that fork or exit in the middle of a call, as crash handlers do. Neither waits for a
 * lock that the interrupted call has. */
#include "internals.h"
#include "nic.h"
#include "stepped.h"

#include <functional>

extern "C" {
#include "api/inspect.h"
}

enum handler_act { FORKS, EXITS };

static handler_act handler_acts;

/* The forked child uses endpoints of its own, and ends in the library's exit handler. */
static void handler(int)
{
    if (handler_acts == FORKS) {
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
            Device own;
            Ep ep(own, ep_attr(), THREADS);

            ep.send_number(ep.addr(), 4);
            exit(ep.receive_number(0) == 4 ? 0 : 1);
        }
        waitpid(pid, &status, 0);
        _exit(status);
    }
    exit(0);
}

class handler_in_a_call : public testing::TestWithParam<handler_act>
{
  protected:
    /* Runs `call` in a child, sends it a signal after some instructions, and expects it to end.
     * @return whether the call had ended before. */
    static bool interrupt(const std::function<void(Device &, Ep &)> &call, int steps)
    {
        Stepped child([&] {
            Device dev;
            Ep ep(dev, ep_attr(), THREADS);

            signal(SIGUSR1, handler);
            call(dev, ep);
            Stepped::begin();
            call(dev, ep);
            Stepped::end();
            raise(SIGUSR1);
        });
        bool complete;

        if (!child.possible()) {
            return true;
        }
        complete = child.step(steps);
        child.leave(complete ? 0 : SIGUSR1);
        EXPECT_EQ(0, child.wait_ms(WAIT_MS)) << "after " << steps << " instructions";
        return complete;
    }

    /* At about `num` instructions of the call, or at each. */
    static void at_instructions(const std::function<void(Device &, Ep &)> &call, int stride)
    {
        int steps = 0;

        handler_acts = GetParam();
        while (!interrupt(call, steps) && !HasFailure()) {
            steps += stride;
        }
        EXPECT_OK(glex_inspect_clean(nullptr, nullptr));
    }
};

TEST_P(handler_in_a_call, message)
{
    at_instructions(
        [](Device &, Ep &ep) {
            ep.send_number(ep.addr(), 1);
            ep.receive_number(0);
        },
        STEP_STRIDE == 1 ? 61 : 1501);
}

TEST_P(handler_in_a_call, memory)
{
    at_instructions(
        [](Device &, Ep &ep) {
            void *memory = ep.alloc(4096);

            EXPECT_OK(glex_deregister_mem(ep, ep.reg(memory, 4096)));
            EXPECT_OK(glex_ext_mem_free(ep, memory));
        },
        STEP_STRIDE == 1 ? 101 : 3001);
}

TEST_P(handler_in_a_call, creation_of_an_endpoint)
{
    at_instructions([](Device &dev, Ep &) { Ep other(dev, ep_attr(), THREADS); },
                    STEP_STRIDE == 1 ? 7001 : 200003);
}

INSTANTIATE_TEST_SUITE_P(that, handler_in_a_call, testing::Values(FORKS, EXITS),
                         [](const auto &info) { return info.param == FORKS ? "forks" : "exits"; });
