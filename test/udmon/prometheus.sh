#!/bin/bash
# udmon into Debian's Prometheus, both ways: Prometheus scrapes /metrics, and the collector sends
# samples by remote write. A receiver that is away for a while misses nothing.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
command -v prometheus >/dev/null || { echo "skip Prometheus: it is not installed"; exit 77; }
# shellcheck disable=SC2154 # make check says where
bin=$abs_top_builddir/src/udmon
dir=$(mktemp -d)
failed=0 pids=() server=''
port=$((10000 + $$ % 2200 * 10)) # below those that the kernel gives to clients: 32768 and more
web=127.0.0.1:$((port + 1)) prometheus=127.0.0.1:$((port + 2))

finish() {
    [[ ${#pids[@]} -eq 0 ]] || kill "${pids[@]}" 2>/dev/null
    [[ -z $server ]] || kill "$server" 2>/dev/null
    wait
    rm -rf "$dir"
    exit $failed
}
trap finish EXIT

explain() {
    tail -n 5 "$dir"/*.log | sed 's/^/# /'
}

start_prometheus() {
    prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/data" \
        --web.listen-address="$prometheus" --web.enable-remote-write-receiver \
        >>"$dir/prometheus.log" 2>&1 &
    server=$!
}

# query PROMQL: the value of the first result
query() {
    curl -s -m 10 -G --data-urlencode "query=$1" "http://$prometheus/api/v1/query" |
        /usr/bin/python3 -c 'import json, sys
r = json.load(sys.stdin)["data"]["result"]
print(r[0]["value"][1] if r else "")' 2>/dev/null
}

says() {
    [[ $(query "$1") = "$2" ]]
}

# A metric of the collector's own
own() {
    curl -s -m 10 "http://$web/metrics" | awk -v name="$1" '$1 == name { print $2 }'
}

at_least() {
    [[ $(own "$1") -ge $2 ]]
}

clean() {
    curl -s -m 10 "http://$web/metrics" | promtool check metrics >"$dir/promtool.log" 2>&1 &&
        [[ ! -s $dir/promtool.log ]]
}

cat >"$dir/prometheus.yml" <<END
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: udmon
    static_configs:
      - targets: ['$web']
END
"$bin/udmon-collector" -l "localhost:$port" -w "$web" -d "$dir/history.db" \
    -r "http://$prometheus/api/v1/write" 2>"$dir/collector.log" &
collector=$!
pids+=("$collector")
cat >"$dir/agent.conf" <<END
[cpu]
type = cpu
interval = 0.2
to = out
[load]
type = load
interval = 0.2
to = out
[memory]
type = memory
interval = 0.2
to = out
[network]
type = network
interval = 0.2
to = out
[out]
type = send
name = node0
server = localhost:$port
END
"$bin/udmon-agent" -c "$dir/agent.conf" 2>"$dir/agent.log" &
agent=$!
pids+=("$agent")
check "samples wait for a receiver that is not there yet" await grep -q 'remote write to' \
    "$dir/collector.log"
start_prometheus
check "remote write: samples are taken" await at_least udmon_remote_write_samples_sent_total 100
check "remote write: none was refused" [ "$(own udmon_remote_write_samples_refused_total)" -eq 0 ]
check "remote write: a gauge with its node" \
    await says 'count(node_load1{node="node0",job=""})' 1
check "remote write: counters are counters" \
    await says 'sum(rate(node_cpu_seconds_total{node="node0",job=""}[30s])) > bool 0' 1
check "scrape: Prometheus takes the page" await says 'up{job="udmon"}' 1
check "scrape: a counter, and the node's label" \
    await says 'count(count by (mode) (node_cpu_seconds_total{node="node0",job="udmon"}))' 8
check "scrape: the collector's own metrics" await says 'udmon_node_up{node="node0"}' 1
check "promtool has nothing to say" clean
# Each panel of the dashboard: Prometheus takes its query, and where this host has what it asks for,
# has an answer.
panels() {
    # shellcheck disable=SC2154 # make check says where
    /usr/bin/python3 - "$prometheus" "$srcdir/../../src/udmon/service/udmon-dashboard.json" <<'END'
import json, sys, urllib.parse, urllib.request
empty = 0
for panel in json.load(open(sys.argv[2]))["panels"]:
    for target in panel["targets"]:
        query = urllib.parse.urlencode({"query": target["expr"].replace("$node", ".*")})
        answer = urllib.request.urlopen(f"http://{sys.argv[1]}/api/v1/query?{query}", timeout=10)
        if not json.load(answer)["data"]["result"] and panel["title"] != "RDMA ports":
            print("nothing for", target["expr"])
            empty += 1
sys.exit(empty > 0)
END
}
check "the dashboard's queries have answers" await panels >"$dir/panels.log"
# A node's death: gone from Prometheus within 10 s, by its own clock.
kill -9 $agent
wait $agent 2>/dev/null
died=$(date +%s)
check "a killed node is down" await says 'udmon_node_up{node="node0"}' 0
check "and its samples are stale" await says 'count(node_load1{job="udmon"}) or vector(0)' 0
echo "# noticed after $(($(date +%s) - died)) s"
pids=("$collector")
