#!/bin/bash
# agent.sh [machine]: udmon-agent by itself. The script tests a module from a shared library, its
# samples through each processing node, the configurations that the agent reads anew, and the
# configurations that the agent refuses. With "machine", only the sensors that read this machine.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2154 # make check says where
agent=$abs_top_builddir/src/udmon/udmon-agent
module=$abs_top_builddir/test/udmon/.libs/agent_module.so
dir=$(mktemp -d)
failed=0
finish() {
    [[ $BASHPID -eq $$ ]] || exit # as in lib.sh
    rm -rf "$dir"
    exit $failed
}
trap finish EXIT

explain() {
    sed 's/^/# /' "$dir/out" "$dir/log"
}

# printed BEGINNING [TIMES] [BEGINNING [TIMES]]...: so many lines of the agent begin so
printed() {
    local beginning times
    while [[ $# -gt 0 ]]; do
        beginning=$1 times=1
        shift
        if [[ ${1:-} =~ ^[0-9]+$ ]]; then
            times=$1
            shift
        fi
        [[ $(grep -c "^$beginning" "$dir/out") -ge $times ]] || return 1
    done
}

# runs_until COMMAND...: the agent, until the command succeeds. The agent's configuration is read from
# standard input. Sensors run independently: the command must wait for each sensor that the test judges.
runs_until() {
    local pid
    { printf '[agent]\nmodule = %s\n' "$module" && cat; } >"$dir/conf"
    : >"$dir/out" # what the last one printed is no sign of this one
    "$agent" -c "$dir/conf" >"$dir/out" 2>"$dir/log" &
    pid=$!
    await "$@"
    kill $pid
    wait $pid
}

# prints BEGINNING [TIMES]...: the agent, until it has printed these lines
prints() {
    runs_until printed "$@"
}

# logs_and_prints PATTERN BEGINNING [TIMES]...
logs_and_prints() {
    grep -q "$1" "$dir/log" && printed "${@:2}"
}

# A line as it has to be, to the last digit.
has_line() {
    has_line_in "$dir/out" "$1"
}

# has_line_in FILE LINE
has_line_in() {
    grep -qxF "$2" "$1"
}

refuses() {
    { printf '[agent]\nmodule = %s\n' "$module" && cat; } >"$dir/conf"
    ! "$agent" -t -c "$dir/conf" >"$dir/out" 2>"$dir/log" && grep -q "$1" "$dir/log"
}

# The sensors of the machine
sensors() {
    local sensor
    for sensor in cpu memory load network disk rdma; do
        printf '[%s]\ntype = %s\ninterval = 0.05\nto = print\n' $sensor $sensor
    done
    printf '[print]\ntype = print\n'
}

# value NAME: of a metric, as printed last
value() {
    awk -v name="$1" '$1 == name { value = $2 } END { print value }' "$dir/out"
}

# grown_to NAME NOW: a counter that may have grown since the agent read it
grown_to() {
    awk -v seen="$(value "$1")" -v now="$2" \
        'BEGIN { exit !(seen != "" && seen > 0 && seen <= now) }'
}

# shellcheck disable=SC2016 # they are awk's
machine_sensors() {
    local disks counters all
    disks=$(awk '$4 + $8 > 0' /proc/diskstats | wc -l)
    counters=$(find /sys/class/infiniband/*/ports/*/hw_counters/sent_pkts 2>/dev/null | wc -l)
    all=(node_cpu_seconds node_memory_total_bytes node_threads node_network_receive_bytes)
    [[ $disks -eq 0 ]] || all+=(node_disk_reads_completed)
    [[ $counters -eq 0 ]] || all+=(node_infiniband_hw_sent_pkts)
    prints "${all[@]}" < <(sensors)
    check "cpu: each core in each mode" \
        [ "$(grep -o '^node_cpu_seconds{.*}' "$dir/out" | sort -u | wc -l)" -eq \
        "$(($(grep -c '^cpu[0-9]' /proc/stat) * 8))" ]
    check "cpu: seconds in user mode" grown_to 'node_cpu_seconds{cpu="0",mode="user"}' \
        "$(awk -v hertz="$(getconf CLK_TCK)" \
            '$1 == "cpu0" { printf "%.2f", $2 / hertz }' /proc/stat)"
    check "memory: bytes in all" [ "$(value node_memory_total_bytes)" = \
        "$(awk '$1 == "MemTotal:" { printf "%.0f", $2 * 1024 }' /proc/meminfo)" ]
    check "load: processes" [ "$(value node_threads)" -gt 0 ]
    check "network: bytes received by each device" \
        [ "$(grep -o '^node_network_receive_bytes{.*}' "$dir/out" | sort -u | wc -l)" -eq \
        "$(grep -c : /proc/net/dev)" ]
    check "network: counters of lo" same_as_proc lo
    check "disk: those that were used" \
        [ "$(grep -o '^node_disk_reads_completed{.*}' "$dir/out" | sort -u | wc -l)" -eq "$disks" ]
    # What the driver counts itself, of which soft-RoCE has nothing else.
    [[ ! -d /sys/class/infiniband ]] || check "rdma: the driver's counters" \
        [ "$(grep -o '^node_infiniband_hw_sent_pkts{.*}' "$dir/out" | sort -u | wc -l)" -eq "$counters" ]
}

# A device that has counted something: received bytes and packets, sent ones, as the kernel says or
# less.
same_as_proc() {
    local bytes packets out
    read -r bytes packets out < <(awk -v device="$1:" \
        '$1 == device { print $2, $3, $10 }' /proc/net/dev)
    [[ $bytes -gt 0 ]] || return 0 # nothing has passed through it since the machine began
    grown_to "node_network_receive_bytes{device=\"$1\"}" "$bytes" &&
        grown_to "node_network_receive_packets{device=\"$1\"}" "$packets" &&
        grown_to "node_network_transmit_bytes{device=\"$1\"}" "$out"
}

if [[ ${1:-} = machine ]]; then
    machine_sensors
    exit
fi

prints 'ramp_mean 5.5 ' <<'END'
[ramp]
type = ramp
interval = 0.01
to = rate, window
[rate]
type = rate
to = print
[window]
type = window
window = 4
to = print
[print]
type = print
END
check "rate of a counter" has_line 'ramp_total_rate{kind="test"} 5 1000'
check "and again" has_line 'ramp_total_rate{kind="test"} 5 7000'
check "no rate of the first sample" [ "$(grep -c '_rate.* 0$' "$dir/out")" -eq 0 ]
check "no rate of a gauge" [ "$(grep -c '^ramp_rate' "$dir/out")" -eq 0 ]
check "least of a window" has_line 'ramp_min 0 4000'
check "greatest of a window" has_line 'ramp_max 3 4000'
check "mean of a window" has_line 'ramp_mean 1.5 4000'
check "mean of the next" has_line 'ramp_mean 5.5 8000'

prints 'ramp_mean 5.5 ' <<'END'
[ramp]
type = ramp
interval = 0.01
jumps = yes
to = rate, window
[rate]
type = rate
to = print
[window]
type = window
window = 4
to = print
[print]
type = print
END
check "a rate does not follow a clock that jumps" has_line 'ramp_total_rate{kind="test"} 5 999000'
check "nor does a window" has_line 'ramp_mean 1.5 996000'
check "and there is no other rate" \
    [ "$(grep '_rate{' "$dir/out" | grep -vc '_rate{kind="test"} 5 ')" -eq 0 ]

prints 'ramp 8 ' <<'END'
[ramp]
type = ramp
interval = 0.01
to = threshold
[threshold]
type = threshold
above = 7
below = 1
to = print
[print]
type = print
END
check "threshold passes what is beyond, and that only" \
    [ "$(grep '^ramp ' "$dir/out" | head -n 2 | tr '\n' ';')" = "ramp 0 0;ramp 8 8000;" ]

prints 'ramp 42 ' <<'END'
[ramp]
type = ramp
interval = 0.01
first = 42
to = print
[print]
type = print
END
check "a module's own option" [ "$(head -n 1 "$dir/out")" = 'ramp_total{kind="test"} 210 42000' ]

# The recorder, fetched from the running agent. Sample 150 is in the second chunk of its series.
recorded() {
    "$agent" -c "$dir/conf" --recording >"$dir/om" 2>/dev/null &&
        grep -qxF 'ramp{node="n1"} 150 150.000' "$dir/om"
}
# Neither a test of the configuration nor one fetch takes the socket of the agent.
recorded_again() {
    recorded && "$agent" -t -c "$dir/conf" && recorded && printed 'udmon_agent_recorder_series 2 '
}
imports() {
    mkdir -p "$dir/blocks/wal" &&
        promtool tsdb create-blocks-from openmetrics "$dir/om" "$dir/blocks" >>"$dir/log" 2>&1 &&
        promtool tsdb dump "$dir/blocks" >"$dir/out" 2>>"$dir/log" &&
        grep -qF '{__name__="ramp_total_total", kind="test", node="n1"} 750 150000' "$dir/out"
}
runs_until recorded_again <<END
[ramp]
type = ramp
interval = 0.01
to = recorder
[self]
type = agent
interval = 0.05
to = print
[recorder]
type = recorder
socket = $dir/recorder
name = n1
[print]
type = print
END
check "recorder: a gauge of long ago" has_line_in "$dir/om" 'ramp{node="n1"} 7 7.000'
check "recorder: a counter" has_line_in "$dir/om" 'ramp_total_total{node="n1",kind="test"} 35 7.000'
check "recorder: it is complete" [ "$(tail -n 1 "$dir/om")" = '# EOF' ]
check "recorder: the socket goes with the agent" [ ! -e "$dir/recorder" ]
! command -v promtool >/dev/null || check "recorder: promtool makes blocks of it" imports
# shellcheck disable=SC2016 # eval expands it
check "recorder: no agent answers, and nothing is printed" eval \
    '! "$agent" -c "$dir/conf" -r >"$dir/out" 2>"$dir/log" && [[ ! -s $dir/out ]] && grep -q "no agent answers at $dir/recorder" "$dir/log"'
check "a second recorder is refused" refuses 'conf:4: node a: type: node b is a recorder already' <<END
[a]
type = recorder
[b]
type = recorder
END

# What node_exporter's textfile collector and exporters write.
mkdir "$dir/prom"
cat >"$dir/prom/site.prom" <<'END'
# HELP site_runs_total Runs.
# TYPE site_runs_total counter
site_runs_total{queue="a b",} 7
# TYPE site_size_bytes gauge
site_size_bytes { core = "0" } 10 1700000000000
site_size_bytes{core="1"} 30
site_size_bytes{core="2"} 20
site_escaped{path="a\"b"} 1
site_ratio 2.5e-1
END
echo 'not_read 1' >"$dir/prom/other.txt"
prints 'site_ratio ' 2 <<END
[files]
type = textfile
directory = $dir/prom
interval = 0.05
to = print
[print]
type = print
END
# without the time, which is now
has_sample() {
    cut -d' ' -f-"$(($(wc -w <<<"$1")))" "$dir/out" | grep -qxF "$1"
}
check "textfile: a counter, its labels tidied" grep -q '^site_runs{queue="a b"} 7 ' "$dir/out"
check "textfile: blanks, and no timestamps" has_sample 'site_size_bytes{core="0"} 10'
check "textfile: numbers with exponents" has_sample 'site_ratio 0.25'
check "textfile: labels with escapes" has_sample 'site_escaped{path="a\"b"} 1'
check "textfile: other files are left alone" [ "$(grep -c not_read "$dir/out")" -eq 0 ]

# Trees of files as the kernel has them.
chip=$dir/sys/devices/coretemp.0/hwmon/hwmon3
mkdir -p "$chip"
mkdir -p "$dir/sys/hwmon" && ln -s "$chip" "$dir/sys/hwmon/hwmon3" && ln -s ../.. "$chip/device"
echo 45500 >"$chip/temp1_input" && echo 900 >"$chip/fan2_input" && echo 12000000 >"$chip/power1_input"
echo 7 >"$chip/humidity1_input" && echo odd >"$chip/in0_input"
job=$dir/sys/cgroup/system.slice/slurmstepd.scope/job_4711
mkdir -p "$job" "${job%/*}/system"
printf 'usage_usec 3500000\nuser_usec 2500000\nsystem_usec 1000000\n' >"$job/cpu.stat"
printf '8:0 rbytes=100 wbytes=7 rios=1\n8:16 rbytes=11 wbytes=0 rios=1\n' >"$job/io.stat"
echo 65536 >"$job/memory.current" && printf 'oom 3\noom_kill 2\n' >"$job/memory.events"
# a second one, of which squeue does not know
other=${job%/*}/job_4712
mkdir -p "$other/step_0/user/task_0"
echo 4096 >"$other/memory.current" && echo $$ >"$other/step_0/user/task_0/cgroup.procs"
user=$(printf 'ä%.0s' {1..100})@example.org
cat >"$dir/squeue" <<END
#!/bin/sh
echo "\$*" >>"$dir/squeue.log"
echo "4711 $user gpu"
echo "99 eve all"
END
chmod +x "$dir/squeue"
# a tree of version 1, as Slurm has it on RHEL 8: a job with both controllers, one with memory alone
both=slurm/uid_0/job_77 alone=slurm_n1/uid_$(id -u)/job_78
mkdir -p "$dir"/v1/{memory,cpuacct}/$both "$dir/v1/memory/$alone"
printf 'user 250\nsystem 100\n' >"$dir/v1/cpuacct/$both/cpuacct.stat"
echo 8192 >"$dir/v1/memory/$both/memory.usage_in_bytes"
echo 4096 >"$dir/v1/memory/$alone/memory.usage_in_bytes"
mkdir "$dir/nothing"
numa=$dir/sys/node
mkdir -p "$numa/node0" "$numa/node1"
echo 'Node 1 MemTotal:       2048 kB' >"$numa/node1/meminfo"
printf 'Node 0 MemTotal:       1024 kB\nNode 0 MemFree:          12 kB\n' >"$numa/node0/meminfo"
printf 'numa_hit 1234567\nnuma_miss 5\n' >"$numa/node0/numastat"
runs_until logs_and_prints 'node idle: ' 'slurm_job_memory_bytes{job="78"' 2 <<END
[slurm]
type = slurm
root = $dir/v1
squeue = $dir/none
interval = 0.05
to = print
[idle]
type = slurm
root = $dir/nothing
squeue = $dir/none
interval = 0.05
to = print
[print]
type = print
END
root='job="77",user="root",partition=""'
check "slurm, version 1: processor time" \
    has_sample "slurm_job_cpu_seconds{$root,mode=\"user\"} $((250 / $(getconf CLK_TCK))).5"
check "slurm, version 1: memory" has_sample "slurm_job_memory_bytes{$root} 8192"
check "slurm, version 1: without processor time, and the owner by the group" \
    has_sample "slurm_job_memory_bytes{job=\"78\",user=\"$(id -un)\",partition=\"\"} 4096"
check "slurm: a job of two groups counts once" \
    [ "$(grep -c 'a sample is refused' "$dir/log")" -eq 0 ]
check "slurm: no control groups: one line says so" \
    [ "$(grep -c "node idle: $dir/nothing has no control groups of Slurm" "$dir/log")" -eq 1 ]
echo "1 2 8:1 / /$user/$user rw,relatime shared:1 - ext4 /dev/sda1 rw" >"$dir/mounts"
prints 'slurm_job_memory_bytes{job="4711"' 2 'slurm_job_memory_bytes{job="4712"' 2 node_hwmon_power_watts \
    node_memory_numa_total_bytes node_memory_numa_MemFree node_filesystem_size_bytes <<END
[hwmon]
type = hwmon
root = $dir/sys/hwmon
interval = 0.05
to = print
[slurm]
type = slurm
root = $dir/sys/cgroup
squeue = $dir/squeue
interval = 0.05
to = print
[numa]
type = numa
root = $numa
interval = 0.05
to = print
[numa2]
type = numa
root = $numa
names = node_exporter
interval = 0.05
to = print
[filesystem]
type = filesystem
interval = 0.05
to = print
[long]
type = filesystem
mounts = $dir/mounts
interval = 0.05
to = print
[print]
type = print
END
check "filesystem: a long path is complete" has_sample \
    "node_filesystem_device_error{device=\"/dev/sda1\",fstype=\"ext4\",mountpoint=\"/$user/$user\"} 1"
check "hwmon: a temperature" has_sample 'node_hwmon_temp_celsius{chip="coretemp.0",sensor="temp1"} 45.5'
check "hwmon: a fan" has_sample 'node_hwmon_fan_rpm{chip="coretemp.0",sensor="fan2"} 900'
check "hwmon: power" has_sample 'node_hwmon_power_watts{chip="coretemp.0",sensor="power1"} 12'
check "hwmon: nothing else" [ "$(grep -c 'humidity\|in_volts' "$dir/out")" -eq 0 ]
ann="job=\"4711\",user=\"$user\",partition=\"gpu\""
check "slurm: processor time" has_sample "slurm_job_cpu_seconds{$ann,mode=\"user\"} 2.5"
check "slurm: memory" has_sample "slurm_job_memory_bytes{$ann} 65536"
check "slurm: kills" has_sample "slurm_job_oom_kills{$ann} 2"
check "slurm: bytes of all devices" has_sample "slurm_job_io_read_bytes{$ann} 111"
check "slurm: squeue is asked once, for all" grep -qxE -- '-h -o %A %u %P -j (4711,4712|4712,4711)' "$dir/squeue.log"
check "slurm: and not again" [ "$(wc -l <"$dir/squeue.log")" -eq 1 ]
check "slurm: else the user is the owner of its processes" \
    has_sample "slurm_job_memory_bytes{job=\"4712\",user=\"$(id -un)\",partition=\"\"} 4096"
check "slurm: labels of a job never change" [ "$(grep -o '^slurm_job_memory_bytes{.*}' "$dir/out" | sort -u | wc -l)" -eq 2 ]
check "numa: sizes of each node" has_sample 'node_memory_numa_total_bytes{node="1"} 2097152'
check "numa: by the kernel's names" has_sample 'node_memory_numa_MemFree{node="0"} 12288'
check "numa: pages" has_sample 'node_memory_numa_numa_hit{node="0"} 1234567'
# The first of /proc/mounts, if this machine has one on a block device.
mount=$(awk '$1 ~ "^/" {print $2; exit}' /proc/self/mounts)
if [[ -n $mount ]]; then
    size=$(($(stat -fc '%b * %S' "$mount")))
    check "filesystem: its size" \
        grep -qF "mountpoint=\"$mount\"} $size " <(grep '^node_filesystem_size_bytes' "$dir/out")
else
    check "filesystem: the root alone without a block device" \
        [ "$(grep '^node_filesystem_size_bytes' "$dir/out" | grep -vc 'mountpoint="/"')" -eq 0 ]
fi
# A share of SMB looks nearly like a device. In mounts of its own the agent finds one, and a device.
cat >"$dir/mounted" <<END
#!/bin/sh
mount -t tmpfs //server/share "$dir/share" && mount -t tmpfs /dev/disk "$dir/disk" &&
    exec "$agent" "\$@"
END
chmod +x "$dir/mounted"
share_is_left_out() {
    local agent="unshare_mounted"
    mkdir "$dir/share" "$dir/disk"
    prints 'node_filesystem_readonly{device="/dev/disk"' <<-END
	[filesystem]
	type = filesystem
	interval = 0.05
	to = print
	[print]
	type = print
	END
    ! grep -q //server/share "$dir/out"
}
unshare_mounted() {
    exec unshare -rm "$dir/mounted" "$@"
}
! unshare -rm true 2>/dev/null || check "filesystem: none of the network" share_is_left_out
printf 'good 1\nbad{ 2\n' >"$dir/prom/wrong.prom"
echo 'worse{ 2' >"$dir/prom/worse.prom"

# aggregates WHAT LINE
aggregates() {
    prints 'site_ratio ' 20 <<-END
	[files]
	type = textfile
	directory = $dir/prom
	interval = 0.05
	to = aggregate
	[aggregate]
	type = aggregate
	over = core
	function = $1
	to = print
	[print]
	type = print
	END
    has_sample "$2"
}
check "textfile: the wrong line is told" aggregates sum 'site_size_bytes 60'
# each of the two files once, in 20 ticks
check "textfile: with its number" [ "$(grep -c 'wrong.prom:2: this is no sample' "$dir/log")" -eq 1 ]
check "textfile: and so is that of another file" \
    [ "$(grep -c 'worse.prom:1: this is no sample' "$dir/log")" -eq 1 ]
# The sensor remembers 64 problems at a time. A problem that is over makes room, also while another file stays wrong.
tells_later_files() {
    local pid i ret
    mkdir "$dir/many"
    for ((i = 0; i < 64; i++)); do
        echo 'w{ 2' >"$dir/many/bad$i.prom"
    done
    cat >"$dir/conf" <<-END
	[files]
	type = textfile
	directory = $dir/many
	interval = 0.05
	to = print
	[print]
	type = print
	END
    "$agent" -c "$dir/conf" >"$dir/out" 2>"$dir/log" &
    pid=$!
    await logged 64 'bad[0-9]*.prom:1: this is no sample' && rm "$dir"/many/bad[1-9]*.prom &&
        echo 'w{ 2' >"$dir/many/later.prom" && await logged 1 'later.prom:1: this is no sample'
    ret=$?
    kill $pid
    wait $pid
    return $ret
}
# logged TIMES PATTERN
logged() {
    [[ $(grep -c "$2" "$dir/log") -eq $1 ]]
}
check "textfile: a problem after 64 earlier ones is told" tells_later_files
check "aggregate: greatest" aggregates max 'site_size_bytes_max 30'
check "aggregate: least" aggregates min 'site_size_bytes_min 10'
check "aggregate: mean" aggregates mean 'site_size_bytes_mean 20'
check "aggregate: median" aggregates p50 'site_size_bytes_p50 20'
check "aggregate: a percentile" aggregates p95 'site_size_bytes_p95 30'
check "aggregate: what lacks the label goes on" grep -q '^site_ratio ' "$dir/out"
check "aggregate: refuses other functions" refuses 'none of sum, max' <<END
[ramp]
type = ramp
to = a
[a]
type = aggregate
over = cpu
function = median
to = print
[print]
type = print
END

# An exporter on the node: one that answers, slowly, and one that is not there.
serve_metrics() {
    /usr/bin/python3 - "$dir/web" <<'END' &
import http.server, os, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        open(sys.argv[1] + ".asked", "w").close()
        while not os.path.exists(sys.argv[1] + ".go"):
            time.sleep(0.01)
        body = b"# TYPE jobs_total counter\njobs_total 3\nup 1\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
open(sys.argv[1] + ".new", "w").write(str(server.server_port))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
END
    server=$!
    await test -e "$dir/web"
}
# Each answer waits until the agent has printed the samples of six more ticks of another sensor.
serve_metrics
exporter_answers() {
    [[ -e $dir/web.asked ]] || return 1
    [[ -n $ramps ]] || ramps=$(grep -c '^ramp ' "$dir/out")
    printed 'ramp ' $((ramps + 6)) || return 1
    touch "$dir/web.go"
    logs_and_prints 'cannot scrape http://127.0.0.1:1/' 'up ' 2
}
ramps=''
runs_until exporter_answers <<END
[exporter]
type = prometheus
url = http://127.0.0.1:$(cat "$dir/web")/metrics
timeout = 60
interval = 0.05
to = print
[absent]
type = prometheus
url = http://127.0.0.1:1/metrics
interval = 0.05
to = print
[ramp]
type = ramp
interval = 0.02
to = filter
[filter]
type = filter
include = ramp* other
exclude = *kind=*
to = print
[print]
type = print
END
# scrape_to NODE: a configuration
scrape_to() {
    cat <<-END
	[exporter]
	type = prometheus
	url = http://127.0.0.1:$(cat "$dir/web")/metrics
	timeout = 60
	interval = 0.05
	to = $1
	[nothing]
	type = threshold
	above = 100
	to = print
	[print]
	type = print
	END
}
# An answer comes after the configuration was read anew, and goes where that says. What was freed is
# overwritten, so that nobody uses it unnoticed.
answer_after_reload() {
    local pid
    rm -f "$dir/web.asked" "$dir/web.go"
    scrape_to nothing >"$dir/conf"
    GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.perturb=165 UDMON_LOG_LEVEL=info \
        "$agent" -c "$dir/conf" >"$dir/reload.out" 2>"$dir/reload.log" &
    pid=$!
    await test -e "$dir/web.asked"
    scrape_to print >"$dir/conf"
    kill -HUP $pid
    await grep -q 'read anew' "$dir/reload.log" && touch "$dir/web.go" && await grep -q '^jobs 3 ' "$dir/reload.out"
    kill $pid
    wait $pid && grep -q '^jobs 3 ' "$dir/reload.out"
}
check "prometheus: an answer to what was asked before SIGHUP" answer_after_reload
kill $server
wait $server 2>/dev/null
check "prometheus: a counter of the exporter" grep -q '^jobs 3 ' "$dir/out"
check "prometheus: an exporter that is not there is told, once" \
    [ "$(grep -c 'cannot scrape http://127.0.0.1:1/' "$dir/log")" -eq 1 ]
check "prometheus: a slow one keeps no sensor waiting" [ -e "$dir/web.go" ]
check "filter: what is excluded does not pass" [ "$(grep -c 'kind=' "$dir/out")" -eq 0 ]
# Lines may be as long as they like: a list of 40 patterns, the one that counts behind all others;
# and a comment.
long_line() {
    prints 'node_load1 ' <<-END
	[load]
	type = load
	interval = 0.05
	to = filter
	# $(printf 'why this is so, and at length; %.0s' {1..20})
	[filter]
	type = filter
	include = $(printf 'pattern_number_%02d* ' {1..40})node_load1 ; $(printf 'and why %.0s' {1..40})
	exclude = other
	to = print
	[print]
	type = print
	END
    ! grep -q node_load5 "$dir/out" && ! grep . "$dir/log"
}
check "a line of many patterns" long_line
check "a word that is too long is refused" refuses 'conf:3: a word of more than' <<END
[$(printf 'x%.0s' {1..300})]
END
check "filter: needs a pattern" refuses 'include' <<END
[ramp]
type = ramp
to = f
[f]
type = filter
to = print
[print]
type = print
END

# Two agents in step, with monotonic clocks of different origins if the kernel allows that, as on two
# hosts. The least lateness counts: a busy machine delays some ticks, but not all.
elsewhere=(unshare --user --map-root-user --time --monotonic 1000 --kill-child)
"${elsewhere[@]}" true 2>/dev/null || elsewhere=()
step_agents() {
    local i
    for i in 1 2; do
        printf '[%s]\ntype = %s\ninterval = 0.7\nto = print\n' load load self agent >"$dir/step.conf"
        printf '[print]\ntype = print\n' >>"$dir/step.conf"
        "${prefix[@]}" "$agent" -c "$dir/step.conf" >"$dir/step$i.out" 2>"$dir/log" &
        pids+=($!)
        prefix=("${elsewhere[@]}")
    done
    await ticked 1 && await ticked 2
    { kill -9 "${pids[@]}" && wait "${pids[@]}"; } 2>/dev/null # unshare hears no SIGTERM
}
ticked() {
    [[ $(grep -c '^udmon_agent_ticks{sensor="load"} ' "$dir/step$1.out") -ge 4 ]]
}
# in_step AGENT: some sample of the sensor is not later than a tenth of the interval
in_step() {
    awk '$1 == "node_load1" && $3 % 700 < 70 { found = 1 } END { exit !found }' "$dir/step$1.out"
}
# late AGENT: the greatest lateness of a tick is less than the interval, and the sum is not less
late() {
    awk '$1 ~ /^udmon_agent_tick_late_max_seconds{sensor="load"}/ && $2 > max { max = $2 }
        $1 ~ /^udmon_agent_tick_late_seconds{sensor="load"}/ { sum = $2 }
        END { exit !(max > 0 && max < 0.7 && sum > 0) }' "$dir/step$1.out"
}
pids=() prefix=()
step_agents
for i in 1 2; do
    check "agent $i of two samples at multiples of the interval" in_step $i
    check "agent $i measures the lateness of its ticks" late $i
done

machine_sensors

# rdma_counter FILE VALUE, below a tree as drivers make it
rdma_counter() {
    mkdir -p "$dir/rdma/${1%/*}"
    echo "$2" >"$dir/rdma/$1"
}
rdma_counter mlx5_0/ports/1/counters/port_rcv_data 25
rdma_counter mlx5_0/ports/1/counters/port_rcv_packets 7
rdma_counter mlx5_0/ports/1/counters/port_xmit_wait 8
rdma_counter mlx5_0/ports/1/counters/VL15_dropped "N/A (no PMA)"
rdma_counter mlx5_0/ports/1/hw_counters/out_of_buffer 3
rdma_counter mlx5_0/ports/1/hw_counters/lifespan 10
rdma_counter mlx5_0/ports/1/state "4: ACTIVE"
rdma_counter mlx5_0/ports/1/rate "100 Gb/sec (4X EDR)"
rdma_counter hfi1_0/ports/1/counters/port_xmit_data 1000
rdma_counter hfi1_0/ports/1/counters/VL15_dropped 4
rdma_counter hfi1_0/ports/1/hw_counters/TxPkt 12
rdma_counter hfi1_0/hw_counters/RcvHdrOvr 2
prints 'node_infiniband_port_data' 4 <<END
[rdma]
type = rdma
root = $dir/rdma
interval = 0.05
to = print
[print]
type = print
END
mlx='device="mlx5_0",port="1"' hfi='device="hfi1_0",port="1"'
check "rdma: bytes, where the port counts words" has_sample "node_infiniband_port_data_received_bytes{$mlx} 100"
check "rdma: the port's counters" has_sample "node_infiniband_port_packets_received{$mlx} 7"
check "rdma: with node_exporter's names" has_sample "node_infiniband_port_transmit_wait{$mlx} 8"
check "rdma: none of what is not counted" [ "$(grep -c 'vl15.*mlx5' "$dir/out")" -eq 0 ]
check "rdma: mlx5's own" has_sample "node_infiniband_hw_out_of_buffer{$mlx} 3"
check "rdma: its state" has_sample "node_infiniband_state_id{$mlx} 4"
check "rdma: its rate" has_sample "node_infiniband_rate_bytes_per_second{$mlx} 12500000000"
check "rdma: hfi1's ports" has_sample "node_infiniband_port_data_transmitted_bytes{$hfi} 4000"
check "rdma: no capitals" has_sample "node_infiniband_vl15_dropped{$hfi} 4"
check "rdma: hfi1's own, of a port" has_sample "node_infiniband_hw_tx_pkt{$hfi} 12"
check "rdma: and of the device" has_sample 'node_infiniband_hw_rcv_hdr_ovr{device="hfi1_0"} 2'

# Datagrams as collectd's plugin "network" makes them; among them some that it would not.
send_collectd() {
    /usr/bin/python3 - "$1" <<'END'
import socket, struct, sys, time
def part(kind, data):
    return struct.pack(">HH", kind, len(data) + 4) + data
def text(kind, s):
    return part(kind, s.encode() + b"\0")
def values(*list):
    out = struct.pack(">H", len(list)) + bytes(kind for kind, _ in list)
    for kind, value in list:
        out += struct.pack({0: ">Q", 1: "<d", 2: ">q", 3: ">Q"}[kind], value)
    return part(6, out)
now = part(8, struct.pack(">Q", int(1600000000.5 * 2**30))) + part(9, struct.pack(">Q", 10 << 30))
good = text(0, "host") + now
good += text(2, "interface") + text(3, "eth0") + text(4, "if_octets") + values((2, 11), (2, 22))
good += text(2, "cpu") + text(3, "1") + text(4, "cpu") + text(5, "idle") + values((2, 33))
good += text(2, "memory") + text(3, "") + text(4, "memory") + text(5, 'us"ed') + values((1, 0.5))
good += text(2, "odd-name") + text(4, "gauge") + text(5, "") + values((1, 2.0))
good += text(2, "lost") + text(4, "absolute") + values((3, 9))
to = ("127.0.0.1", int(sys.argv[1]))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(0, len(good), 3): # cut off anywhere
    s.sendto(good[:i], to)
s.sendto(part(2, b"no end") + text(4, "gauge") + values((1, 1.0)), to)
s.sendto(struct.pack(">HH", 6, 3) + b"x", to)
s.sendto(text(2, "p") + text(4, "gauge") + part(6, struct.pack(">H", 60000) + b"\1" * 40), to)
s.sendto(text(2, "p" * 500) + text(4, "t" * 500) + text(5, "i" * 500) + values((1, 1.0)), to)
s.sendto(good, to)
END
}
printf '# types\nif_octet x:GAUGE:0:U\nif_octets\trx:DERIVE:0:U, tx:DERIVE:0:U\ngauge value:GAUGE:U:U\n' >"$dir/types.db"
collectd_port=$((10000 + $$ % 2200 * 10 + 5))
cat >"$dir/conf" <<END
[collectd]
type = collectd
listen = 127.0.0.1:$collectd_port
types = $dir/types.db
interval = 0.05
to = print
[print]
type = print
END
UDMON_LOG_LEVEL=info "$agent" -c "$dir/conf" >"$dir/out" 2>"$dir/log" &
collectd=$!
collectd_came() {
    send_collectd $collectd_port && grep -qF 'collectd_odd_name_gauge{plugin="odd-name"} 2 ' "$dir/out"
}
check "collectd: samples come" await collectd_came
sed -i 's/^interval .*/interval = 0.1/' "$dir/conf"
kill -HUP $collectd
await grep -q 'read anew\|going on as before' "$dir/log"
check "SIGHUP: a node with another interval keeps what it has open" grep -q 'read anew' "$dir/log"
kill $collectd
wait $collectd
check "collectd: names of sources from types.db, and its times" \
    grep -qxF 'collectd_interface_if_octets_tx{interface="eth0"} 22 1600000000500' "$dir/out"
check "collectd: a type that is the plug-in's name" has_sample 'collectd_cpu{cpu="1",type="idle"} 33'
check "collectd: labels with escapes" has_sample 'collectd_memory{type="us\"ed"} 0.5'
check "collectd: what counts since the last time is left out" [ "$(grep -c absolute "$dir/out")" -eq 0 ]
check "collectd: what is wrong is told" grep -q "a datagram of [0-9]* bytes is not collectd's" "$dir/log"
sed -i -e 's/^interval .*/interval = 0.05/' -e 's/^types .*/&\nseries = 3/' "$dir/conf"
"$agent" -c "$dir/conf" >"$dir/out" 2>"$dir/log" &
collectd=$!
series_are_refused() {
    send_collectd $collectd_port && grep -q 'collectd: .* more series than its option "series" allows' "$dir/log"
}
check "collectd: too many series are refused, and the log says so" await series_are_refused
kill $collectd
wait $collectd
check "collectd: the first ones still come" [ "$(grep -o '^collectd_[^ ]*' "$dir/out" | sort -u | wc -l)" -eq 3 ]
check "collectd: refuses others than loopback" refuses 'no loopback address' <<END
[collectd]
type = collectd
listen = *:$collectd_port
to = print
[print]
type = print
END

# Each sensor has a rate of its own, and none ticks more often than it is told.
two_rates() {
    local fast slow begun=$SECONDS
    prints 'node_load1 ' 2 <<-END
	[slow]
	type = load
	interval = 10
	to = print
	[fast]
	type = ramp
	interval = 0.01
	to = print
	[print]
	type = print
	END
    fast=$(grep -c '^ramp ' "$dir/out") slow=$(grep -c '^node_load1 ' "$dir/out")
    echo "# 0.1 Hz: $slow, 100 Hz: $fast"
    [[ $slow -eq 2 && $fast -gt 100 && $fast -le $(((SECONDS - begun + 1) * 100)) ]]
}
check "rates of 0.1 and 100 Hz at once" two_rates

# "ramp N" of two sensors: [steady] counts from 0, [changed] from $1. Their numbers do not meet
# before 20 s are over.
two_ramps() {
    cat <<-END
	[agent]
	module = $module
	[steady]
	type = ramp
	interval = 0.05
	to = print
	[changed]
	type = ramp
	interval = 0.05
	first = $1
	to = print
	[print]
	type = print
	END
}

two_ramps 400 >"$dir/conf"
: >"$dir/out" # what the last one printed is no sign of this one
"$agent" -c "$dir/conf" >"$dir/out" 2>"$dir/log" &
reloaded=$!
await grep -q '^ramp 403 ' "$dir/out"
two_ramps 900 >"$dir/conf"
kill -HUP $reloaded
check "SIGHUP: a node described otherwise begins anew" await grep -q '^ramp 903 ' "$dir/out"
await printed 'ramp 6 '
kill $reloaded
wait $reloaded
# shellcheck disable=SC2016 # it is awk's
check "SIGHUP: a node described as before goes on, nothing missing and nothing twice" \
    awk '$1 == "ramp" && $2 < 400 { wrong += ($2 != count++) } END { exit wrong || count < 6 }' \
    "$dir/out"
# shellcheck disable=SC2016
check "SIGHUP: and what it replaced has ended" \
    awk '$1 == "ramp" && $2 >= 900 { begun = 1 }
        $1 == "ramp" && $2 >= 400 && $2 < 900 { wrong += begun }
        END { exit wrong }' "$dir/out"

check "a module's option out of range is refused" refuses 'conf:6: node ramp: first' <<'END'
[ramp]
type = ramp
to = print
first = 2000
[print]
type = print
END
check "a threshold without a limit is refused" refuses 'node threshold: needs an option' <<'END'
[threshold]
type = threshold
to = print
[print]
type = print
END
check "a circle is refused" refuses 'conf:5: node a: to: its output comes back' <<'END'
[a]
type = rate
to = b
[b]
type = rate
to = a
END
check "more than nanoseconds are refused" refuses 'conf:5: node ramp: interval' <<'END'
[ramp]
type = ramp
interval = 1.0000000001
to = print
[print]
type = print
END
check "less than a millisecond is refused" refuses 'conf:5: node ramp: interval' <<'END'
[ramp]
type = ramp
interval = 0.000999999
to = print
[print]
type = print
END
check "an unknown type is refused" refuses 'conf:4: node x: .*bogus' <<'END'
[x]
type = bogus
END
module=$dir/none.so
check "a module that is not there is refused" refuses 'conf:2: module .*none.so' <<'END'
[print]
type = print
END
