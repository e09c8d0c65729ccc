#!/bin/bash
# What must not stop a collector from receiving: a locked database, readers that are slow, requests
# that drip in, no descriptors left, strangers by the thousand. Agents lose nothing, and what is
# received is stored.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin
patience=5 # the collector answers at once, whatever goes on

queue_holds() {
    at_least 0 udmon_history_queue_length "$1"
}

# stranger NAME ARGUMENT...: a program, on standard input, that makes trouble
stranger() {
    launch "$1" /usr/bin/python3 - "${@:2}"
}

# All agents are there, in their first connection, and have lost nothing. An agent that began
# before the collector listened has said "not connected to" first.
undisturbed() {
    is 0 udmon_node_up 3 && is 0 udmon_records_lost_total 0 &&
        [[ $(cat "$dir"/agent*.log | grep -c '^udmon: connected to') -eq 3 ]]
}

collector 0
for i in 0 1 2; do
    UDMON_LOG_LEVEL=info agent "agent$i" "server = tcp://$(address 0)" < <(sensors cpu=0.1)
done
check "agents are there" await is 0 udmon_node_up 3
check "and samples are stored" await at_least 0 udmon_history_samples_stored_total 100

# Another process holds the database's lock.
mkfifo "$dir/release"
stranger locker "$dir" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/history0.db", isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
open(sys.argv[1] + "/locked", "w").close()
open(sys.argv[1] + "/release").read()
db.execute("ROLLBACK")
END
await test -e "$dir/locked"
check "a locked database: samples wait for it" await queue_holds 500
check "a locked database: receiving goes on" grows 0 udmon_records_received_total 500
echo >"$dir/release"
wait "${running[locker]}"
check "unlocked, what waited is stored" grows 0 udmon_history_samples_stored_total 500
check "agents noticed nothing" undisturbed

# Requests that never end, and answers that nobody reads; the collector ends them in time.
stranger dripper "$((port + 1))" "$dir" <<'END'
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
await test -e "$dir/dripping"
check "200 dripping requests: others are answered" at_least 0 udmon_node_up 3
check "200 dripping requests: the collector ends them" wait "${running[dripper]}"

# Strangers at the agents' port: half a handshake, noise, nothing at all.
stranger noise "$port" "$dir" <<'END'
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
check "10,000 strangers come" await test -e "$dir/strangers"
check "10,000 strangers: samples arrive" grows 0 udmon_records_received_total 200
check "10,000 strangers: agents noticed nothing" undisturbed
slay noise

# No descriptors: the collector says so, once, and does not spin.
prlimit --pid "${running[collector0]}" --nofile=30:30
stranger hoarder "$port" "$dir" <<'END'
import socket, sys, time
socks = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for i in range(60)]
open(sys.argv[2] + "/exhausted", "w").close()
time.sleep(600)
END
await test -e "$dir/exhausted"
check "out of descriptors: said" await grep -q 'cannot accept' "$dir/collector0.log"
check "out of descriptors: samples arrive" grows 0 udmon_records_received_total 500
check "out of descriptors: agents noticed nothing" undisturbed
check "out of descriptors: few lines in the log" [ "$(wc -l <"$dir/collector0.log")" -lt 60 ]
slay hoarder

stop_all agent
check "agents say goodbye" await is 0 udmon_node_up 0
received=$(value 0 udmon_records_received_total)
check "the collector ends well" stop collector0 # also by what sanitizers say
check "all that was received is stored" [ "$(/usr/bin/python3 -c '
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("SELECT sum(count) FROM chunk").fetchone()[0])
' "$dir/history0.db")" -eq "$received" ]
