#!/bin/bash
# Three agents with two collectors. The first is killed: the agents go on at the other, and come
# back when the first is there again. Every sample came at one of them, or is counted as lost.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2154 # make check says where
bin=$abs_top_builddir/src/udmon
dir=$(mktemp -d)
failed=0 pids=() collectors=('' '')
port=$((10000 + $$ % 2200 * 10)) # below those that the kernel gives to clients: 32768 and more

finish() {
    [[ ${#pids[@]} -eq 0 ]] || kill "${pids[@]}" 2>/dev/null
    for pid in "${collectors[@]}"; do
        [[ -z $pid ]] || kill "$pid" 2>/dev/null
    done
    wait
    rm -rf "$dir"
    exit $failed
}
trap finish EXIT

explain() {
    tail -n 5 "$dir"/*.log | sed 's/^/# /'
}

# Collector N listens on $port + N, and serves HTTP on $port + 2 + N.
start_collector() {
    "$bin/udmon-collector" -l "tcp://127.0.0.1:$((port + $1))" \
        -w "127.0.0.1:$((port + 2 + $1))" -d "$dir/history$1.db" -s "$dir/secret" \
        2>>"$dir/collector$1.log" &
    collectors[$1]=$!
}

# total N METRIC: its sum over all nodes of collector N
total() {
    curl -s -g -m 20 "http://127.0.0.1:$((port + 2 + $1))/metrics" |
        awk -v name="$2" 'index($0, name "{") == 1 { sum += $2 } END { print sum + 0 }'
}

is() {
    [[ $(total "$1" "$2") -eq $3 ]]
}

at_least() {
    [[ $(total "$1" "$2") -ge $3 ]]
}

# All agents say so, which collectors learn from their samples.
all_say_server() {
    is "$1" udmon_agent_server $((3 * $2))
}

all_logged() {
    [[ $(cat "$dir"/agent*.log | grep -c "$1") -eq 3 ]]
}

# received + lost, at both = samples that the agents say they made
accounted() {
    local made received lost
    made=$(sed -n 's/.*: \([0-9]*\) samples in all.*/\1/p' "$dir"/agent*.log |
        awk '{ sum += $1 } END { print sum }')
    received=$(($(total 0 udmon_records_received_total) + $(total 1 udmon_records_received_total)))
    lost=$(($(total 0 udmon_records_lost_total) + $(total 1 udmon_records_lost_total)))
    echo "# made $made, received $received, lost $lost"
    [[ $((received + lost)) -eq $made ]]
}

umask 077
echo "something nobody guesses" >"$dir/secret"
start_collector 0
start_collector 1
for i in 0 1 2; do
    cat >"$dir/agent$i.conf" <<-END
	[cpu]
	type = cpu
	interval = 0.1
	to = out
	[agent1]
	type = agent
	interval = 0.1
	to = out
	[out]
	type = send
	name = node$i
	server = tcp://127.0.0.1:$port, tcp://127.0.0.1:$((port + 1))
	return = 2
	secret = $dir/secret
	END
done
await is 0 udmon_node_up 0 && await is 1 udmon_node_up 0
for i in 0 1 2; do
    UDMON_LOG_LEVEL=info "$bin/udmon-agent" -c "$dir/agent$i.conf" 2>"$dir/agent$i.log" &
    pids+=($!)
done
check "agents begin at the first collector" await is 0 udmon_node_up 3
check "and say so" await all_say_server 0 1
check "and samples come" await at_least 0 udmon_records_received_total 500

{ kill -9 "${collectors[0]}" && wait "${collectors[0]}"; } 2>/dev/null # bash would tell of it
collectors[0]=''
check "it is killed: agents go on at the other" await is 1 udmon_node_up 3
check "and say so" await all_say_server 1 2
check "with a line in their logs" all_logged "samples go to tcp://127.0.0.1:$((port + 1)) now"
check "and samples come there" await at_least 1 udmon_records_received_total 500

start_collector 0
check "it is back: agents come back" await is 0 udmon_node_up 3
check "and leave the other" await is 1 udmon_node_up 0
check "with a line in their logs" all_logged "samples go to tcp://127.0.0.1:$port now"
check "and say so" await all_say_server 0 1
check "the other has lost nothing" is 1 udmon_records_lost_total 0

kill "${pids[@]}"
wait "${pids[@]}"
pids=()
check "agents say goodbye" await is 0 udmon_node_up 0
check "every sample is accounted for" accounted
