#!/bin/bash
# Agents send to a relay, and that to an upper collector, which shows the nodes. The relay is killed
# and comes back; the upper collector is away for longer than the relay's queue lasts. A relay of a
# relay is refused, so that nothing goes round in a circle.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2154 # make check says where
bin=$abs_top_builddir/src/udmon
dir=$(mktemp -d)
failed=0 pids=() top='' relay='' other=''
port=$((10000 + $$ % 2200 * 10)) # below those that the kernel gives to clients: 32768 and more
top_port=$port relay_port=$((port + 1)) top_web=$((port + 2)) relay_web=$((port + 3))

finish() {
    [[ ${#pids[@]} -eq 0 ]] || kill "${pids[@]}" 2>/dev/null
    [[ -z $top ]] || kill "$top" 2>/dev/null
    [[ -z $relay ]] || kill "$relay" 2>/dev/null
    [[ -z $other ]] || kill "$other" 2>/dev/null
    wait
    rm -rf "$dir"
    exit $failed
}
trap finish EXIT

explain() {
    tail -n 5 "$dir"/*.log | sed 's/^/# /'
}

start_top() {
    "$bin/udmon-collector" -l "tcp://127.0.0.1:$top_port" -w "127.0.0.1:$top_web" \
        -d "$dir/top.db" -s "$dir/secret" 2>>"$dir/top.log" &
    top=$!
}

start_relay() {
    "$bin/udmon-collector" -l "tcp://127.0.0.1:$relay_port" -w "127.0.0.1:$relay_web" \
        -d "$dir/relay.db" -s "$dir/secret" -u "tcp://127.0.0.1:$top_port" -N relay1 \
        -q 131072 2>>"$dir/relay.log" &
    relay=$!
}

# start_agent NAME: its id goes to $agent
start_agent() {
    cat >"$dir/$1.conf" <<-END
	[cpu]
	type = cpu
	interval = 0.02
	to = out
	[load]
	type = load
	interval = 0.1
	to = out
	[out]
	type = send
	name = $1
	server = tcp://127.0.0.1:$relay_port
	secret = $dir/secret
	END
    UDMON_LOG_LEVEL=info "$bin/udmon-agent" -c "$dir/$1.conf" 2>"$dir/$1.log" &
    agent=$!
}

get() {
    curl -s -g -m 20 "http://127.0.0.1:$1/metrics"
}

# value PORT METRIC [NODE]: without a node the sum of all of that name; nothing if there is none
value() {
    get "$1" | awk -v name="$2${3:+{node=\"$3\"\}}" '
        $1 == name || index($1, name "{") == 1 { sum += $2; any = 1 } END { if (any) print sum }'
}

is() {
    [[ $(value "$1" "$2" "$3") -eq $4 ]]
}

at_least() {
    local found
    found=$(value "$1" "$2" "$3")
    [[ ${found:-0} -ge $4 ]]
}

top_shows() {
    is "$top_web" udmon_node_up node0 "$1" && is "$top_web" udmon_node_up node1 "$1"
}

# Samples of a node that did not come to the relay: both say the same.
same_lost() {
    local there here
    there=$(value "$relay_web" udmon_records_lost_total "$1")
    here=$(value "$top_web" udmon_records_lost_total "$1")
    [[ -n $there && $there -gt 0 && $there -eq $here ]]
}

made() {
    sed -n 's/.*: \([0-9]*\) samples in all.*/\1/p' "$dir/$1.log"
}

umask 077
echo "something nobody guesses" >"$dir/secret"
start_top
start_relay
start_agent node0
pids+=("$agent")
start_agent node1
pids+=("$agent")
check "the upper collector shows the nodes" await top_shows 1
check "and the relay" await is "$top_web" udmon_node_up relay1 1
check "and their samples" await at_least "$top_web" node_threads node0 2
check "with nodes of their own" grep -q '^node_load1{node="node1"}' <(get "$top_web")
check "the relay says whom it sends to" await is "$relay_web" udmon_relay_server "" 1

start_agent short
await is "$top_web" udmon_node_up short 1
kill "$agent"
wait "$agent"
check "a node that goes is gone at the upper collector" await is "$top_web" udmon_node_up short 0
check "all $(made short) of its samples came" \
    await is "$top_web" udmon_records_received_total short "$(made short)"
check "none is lost" is "$top_web" udmon_records_lost_total "" 0
check "no record made no sense" is "$top_web" udmon_records_malformed_total "" 0

{ kill -9 "$relay" && wait "$relay"; } 2>/dev/null # bash would tell of it
relay=''
check "the relay is killed: its nodes are down" await top_shows 0
check "and so is the relay" await is "$top_web" udmon_node_up relay1 0
start_relay
check "it is back: its nodes are up" await top_shows 1
check "and so is the relay" await is "$top_web" udmon_node_up relay1 1

check "what it lost when it was killed, the upper collector counts too" await same_lost node0

{ kill -9 "$top" && wait "$top"; } 2>/dev/null
top=''
check "the upper collector is away: the relay says so" \
    await is "$relay_web" udmon_relay_server "" 0
check "what its queue has no room for is counted" \
    await at_least "$relay_web" udmon_relay_records_dropped_total "" 100
check "and said" await grep -q 'records were not passed on' "$dir/relay.log"
lost=$(value "$relay_web" udmon_records_lost_total)
start_top
check "it is back: the nodes are up" await top_shows 1
check "what was dropped is lost between relay and upper collector" \
    await at_least "$top_web" udmon_records_lost_total relay1 100
check "the relay itself lost nothing meanwhile" is "$relay_web" udmon_records_lost_total "" "$lost"

UDMON_LOG_LEVEL=info "$bin/udmon-collector" -l "tcp://127.0.0.1:$((port + 4))" \
    -w "127.0.0.1:$((port + 5))" -d "$dir/other.db" -s "$dir/secret" \
    -u "tcp://127.0.0.1:$relay_port" -N relay2 2>"$dir/other.log" &
other=$!
check "a relay of a relay is told that it is refused" \
    await grep -q 'refused: the server is a relay itself' "$dir/other.log"
check "and the relay says so" grep -q 'client relay2 refused: it is a relay' "$dir/relay.log"

kill "${pids[@]}"
wait "${pids[@]}"
pids=()
check "agents say goodbye: the upper collector knows" await top_shows 0
kill "$relay"
check "the relay ends well" wait "$relay"
relay=''
kill "$top"
check "the upper collector ends well" wait "$top"
top=''
