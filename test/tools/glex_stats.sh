#!/bin/sh
# GLEX_STATS: what an endpoint has carried is known when it is there no more.
# shellcheck source=test/tools/lib.sh
. "${srcdir:-.}/lib.sh"

stats=$work/stats

# Destroyed in order, or left to the end of the process: a line each, with what ep_owner does.
for how in destroy leave; do
    expect 0 env GLEX_STATS="$stats" ./ep_owner 2 $how
    cp "$stats" "$work/out"
    json -s 'length == 2 and all(.[]; .command == "ep_owner" and .fabric == "glex_stats"
        and .pid > 0 and .end_time >= .start_time)'
    json -s 'all(.[].counters; .mp_tx == 5 and .imm_put_tx == 3 and .imm_put_bytes == 24
        and .put_tx == 0 and has("abandoned"))'
    rm "$stats"
    assert_no_segments
done

# Processes that end together do not mix their lines; what was there stays.
echo '"before"' > "$stats"
owners_pids=
for _ in 1 2 3 4 5 6 7 8; do
    GLEX_STATS=$stats limited ./ep_owner 4 < /dev/null > /dev/null &
    owners_pids="$owners_pids $!"
done
for pid in $owners_pids; do
    wait "$pid" || fail "an owner of endpoints failed"
done
cp "$stats" "$work/out"
json -s '.[0] == "before" and length == 33 and ([.[1:][] | [.pid, .nic_id, .ep_num, .start_time]]
    | unique | length) == 32'

# It cannot be written: said in one line, and no reason to fail.
expect 0 env GLEX_STATS="$work/no/such/directory" ./ep_owner
complains 'GLEX_STATS=.*/no/such/directory: No such file or directory'
expect 0 env GLEX_STATS=/dev/full ./ep_owner
complains 'GLEX_STATS=/dev/full: No space left on device'
assert_no_segments
