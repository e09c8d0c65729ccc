#!/bin/sh
# What glex_perf prints, that it tells when something fails, and leaves nothing. Not how fast.
# shellcheck source=test/tools/lib.sh
. "${srcdir:-.}/lib.sh"

# quick STATUS OPTION...: few operations; how fast they are is of no interest.
quick()
{
    want=$1
    shift
    expect "$want" "$glex_perf" --count 40 --repeats 2 "$@"
}

# Every operation, in both patterns, beside the floor.
quick 0 --size 8:64k:16 --json
json '[.results[] | .operation + "/" + (.memory // "-")] | unique ==
    ["get/nic", "get/private", "imm/event-data", "imm/plain", "mp/-", "put/nic", "put/private"]'
json '.not_available == [] and .repeats == 2 and .window == 64'
json '[.floor.memcpy[].size] == [8, 128, 2048, 32768] and .floor.handover_us.median > 0'
json 'all(.results[]; .latency_us.median > 0 and .rate_per_s.median > 0 and .x_handover > 0
    and .x_memcpy > 0)'
json 'all(.results[] | .latency_us, .rate_per_s, .mb_per_s; .min <= .median and .median <= .max)'
json '[.results[] | select(.operation == "mp") | .size] == [8]'
json '[.results[] | select(.operation == "get" and .memory == "nic") | .size] ==
    [8, 128, 2048, 32768]'
assert_no_segments

# For people.
quick 0 --op mp,put/nic --size 0:64:64
says '^# NIC [0-9a-f]{8}'
says '^floor hand-over '
says '^floor memcpy +64 '
says '^mp    - +0 '
says '^put   nic +64 '
! grep -q '^get\|private' "$work/out" || fail "measures what was not asked for"
! grep -q . "$work/err" || fail "progress on stderr that is no terminal"

# One metric only.
quick 0 --op imm --metric latency --size 8 --json
json 'all(.results[]; has("latency_us") and (has("rate_per_s") | not)) and (.results | length) == 2'
quick 0 --op get --metric stream --size 1k --json --window 1
json 'all(.results[]; has("rate_per_s") and (has("latency_us") | not)) and (.results | length) == 2'

# What is not available is said, with the reason, and the rest is measured.
expect 0 env GLEX_FAULT=noprivate "$glex_perf" --count 40 --repeats 2 --size 8 --json
json '[.not_available[] | .operation + "/" + .memory] == ["put/private", "get/private"]
    and all(.not_available[]; .reason | test("private memory: forbidden"))
    and (.results | length) == 5'
expect 0 env GLEX_FAULT=nomap "$glex_perf" --count 40 --repeats 2 --size 8
says '^# not available: put/nic: .*mapping: forbidden'
says '^# not available: floor/hand-over: '
says '^mp    - +8 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ '
expect 1 env GLEX_FAULT=noprivate "$glex_perf" --count 40 --repeats 2 --op put/private
complains 'nothing of what was asked for'

# Both on one core.
expect 0 "$glex_perf" --count 5 --repeats 1 --size 8 --cores 0,0
says 'both processes on one core'

# Two terminals.
mkfifo "$work/pipe"
limited "$glex_perf" --server > "$work/pipe" &
server=$!
read -r address < "$work/pipe"
quick 0 --size 8:1k:128 --connect "$address" --json
json '(.results | length) == 11'
wait "$server" || fail "the server failed"
assert_no_segments

# The peer dies, while this side sleeps or spins: it says so and ends.
limited "$glex_perf" --server > "$work/pipe" 2> "$work/server.err" &
server=$!
read -r address < "$work/pipe"
limited "$glex_perf" --time 5000 --op get/nic --connect "$address" > /dev/null 2>&1 &
client=$!
pid=
until [ -n "$pid" ]; do
    limited "$glex_info" --json > "$work/look"
    pid=$(jq --arg server "$address" '.endpoints[] |
        select(.address != $server and .counters.get_tx > 3) | .pid' "$work/look")
done
kill -9 "$pid"
wait "$client" && fail "the client was killed and says nothing is wrong"
got=0
wait "$server" || got=$?
[ $got = 1 ] || fail "the client died and the server ends with $got"
grep -q 'the peer has gone' "$work/server.err" || fail "the server does not say that its peer died"
limited "$glex_info" --clean > /dev/null
assert_no_segments

limited "$glex_perf" --server > "$work/pipe" &
server=$!
read -r address < "$work/pipe"
limited "$glex_perf" --time 5000 --op mp --connect "$address" 2> "$work/err" > /dev/null &
client=$!
pid=
until [ -n "$pid" ]; do
    limited "$glex_info" --json > "$work/look"
    pid=$(jq --arg server "$address" '.endpoints[] |
        select(.address == $server and .counters.mp_rx > 30) | .pid' "$work/look")
done
kill -9 "$pid"
got=0
wait "$client" || got=$?
[ $got = 1 ] || fail "the server died and the client ends with $got"
complains 'peer has gone|request failed'
wait "$server" && fail "the server was killed and says nothing is wrong"
limited "$glex_info" --clean > /dev/null
assert_no_segments

# A signal: an orderly end. Not by timeout(1), see glex_info.sh.
"$glex_perf" --time 5000 > /dev/null 2> "$work/err" < /dev/null &
perf=$!
until limited "$glex_info" --json | jq -e '.endpoints | length == 2' > /dev/null; do
    kill -0 "$perf" || fail "there is nothing to interrupt"
done
kill "$perf"
got=0
wait "$perf" || got=$?
[ $got = 1 ] || fail "ends with $got at a signal"
complains interrupted
assert_no_segments

# Nobody there, no room, nowhere to write, wrong usage.
expect 1 "$glex_perf" --connect 0x0000010000000007
complains 'no endpoint 7 '
expect 1 sh -c "$glex_perf --count 40 --op mp --size 8 > /dev/full"
complains 'cannot write'
quick 1 --op mp --size 4k
complains 'nothing of what was asked for'
expect 1 env GLEX_SHM_DIR=/nowhere "$glex_perf" --count 40 --repeats 2
expect 1 "$glex_perf" --device 7
complains 'cannot open device 7'
expect 2 "$glex_perf" --nonsense
expect 2 "$glex_perf" operand
expect 2 "$glex_perf" --op nonsense
expect 2 "$glex_perf" --size 64:8
expect 2 "$glex_perf" --size 8:64:1
expect 2 "$glex_perf" --size -8
expect 2 "$glex_perf" --repeats 0
expect 2 "$glex_perf" --server --connect 1
expect 0 "$glex_perf" --help
says '--connect'
expect 0 "$glex_perf" --version
says '^glex_perf [0-9]+\.[0-9]+'
assert_no_segments
