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
gzip -k "$file" && zstd -q -k "$file" && xz -k "$file" || fail "compressors"
for packed in "$file.gz" "$file.zst" "$file.xz"; do
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
head -c $(($(stat -c %s "$file.gz") / 2)) "$file.gz" >"$work/short.gz"
status 3 "$commatrix" --csv "$work/short.gz"
says 'the compressed data ends too early'
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
printf 'switch s1\nhost a s2\n' >"$work/bad"
status 4 "$commatrix" place --topology "$work/bad" "$work/m.json"
says 'bad:2: no line above'
status 4 "$commatrix" place --topology "$work/net" "$work/a.json"
says 'no matrix by ranks'
