#!/bin/bash
# What others ask of the collector's HTTP server does not delay /metrics: open pages, a question without end, connections
# that drip, readers that do not read. Users, passwords, certificates.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin
patience=20

# stranger NAME ARGUMENT...: a program, on standard input
stranger() {
    launch "$1" /usr/bin/python3 - "${@:2}"
}

# Half a day of 64 series, as an agent of a large node makes them, in the earlier form, which is converted.
/usr/bin/python3 - "$dir/history0.db" <<'END'
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1])
db.execute("CREATE TABLE host(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, received INTEGER NOT NULL, lost INTEGER NOT NULL)")
db.execute("CREATE TABLE series(id INTEGER PRIMARY KEY, host INTEGER NOT NULL, name TEXT NOT NULL, counter INTEGER NOT NULL, UNIQUE(host, name))")
for table in "sample", "sample_10s", "sample_1min", "sample_10min":
    db.execute("CREATE TABLE " + table + "(id INTEGER PRIMARY KEY AUTOINCREMENT, series INTEGER NOT NULL, time_ms INTEGER NOT NULL, value REAL)")
db.execute("INSERT INTO host VALUES(1, 'big', 0, 0)")
now = int(time.time() * 1000)
for i in range(64):
    db.execute("INSERT INTO series VALUES(?, 1, ?, 1)", (i + 1, 'node_cpu_seconds{cpu="%d"}' % i))
    db.executemany("INSERT INTO sample(series, time_ms, value) VALUES(?, ?, ?)",
                   ((i + 1, now - 1000 * second, 1e6 - second) for second in range(43200, 0, -4)))
db.commit()
END
collector 0
check "the collector serves" await is 0 udmon_history_queue_length 0

# The median of 20 scrapes, in ms: a busy machine may keep some of them waiting
median() {
    local i
    for ((i = 0; i < 20; i++)); do
        get 0 /metrics -o /dev/null -w '%{time_total} %{http_code}\n'
    done | awk '{ print ($2 == 200) ? int($1 * 1000) : 1e9 }' | sort -n | sed -n 11p
}

# No scrape waits until another connection ends by its time limit, the shortest of which is 10 s.
scraped() {
    local ms
    ms=$(median)
    echo "# the median of 20 scrapes: $ms ms"
    [[ $ms -lt 10000 ]]
}

check "nobody asks: /metrics" scraped

stranger pages "$((port + 1))" "$dir" <<'END'
import sys, threading, time, urllib.request
def page():
    while True:
        try:
            urllib.request.urlopen("http://127.0.0.1:%s/api/lines?node=big&family=node_cpu_seconds&seconds=43200&points=300"
                                   % sys.argv[1], timeout=60).read()
        except OSError:
            time.sleep(0.1)
for i in range(10):
    threading.Thread(target=page, daemon=True).start()
open(sys.argv[2] + "/pages", "w").close()
time.sleep(600)
END
await test -e "$dir/pages"
check "ten open pages: /metrics" scraped

# One question that asks for the same family 250 times.
asks_long() {
    local families
    families=$(printf 'node_cpu_seconds,%.0s' {1..250})
    get 0 "/api/lines?node=big&seconds=7200&points=1000&by=*&family=${families%,}" -o "$dir/answer" -w '%{http_code}'
}
stop pages
# 250 times would take longer than the two seconds of a question in each try; once may do so on a busy machine.
is_answered() {
    local i
    for ((i = 0; i < 10; i++)); do
        [[ $(asks_long) != 200 ]] || return 0
    done
    return 1
}
check "a family that is asked for 250 times counts once" is_answered
check "and is answered once" [ "$(grep -o '"series":1' "$dir/answer" | wc -l)" -eq 64 ]

stranger dripper "$((port + 1))" "$dir" <<'END'
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
socks = []
def connect():
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.sendall(b"G")
    socks.append(s)
for i in range(1100):
    connect()
open(sys.argv[2] + "/dripping", "w").close()
while True:
    for s in list(socks):
        try:
            s.send(b"E")
        except OSError:
            socks.remove(s)
            connect()
    time.sleep(0.2)
END
await test -e "$dir/dripping"
check "1,100 dripping connections: /metrics" scraped
stop dripper

stranger sluggard "$((port + 1))" "$dir" <<'END'
import socket, sys, time
socks = []
for i in range(300):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.connect(("127.0.0.1", int(sys.argv[1])))
    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    socks.append(s)
    if i == 150:
        time.sleep(2)
open(sys.argv[2] + "/sluggish", "w").close()
time.sleep(600)
END
await test -e "$dir/sluggish"
check "300 readers that do not read: /metrics" scraped
stop sluggard
check "the collector ends well" stop collector0

# Users and certificates
hash() {
    /usr/bin/python3 -W ignore -c 'import crypt, sys; print(sys.argv[1] + ":" + crypt.crypt(sys.argv[2], crypt.METHOD_SHA512))' "$@"
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$dir/key" -out "$dir/cert" 2>/dev/null
hash ann secret1 >"$dir/users"
hash bob 'söcret:2' >>"$dir/users"

# status [OPTION...]: of /metrics over HTTPS
status() {
    curl -s -m 10 --cacert "$dir/cert" -o /dev/null -w '%{http_code}' "$@" "https://$(web 1)/metrics"
}
answers() {
    [[ $(status "${@:2}") = "$1" ]]
}
collector 1 --http-users "$dir/users" --http-cert "$dir/cert" --http-key "$dir/key"
check "HTTPS: no password, no answer" await answers 401
check "a user and the password" answers 200 -u ann:secret1
check "again, from what was proved" answers 200 -u ann:secret1
check "a password with a colon, in UTF-8" answers 200 -u bob:söcret:2
check "a wrong password" answers 401 -u ann:secret2
check "an unknown user" answers 401 -u eve:secret1
check "no Basic authentication at all" answers 401 -H 'Authorization: Bearer abc'
check "nonsense" answers 401 -H 'Authorization: Basic !!!'
check "the page asks for the password, too" [ "$(curl -s -k -o /dev/null -w '%{http_code}' "https://$(web 1)/")" = 401 ]
check "and the API" [ "$(curl -s -k -u ann:secret1 "https://$(web 1)/api/nodes" | grep -c '"nodes"')" -eq 1 ]
check "HTTP without TLS is no way in" [ "$(curl -s -m 5 -o /dev/null -w '%{http_code}' "http://$(web 1)/metrics")" != 200 ]
printf 'machine 127.0.0.1 login ann password secret1\n' >"$dir/.netrc"
check "udmon-top, with the password of .netrc" env HOME="$dir" "$bin/udmon-top" -b -u "https://$(web 1)" -c "$dir/cert"
hash ann secret3 >"$dir/users"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$dir/key" -out "$dir/cert" 2>/dev/null
kill -HUP "${running[collector1]}"
check "SIGHUP: the new password and certificate" await answers 200 -u ann:secret3
check "and not the old password" answers 401 -u ann:secret1
check "and no removed user" answers 401 -u bob:söcret:2
echo 'ann:plain' >"$dir/users"
kill -HUP "${running[collector1]}"
check "a file that cannot be used is said" await grep -q "$dir/users:1: this is not NAME:HASH" "$dir/collector1.log"
check "and the users stay" answers 200 -u ann:secret3
check "the collector ends well" stop collector1

# refuses WORDS OPTION...
refuses() {
    ! timeout 10 "$bin/udmon-collector" -l "tcp://$(address 2)" -d "$dir/history2.db" -s "$dir/secret" "${@:2}" \
        2>"$dir/refusal.log" && grep -qe "$1" "$dir/refusal.log"
}
check "other hosts: users are needed" refuses 'name the users' -w "*:$((port + 5))"
check "a certificate needs its key" refuses 'belong together' --http-cert "$dir/cert"
openssl ecparam -name prime256v1 -genkey -noout -out "$dir/other" 2>/dev/null
check "another key" refuses 'is the certificate one' -w "$(web 2)" --http-cert "$dir/cert" --http-key "$dir/other"
launch open "$bin/udmon-collector" -l "tcp://$(address 3)" -w "*:$((port + 7))" -d "$dir/history3.db" -s "$dir/secret" --http-open
check "--http-open: everybody may read" await is 3 udmon_history_queue_length 0
