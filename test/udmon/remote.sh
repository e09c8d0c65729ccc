#!/bin/bash
# Remote write to a receiver that refuses one series, is away while the collector is killed, and wants a password.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin
receiver=$((port + 9))

# receive [AUTHORIZATION]: answers 400 to a body with the series "xqjvzkwy", 401 to others than AUTHORIZATION
receive() {
    launch receiver /usr/bin/python3 - "$receiver" "${1:-}" <<'END'
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        bad = b"xqjvzkwy" in body
        right = self.headers.get("Authorization", "") == sys.argv[2]
        self.send_response(401 if not right else 400 if bad else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
END
}
mkdir "$dir/prom"
{ for ((i = 0; i < 300; i++)); do echo "good_one{i=\"$i\"} 1"; done && echo "xqjvzkwy 1"; } >"$dir/prom/n.prom"
url=http://127.0.0.1:$receiver/write

receive
collector 0 -r "$url"
agent a "server = tcp://$(address 0)" < <(printf '[files]\ntype = textfile\ndirectory = %s\ninterval = 0.2\nto = out\n' "$dir/prom")
check "samples are taken" await at_least 0 udmon_remote_write_samples_sent_total 3000
check "but for those of a series that is refused" await at_least 0 udmon_remote_write_samples_refused_total 5
costs_little() {
    local refused
    refused=$(value 0 udmon_remote_write_samples_refused_total)
    # one in 301, and what comes between the two questions
    [[ $((refused * 150)) -lt $(value 0 udmon_remote_write_samples_sent_total) ]]
}
check "which costs no other one" costs_little

stop receiver
check "while the receiver is away, samples wait on the disk" await at_least 0 udmon_remote_write_samples_waiting 3000
stop a
slay collector0
waiting=$(find "$dir/history0.db-remote" -name '0*-*' | sed 's/.*-//' | awk '{ sum += $1 } END { print sum }')
collector 0 -r "$url" --remote-user "$dir/user"
echo ann:secret >"$dir/user"
check "they outlast a kill" await at_least 0 udmon_remote_write_samples_waiting "$waiting"
receive "Basic $(printf ann:other | base64)"
check "a wrong password loses nothing" await grep -q 'HTTP status 401' "$dir/collector0.log"
check "and they wait on" at_least 0 udmon_remote_write_samples_waiting "$waiting"
echo ann:other >"$dir/user"
check "the right one is read without a restart" await is 0 udmon_remote_write_samples_waiting 0
check "and all are sent" [ $(($(value 0 udmon_remote_write_samples_sent_total) + $(value 0 udmon_remote_write_samples_refused_total))) -ge "$waiting" ]
stop receiver
receive "Bearer abc"
echo abc >"$dir/token"
collector 1 -r "$url" --remote-token "$dir/token"
agent b "server = tcp://$(address 1)" < <(sensors load=0.1)
check "a bearer token" await at_least 1 udmon_remote_write_samples_sent_total 10

# An engine with older values that wants a user, and answers with a file
launch engine /usr/bin/python3 - $((port + 8)) "$dir/answer" "Basic $(printf ann:other | base64)" <<'END'
import http.server, sys, urllib.parse
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        right = self.path == "/prom/api/v1/query_range" and self.headers.get("Authorization") == sys.argv[3]
        self.send_response(200 if right else 401)
        self.end_headers()
        self.wfile.write(open(sys.argv[2], "rb").read().replace(b"START", asked["start"][0].encode()))
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
END
collector 2 --query-url "http://127.0.0.1:$((port + 8))/prom/" --query-user "$dir/query" --query-match 'site="x"'
await get 2 /metrics -o "$dir/metrics"
# engine RESULT FILTER: the engine answers so, and jq's filter holds for the answer of the collector
engine() {
    printf '{"status":"success","data":{"resultType":"matrix","result":%s}}' "$1" >"$dir/answer"
    get 2 '/api/series?node=n&name=x{a="b"}&seconds=600&points=10&extremes=1' | jq -e "$2" >/dev/null
}
one='[{"metric":{"a":"b","node":"n"},"values":[[START,"7"],[START,"8"],[1e300,"9"],[-1,"9"],["x","9"],[1],5]}]'
echo ann:wrong >"$dir/query"
check "an engine with older values: a wrong password" await engine "$one" '.older.failed'
echo ann:other >"$dir/query"
check "the right one is read without a restart" await engine "$one" \
    '.older.failed == false and (.points | length) == 1 and .points[0][1:] == [8, 8, 8]'
for answer in 'null' '[5]' '[{}]' '[{"metric":{"a":5},"values":[]}]' '[{"metric":[],"values":[]}]' \
    '[{"metric":{},"values":{}}]' '[' "[$(printf '{"metric":{},"values":[]},%.0s' {1..9999})5]" \
    "\"$(head -c 5000000 /dev/zero | tr '\0' x)\""; do
    check "an engine with a senseless answer: ${answer:0:40}" engine "$answer" '.older.failed and .points == []'
done
check "each failure is counted" [ "$(value 2 udmon_queries_failed_total)" -ge 10 ]
check "the collectors end well" stop collector0 collector1 collector2
