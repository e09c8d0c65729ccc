#!/bin/sh
# All tests of ofi_test, in a time after which something hangs for sure; then once more those of
# messages where memory for unexpected ones is scarce, and where long ones have to be streamed.
set -e
messages='Msg.*:MultiRecv.*:Tagged.*'
timeout -k 10 600 ./ofi_test "$@"
FI_GLEX_UNEXPECTED_SIZE=100000 FI_GLEX_TX_SIZE=256 \
    timeout -k 10 300 ./ofi_test --gtest_filter="$messages"
FI_GLEX_RENDEZVOUS_GET=no timeout -k 10 300 ./ofi_test --gtest_filter="$messages:*/Model.*/0:*Death*"
UCX_GLEX_CHANNELS=sr timeout -k 10 300 ./ofi_test --gtest_filter="$messages:*/Model.*/0:*Rma*:Wait*"
