#!/bin/bash
# shellcheck disable=SC2016 # texts for jq and eval
# udmon into Debian's Prometheus, both ways: Prometheus scrapes /metrics, and the collector sends
# samples by remote write. A receiver that is away for a while misses nothing. And back: a collector
# that has lost its history reads it from Prometheus.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
command -v prometheus >/dev/null || { echo "skip Prometheus: it is not installed"; exit 77; }
begin
prometheus=$(address 1)

start_prometheus() {
    launch prometheus prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/data" \
        --web.listen-address="$prometheus" --web.enable-remote-write-receiver
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

clean() {
    get 0 /metrics | promtool check metrics >"$dir/promtool.log" 2>&1 &&
        [[ ! -s $dir/promtool.log ]]
}

cat >"$dir/prometheus.yml" <<END
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: udmon
    static_configs:
      - targets: ['$(web 0)']
END
collector 0 -l "localhost:$port" -r "http://$prometheus/api/v1/write"
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
all_sensors() {
    sensors cpu=0.2 load=0.2 memory=0.2 network=0.2
    for sensor in rdma numa; do
        sensors $sensor=0.2 && echo "root = $dir/$sensor"
    done
    sensors slurm=0.2 && printf 'root = %s\nsqueue = %s\n' "$dir/slurm" "$dir/squeue"
}
# A job of Slurm with three busy processors
group=$dir/slurm/system.slice/slurmstepd.scope/job_4711
mkdir -p "$group"
printf '#!/bin/sh\necho "4711 ann gpu"\n' >"$dir/squeue"
chmod +x "$dir/squeue"
echo 0-3 >"$group/cpuset.cpus.effective"
echo 1048576 >"$group/memory.current"
work() {
    local usec=0
    while :; do
        usec=$((usec + 300000))
        printf 'user_usec %d\nsystem_usec 0\n' $usec >"$dir/cpu.stat" && mv "$dir/cpu.stat" "$group/cpu.stat"
        sleep 0.1
    done
}
launch work work
agent agent "server = localhost:$port" 'name = node0' < <(all_sensors)
check "samples wait for a receiver that is not there yet" await grep -q 'remote write to' \
    "$dir/collector0.log"
start_prometheus
check "remote write: samples are taken" await at_least 0 udmon_remote_write_samples_sent_total 100
check "remote write: none was refused" is 0 udmon_remote_write_samples_refused_total 0
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
check "remote write: still none was refused" is 0 udmon_remote_write_samples_refused_total 0
check "promtool has nothing to say" clean
# The answers are compared: they need the families of all sensors.
for family in node_cpu_seconds_total node_load1 node_memory_total_bytes node_network_receive_bytes_total \
    node_infiniband_port_packets_received_total node_memory_numa_numa_hit_total; do
    await has 0 $family
done
# answer FILE HEADER...: what /metrics answers, and its headers in lower case
answer() {
    local file=$1 headers=()
    shift
    for header; do headers+=(-H "$header"); done
    get 0 /metrics -D - -o "$dir/$file" "${headers[@]}" | tr -d '\r' | tr '[:upper:]' '[:lower:]' \
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
# What Prometheus has stored: the first scrape that calls the node down ends its series, by a staleness
# marker. Without one its last values would be answers for five minutes.
ends_with_its_node() {
    /usr/bin/python3 - "$prometheus" <<'END'
import json, sys, urllib.parse, urllib.request
def ask(query, **more):
    query = urllib.parse.urlencode({"query": query, **more})
    with urllib.request.urlopen(f"http://{sys.argv[1]}/api/v1/query?{query}", timeout=10) as answer:
        return json.load(answer)["data"]["result"]
up = ask('udmon_node_up{node="node0"}[1h]')[0]["values"]
down = min(at for at, value in up if value == "0")
last = max(at for at, value in ask('node_load1{node="node0",job="udmon"}[1h]')[0]["values"])
print(f"# its last sample was stored {down - last:.3f} s before it was called down")
sys.exit(last >= down or bool(ask('node_load1{node="node0",job="udmon"}', time=down)))
END
}
slay agent
check "a killed node is down" await says 'udmon_node_up{node="node0"}' 0
check "its samples end with the scrape that says so" ends_with_its_node

# ---- older values: a collector that has lost its history reads it from Prometheus ----
# The same ranges from both stores, in steps of 100 ms: each has the same steps, and the same values in them.
# A step with several samples is left out: the mean of several rates depends on their distances. PromQL's
# times are seconds in floating point, so that a rate over 200 ms is exact to about 1e-6.
cat >"$dir/judge.py" <<'END'
import json, math, sys, urllib.parse, urllib.request
web, prometheus, file, doing = sys.argv[1:]
def ask(url, **more):
    with urllib.request.urlopen(f"http://{url}?{urllib.parse.urlencode(more)}", timeout=20) as answer:
        return json.load(answer)
def raw(selector):
    result = ask(f"{prometheus}/api/v1/query", query=f'{selector}[1h]')["data"]["result"]
    return [round(1000 * at) for at, _ in result[0]["values"]]
cpu = raw('node_cpu_seconds_total{node="node0",instance="",cpu="0",mode="user"}')
if doing == "save":
    job = ask(f"{web}/api/job", job="4711")
    answers = {"from": cpu[2], "until": cpu[-1] - 200, "job": job}
else:
    answers = json.load(open(file))
range = {"node": "node0", "from": answers["from"], "until": answers["until"]}
points = (range["until"] - range["from"]) // 100
step = (range["until"] - range["from"]) // points
asked = {
    "counter": ("series", {"name": 'node_cpu_seconds{cpu="0",mode="user"}'}),
    "gauge": ("series", {"name": "node_memory_free_bytes", "extremes": 1}),
    "label node": ("series", {"name": 'node_memory_numa_numa_hit{node="0"}'}),
    "by a label": ("lines", {"family": "node_cpu_seconds,node_load1", "by": "mode"}),
    "each series": ("lines", {"family": "node_memory_numa_numa_hit,node_cpu_seconds", "by": "*"}),
    "sum": ("lines", {"family": "node_cpu_seconds,node_memory_free_bytes"}),
}
answers[doing] = {what: ask(f"{web}/api/{kind}", **range, points=points, **how) for what, (kind, how) in asked.items()}
if doing == "save":
    json.dump(answers, open(file, "w"))
    sys.exit()
counts = {}
for at in cpu:
    counts[at // step] = counts.get(at // step, 0) + 1
bad = 0
def compare(what, local, older):
    global bad
    local, older = ({p[0] // step: p[1:] for p in points if counts.get(p[0] // step) == 1} for points in (local, older))
    last = range["until"] // step # of which the local answer has a part
    # The first rate needs a sample before the range, which only the engine looks for.
    missing = [s for s in local if s not in older] + [s for s in list(older)[1:] if s not in local and s < last]
    other = [(s, local[s], older[s]) for s in local if s in older and
             not all(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-9) for a, b in zip(local[s], older[s], strict=True))]
    if missing or other or len(local) < 10:
        print(what, len(local), "steps, missing:", missing[:3], "other:", other[:3])
        bad += 1
def lines(answer):
    return {(l["family"], l["label"]): l["points"] for l in answer["lines"]}
for what, (kind, _) in asked.items():
    local, older = answers["save"][what], answers[doing][what]
    bad += "older" in local or older["older"]["failed"]
    if kind == "series":
        bad += local["counter"] != older["counter"]
        compare(what, local["points"], older["points"])
    else:
        bad += not lines(local) or set(lines(local)) != set(lines(older))
        for line, points in lines(local).items():
            compare(f"{what} {line}", points, lines(older).get(line, []))
job, older = answers["job"], ask(f"{web}/api/job", job="4711")
print("job", job["from_ms"], older["from_ms"])
bad += any(job[k] != older[k] for k in ("user", "partition", "cores")) or abs(job["from_ms"] - older["from_ms"]) > 1000
for metric in ("memory", "cpu"):
    bad += not math.isclose(job["nodes"][0][metric], older["nodes"][0][metric], rel_tol=0.1)
    print(metric, job["nodes"][0][metric], older["nodes"][0][metric])
sys.exit(bool(bad))
END
judge() {
    /usr/bin/python3 "$dir/judge.py" "$(web 0)" "$prometheus" "$dir/local.json" "$1" >"$dir/judge-$1.log" 2>&1
}
stop work
rm -r "$group"
# Younger values than ten seconds are not asked for.
again() {
    await has 0 udmon_node_up node0 && sleep 10 && await judge again
}
await is 0 udmon_remote_write_samples_waiting 0
check "the collector's own answers" judge save
stop collector0
find "$dir" -maxdepth 1 -name 'history0.db*' -type f -delete
restart=$(date +%s%3N)
collector 0 -l "localhost:$port" -r "http://$prometheus/api/v1/write" --query-url "http://$prometheus"
agent agent "server = localhost:$port" 'name = node0' < <(sensors load=0.2)
check "without them, those of Prometheus agree" again
# series FILTER: jq's filter holds for the answer of the API; `restart` is the time between the two histories
series() {
    get 0 '/api/series?node=node0&name=node_load1&seconds=600' >"$dir/series.json" &&
        jq -e --argjson restart "$restart" "$1" "$dir/series.json" >/dev/null
}
check "an answer has both parts, in the order of time" await series \
    '[.points[][0]] | (. == unique) and .[0] < $restart and .[-1] > $restart'
check "and says until when the older one is" await series '.older.failed == false and .older.until_ms > .points[0][0]'
check "one label more is another series" eval \
    '[[ $(get 0 "/api/series?node=node0&name=node_cpu_seconds{cpu=\"0\"}&seconds=600" | jq ".points | length") -eq 0 ]]'
check "promtool has nothing to say, with --query-url" clean
stop prometheus
check "without Prometheus the local part is there, and the other one is missing" series \
    '.older.failed and .points[0][0] > $restart'
check "and the log says why" grep -q "older values from http://$prometheus: Couldn't connect" "$dir/collector0.log"
check "a job that only Prometheus knows" eval \
    '[[ $(get 0 "/api/job?job=4711" -o "$dir/answer" -w "%{http_code}") -eq 503 ]] && grep -q "does not answer" "$dir/answer"'
