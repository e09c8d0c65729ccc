#!/bin/bash
# shellcheck disable=SC2016 # commands for eval
# A node or a relay that sends too much is limited, and no other node is: samples a second, series, nodes of a
# relay. The collector counts what it refused, and tells who sends too much.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin

# exceeded NODE QUOTA LEAST
exceeded() {
    local found
    found=$(get 0 /metrics | awk -v name="udmon_quota_exceeded_total{node=\"$1\",quota=\"$2\"}" '$1 == name { print $2 }')
    [[ -n $found && $found -ge $3 ]]
}

# unharmed NODE: nothing was refused, and samples come
unharmed() {
    ! get 0 /metrics | grep -q "^udmon_quota_exceeded_total{node=\"$1\"" &&
        is 0 udmon_records_discarded_total 0 "$1" && is 0 udmon_records_lost_total 0 "$1" && grows_of "$1"
}

grows_of() {
    local before
    before=$(value 0 udmon_records_received_total "$1")
    await at_least 0 udmon_records_received_total $((before + 2)) "$1"
}

# refuses OPTION VALUE: the collector does not start
refuses() {
    local status=0
    "$bin/udmon-collector" -d "$dir/no.db" -w "$(web 4)" -l "tcp://$(address 4)" "$@" 2>"$dir/refuses.log" || status=$?
    [[ $status -eq 2 ]] && grep -q 'is no list of limits' "$dir/refuses.log"
}

check "an unknown quota is refused" refuses --node-quota cars=3
check "a quota of 0 is refused" refuses --relay-quota series=0
check "a share above 100 percent is refused" refuses --node-quota history=101
check "a node has no nodes" refuses --node-quota nodes=3

collector 0 --node-quota samples=100,series=1500 --relay-quota nodes=3,series=200 --relays relay1
await get 0 / >/dev/null
agent honest "server = tcp://$(address 0)" < <(sensors load=0.5)
await is 0 udmon_node_up 1 honest
launch greedy "$top/test/udmon/udmon_agents" -n 1 -k 2000 -i 0.1 -t 600 -s "$dir/secret" "tcp://$(address 0)"
check "too many samples a second are refused and counted" await exceeded agent0 samples 1000
check "and told" await grep -q 'node agent0: more than 100 samples a second' "$dir/collector0.log"
check "too many series are refused and counted" await exceeded agent0 series 1
check "and told" await grep -q 'node agent0: more than 1500 series' "$dir/collector0.log"
check "the node keeps the series that it may have" is 0 udmon_node_series 1500 agent0
check "received samples are stored, discarded or in excess" at_least 0 udmon_records_discarded_total 1000 agent0
check "another node is not harmed" unharmed honest

collector 1 -u "tcp://$(address 0)" -N relay1
await get 1 / >/dev/null
for node in 1 2 3; do
    agent "node$node" "server = tcp://$(address 1)" < <(sensors load=0.5)
done
check "a relay brings its nodes" await is 0 udmon_relayed_nodes 3 relay1
agent node4 "server = tcp://$(address 1)" < <(sensors load=0.5)
check "one node more is refused and counted" await exceeded relay1 nodes 1
check "and told" await grep -q 'node relay1: more than 3 nodes' "$dir/collector0.log"
check "the collector does not have it" [ -z "$(value 0 udmon_node_up node4)" ]
/usr/bin/python3 -c 'for i in range(300): print("n{i=\"%d\"} 1" % i)' >"$dir/n.prom"
stop node1
mkdir "$dir/prom"
mv "$dir/n.prom" "$dir/prom"
agent node1 "server = tcp://$(address 1)" < <(printf '[files]\ntype = textfile\ndirectory = %s\ninterval = 0.5\nto = out\n' "$dir/prom")
check "too many series of a relay are refused and counted" await exceeded relay1 series 1
check "the relay has the series that it may have" at_least 0 udmon_relayed_series 200 relay1
check "and no more" [ "$(value 0 udmon_relayed_series relay1)" -eq 200 ]
check "the nodes that it brought go on" grows_of node2
check "a node of the collector is not harmed" unharmed honest
check "the limits are metrics" \
    [ "$(get 0 /metrics | grep -c '^udmon_quota_limit{sender="relay",quota="nodes"} 3$')" -eq 1 ]
if command -v promtool >/dev/null; then
    check "promtool has nothing to say" [ -z "$(get 0 /metrics | grep udmon_ | promtool check metrics 2>&1)" ]
fi

# A collector that gets no more memory from the kernel refuses new series. It keeps enough for its connections, and for
# answers. The sanitizers' memory has no bound.
data_kb() {
    awk '/^VmData/ { print $2 }' "/proc/${running[collector2]}/status"
}
all_answered() {
    local i path
    for ((i = 0; i < 5; i++)); do
        for path in /metrics / /api/nodes /api/families; do
            get 2 $path -o /dev/null -w '%{http_code}\n'
        done
    done >"$dir/codes"
    [[ $(grep -c '^200$' "$dir/codes") -eq 20 ]]
}
if ! ldd "$bin/udmon-collector" | grep -q 'lib[at]san'; then
    collector 2
    await get 2 / >/dev/null
    agent early "server = tcp://$(address 2)" < <(sensors load=0.2)
    await is 2 udmon_node_up 1 early
    prlimit --pid "${running[collector2]}" --data=$((($(data_kb) + 40000) * 1024)):unlimited
    launch bomb "$top/test/udmon/udmon_agents" -n 3 -k 20000 -i 0.3 -t 600 -s "$dir/secret" "tcp://$(address 2)"
    check "without memory: it is told" await grep -q 'no memory: .* are discarded' "$dir/collector2.log"
    check "without memory: each request has its answer" all_answered
    agent late "server = tcp://$(address 2)" < <(sensors load=0.2)
    check "without memory: another agent can connect" await is 2 udmon_node_up 1 late
    check "without memory: the first one is still connected" eval \
        '! grep -qE "lost|closed|not connected" "$dir/early.log" && is 2 udmon_node_up 1 early'
    check "without memory: its samples come" eval 'before=$(value 2 udmon_records_received_total early) &&
        await at_least 2 udmon_records_received_total $((before + 2)) early'
    check "without memory: nobody is said not to know the secret" eval '! grep -i "secret" "$dir/collector2.log"'
    slay bomb
fi
