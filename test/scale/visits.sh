#!/bin/sh
# However many peers there are, a progress call looks at some of the connections only: at those that
# something came for, and at a slice of what is to be gone through. It is 64 for each search and list
# (UCT_GLEX_SLICE), and 256 pending requests.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/../clients/common.sh"

status=0
limited ./simulated visits 4000 600 64 > "$work/out" || status=$?
[ "$status" -ne 77 ] || { cat "$work/out"; exit 77; }
[ "$status" -eq 0 ] || fail "simulated: status $status"
grep -qx 'connected 4000' "$work/out" || fail "not all peers were connected: $(cat "$work/out")"
assert_no_segments
