#!/bin/bash
# What must not stop a collector from receiving: a locked database, readers that are slow, requests
# that drip in, no descriptors left, strangers by the thousand. Agents lose nothing, and what is
# received is stored.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2154 # make check says where
bin=$abs_top_builddir/src/udmon
dir=$(mktemp -d)
failed=0 collector='' pids=() others=()
port=$((10000 + $$ % 2200 * 10)) # below those that the kernel gives to clients: 32768 and more
web=127.0.0.1:$((port + 1))

finish() {
    [[ ${#others[@]} -eq 0 ]] || kill "${others[@]}" 2>/dev/null
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
    "$bin/udmon-collector" -l "tcp://127.0.0.1:$port" -w "$web" -d "$dir/history.db" \
        -s "$dir/secret" 2>>"$dir/collector.log" &
    collector=$!
}

# Sum of a metric over all nodes; nothing if there is no answer within 5 s.
total() {
    curl -s -g -m 5 "http://$web/metrics" | awk -v name="$1" \
        '$1 == name || index($1, name "{") == 1 { sum += $2; any = 1 } END { if (any) print sum }'
}

at_least() {
    local sum
    sum=$(total "$1")
    [[ -n $sum && $sum -ge $2 ]]
}

# grows NAME BY: in a generous time
grows() {
    local before
    before=$(total "$1")
    await at_least "$1" $((${before:-0} + $2))
}

is() {
    [[ $(total "$1") -eq $2 ]]
}

sleeps() {
    [[ $(total udmon_history_queue_length) -ge $1 ]]
}

# All agents are there, in their first connection, and have lost nothing. An agent that began
# before the collector listened has said "not connected to" first.
undisturbed() {
    is udmon_node_up 3 && is udmon_records_lost_total 0 &&
        [[ $(cat "$dir"/agent*.log | grep -c '^udmon: connected to') -eq 3 ]]
}

umask 077
echo "something nobody guesses" >"$dir/secret"
start_collector
for i in 0 1 2; do
    cat >"$dir/agent$i.conf" <<-END
	[cpu]
	type = cpu
	interval = 0.1
	to = out
	[out]
	type = send
	name = node$i
	server = tcp://127.0.0.1:$port
	secret = $dir/secret
	END
    UDMON_LOG_LEVEL=info "$bin/udmon-agent" -c "$dir/agent$i.conf" 2>"$dir/agent$i.log" &
    pids+=($!)
done
check "agents are there" await is udmon_node_up 3
check "and samples are stored" await at_least udmon_history_samples_stored_total 100

# Another process holds the database's lock.
mkfifo "$dir/release"
/usr/bin/python3 - "$dir" <<'END' &
import sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/history.db", isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
open(sys.argv[1] + "/locked", "w").close()
open(sys.argv[1] + "/release").read()
db.execute("ROLLBACK")
END
others+=($!)
await test -e "$dir/locked"
check "a locked database: samples wait for it" await sleeps 500
check "a locked database: receiving goes on" grows udmon_records_received_total 500
echo >"$dir/release"
wait "${others[0]}"
others=()
check "unlocked, what waited is stored" grows udmon_history_samples_stored_total 500
check "agents noticed nothing" undisturbed

# Requests that never end, and answers that nobody reads; the collector ends them in time.
/usr/bin/python3 - "${web#*:}" "$dir" <<'END' &
import socket, sys, time
socks = []
for i in range(200):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + (b"\r\n" if i % 4 == 0 else b""))
    socks.append(s)
open(sys.argv[2] + "/dripping", "w").close()
while socks:
    for s in list(socks):
        try:
            s.sendall(b"X-a: b\r\n")
        except OSError:
            socks.remove(s)
    time.sleep(0.5)
END
others+=($!)
await test -e "$dir/dripping"
check "200 dripping requests: others are answered" at_least udmon_node_up 3
check "200 dripping requests: the collector ends them" wait "${others[0]}"
others=()

# Strangers at the agents' port: half a handshake, noise, nothing at all.
/usr/bin/python3 - "$port" "$dir" <<'END' &
import os, socket, sys, time
socks = []
for i in range(10000):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(("127.0.0.1", int(sys.argv[1])))
    socks.append(s)
    if i % 3 == 0:
        try:
            s.send(b"\x16\x03\x01\x02\x00\x01" if i % 2 else os.urandom(100))
        except OSError:
            pass
    if len(socks) > 900:
        socks.pop(0).close()
    if i % 100 == 0:
        time.sleep(0.02)
open(sys.argv[2] + "/strangers", "w").close()
time.sleep(600)
END
others+=($!)
check "10,000 strangers come" await test -e "$dir/strangers"
check "10,000 strangers: samples arrive" grows udmon_records_received_total 200
check "10,000 strangers: agents noticed nothing" undisturbed
kill "${others[0]}"
wait "${others[0]}" 2>/dev/null
others=()

# No descriptors: the collector says so, once, and does not spin.
prlimit --pid "$collector" --nofile=30:30
/usr/bin/python3 - "$port" "$dir" <<'END' &
import socket, sys, time
socks = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for i in range(60)]
open(sys.argv[2] + "/exhausted", "w").close()
time.sleep(600)
END
others+=($!)
await test -e "$dir/exhausted"
check "out of descriptors: said" await grep -q 'cannot accept' "$dir/collector.log"
check "out of descriptors: samples arrive" grows udmon_records_received_total 500
check "out of descriptors: agents noticed nothing" undisturbed
check "out of descriptors: few lines in the log" [ "$(wc -l <"$dir/collector.log")" -lt 60 ]
kill "${others[0]}"
wait "${others[0]}" 2>/dev/null
others=()

kill "${pids[@]}"
wait "${pids[@]}"
pids=()
check "agents say goodbye" await is udmon_node_up 0
received=$(total udmon_records_received_total)
kill "$collector"
check "the collector ends well" wait "$collector" # also by what sanitizers say
collector=''
check "all that was received is stored" [ "$(/usr/bin/python3 -c '
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM sample").fetchone()[0])
' "$dir/history.db")" -eq "$received" ]
