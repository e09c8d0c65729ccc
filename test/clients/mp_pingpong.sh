#!/bin/sh
# Two processes; the address goes from one to the other as text, by pipe and command line.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/common.sh"

pingpong()
{
    mkfifo "$work/pipe"
    limited ./mp_pingpong > "$work/pipe" &
    server=$!
    exec 3< "$work/pipe"
    read -r word address <&3 || fail "no address from the answering side"
    [ "$word" = address ] || fail "not an address: $word $address"
    limited ./mp_pingpong "$@" "$address"
    wait "$server" || fail "the answering side failed"
    cat <&3
    exec 3<&-
    rm "$work/pipe"
}

pingpong -n 2000
pingpong -n 2000 -s 112
pingpong -n 100 -s 0
# A busy NIC is asked again.
(
    export GLEX_FAULT=busy=0.3
    pingpong -n 500
)
assert_no_segments
