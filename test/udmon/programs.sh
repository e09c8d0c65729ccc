#!/bin/bash
# udmon-agent and udmon-collector together: samples arrive, every one is accounted for, a killed
# collector is found again, SIGHUP takes a new configuration, wrong ones are refused with the line.
#
# Where there is RDMA (contrib/rdma-vm), test/vm/run runs this over two hosts:
# SERVER is the collector's IP address, SOURCES the agents', SCHEME the network, AGENTS how many,
# SECONDS_RUN how long, LINK a port of the switch to be taken down.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin
module=$top/test/udmon/.libs/agent_module.so
server=${SERVER:-127.0.0.1} scheme=${SCHEME:-tcp} agents=${AGENTS:-3} seconds=${SECONDS_RUN:-4}
read -ra sources <<<"${SOURCES:-127.0.0.1}"
export UDMON_LOG_LEVEL=info

nodes_up() {
    is 0 udmon_node_up "$1"
}

start_collector() {
    collector 0 -l "$scheme://$server:$port"
}

config() {
    cat <<-END
	[load]
	type = load
	interval = $2
	to = out
	[cpu]
	type = cpu
	interval = $([[ $1 -eq 2 ]] && echo 0.005 || echo 0.1)
	to = rate
	[rate]
	type = rate
	to = out
	[out]
	type = send
	name = node$1
	server = $scheme://$server:$port
	source = ${sources[$(($1 % ${#sources[@]}))]}
	secret = $dir/secret
	queue = 131072
	END
}

wrong_config() {
    printf '[a]\ntype = load\nto = b\n[b]\ntype = print\nbogus = 1\n' >"$dir/wrong.conf"
    ! "$bin/udmon-agent" -t -c "$dir/wrong.conf" 2>"$dir/wrong.log" &&
        grep -q 'wrong.conf:6: node b: bogus' "$dir/wrong.log"
}

metrics_parse() {
    get 0 /metrics -H 'Accept: application/openmetrics-text' >"$dir/metrics"
    /usr/bin/python3 - "$dir/metrics" <<-END
	import sys
	from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
	families = list(parse(open(sys.argv[1]).read()))
	names = [f.name for f in families]
	assert "node_load1" in names and "udmon_records_received" in names, names
	assert len(names) == len(set(names)), "a family stands in two places"
	END
}

history_has_rows() {
    local series
    series=$(get 0 '/api/series?node=node0&name=node_load1' | tr -cd '[' | wc -c)
    [[ $series -gt 3 ]]
}

# An agent whose samples, of two hours ago, wait for the collector to be started.
start_waiting_agent() {
    agent waiting "server = $scheme://$server:$port" <<-END
	[agent]
	module = $module
	[ramp]
	type = ramp
	ago = 7200
	interval = 0.01
	to = out
	END
    sleep 1
}

# All of them, and with their own times.
waited_samples_came() {
    get 0 '/api/series?node=waiting&name=ramp&seconds=10000' | /usr/bin/python3 -c '
import json, sys, time
now = time.time() * 1000
points = json.load(sys.stdin)["points"]
sys.exit(not points or any(now - at < 7190e3 for at, value in points))' &&
        is 0 udmon_records_misdated_total 0 waiting && is 0 udmon_records_lost_total 0 waiting
}

top_sees_all() {
    [[ $("$bin/udmon-top" -b -u "127.0.0.1:$((port + 1))" | grep -c ' up ') -eq $agents ]]
}

# The collector's endpoint on the GLEX fabric, as an agent connected to it over GLEX reads it.
glex_counters() {
    cat >"$dir/glex.conf" <<-END
	[glex]
	type = glex
	interval = 0.1
	to = print
	[print]
	type = print
	[load]
	type = load
	interval = 0.1
	to = out
	[out]
	type = send
	server = glex://127.0.0.1:$((port + 2))
	END
    "$bin/udmon-collector" -l "glex://127.0.0.1:$((port + 2))" -w "127.0.0.1:$((port + 3))" \
        -d "$dir/glex.db" 2>"$dir/glex-collector.log" &
    local other=$! status
    "$bin/udmon-agent" -c "$dir/glex.conf" >"$dir/glex.out" 2>"$dir/glex-agent.log" &
    local reader=$!
    # shellcheck disable=SC2016 # it is awk's
    await awk -v pid="pid=\"$other\"" '
        /^glex_event_rx[{]/ && index($0, pid) && $(NF - 1) > 2 { ok = 1 }
        END { exit !ok }' "$dir/glex.out"
    status=$?
    kill $reader $other
    wait $reader $other
    return $status
}

# What cannot be read is said once, not at every tick.
unreadable_fabric() {
    cat >"$dir/unreadable.conf" <<-END
	[glex]
	type = glex
	interval = 0.02
	to = print
	[print]
	type = print
	END
    : >"$dir/no-directory"
    launch unreadable env GLEX_SHM_DIR="$dir/no-directory" "$bin/udmon-agent" \
        -c "$dir/unreadable.conf"
    await grep -q 'cannot read the GLEX fabric' "$dir/unreadable.log"
    sleep 0.5
    stop unreadable
    [ "$(grep -c 'cannot read the GLEX fabric' "$dir/unreadable.log")" -eq 1 ]
}

check "a wrong configuration is refused with its line" wrong_config
[[ ! -e $module ]] || start_waiting_agent
start_collector
await get 0 /api/nodes >/dev/null
if [[ -e $module ]]; then
    check "samples that waited for the collector come with their times" await waited_samples_came
    stop waiting
fi
waited=$(value 0 udmon_records_received_total)
for ((i = 0; i < agents; i++)); do
    config "$i" 0.1 >"$dir/agent$i.conf"
    launch "agent$i" "$bin/udmon-agent" -c "$dir/agent$i.conf"
done
check "a fabric that cannot be read is said once" unreadable_fabric
check "all $agents agents connect" await nodes_up "$agents"
sleep "$seconds"
check "samples arrive" await at_least 0 udmon_records_received_total $((waited + 50))
check "of each sensor" await has 0 node_load1 node0
check "OpenMetrics is what a parser takes" metrics_parse
check "history is kept" await history_has_rows
if [[ -x $bin/udmon-top ]]; then
    check "udmon-top sees all nodes" await top_sees_all
fi
# What a user sees: the page's own script has made rows and charts of what the collector has. The
# page itself: page.sh.
page_shows_nodes() {
    timeout 100 chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=8000 \
        --dump-dom "http://127.0.0.1:$((port + 1))/" 2>/dev/null >"$dir/dom.html"
    grep -q '<td class="">node0</td><td class="">up</td>' "$dir/dom.html" &&
        grep -q '<figcaption>Load</figcaption>' "$dir/dom.html" &&
        grep -q '<span id="message" role="alert"></span>' "$dir/dom.html"
}

if command -v chromium >/dev/null && [[ -z ${LINK:-} ]]; then
    check "the page shows nodes and charts in a browser" page_shows_nodes
fi
check "the page is served" grep -q '<script>' <(get 0 /)

case " ${UDMON_TEST_SCHEMES:-} " in
*' glex '*) check "counters of GLEX endpoints are read" glex_counters ;;
esac

slay collector0
# Node 2 makes so many samples that its queue is full soon.
check "the agent says that its queue is full" await grep -q 'the queue for .* is full' "$dir/agent2.log"
start_collector
check "a killed collector is found again" await nodes_up "$agents"
check "and what came meanwhile is known to be lost, or came" \
    await at_least 0 udmon_records_received_total $((waited + 60))

# LINK: a port of the virtual machine's switch
if [[ -n ${LINK:-} ]]; then
    ip -n fab link set "$LINK" down
    sleep 8
    ip -n fab link set "$LINK" up
    check "a link that was down for 8 s is used again" await nodes_up "$agents"
fi

slay agent0
check "a killed agent is noticed" await nodes_up $((agents - 1))
rm -f "$dir/agent0.log" # it could not tell what it had made

config 1 0.05 >"$dir/agent1.conf"
kill -HUP "${running[agent1]}"
check "a new configuration is taken over" await grep -q 'read anew' "$dir/agent1.log"
echo broken >"$dir/agent1.conf"
kill -HUP "${running[agent1]}"
check "a broken one is not" await grep -q 'going on as before' "$dir/agent1.log"
check "and the agent goes on" nodes_up $((agents - 1))

stop_all agent
check "agents say goodbye" await nodes_up 0
# one at the start, one to the restarted collector; where a link went down, one more
connections=2
[[ -z ${LINK:-} ]] || connections=3
check "the new configuration kept the connection" \
    [ "$(grep -c 'udmon: connected to' "$dir/agent1.log")" -le "$connections" ]
lost_of_killed=$(get 0 /metrics |
    awk '/_(received|lost)_total{node="node0"}/ { sum += $2 } END { print sum }')
# received + lost at the collector = samples that the agents say they made
accounted() {
    local made all
    made=$(made "$dir"/[aw]*.log)
    all=$(($(value 0 udmon_records_received_total) + $(value 0 udmon_records_lost_total)))
    echo "# made $made, received and lost $((all - lost_of_killed))" \
        "(lost $(value 0 udmon_records_lost_total))"
    [[ $((all - lost_of_killed)) -eq $made ]]
}
check "every sample is accounted for" accounted
check "what a full queue dropped is counted as lost" \
    [ "$(get 0 /metrics | awk '/^udmon_records_lost_total{node="node2"}/ { print $2 }')" -gt 0 ]
[[ $failed -eq 0 ]] || { tail -n 15 "$dir"/*.log | sed 's/^/# /'; }
