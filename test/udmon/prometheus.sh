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
# What an HCA, soft-RoCE and a machine of several NUMA nodes have.
mlx=$dir/rdma/mlx5_0/ports/1/counters rxe=$dir/rdma/rxe0/ports/1/hw_counters
mkdir -p "$mlx" "$rxe" "$dir/numa/node0" "$dir/numa/node1"
for counter in port_rcv_packets port_xmit_packets port_rcv_data port_xmit_data; do
    echo 5 >"$mlx/$counter"
done
echo 6 >"$rxe/rcvd_pkts"
echo 7 >"$rxe/sent_pkts"
echo "numa_hit 11" >"$dir/numa/node0/numastat"
echo "numa_hit 22" >"$dir/numa/node1/numastat"
cat >"$dir/agent.conf" <<END
[rdma]
type = rdma
root = $dir/rdma
interval = 0.2
to = out
[numa]
type = numa
root = $dir/numa
interval = 0.2
to = out
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
check "a series' own label node is kept, in both ways" await says \
    'sum(node_memory_numa_numa_hit_total{node="node0",exported_node=~"0|1"})' 66
check "remote write: still none was refused" [ "$(own udmon_remote_write_samples_refused_total)" -eq 0 ]
check "promtool has nothing to say" clean
# answer FILE HEADER...: what /metrics answers, and its headers in lower case
answer() {
    local file=$1 headers=()
    shift
    for header; do headers+=(-H "$header"); done
    curl -s -m 10 -D - -o "$dir/$file" "${headers[@]}" "http://$web/metrics" | tr -d '\r' | tr '[:upper:]' '[:lower:]' \
        >"$dir/$file.headers"
}
answer plain
answer zipped "Accept-Encoding: deflate, gzip"
answer open "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
families() {
    sed -n 's/^# TYPE \([a-z0-9_]*\) .*/\1/p' | sed 's/_total$//' | sort
}
check "HTTP: compressed for those who take it" grep -qx 'content-encoding: gzip' "$dir/zipped.headers"
check "HTTP: which is the same" diff <(families <"$dir/plain") <(gzip -dc "$dir/zipped" | families)
check "HTTP: and not for others" [ "$(grep -c content-encoding "$dir/plain.headers")" -eq 0 ]
check "HTTP: the text format, if nothing else is asked for" \
    grep -qx 'content-type: text/plain; version=0.0.4; charset=utf-8' "$dir/plain.headers"
check "HTTP: OpenMetrics for those who ask" \
    grep -q '^content-type: application/openmetrics-text; version=1.0.0' "$dir/open.headers"
check "HTTP: with the same families" diff <(families <"$dir/plain") <(families <"$dir/open")
check "HTTP: with units" grep -qx '# UNIT node_memory_total_bytes bytes' "$dir/open"
check "HTTP: each family has HELP and TYPE" diff <(families <"$dir/plain") \
    <(sed -n 's/^# HELP \([a-z0-9_]*\) .*/\1/p' "$dir/plain" | sed 's/_total$//' | sort)
# Each panel of the dashboard: Prometheus takes its query and has an answer, of RDMA for both devices.
panels() {
    # shellcheck disable=SC2154 # make check says where
    /usr/bin/python3 - "$prometheus" "$srcdir/../../src/udmon/service/udmon-dashboard.json" <<'END'
import json, sys, urllib.parse, urllib.request
empty = 0
lonely = len(open("/proc/net/dev").readlines()) == 3 # only lo, as in a namespace of tests
for panel in json.load(open(sys.argv[2]))["panels"]:
    for target in panel["targets"]:
        query = urllib.parse.urlencode({"query": target["expr"].replace("$node", ".*")})
        answer = urllib.request.urlopen(f"http://{sys.argv[1]}/api/v1/query?{query}", timeout=10)
        result = json.load(answer)["data"]["result"]
        devices = {r["metric"].get("device") for r in result}
        if lonely and panel["title"] == "Network":
            continue
        if not result or ("RDMA" in panel["title"] and devices != {"mlx5_0", "rxe0"}):
            print("nothing, or not of all, for", target["expr"])
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
# The last time at which Prometheus was told a value, by its own clock.
last=$(query 'max(max_over_time(timestamp(node_load1{job="udmon"})[5m:1s]))')
check "within 10 s of its death" [ $((${last%.*} - died)) -le 10 ]
echo "# its last sample is of $((${last%.*} - died)) s after its death"
pids=("$collector")
