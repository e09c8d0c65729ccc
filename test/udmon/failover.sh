#!/bin/bash
# Three agents with two collectors. The first is killed: the agents go on at the other, and come
# back when the first is there again. Every sample came at one of them, or is counted as lost.
#
# Where there is RDMA (contrib/rdma-vm), test/vm/run runs this over two hosts: SCHEME is the network,
# SERVER the collectors' IP address, SOURCE the agents'.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin
url=${SCHEME:-tcp}://${SERVER:-127.0.0.1}

start_collector() {
    collector "$1" -l "$url:$((port + 2 * $1))"
}

# All agents say so, which collectors learn from their samples.
all_say_server() {
    is "$1" udmon_agent_server $((3 * $2))
}

all_logged() {
    [[ $(grep -l "$1" "$dir"/agent*.log | wc -l) -eq 3 ]]
}

# received + lost, at both = samples that the agents say they made
accounted() {
    local made received lost
    made=$(made "$dir"/agent*.log)
    received=$(($(value 0 udmon_records_received_total) + $(value 1 udmon_records_received_total)))
    lost=$(($(value 0 udmon_records_lost_total) + $(value 1 udmon_records_lost_total)))
    echo "# made $made, received $received, lost $lost"
    [[ $((received + lost)) -eq $made ]]
}

start_collector 0
start_collector 1
await get 0 / >/dev/null && await get 1 / >/dev/null
for i in 0 1 2; do
    UDMON_LOG_LEVEL=info agent "agent$i" "server = $url:$port, $url:$((port + 2))" 'return = 2' \
        ${SOURCE:+"source = $SOURCE"} < <(sensors cpu=0.1 agent=0.1)
done
check "agents begin at the first collector" await is 0 udmon_node_up 3
check "and say so" await all_say_server 0 1
check "and samples come" await at_least 0 udmon_records_received_total 500

slay collector0
check "it is killed: agents go on at the other" await is 1 udmon_node_up 3
check "and say so" await all_say_server 1 2
check "with a line in their logs" all_logged "samples go to $url:$((port + 2)) now"
check "and samples come there" await at_least 1 udmon_records_received_total 500

start_collector 0
check "it is back: agents come back" await is 0 udmon_node_up 3
check "and leave the other" await is 1 udmon_node_up 0
check "with a line in their logs" all_logged "samples go to $url:$port now"
check "and say so" await all_say_server 0 1
check "the other has lost nothing" is 1 udmon_records_lost_total 0

stop_all agent
check "agents say goodbye" await is 0 udmon_node_up 0
check "every sample is accounted for" accounted
