#!/bin/sh
# All tests of uct_test, in a time after which something hangs for sure.
exec timeout -k 10 900 ./uct_test "$@"
