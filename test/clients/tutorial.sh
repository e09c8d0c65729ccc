#!/bin/sh
# Each request of the interface once, between neighbours in a ring.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/common.sh"

right='each request did what it should$'
job 2 "$right" tutorial
job 16 "$right" tutorial
job 3 "$right" tutorial 3
(
    # A busy NIC is asked again.
    export GLEX_FAULT=busy=0.3
    job 4 "$right" tutorial 2
)
assert_no_segments
