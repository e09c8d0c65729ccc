#!/bin/bash
# shellcheck disable=SC2016 # commands for eval
# Other people's metrics pass through agent and collector unchanged: textfile and scraped endpoint -> agent -> collector ->
# /metrics, remote write and JSON. Labels of any UTF-8 with escapes, long ones, names with ':', gauges that end in _total, a
# gauge x beside a counter x_total, NaN and infinities. What is refused is counted and named once.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin

mkdir "$dir/prom"
long=$(printf 'x%.0s' {1..600})
cat >"$dir/prom/good.prom" <<END
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
# TYPE mem_alloc_bytes_total counter
mem_alloc_bytes_total 900
# TYPE gauge_total gauge
gauge_total 8
untyped_total{a="1"} 9
# TYPE odd gauge
odd{kind="nan"} NaN
odd{kind="inf"} +Inf
odd{kind="minus"} -Inf
odd{kind="small"} 1e-300
odd{kind="zero"} 0
END
cat >"$dir/prom/wrong.prom" <<'END'
twice{a="1"} 1
twice{a="1"} 2
comma 1,5
1wrong 3
bad{label="\q"} 4
END
collector 0
agent a "server = tcp://$(address 0)" <<END
[files]
type = textfile
directory = $dir/prom
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

# The samples of the file as /metrics has them, without the node's label.
same() {
    get 0 /metrics >"$dir/metrics" && /usr/bin/python3 - "$dir/prom/good.prom" "$dir/metrics" <<'END'
import math, sys
sys.path.insert(0, "/usr/lib/python3/dist-packages")
from prometheus_client.parser import text_string_to_metric_families as parse
def samples(path, label=None):
    found = {}
    for family in parse(open(path, newline="\n").read()):
        for s in family.samples:
            labels = {k: v for k, v in s.labels.items() if k != label}
            if label and s.name != "up" and not s.name.startswith("udmon_"):
                assert labels.pop("rack") == "r1" and labels.pop("path") == "C:\\x", s
            key = (s.name, tuple(sorted(labels.items())))
            assert key not in found, "twice: %s" % (key,)
            found[key] = s.value
    return found
sent, shown = samples(sys.argv[1]), samples(sys.argv[2], "node")
for key, value in sent.items():
    assert key in shown, "missing: %s" % (key,)
    assert shown[key] == value or math.isnan(value) and math.isnan(shown[key]), (key, value, shown[key])
END
}
check "each sample of the file stands in /metrics as it was" same
check "promtool has nothing to say of the format" eval \
    'promtool check metrics <"$dir/metrics" 2>&1 | grep -i "error\|parsing" && exit 1; true'
openmetrics() {
    get 0 /metrics -H 'Accept: application/openmetrics-text' >"$dir/openmetrics" && /usr/bin/python3 -c '
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
names = {s.name for f in parse(open(sys.argv[1], newline="\n").read()) for s in f.samples}
for name in "mem_alloc_bytes", "mem_alloc_bytes_total", "gauge_total", "untyped_total", "utf_metric":
    assert name in names, name' "$dir/openmetrics"
}
check "OpenMetrics is right, too" openmetrics
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
