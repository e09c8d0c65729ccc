#!/bin/sh
# The tests of what one thread does, with endpoints that take a lock: those of glex_test that take
# little time. Hints are left out, because such endpoints give none, and so is the mix of probes and
# glex_ext_poll(), because a probe by one of several threads takes the entry out of the queue.
unset GTEST_OUTPUT # one result, beside those of glex_test
GLEX_TEST_LOCKED=1 timeout -k 10 600 ./glex_test --gtest_filter="$(tr -d ' \n' <<'END'
as/message.*:coll.*:coll_random.*:coll_rdma.*:endpoint_fork.*:event.*:event_words.*:mem.*:mp.*:
of/coll_process.*:poll_.*:rdma_.*:segment.*:status.*:wait_path.*:kill_.*:wait.*
-poll_.carried_data_is_placed_once
END
)"
