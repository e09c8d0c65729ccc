#!/bin/sh
# Waves over a grid, which the NICs carry on by themselves.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/common.sh"

right='each rank has found each$'
for size in 2 6 16; do
    job "$size" "$right" wavefront
done
job 4 "$right" wavefront 4
(
    # A busy NIC is asked again.
    export GLEX_FAULT=busy=0.3
    job 9 "$right" wavefront
)
assert_no_segments
