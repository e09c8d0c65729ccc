#!/bin/sh
# All tests of ofi_test, in a time after which something hangs for sure. Then the tests of messages once
# more where memory for unexpected ones is scarce, and where long ones have to be streamed; and the tests of
# RMA where the kernel may not copy, with private memory and with the shared heap.
set -e
rma='*Rma*:*Atomic*:Order*:*Parts*:*Death*:Info*'
heap=../../src/heap/.libs/libglex_heap.so
messages='Msg.*:MultiRecv.*:Tagged.*'
timeout -k 10 600 ./ofi_test "$@"
FI_GLEX_UNEXPECTED_SIZE=100000 FI_GLEX_TX_SIZE=256 \
    timeout -k 10 300 ./ofi_test --gtest_filter="$messages"
FI_GLEX_RENDEZVOUS_GET=no timeout -k 10 300 ./ofi_test --gtest_filter="$messages:*/Model.*/0:*Death*"
UCX_GLEX_CHANNELS=sr timeout -k 10 300 ./ofi_test --gtest_filter="$messages:*/Model.*/0:*Rma*:Wait*"
GLEX_PRIVATE_RDMA=n timeout -k 10 300 ./ofi_test --gtest_filter="$rma"
if [ -e "$heap" ] && ! ldd ./ofi_test | grep -q libasan; then
    GLEX_PRIVATE_RDMA=n LD_PRELOAD=$(readlink -f "$heap") timeout -k 10 300 \
        ./ofi_test --gtest_filter='*/Rma*'
fi
