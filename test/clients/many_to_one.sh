#!/bin/sh
# Many senders to one queue: with credits nothing is lost; without, every loss is told.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/common.sh"

limited ./many_to_one
limited ./many_to_one -n 1 -m 5000 -c 64
limited ./many_to_one -n 32 -m 300
limited ./many_to_one -o
limited ./many_to_one -o -n 3 -m 100 -c 64
# A busy NIC, and one that keeps no order.
limited env GLEX_FAULT=busy=0.3,mp_reorder=0.2 ./many_to_one -m 500
assert_no_segments
