#!/bin/bash
# shellcheck disable=SC2016 # commands for eval
# Other people's metrics pass through agent and collector unchanged: textfile and scraped endpoint -> agent -> collector ->
# relay -> upper collector -> /metrics. HELP, TYPE and UNIT. Labels of any UTF-8 with escapes, long ones, names with ':',
# gauges that end in _total, a gauge x beside a counter x_total, NaN and infinities. What is refused is counted and named once.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin

mkdir "$dir/prom"
long=$(printf 'x%.0s' {1..600})
cat >"$dir/prom/good.prom" <<END
# HELP utf_metric Größe: a "quoted" word, a \\\\ and\\na second line.
# TYPE utf_metric gauge
utf_metric{name="Größe"} 3
utf_metric{name="日本"} 4
# TYPE quote_metric gauge
quote_metric{name="a \"q\" b"} 3
quote_metric{name="a\nb",dir="C:\\\\Temp\\\\"} 4
quote_metric{tab="a	b",comma="a,b=\"c\"",brace="}{"} 5
# TYPE long_metric gauge
long_metric{text="$long"} 6
# TYPE rule:of:colons gauge
rule:of:colons{a="b"} 7
# TYPE mem_alloc_bytes gauge
mem_alloc_bytes 100
# HELP mem_alloc_bytes_total Bytes that were allocated.
# TYPE mem_alloc_bytes_total counter
mem_alloc_bytes_total 900
# TYPE gauge_total gauge
gauge_total 8
untyped_total{a="1"} 9
# HELP undecided Help without a type.
undecided 1
# HELP backslash_metric In this format, \\" is no escape.
# TYPE backslash_metric gauge
backslash_metric 1
# TYPE energy_joules gauge
# UNIT energy_joules joules
# HELP energy_joules Energy.
energy_joules 10
# TYPE odd_counter counter
# HELP odd_counter A counter whose name lacks the suffix.
odd_counter 11
# HELP request_seconds Time of requests.
# TYPE request_seconds histogram
request_seconds_bucket{url="/b",le="0.5"} 1
request_seconds_bucket{url="/b",le="2.5"} 2
request_seconds_bucket{url="/b",le="10"} 3
request_seconds_bucket{url="/b",le="+Inf"} 4
request_seconds_sum{url="/b"} 30.5
request_seconds_count{url="/b"} 4
request_seconds_bucket{url="/a",le="0.5"} 0
request_seconds_bucket{url="/a",le="+Inf"} 1
request_seconds_sum{url="/a"} 1
request_seconds_count{url="/a"} 1
# HELP size_bytes Sizes.
# TYPE size_bytes summary
size_bytes{quantile="0.5"} 10
size_bytes{quantile="0.99"} NaN
size_bytes_sum 100
size_bytes_count 7
# TYPE odd gauge
odd{kind="nan"} NaN
odd{kind="inf"} +Inf
odd{kind="minus"} -Inf
odd{kind="small"} 1e-300
odd{kind="zero"} 0
END
# A histogram of many sensors whose HELP is no UTF-8: its parts alternate, and it takes no other HELP away.
{
    printf '# HELP parts \xff\n# TYPE parts histogram\n'
    for ((i = 0; i < 700; i++)); do
        printf 'parts_bucket{i="%d",le="+Inf"} 1\nparts_sum{i="%d"} 1\nparts_count{i="%d"} 1\n' $i $i $i
    done
    printf '# HELP behind_parts The family behind the histogram.\n# TYPE behind_parts gauge\nbehind_parts 1\n'
} >"$dir/prom/parts.prom"
cat >"$dir/prom/wrong.prom" <<'END'
twice{a="1"} 1
twice{a="1"} 2
comma 1,5
1wrong 3
bad{label="\q"} 4
END
# An endpoint in OpenMetrics format.
/usr/bin/python3 -c '
import http.server, sys
class Endpoint(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.end_headers()
        self.wfile.write(rb"""# HELP om_metric A \"quoted\" word, a \\ and\na second line.
# TYPE om_metric gauge
om_metric 1
# EOF
""")
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Endpoint)
print(server.server_port, file=open(sys.argv[1], "w"), flush=True)
server.serve_forever()' "$dir/endpoint" &
await test -s "$dir/endpoint"
collector 1 --relays relay0
collector 0 -u "tcp://$(address 1)" -N relay0
await is 0 udmon_relay_server 1 # a relay without its upper collector passes no descriptions on
agent a "server = tcp://$(address 0)" <<END
[files]
type = textfile
directory = $dir/prom
interval = 0.3
to = rack
[endpoint]
type = prometheus
url = http://127.0.0.1:$(cat "$dir/endpoint")/metrics
interval = 0.3
to = rack
[rack]
type = label
labels = rack="r1",path="C:\\\\x"
to = out
[self]
type = agent
interval = 0.3
to = out
END
check "samples come" await has 0 node_textfile_scrape_error
check "also from an endpoint" await has 0 om_metric

# same N: the samples and descriptions of the file as /metrics of collector N has them, without the node's label
same() {
    get "$1" /metrics >"$dir/metrics" && /usr/bin/python3 - "$dir/prom/good.prom" "$dir/metrics" <<'END'
import math, sys
sys.path.insert(0, "/usr/lib/python3/dist-packages")
from prometheus_client.parser import text_string_to_metric_families as parse
def samples(path, label=None):
    found, described = {}, {}
    for family in parse(open(path, newline="\n").read()):
        for s in family.samples[:1]:
            described[s.name] = family.type, family.documentation
        for s in family.samples:
            if s.name.startswith("udmon_"):
                continue # of the collectors and of each node
            labels = {k: v for k, v in s.labels.items() if k != label}
            if label and s.name != "up":
                assert labels.pop("rack") == "r1" and labels.pop("path") == "C:\\x", s
            key = (s.name, tuple(sorted(labels.items())))
            assert key not in found, "twice: %s" % (key,)
            found[key] = s.value
    return found, described
(sent, described), (shown, shown_described) = samples(sys.argv[1]), samples(sys.argv[2], "node")
for name, (kind, text) in described.items():
    assert shown_described[name] == (kind, text or "Sample of an agent."), (name, kind, text, shown_described[name])
for key, value in sent.items():
    assert key in shown, "missing: %s" % (key,)
    assert shown[key] == value or math.isnan(value) and math.isnan(shown[key]), (key, value, shown[key])
END
}
check "each sample of the file stands in /metrics as it was, with its HELP and TYPE" same 0
await has 1 node_textfile_scrape_error
await has 1 om_metric
check "and passes through a relay" same 1
check "families behind a histogram with a wrong HELP have their HELP" \
    grep -q '^# HELP behind_parts The family behind the histogram.$' "$dir/metrics"
# whole NAME TYPE LINES: a family of collector 1's /metrics has one TYPE line, and as many lines follow it
whole() {
    [[ $(grep -c "^# TYPE $1" "$dir/metrics") -eq 1 ]] &&
        [[ $(grep -A "$3" "^# TYPE $1 $2\$" "$dir/metrics" | grep -c "^$1[_{]") -eq $3 ]]
}
check "a histogram is one family" whole request_seconds histogram 10
check "with increasing bounds" [ "$(grep -o 'request_seconds_bucket{.*url="/b",.*le="[^"]*"' "$dir/metrics" |
    sed 's/.*le="//; s/"//' | tr '\n' ' ')" = "0.5 2.5 10 +Inf " ]
check "a summary is one family" whole size_bytes summary 4
check "promtool has nothing to say of the format" eval \
    'promtool check metrics <"$dir/metrics" 2>&1 | grep -i "error\|parsing" && exit 1; true'
openmetrics() {
    get "$1" /metrics -H 'Accept: application/openmetrics-text' >"$dir/openmetrics" && /usr/bin/python3 -c '
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
families = list(parse(open(sys.argv[1], newline="\n").read()))
names = {s.name for f in families for s in f.samples}
for name in "mem_alloc_bytes", "mem_alloc_bytes_total", "gauge_total", "untyped_total", "utf_metric":
    assert name in names, name
described = {f.name: (f.type, f.unit, f.documentation) for f in families}
for name, right in {
    "utf_metric": ("gauge", "", "Größe: a \"quoted\" word, a \\ and\na second line."),
    "undecided": ("unknown", "", "Help without a type."),
    "backslash_metric": ("gauge", "", "In this format, \\\" is no escape."),
    "om_metric": ("gauge", "", "A \"quoted\" word, a \\ and\na second line."),
    "energy_joules": ("gauge", "joules", "Energy."),
    "request_seconds": ("histogram", "seconds", "Time of requests."),
    "size_bytes": ("summary", "bytes", "Sizes."),
    "odd_counter": ("unknown", "", "A counter whose name lacks the suffix."),
}.items():
    assert described[name] == right, (name, described[name])' "$dir/openmetrics"
}
check "OpenMetrics is right, too, with UNIT" openmetrics 0
check "and behind a relay" openmetrics 1
check "a gauge and a counter of one name have histories of their own" await eval \
    '[[ $(get 0 "/api/lines?node=a&family=mem_alloc_bytes" | grep -o "\"series\":1" | wc -l) -eq 2 ]]'
check "no reading is a gap in a chart, and no zero" [ "$(get 0 '/api/series?node=a&name=odd%7Bkind%3D%22nan%22%7D' | grep -c '"points":\[\]')" -eq 1 ]
check "a duplicate is refused and counted" await at_least 0 udmon_agent_samples_refused_total 3
check "by its reason" await eval 'get 0 /metrics | grep -q "udmon_agent_samples_refused_total{.*reason=\"duplicate\"}"'
check "and named in the log, once" [ "$(grep -c 'twice{a="1"}' "$dir/a.log")" -eq 1 ]
check "a comma is no point: the line is refused" grep -q 'this line is no sample: comma' "$dir/a.log"
check "the error is a metric" is 0 node_textfile_scrape_error 1
check "as is each file's time" [ "$(get 0 /metrics | grep -c "^node_textfile_mtime_seconds{.*good.prom\"[,}]")" -eq 1 ]
rm "$dir/prom/wrong.prom"
check "without the wrong file there is no error" await is 0 node_textfile_scrape_error 0
# descriptions NODE TICKS SERIES: sets `described` to the number of the node's descriptions, after some ticks
descriptions() {
    local stored received
    get 0 /metrics >"$dir/counts"
    received=$(awk -v line="udmon_records_received_total{node=\"$1\"}" '$1 == line { print $2 }' "$dir/counts")
    stored=$(awk -v line="udmon_node_samples_stored_total{node=\"$1\"}" '$1 == line { print $2 }' "$dir/counts")
    described=$((${received:-0} - ${stored:-0}))
    [[ ${stored:-0} -ge $(($2 * $3)) ]]
}
mkdir "$dir/many"
for ((i = 0; i < 2100; i++)); do
    echo "many_$i 1"
done >"$dir/many/many.prom"
agent b "server = tcp://$(address 0)" <<END
[files]
type = textfile
directory = $dir/many
interval = 0.2
to = out
END
check "a node with very many families sends samples" await descriptions b 8 2100
check "and does not describe all families in each tick" [ "$described" -le 8192 ]
stop b
# noted: a description is counted, and the log of collector 0 has one line about descriptions of node b
noted() {
    [[ $(get 0 /metrics | awk '$1 == "udmon_node_descriptions_discarded_total{node=\"b\"}" { print $2 }') -ge 1000 &&
        $(grep -c 'node b: descriptions of more than 1000 families: those of many_' "$dir/collector0.log") -eq 1 ]]
}
check "descriptions beyond the limit are counted, and logged once" noted
check "HELP says that counters of records count descriptions, too" grep -q \
    '^# HELP udmon_records_received_total Records that came from a node: samples and descriptions.$' "$dir/counts"
slay collector0
collector 0 -u "tcp://$(address 1)" -N relay0
await at_least 0 udmon_agent_connections_total 2
echo 'comma 1,5' >"$dir/prom/wrong.prom" # the last sample of a tick shows that this tick came after the connection
await is 0 node_textfile_scrape_error 1
check "a collector that has restarted gets the descriptions again" same 0
