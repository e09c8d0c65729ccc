#!/bin/bash
# What a collector and its agents tell, and how often: a wrong secret, nobody there, two agents of
# one name, records that are no samples, more series than are kept, SIGHUP.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2154 # make check says where
bin=$abs_top_builddir/src/udmon
dir=$(mktemp -d)
failed=0 pids=() collector=''
port=$((10000 + $$ % 2200 * 10)) # below those that the kernel gives to clients: 32768 and more

finish() {
    [[ ${#pids[@]} -eq 0 ]] || kill "${pids[@]}" 2>/dev/null
    [[ -z $collector ]] || kill "$collector" 2>/dev/null
    wait
    rm -rf "$dir"
    exit $failed
}
trap finish EXIT

explain() {
    tail -n 5 "$dir"/*.log | sed 's/^/# /'
}

start_collector() {
    "$bin/udmon-collector" -l "tcp://127.0.0.1:$port" -w "127.0.0.1:$((port + 1))" \
        -d "$dir/history.db" -s "$dir/secret" 2>>"$dir/collector.log" &
    collector=$!
}

# agent LOG NAME SECRET PORT
agent() {
    cat >"$dir/$1.conf" <<-END
	[load]
	type = load
	interval = 0.1
	to = out
	[out]
	type = send
	name = $2
	server = tcp://127.0.0.1:$4
	secret = $dir/$3
	END
    "$bin/udmon-agent" -c "$dir/$1.conf" 2>"$dir/$1.log" &
    pids+=($!)
}

# at_least METRIC NODE VALUE
at_least() {
    local value
    value=$(curl -s -g -m 20 "http://127.0.0.1:$((port + 1))/metrics" |
        awk -v name="$1{node=\"$2\"}" '$1 == name { print $2 }')
    [[ ${value:-0} -ge $3 ]]
}

# Lines of a log that say something, after it was said at all and a while longer.
few_lines() {
    await grep -q "$2" "$dir/$1.log" && sleep 4 && [[ $(grep -c "$2" "$dir/$1.log") -eq 1 ]]
}

umask 077
echo "something nobody guesses" >"$dir/secret"
echo "something else" >"$dir/other"
start_collector
await at_least udmon_node_up none 0
agent wrong wrong other "$port"
agent alone alone secret $((port + 2))
check "a wrong secret is told by the agent, once" few_lines wrong 'not connected to'
check "and by the collector, once" \
    [ "$(grep -c 'refused: it does not know the secret' "$dir/collector.log")" -eq 1 ]
check "that nobody is there is told once" [ "$(grep -c 'not connected to' "$dir/alone.log")" -eq 1 ]

agent first twice secret "$port"
check "an agent of a name" await at_least udmon_node_agents twice 1
agent second twice secret "$port"
check "a second one of the same name is counted" await at_least udmon_node_agents twice 2
check "and told" await grep -q 'node twice: two agents give this name' "$dir/collector.log"

"$abs_top_builddir/test/udmon/udmon_agents" -n 1 -k 20005 -i 3 -x -t 600 -s "$dir/secret" \
    "tcp://127.0.0.1:$port" >"$dir/agents.out" 2>&1 &
pids+=($!)
check "series beyond the limit are counted" await at_least udmon_records_discarded_total agent0 5
check "and told" grep -q 'node agent0: more than 20000 series' "$dir/collector.log"
check "records that are no samples are counted" \
    await at_least udmon_records_malformed_total agent0 1

kill -HUP "$collector"
check "SIGHUP: the collector says what it is good for" \
    await grep -q 'SIGHUP: there is nothing to read anew' "$dir/collector.log"
check "and goes on" at_least udmon_node_agents twice 2
