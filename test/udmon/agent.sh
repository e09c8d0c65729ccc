#!/bin/bash
# udmon-agent by itself: a module from a shared library, its samples through each processing node,
# configurations that it reads anew and that it refuses.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2154 # make check says where
agent=$abs_top_builddir/src/udmon/udmon-agent
module=$abs_top_builddir/test/udmon/.libs/agent_module.so
dir=$(mktemp -d)
failed=0
trap 'rm -rf "$dir"; exit $failed' EXIT

explain() {
    sed 's/^/# /' "$dir/out" "$dir/log"
}

# printed BEGINNING TIMES: so many lines of the agent begin so
printed() {
    [[ $(grep -c "^$1" "$dir/out") -ge $2 ]]
}

# What the agent prints, until it has printed a line that begins with $1, or $2 of them; its
# configuration is read from standard input.
prints() {
    local pid
    { printf '[agent]\nmodule = %s\n' "$module" && cat; } >"$dir/conf"
    "$agent" -c "$dir/conf" >"$dir/out" 2>"$dir/log" &
    pid=$!
    await printed "$1" "${2:-1}"
    kill $pid
    wait $pid
}

# A line as it has to be, to the last digit.
has_line() {
    grep -qxF "$1" "$dir/out"
}

refuses() {
    { printf '[agent]\nmodule = %s\n' "$module" && cat; } >"$dir/conf"
    ! "$agent" -t -c "$dir/conf" >"$dir/out" 2>"$dir/log" && grep -q "$1" "$dir/log"
}

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

# The sensors of the machine. Each has told something when one of them has several times.
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
    prints load15 3 < <(sensors)
    check "cpu: each core in each mode" \
        [ "$(grep -o '^cpu_seconds{cpu="[0-9]*",mode="[a-z]*"}' "$dir/out" | sort -u | wc -l)" -eq \
        "$(($(grep -c '^cpu[0-9]' /proc/stat) * 8))" ]
    check "cpu: seconds in user mode" grown_to 'cpu_seconds{cpu="0",mode="user"}' \
        "$(awk -v hertz="$(getconf CLK_TCK)" \
            '$1 == "cpu0" { printf "%.2f", $2 / hertz }' /proc/stat)"
    check "memory: bytes in all" [ "$(value memory_total_bytes)" = \
        "$(awk '$1 == "MemTotal:" { printf "%.0f", $2 * 1024 }' /proc/meminfo)" ]
    check "load: processes" [ "$(value processes)" -gt 0 ]
    check "network: bytes received by each device" \
        [ "$(grep -o '^network_receive_bytes{.*}' "$dir/out" | sort -u | wc -l)" -eq \
        "$(grep -c : /proc/net/dev)" ]
    check "network: counters of lo" same_as_proc lo
    check "disk: those that were used" \
        [ "$(grep -o '^disk_reads{.*}' "$dir/out" | sort -u | wc -l)" -eq \
        "$(awk '$4 + $8 > 0' /proc/diskstats | wc -l)" ]
    [[ ! -d /sys/class/infiniband ]] || rdma_sensor
}

# A device that has counted something: received bytes and packets, sent ones, as the kernel says or
# less.
same_as_proc() {
    local bytes packets out
    read -r bytes packets out < <(awk -v device="$1:" \
        '$1 == device { print $2, $3, $10 }' /proc/net/dev)
    [[ $bytes -gt 0 ]] || return 0 # nothing has passed through it since the machine began
    grown_to "network_receive_bytes{device=\"$1\"}" "$bytes" &&
        grown_to "network_receive_packets{device=\"$1\"}" "$packets" &&
        grown_to "network_transmit_bytes{device=\"$1\"}" "$out"
}

# What the driver counts itself; and the counters of a port as an HCA has them, of which soft-RoCE
# has none: in a namespace where they are a tree of our own.
rdma_sensor() {
    local port=$dir/sys/mlx5_0/ports/1
    check "rdma: the driver's counters" \
        [ "$(grep -o '^rdma_hw_sent_pkts{.*}' "$dir/out" | sort -u | wc -l)" -eq \
        "$(find /sys/class/infiniband/*/ports/*/hw_counters/sent_pkts | wc -l)" ]
    mkdir -p "$port/counters" "$port/hw_counters"
    echo 25 >"$port/counters/port_rcv_data"
    echo 7 >"$port/counters/port_rcv_packets"
    echo "N/A (no PMA)" >"$port/counters/VL15_dropped"
    echo 3 >"$port/hw_counters/out_of_buffer"
    printf '[rdma]\ntype = rdma\ninterval = 0.05\nto = print\n[print]\ntype = print\n' >"$dir/conf"
    unshare -m sh -c "mount --bind '$dir/sys' /sys/class/infiniband &&
        exec timeout 20 '$agent' -c '$dir/conf'" >"$dir/out" 2>"$dir/log" &
    await grep -q '^rdma_hw_out_of_buffer{device="mlx5_0",port="1"} 3 ' "$dir/out"
    check "rdma: bytes, where the port counts words" \
        [ "$(value 'rdma_port_rcv_data_bytes{device="mlx5_0",port="1"}')" = 100 ]
    check "rdma: the port's counters" \
        [ "$(value 'rdma_port_rcv_packets{device="mlx5_0",port="1"}')" = 7 ]
    check "rdma: none of what is not counted" [ "$(grep -c VL15 "$dir/out")" -eq 0 ]
    kill $!
    wait $!
}

machine_sensors

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
"$agent" -c "$dir/conf" >"$dir/out" 2>"$dir/log" &
reloaded=$!
await grep -q '^ramp 403 ' "$dir/out"
two_ramps 900 >"$dir/conf"
kill -HUP $reloaded
check "SIGHUP: a node described otherwise begins anew" await grep -q '^ramp 903 ' "$dir/out"
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
