#!/bin/bash
# commatrix-collect on a simulated InfiniBand network: ibsim serves opensm, ibstat and ibtracert;
# ibmirror and ibdump, which need hardware, are stand-ins that remember what is set.
# shellcheck disable=SC2012,SC2015 # fail ends the script; our own names
# shellcheck source=test/commatrix/lib.sh
. "$(dirname "$0")/lib.sh"

collect=$here/../../src/commatrix/commatrix-collect
PATH=$here/stand_ins:$PATH:/usr/sbin
for tool in ibsim opensm ibtracert ibstat; do
    command -v "$tool" >/dev/null || skip "there is no $tool: contrib/setup installs it"
done
preload=$(ls /usr/lib/*/umad2sim/libumad2sim.so 2>/dev/null | head -n 1)
[ -n "$preload" ] || skip "there is no libumad2sim.so"
export STAND_INS=$work/stand_ins IBSIM_SOCKNAME=cmsim$$
mkdir "$STAND_INS"

# Two switches with four nodes each, joined by a third one.
{
    for l in 0 1; do
        printf 'Switch\t8 "L%d"\n' $l
        for d in 1 2 3 4; do printf '[%d]\t"H%d"[1]\n' $d $((l * 4 + d - 1)); done
        printf '[5]\t"S0"[%d]\n\n' $((l + 1))
    done
    printf 'Switch\t8 "S0"\n[1]\t"L0"[5]\n[2]\t"L1"[5]\n\n'
    for h in 0 1 2 3 4 5 6 7; do printf 'Hca\t1 "H%d"\n[1]\t"L%d"[%d]\n\n' $h $((h / 4)) $((h % 4 + 1)); done
} >"$work/net.t"
mkfifo "$work/console"
ibsim -s -N 64 -S 16 -P 512 "$work/net.t" <"$work/console" >"$work/ibsim.log" 2>&1 &
ibsim=$!
exec 9>"$work/console"
opensm=
end()
{
    # Not by TERM: opensm then talks to the fabric, which is about to go, and may wait for ever.
    [ -z "$opensm" ] || kill -KILL "$opensm" 2>/dev/null
    exec 9>&-
    kill "$ibsim" 2>/dev/null
    wait 2>/dev/null
    rm -rf "$work"
}
trap end EXIT

# simulated NODE COMMAND...
simulated()
{
    env SIM_HOST="$1" LD_PRELOAD="$preload" "${@:2}"
}
wait_for()
{
    local i
    for ((i = 0; i < 600; i++)); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    fail "waited for: $*"
}
wait_for grep -q 'Listening\|Network simulator ready\|listening' "$work/ibsim.log"
SIM_HOST=H0 LD_PRELOAD=$preload OSM_TMP_DIR=$work OSM_CACHE_DIR=$work \
    opensm -f "$work/opensm.log" >"$work/opensm.out" 2>&1 &
opensm=$!
has_lid()
{
    simulated H7 ibstat | grep -q 'State: Active'
}
wait_for has_lid

nodes=H0,H1,H2,H3,H4,H5,H6,H7
mkdir "$work/tmp"
options=(-q --tmp "$work/tmp" --nodes "$nodes" --remote "env SIM_HOST=%h LD_PRELOAD=$preload bash -c"
    --mirror-add 'ibmirror add %s %p %d' --mirror-delete 'ibmirror delete %s %p %d')

nothing_left()
{
    local pid
    [ ! -s "$STAND_INS/mirrors" ] || fail "$1: mirrors stay: $(cat "$STAND_INS/mirrors")"
    while read -r pid; do
        ! kill -0 "$pid" 2>/dev/null || fail "$1: ibdump $pid still runs"
    done <"$STAND_INS/dumps"
    ! compgen -G "$work/tmp/*" >/dev/null || fail "$1: captures stay: $(ls "$work/tmp")"
    [ ! -e "$2/undo" ] || fail "$1: not undone"
}

# The plan changes nothing.
status 0 "$collect" "${options[@]}" -o "$work/dry" --dry-run mpirun -n 6 ./job
[ "$(grep -c 'ibmirror add' "$work/out")" -eq 6 ] || fail "the plan: $(cat "$work/out")"
[ "$(grep -c 'ibdump' "$work/out")" -eq 2 ] || fail "the plan: $(cat "$work/out")"
grep -q '^H3 .*ibdump .* -i 1 --decap' "$work/out" && grep -q '^H7 .*ibdump .* -i 2 --decap' "$work/out" ||
    fail "ports of the plan: $(cat "$work/out")"
[ ! -e "$work/dry" ] && [ ! -e "$STAND_INS/mirrors" ] || fail "a dry run did something"

# Around a job: six nodes of eight, all mirrored meanwhile, and nothing afterwards.
status 7 "$collect" "${options[@]}" -o "$work/a" bash -c \
    "cp $STAND_INS/mirrors $work/meanwhile; cp %hostfile $work/hosts; stat -c %a $work/tmp/* >$work/mode; exit 7"
[ "$(sort -u "$work/mode")" = 700 ] || fail "the directory of captures: $(cat "$work/mode")"
[ "$(wc -l <"$work/meanwhile")" -eq 6 ] || fail "mirrors: $(cat "$work/meanwhile")"
[ "$(paste -sd ' ' "$work/hosts")" = 'H0 H1 H2 H4 H5 H6' ] || fail "hostfile: $(cat "$work/hosts")"
nothing_left "after a job" "$work/a"
[ -s "$work/a/H3.pcap" ] && [ -s "$work/a/H7.pcap" ] || fail "no captures: $(ls "$work/a")"
status 0 "$commatrix" --map "$work/a/map" --json "$work/a/H3.pcap"
[ "$(jq .totals.packets "$work/out")" -eq 1 ] || fail "the packet of ibdump: $(cat "$work/out")"
# Without --decap the reader takes the encapsulation off itself.
(exec env SIM_HOST=H3 ibdump -d x -i 1 -w "$work/encapsulated.pcap") &
dump=$!
wait_for test -s "$work/encapsulated.pcap"
kill "$dump"
status 0 "$commatrix" --json "$work/encapsulated.pcap"
[ "$(jq .totals.packets "$work/out")" -eq 1 ] || fail "the encapsulated packet: $(cat "$work/out")"
# The ports are those of the network's file.
grep -q ' 1 4$' "$work/meanwhile" && grep -q ' 3 4$' "$work/meanwhile" || fail "$(cat "$work/meanwhile")"
# The topology fits commatrix place.
echo '{"by": "rank", "names": ["0"], "cells": []}' >"$work/m.json"
status 0 "$commatrix" place --topology "$work/a/topology" "$work/m.json"
grep -q '^link .*S0' "$work/a/topology" || fail "topology: $(cat "$work/a/topology")"

# A switch that refuses: what was set before is undone.
STAND_INS_REFUSE=2 status 125 "$collect" "${options[@]}" -o "$work/b" true
says 'does not mirror port 2'
nothing_left "after a refusal" "$work/b"

# The shell is killed in the middle of a job, by signals that it sees and by one that it does not.
undone()
{
    [ ! -e "$1/undo" ] && [ ! -s "$STAND_INS/mirrors" ]
}
for signal in TERM INT KILL; do
    # Jobs of a script do not see INT, unless they are told to.
    env --default-signal=INT "$collect" "${options[@]}" -o "$work/$signal" \
        bash -c "touch $work/$signal.runs; exec sleep 3" >/dev/null 2>"$work/err" &
    pid=$!
    wait_for test -e "$work/$signal.runs"
    kill -"$signal" "$pid"
    wait "$pid" 2>/dev/null
    wait_for undone "$work/$signal"
    nothing_left "after $signal" "$work/$signal"
done

# A prolog and an epilog.
status 0 "$collect" --start "${options[@]}" -o "$work/slurm"
[ "$(wc -l <"$STAND_INS/mirrors")" -eq 6 ] || fail "--start: $(cat "$work/slurm/start.log")"
status 0 "$collect" --stop -o "$work/slurm"
nothing_left "after --stop" "$work/slurm"
[ -s "$work/slurm/H7.pcap" ] || fail "--stop fetched nothing"
status 125 "$collect" --stop -o "$work/slurm"

# RoCE without InfiniBand: soft-RoCE by its Ethernet interface, a NIC by its RDMA device, or not at all.
sys=$work/sys/class/infiniband
mkdir -p "$sys/rxe0" "$work/other"
echo eth7 >"$sys/rxe0/parent"
printf 'eth7\neth8\n' >"$STAND_INS/interfaces"
: >"$STAND_INS/dumps"
roce=(-q --tmp "$work/tmp" --nodes "a,b" --method host --remote "env COMMATRIX_NODE=%h bash -c" -o)
# ibstat of the simulator must not answer for these nodes.
export IBSIM_SOCKNAME=none COMMATRIX_SYS=$work/sys
status 0 "$collect" "${roce[@]}" "$work/soft" true
[ "$(sort -u "$STAND_INS/captured")" = eth7 ] || fail "soft-RoCE was captured on $(cat "$STAND_INS/captured")"
nothing_left "after soft-RoCE" "$work/soft"
rm -r "$sys/rxe0" "$STAND_INS/captured"
mkdir -p "$sys/mlx5_0/device/net/eth8"
status 125 "$collect" "${roce[@]}" "$work/nic" true
says 'eth8 does not see RDMA packets'
echo mlx5_0 >>"$STAND_INS/interfaces"
status 0 "$collect" "${roce[@]}" "$work/nic" true
[ "$(sort -u "$STAND_INS/captured")" = mlx5_0 ] || fail "the NIC was captured on $(cat "$STAND_INS/captured")"
nothing_left "after a NIC" "$work/nic"
# The limit of size.
status 2 "$collect" --max-size none --nodes a,b true
status 0 "$collect" --max-size 1 "${roce[@]}" "$work/limit" true

# Wrong usage.
status 2 "$collect" --nodes H0,H1
says 'no command'
status 2 "$collect" --nodes 'H0;reboot,H1' true
says 'no name of a node'
status 2 "$collect" --method mirror --nodes H0,H1 true
status 2 "$collect" --method guess --nodes H0,H1 true
