#!/bin/sh
# Many senders to one queue: with credits nothing is lost; without, every loss is told.
. "${srcdir:-.}/common.sh"

limited ./many_to_one
limited ./many_to_one -n 1 -m 5000 -c 64
limited ./many_to_one -n 32 -m 300
limited ./many_to_one -o
limited ./many_to_one -o -n 3 -m 100 -c 64
assert_no_segments
