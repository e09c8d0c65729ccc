#!/bin/bash
# commatrix as its users call it: files of all kinds, damaged ones, options, diff, place.
# shellcheck disable=SC2015 # fail ends the script
# shellcheck source=test/commatrix/lib.sh
. "$(dirname "$0")/lib.sh"

python3 "$here/generate.py" "$work/g" || fail "generate.py"
python3 "$here/judge.py" "$commatrix" "$work/g" expected >"$work/judged" ||
    fail "$(grep '^not ok' "$work/judged")"

# The same matrix from compressed files, from a pipe, and from pieces.
file=$work/g/rocev2.pcap
"$commatrix" --csv "$file" >"$work/plain.csv" || fail "no CSV"
gzip -k "$file" && zstd -q -k "$file" && xz -k "$file" && bzip2 -k "$file" || fail "compressors"
for packed in "$file.gz" "$file.zst" "$file.xz" "$file.bz2"; do
    status 0 "$commatrix" --csv "$packed"
    cmp -s "$work/out" "$work/plain.csv" || fail "$packed reads as something else"
done
"$commatrix" --csv - <"$file.gz" | cmp -s - "$work/plain.csv" || fail "standard input"
cat "$file.gz" "$file.gz" >"$work/twice.gz"
status 3 "$commatrix" --csv "$work/twice.gz" # the second header is no packet

# All copies of a packet in several files count once.
status 0 "$commatrix" --csv "$work/g/mirrored.pcap" "$work/g/mirrored.pcapng"
cut -d, -f1-6 "$work/out" >"$work/two"
"$commatrix" --csv "$work/g/mirrored.pcap" | cut -d, -f1-6 | cmp -s - "$work/two" ||
    fail "copies in two files count twice"

# Damage: what stands before it counts, offset and reason are named, the exit status tells.
size=$(stat -c %s "$file")
head -c $((size - 30)) "$file" >"$work/short.pcap"
status 3 "$commatrix" --csv "$work/short.pcap"
says 'short.pcap: damaged at offset [0-9]*: truncated'
[ "$(wc -l <"$work/out")" -gt 2 ] || fail "nothing is shown of a damaged file"
python3 "$here/generate.py" --traffic "$work/long" 16 20000 && gzip "$work/long" || fail "generate.py --traffic"
head -c $(($(stat -c %s "$work/long.gz") / 2)) "$work/long.gz" >"$work/short.gz"
status 3 "$commatrix" --csv "$work/short.gz"
says 'short.gz: damaged at offset [0-9]* of the uncompressed data: truncated'
[ "$(wc -l <"$work/out")" -gt 2 ] || fail "nothing is shown of a truncated gzip file"
(cat "$file" && printf 'garbage in the file that is no packet header') >"$work/long.pcap"
status 3 "$commatrix" --csv "$work/long.pcap"
status 3 "$commatrix" --csv "$file" "$work/missing.pcap"
says 'missing.pcap: No such file'
status 4 "$commatrix" "$work/missing.pcap"
echo 'no capture' >"$work/text"
status 4 "$commatrix" "$work/text"

# Wrong usage.
status 2 "$commatrix"
status 2 "$commatrix" --by nothing "$file"
status 2 "$commatrix" --every fast "$file"
says 'no time'
status 2 "$commatrix" --with gossip "$file"
status 2 "$commatrix" --json --csv "$file"
status 2 "$commatrix" -i lo "$file"
status 4 "$commatrix" --png /nonexistent/x.png "$file"
says 'could not be written'
printf 'host a 10.0.0.1\nhost b\n' >"$work/map"
status 2 "$commatrix" --map "$work/map" "$file"
says 'map:2: host needs'

# Names and ranks from a map.
printf 'host alpha 10.0.0.1 fd00::1 # both\nhost beta 10.0.0.2 fd00::2\nrank 1 alpha\nrank 0 beta\n' \
    >"$work/map"
status 0 "$commatrix" --map "$work/map" --json "$file"
[ "$(jq -r '.names | join(" ")' "$work/out")" = 'alpha beta' ] || fail "names of the map"
status 0 "$commatrix" --map "$work/map" --by rank --json "$file"
[ "$(jq -r '.by + " " + (.names | join(" "))' "$work/out")" = 'rank 0 1' ] || fail "ranks of the map"
printf 'rank 0 10.0.0.1\nrank 1 10.0.0.1\nrank 2 10.0.0.2\n' >"$work/map"
status 0 "$commatrix" --map "$work/map" --by rank --json "$file"
says 'several ranks on a host'
# Without ranks: hosts, and why.
status 0 "$commatrix" --by rank --json "$work/g/gaps.pcap"
says 'no ranks, hosts instead'
[ "$(jq -r .by "$work/out")" = host ] || fail "ranks that are none"

# Windows add up to the whole.
status 0 "$commatrix" --every 10ms --json "$file"
jq -e '([.windows[].cells[].wire_bytes] | add) == .totals.wire_bytes and (.windows | length) > 2' \
    "$work/out" >/dev/null || fail "windows do not add up"
status 0 "$commatrix" --only ack --json "$file"
jq -e '.totals.packets > 0 and .excluded.data.packets > 0' "$work/out" >/dev/null || fail "--only ack"
all=$("$commatrix" --json "$file" | jq .totals.packets)
part=$("$commatrix" --json --to 5ms "$file" | jq .totals.packets)
rest=$("$commatrix" --json --from 5ms "$file" | jq .totals.packets)
[ $((part + rest)) -eq "$all" ] && [ "$part" -gt 0 ] || fail "--from and --to: $part + $rest, not $all"

# One zero of time: each phase that is printed, given to --from and --to, has its bytes. The file is not
# in the order of time.
python3 - "$work/g/rocev2.pcap" "$work/late.pcap" <<'END' || fail "no late.pcap"
import random, struct, sys
data = open(sys.argv[1], "rb").read()
at, records = 24, []
while at < len(data):
    seconds, fraction, length, wire = struct.unpack_from("<IIII", data, at)
    records.append((seconds, fraction, data[at + 8:at + 16 + length]))
    at += 16 + length
n = len(records)
pieces = [[(s + 10 * (i * 4 // n), f, r) for i, (s, f, r) in enumerate(records) if i * 4 // n == part] for part in range(4)]
with open(sys.argv[2], "wb") as file:
    file.write(data[:24])
    for piece in (pieces[2], pieces[0], pieces[3], pieces[1]):
        for s, f, r in piece:
            file.write(struct.pack("<II", s, f) + r)
END
status 0 "$commatrix" -q "$work/late.pcap"
cp "$work/out" "$work/phases"
[ "$(grep -c '^  --from' "$work/phases")" -eq 4 ] || fail "phases: $(grep -e --from "$work/phases")"
whole=0
while read -r _ from _ to bytes unit; do
    status 0 "$commatrix" -q --json --from "$from" --to "$to" --skew 0 "$work/late.pcap"
    jq -e '.totals.wire_bytes > 0 and .capture.begin > 1.6e9' "$work/out" >/dev/null || fail "phase $from $to"
    found=$(jq '.totals.wire_bytes' "$work/out")
    [ "$(printf '(%.1f kB)' "$(jq '.totals.wire_bytes / 1000' "$work/out")")" = "$bytes $unit" ] ||
        fail "phase $from to $to has $found bytes, not $bytes $unit"
    whole=$((whole + found))
done < <(grep '^  --from' "$work/phases")
# Windows count from the same zero as phases.
status 0 "$commatrix" -q --json --every 1s "$work/late.pcap"
jq -e '[.windows[].begin] == [0, 10, 20, 30] and (.totals.wire_bytes == ([.windows[].cells[].wire_bytes] | add))' \
    "$work/out" >/dev/null || fail "windows: $(jq -c '[.windows[] | [.begin, .end]]' "$work/out")"
[ "$whole" -eq "$(jq .totals.wire_bytes "$work/out")" ] || fail "phases have $whole bytes"
# The same from a pipe; and a part without packets has no times.
"$commatrix" -q --csv --from 5s --to 25s - <"$work/late.pcap" >"$work/piped" || fail "--from of a pipe"
"$commatrix" -q --csv --from 5s --to 25s "$work/late.pcap" | cmp -s - "$work/piped" || fail "a pipe has another zero"
status 0 "$commatrix" -q --json --from 500s "$work/late.pcap"
jq -e '.capture.begin == null and .capture.end == null and .capture.packets == 0' "$work/out" >/dev/null ||
    fail "times of nothing"
# Clocks of two files: measured, corrected, and told.
python3 - "$work/g/rocev2.pcap" "$work/ahead.pcap" <<'END' || fail "no ahead.pcap"
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
at = 24
while at < len(data):
    seconds, fraction, length, wire = struct.unpack_from("<IIII", data, at)
    time = seconds * 10**9 + fraction + 170_000_000
    struct.pack_into("<II", data, at, time // 10**9, time % 10**9)
    at += 16 + length
open(sys.argv[2], "wb").write(data)
END
status 0 "$commatrix" -q --json "$file" "$work/ahead.pcap"
says 'ahead.pcap is 170 ms ahead: corrected'
jq -e --argjson one "$("$commatrix" -q --json "$file" | jq .totals.wire_bytes)" \
    '.totals.wire_bytes == $one and .capture.retransmissions == 0 and .capture.clocks[1].ahead_ns == 170000000' \
    "$work/out" >/dev/null || fail "clocks: $(jq -c '[.totals.wire_bytes, .capture]' "$work/out")"

# Times that do not fit into a counter of nanoseconds are no reason to fail.
python3 - "$work/g/sections.pcapng" "$work/far.pcapng" <<'END' || fail "no far.pcapng"
import struct, sys
data = open(sys.argv[1], "rb").read()
option = struct.pack("<HHB", 9, 1, 9)
at = data.index(option)
open(sys.argv[2], "wb").write(data[:at + 4] + b"\0" + data[at + 5:]) # seconds in place of nanoseconds
END
status 0 "$commatrix" -q --json --every 1s "$work/far.pcapng"
jq -e '.totals.packets == 16 and .capture.end > 8e9' "$work/out" >/dev/null || fail "far times: $(jq -c .capture "$work/out")"

# Raw packets count if they are asked for. A capture without RDMA says so.
status 0 "$commatrix" -q --json --only raw "$work/g/system.pcap"
jq -e '.totals.packets == 1 and .totals.wire_bytes > 0' "$work/out" >/dev/null || fail "--only raw"
status 0 "$commatrix" -q "$work/g/short-headers.pcap"
grep -q '10 packets are cut before their headers end' "$work/out" || fail "no word about the snapshot length"
grep -q 'no RDMA packet at all' "$work/out" || fail "no word about missing RDMA"
grep -q 'missing is not known' "$work/out" || fail "loss without numbers: $(cat "$work/out")"
printf '\n\r\r\n\034\0\0\0M<+\032\1\0\0\0\377\377\377\377\377\377\377\377\034\0\0\0' >"$work/empty.pcapng"
status 0 "$commatrix" -q "$work/empty.pcapng"
grep -q 'no traffic to show' "$work/out" || fail "a capture without packets"
: >"$work/nothing"
status 4 "$commatrix" "$work/nothing"
says 'the file is empty'

# The report: ranks of a ring by the map, on two switches.
python3 - "$here" "$work/ring.pcap" <<'END' || fail "no ring.pcap"
import sys
sys.argv, here, out = sys.argv[:1] + ["/dev/null/none"], sys.argv[1], sys.argv[2]
sys.path.insert(0, here)
source = open(here + "/generate.py").read().replace("\nmain()\n", "\n")
exec(source)
c = Capture("ring", IB, "lid")
for i in range(80):
    a, b = i % 8, (i + 1) % 8
    c.add(lrh_frame(1 + a, 1 + b, ib_packet(RC, SEND_ONLY, 40, i // 8, b"r" * 500)), 1 + a, 1 + b)
open(out, "wb").write(c.pcap())
END
for i in 0 1 2 3 4 5 6 7; do echo "host n$i $((i + 1))"; echo "rank $i n$i"; done >"$work/ring.map"
{
    printf 'switch s1\nswitch s2\nlink s1 s2\n'
    for i in 0 2 4 6; do echo "host n$i s1"; done
    for i in 1 3 5 7; do echo "host n$i s2"; done
} >"$work/ring.net"
status 0 "$commatrix" -q --explain --map "$work/ring.map" --topology "$work/ring.net" "$work/ring.pcap"
grep -q '^Pattern  *ring: each rank sends to the next one' "$work/out" || fail "pattern: $(cat "$work/out")"
grep -q '^Network  *100.0 % of the traffic crosses switches' "$work/out" || fail "network: $(cat "$work/out")"
grep -q '^Placement  *Another placement saves [0-9.]* % of traffic times distance' "$work/out" || fail "placement: $(cat "$work/out")"
printf 'switch s1\nhost n s1 8 2\n' >"$work/numa.net"
status 0 "$commatrix" -q --explain --map "$work/ring.map" --topology "$work/numa.net" "$work/ring.pcap"
grep -q '25.0 % crosses NUMA nodes of a host, 75.0 % stays in one' "$work/out" || fail "NUMA: $(cat "$work/out")"
status 2 "$commatrix" --topology "$work/ring.net" "$file"

# Orders.
status 0 "$commatrix" --order cluster --json "$work/g/erf.pcap"
status 0 "$commatrix" --order traffic --json "$work/g/erf.pcap"
jq -e '.names[0] == "5"' <("$commatrix" --by lid --order traffic --json "$work/g/erf.pcap") >/dev/null ||
    fail "--order traffic"
status 2 "$commatrix" --job 1 "$file"
says '--job is for --by rank'

# Pictures and pages.
status 0 "$commatrix" --svg "$work/a.svg" --png "$work/a.png" --html "$work/a.html" "$file"
head -c 8 "$work/a.png" | cmp -s - <(printf '\211PNG\r\n\032\n') || fail "no PNG"
grep -q '</svg>' "$work/a.svg" && grep -q '</html>' "$work/a.html" || fail "no SVG or no page"
status 0 "$commatrix" --title '</script><b>' --html "$work/b.html" "$file"
[ "$(grep -c '</script>' "$work/b.html")" -eq 1 ] || fail "a title ends the script"

# diff
"$commatrix" --json "$file" >"$work/a.json"
sed 's/"wire_bytes": \([0-9]*\)/"wire_bytes": \11/' "$work/a.json" >"$work/b.json"
status 0 "$commatrix" diff "$work/a.json" "$work/a.json"
status 1 "$commatrix" diff "$work/a.json" "$work/b.json"
status 0 "$commatrix" diff --threshold 1000 "$work/a.json" "$work/b.json"
status 1 "$commatrix" diff --total 1 "$work/a.json" "$work/b.json"
status 0 "$commatrix" diff --count packets "$work/a.json" "$work/b.json"
status 4 "$commatrix" diff "$work/a.json" "$work/text"
says 'text: no JSON: make the matrix with commatrix --json'
status 4 "$commatrix" diff "$file" "$work/a.json"
says 'no JSON'
status 4 "$commatrix" diff "$work/none.json" "$work/a.json"
says 'none.json: No such file'
status 2 "$commatrix" diff "$work/a.json"

# place: ranks 0 and 3 talk, as do 1 and 2; two switches far apart.
cat >"$work/net" <<'END'
switch s1
switch s2
link s1 s2 5
host a s1
host b s1
host c s2
host d s2
END
echo '{"by": "rank", "names": ["0","1","2","3"], "cells": [
 {"from": "0", "to": "3", "wire_bytes": 1000}, {"from": "1", "to": "2", "wire_bytes": 1000}]}' \
    >"$work/m.json"
status 0 "$commatrix" place --topology "$work/net" --json "$work/m.json"
jq -e '.cost == 4000 and .cost_present == 14000' "$work/out" >/dev/null ||
    fail "place: $(cat "$work/out")"
status 0 "$commatrix" place --topology "$work/net" --rankfile "$work/m.json"
grep -q '^rank 0=[a-d] slot=0$' "$work/out" || fail "no rankfile"
# Nothing is proposed that saves less than one per cent, or that only renames equal hosts.
printf 'switch s1\nhost a s1 2\nhost b s1 2\nhost c s1 2\n' >"$work/flat"
printf 'rank 0 a\nrank 1 a\nrank 2 c\nrank 3 c\nrank 4 b\nrank 5 b\n' >"$work/present"
echo '{"by": "rank", "names": ["0","1","2","3","4","5"], "cells": [{"from": "0", "to": "1", "wire_bytes": 1000},
 {"from": "2", "to": "3", "wire_bytes": 1000}, {"from": "4", "to": "5", "wire_bytes": 1000},
 {"from": "0", "to": "2", "wire_bytes": 3}, {"from": "1", "to": "5", "wire_bytes": 2}]}' >"$work/pairs.json"
status 0 "$commatrix" place --topology "$work/flat" --present "$work/present" "$work/pairs.json"
grep -q '^# 0 of 6 ranks move' "$work/out" || fail "place moves ranks for nothing: $(cat "$work/out")"
printf 'rank 0 a\nrank 1 b\nrank 2 c\nrank 3 c\nrank 4 b\nrank 5 a\n' >"$work/present"
status 0 "$commatrix" place --topology "$work/flat" --present "$work/present" "$work/pairs.json"
grep -q '^# 2 of 6 ranks move' "$work/out" || fail "place moves more ranks than two: $(cat "$work/out")"
# A rank with a large number is no reason to allocate.
echo '{"by": "rank", "names": ["0", "4000000"], "cells": [{"from": "0", "to": "4000000", "wire_bytes": 1}]}' >"$work/high.json"
status 4 "$commatrix" place --topology "$work/net" "$work/high.json"
says 'net has 4 slots, the matrix has 4000001 ranks'
printf 'switch s1\nhost a s2\n' >"$work/bad"
status 4 "$commatrix" place --topology "$work/bad" "$work/m.json"
says 'bad:2: no line above'
status 4 "$commatrix" place --topology "$work/net" "$work/a.json"
says 'no matrix by ranks'

# A live page shows the last packets before a pause, though the capture goes on.
cat >"$work/roce.py" <<'END'
import socket
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.bind(("127.0.0.2", 0))
for psn in range(10):
    out.sendto(bytes([4, 0, 255, 255, 0, 0, 0, 40, 0, 0, 0, psn]) + bytes(68), ("127.0.0.3", 4791))
END
# The first page is written at once, so packets that come after it are in a later one.
cat >"$work/live.sh" <<'END'
commatrix=$1 work=$2
ip link set lo up
"$commatrix" -q --live lo --refresh 1s --html "$work/live.html" --duration 60s >/dev/null 2>&1 &
until [ -e "$work/live.html" ]; do sleep 0.1; done
python3 "$work/roce.py"
until grep -q '"names": \["127.0.0.2","127.0.0.3"\]' "$work/live.html"; do
    kill -0 $! || exit 1
    sleep 0.2
done
grep -q 'http-equiv="refresh"' "$work/live.html" || exit 1
kill -INT $!
wait $!
END
if unshare -n true 2>/dev/null; then
    status 0 unshare -n bash "$work/live.sh" "$commatrix" "$work"
    ! grep -q 'http-equiv="refresh"' "$work/live.html" || fail "the last live page is loaded again for ever"
fi
