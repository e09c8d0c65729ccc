#!/bin/bash
# What a collector and its agents tell, and how often: a wrong secret, nobody there, two agents of
# one name, records that are no samples, more series than are kept, SIGHUP.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin

# tells NAME LINE...: an agent for the collector, if the lines name no other
tells() {
    agent "$@" < <(sensors load=0.1)
}

# Lines of a log that say something, after it was said at all and a while longer.
few_lines() {
    await grep -q "$2" "$dir/$1.log" && sleep 4 && [[ $(grep -c "$2" "$dir/$1.log") -eq 1 ]]
}

here="server = tcp://$(address 0)"
echo "something else" >"$dir/other"
collector 0
await get 0 / >/dev/null
tells wrong "$here" "secret = $dir/other"
tells alone "server = tcp://$(address 1)"
check "a wrong secret is told by the agent, once" few_lines wrong 'not connected to'
check "and by the collector, once" \
    [ "$(grep -c 'refused: it does not know the secret' "$dir/collector0.log")" -eq 1 ]
check "that nobody is there is told" await grep -q 'not connected to' "$dir/alone.log"
check "once" [ "$(grep -c 'not connected to' "$dir/alone.log")" -eq 1 ]

tells first "$here" 'name = twice'
check "an agent of a name" await at_least 0 udmon_node_agents 1 twice
tells second "$here" 'name = twice'
check "a second one of the same name is counted" await at_least 0 udmon_node_agents 2 twice
check "and told" await grep -q 'node twice: two agents give this name' "$dir/collector0.log"

launch agents "$top/test/udmon/udmon_agents" -n 1 -k 20005 -i 3 -x -t 600 -s "$dir/secret" \
    "tcp://$(address 0)"
check "series beyond the limit are counted" await at_least 0 udmon_records_discarded_total 5 agent0
check "and told" await grep -q 'node agent0: more than 20000 series' "$dir/collector0.log"
check "records that are no samples are counted" \
    await at_least 0 udmon_records_malformed_total 1 agent0

# A collector that comes late: what the agent's queue had no room for is told by the agent and counted as lost.
late() {
    agent late "server = tcp://$(address 2)" 'queue = 131072' < <(printf '[files]\ntype = textfile\ndirectory = %s\ninterval = 0.05\nto = out\n' "$dir/prom")
    await grep -q 'node out: the queue for .* is full' "$dir/late.log"
}
mkdir "$dir/prom"
/usr/bin/python3 -c 'for i in range(1000): print("n{i=\"%d\"} 1" % i)' >"$dir/prom/n.prom"
export UDMON_LOG_LEVEL=info
check "a queue that is full is told by the agent" late
collector 2
check "and what it has dropped is counted as lost" await at_least 2 udmon_records_lost_total 1 late
stop late
await is 2 udmon_node_up 0
check "accepted = received + lost" [ "$(made "$dir/late.log")" -eq \
    $(($(value 2 udmon_records_received_total late) + $(value 2 udmon_records_lost_total late))) ]
unset UDMON_LOG_LEVEL

kill -HUP "${running[collector0]}"
check "SIGHUP: the collector says what it is good for" \
    await grep -q 'SIGHUP: users and certificate of HTTP are read again' "$dir/collector0.log"
check "and goes on" at_least 0 udmon_node_agents 2 twice
