#!/bin/sh
# Long data in pieces down a tree, which the NICs carry on by themselves.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/common.sh"

right='every byte everywhere$'
for size in 2 5 16; do
    job "$size" "$right" broadcast
done
job 4 "$right" broadcast 4
(
    # A busy NIC is asked again.
    export GLEX_FAULT=busy=0.3
    job 3 "$right" broadcast 2
)
assert_no_segments
