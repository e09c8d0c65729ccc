#!/bin/bash
# Agents send to a relay, and that to an upper collector, which shows the nodes. The relay is killed
# and comes back; the upper collector is away for longer than the relay's queue lasts. A relay of a
# relay is refused, so that nothing goes round in a circle.
#
# Where there is RDMA (contrib/rdma-vm), test/vm/run runs this over three hosts: SCHEME is the
# network; UPPER, RELAY and SOURCE are the IP addresses of upper collector, relay and agents.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin
scheme=${SCHEME:-tcp}
upper=0 relay=1 other=2 # collectors
url=("$scheme://${UPPER:-127.0.0.1}:$port" "$scheme://${RELAY:-127.0.0.1}:$((port + 2))")

start_upper() {
    collector $upper -l "${url[upper]}" --relays other,relay1
}

start_relay() {
    collector $relay -l "${url[relay]}" -u "${url[upper]}" -N relay1 -q 131072
}

start_agent() {
    UDMON_LOG_LEVEL=info agent "$1" "server = ${url[relay]}" ${SOURCE:+"source = $SOURCE"} \
        < <(sensors cpu=0.02 load=0.1)
}

upper_shows() {
    is $upper udmon_node_up "$1" node0 && is $upper udmon_node_up "$1" node1
}

# How often a process has gone to sleep: an agent does after each sample.
sleeps() {
    awk '/^voluntary_ctxt_switches/ { print $2 }' "/proc/${running[$1]}/status"
}

sleeps_of_more_than() {
    [[ $(sleeps "$1") -gt $2 ]]
}

# Kills the relay when agents have sent to it what it did not read: otherwise they may lose nothing,
# because the relay may have just stored everything.
slay_with_loss() {
    local node before
    kill -STOP "${running[collector$relay]}"
    for node in node0 node1; do
        before=$(sleeps $node)
        await sleeps_of_more_than $node $((before + 50))
    done
    slay collector$relay
}

# same_lost NODE BEFORE: more samples of a node than before did not come to the relay, and relay and
# upper collector count the same.
same_lost() {
    local there here
    there=$(value $relay udmon_records_lost_total "$1")
    here=$(value $upper udmon_records_lost_total "$1")
    echo "# $1: lost before ${2:-0}, at the relay $there, at the upper collector $here" >"$dir/same_lost"
    [[ -n $there && $there -gt ${2:-0} && $there -eq $here ]]
}

both_same_lost() {
    await same_lost "$@" || { cat "$dir/same_lost" && return 1; }
}

# What the agents made has come to the upper collector, or stands in one of the two counters of loss.
# A sample that the relay had passed on, but not stored when it was killed, stands in both.
accounted() {
    local node made known
    made=$(made "$dir"/node[01].log "$dir/short.log")
    known=$(value $upper udmon_records_lost_total relay1)
    for node in node0 node1 short; do
        known=$((known + $(value $upper udmon_records_received_total $node) +
            $(value $upper udmon_records_lost_total $node)))
    done
    echo "# made $made, received or lost $known"
    [[ $known -ge $made ]]
}

start_upper
start_relay
start_agent node0
start_agent node1
check "the upper collector shows the nodes" await upper_shows 1
check "and the relay" await is $upper udmon_node_up 1 relay1
check "and their samples" await at_least $upper node_threads 2 node0
check "with nodes of their own" await has $upper node_load1 node1
check "the relay says whom it sends to" await is $relay udmon_relay_server 1

start_agent short
await is $upper udmon_node_up 1 short
stop short
short=$(made "$dir/short.log")
check "a node that goes is gone at the upper collector" await is $upper udmon_node_up 0 short
check "all $short of its samples came" await is $upper udmon_records_received_total "$short" short
check "none is lost" is $upper udmon_records_lost_total 0
check "no record made no sense" is $upper udmon_records_malformed_total 0

slay_with_loss
check "the relay is killed: its nodes are down" await upper_shows 0
check "and so is the relay" await is $upper udmon_node_up 0 relay1
start_relay
check "it is back: its nodes are up" await upper_shows 1
check "and so is the relay" await is $upper udmon_node_up 1 relay1

check "what it lost when it was killed, the upper collector counts too" both_same_lost node0 0

slay collector$upper
check "the upper collector is away: the relay says so" await is $relay udmon_relay_server 0
check "what its queue has no room for is counted" \
    await at_least $relay udmon_relay_records_dropped_total 100
check "and said" await grep -q 'records were not passed on' "$dir/collector$relay.log"
lost=$(value $relay udmon_records_lost_total)
start_upper
check "it is back: the nodes are up" await upper_shows 1
check "what was dropped is lost between relay and upper collector" \
    await at_least $upper udmon_records_lost_total 100 relay1
check "the relay itself lost nothing meanwhile" is $relay udmon_records_lost_total "$lost"

# Records wait, and are stored, when the relay is killed.
lost=$(value $upper udmon_records_lost_total relay1)
lost_node1=$(value $relay udmon_records_lost_total node1)
slay collector$upper
check "the upper collector is away once more" await is $relay udmon_relay_server 0
check "records wait for it" await at_least $relay udmon_relay_records_waiting 200
check "and are in the relay's history" grows $relay udmon_history_samples_stored_total 400
slay_with_loss
start_relay
check "the relay is killed and back first: its nodes are up" await is $relay udmon_node_up 2
start_upper
check "the relay was killed: the upper collector counts what waited" \
    await at_least $upper udmon_records_lost_total $((lost + 200)) relay1
check "the nodes are up" await upper_shows 1
check "what nodes lost meanwhile, too, though the upper collector was away" \
    both_same_lost node1 "$lost_node1"

launch stranger "$bin/udmon-collector" -l "tcp://$(address 3)" -w "$(web 3)" -d "$dir/history3.db" \
    -s "$dir/secret" -u "${url[upper]}" -N relay
check "a relay that is not listed is told that it is refused" \
    await grep -q "the server's option relays does not list this relay" "$dir/stranger.log"
check "and the upper collector says so" \
    grep -q 'client relay refused: .* not in the list of option relays' "$dir/collector$upper.log"
check "and knows no node of this name" [ -z "$(value $upper udmon_node_up relay)" ]
stop stranger

UDMON_LOG_LEVEL=info collector $other -u "${url[relay]}" -N relay2
check "a relay of a relay is told that it is refused" \
    await grep -q 'refused: the server is a relay itself' "$dir/collector$other.log"
check "and the relay says so" \
    grep -q 'client relay2 refused: it is a relay' "$dir/collector$relay.log"

stop_all node
check "agents say goodbye: the upper collector knows" await upper_shows 0
check "every sample is accounted for" await accounted
check "the relay ends well" stop collector$relay
check "the upper collector ends well" stop collector$upper
