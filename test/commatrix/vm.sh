#!/bin/bash
# vm.sh COMMATRIX PATTERN PMPI_LIBRARY: inside the machine of contrib/rdma-vm; test/vm/run has it as
# part matrix.
# MPI over soft-RoCE, two ranks on each host; what a capture on the switch tells is held against what
# was counted through MPI's profiling interface. A line for each test: ok NAME, not ok NAME: why.
set -u
export PATH=$PATH:/usr/sbin:/sbin
commatrix=$1 pattern=$2 library=$3
here=$(dirname "$(readlink -f "$0")")
work=/tmp/vm-commatrix
mkdir -p "$work"
cd "$work" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# Each rank on the device of its host.
cat >on_host <<'END'
#!/bin/bash
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
export UCX_NET_DEVICES=rxe$((rank / 2 + 1)):1 UCX_IB_GID_INDEX=1
export UCX_UD_VERBS_ETH_DGID_CHECK=n # rxe delivers what it checks
exec env LD_PRELOAD="$LIBRARY" "$@"
END
chmod +x on_host
export LIBRARY=$library

# capture FILE COMMAND...: what crosses the switch meanwhile
capture()
{
    local file=$1 pid status=0
    shift
    ip netns exec fab tcpdump -i br0 -s 256 -B 65536 -U -w "$file" udp port 4791 2>tcpdump.log &
    pid=$!
    until grep -q 'listening on' tcpdump.log; do
        kill -0 $pid 2>/dev/null || { cat tcpdump.log; return 1; }
        sleep 0.1
    done
    "$@" >job.log 2>&1 || status=$?
    sleep 1 # what is still in the kernel's buffer
    kill -INT $pid
    wait $pid
    return $status
}

judge()
{
    local name=$1 size=$2 tls=$3 found
    rm -f count.*
    export PMPI_COUNT=$work/count UCX_TLS=$tls
    if ! capture "$name.pcap" timeout 200 mpirun.openmpi --oversubscribe --mca pml ucx --mca osc ucx \
        --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any --mca btl ^openib \
        --mca coll ^hcoll -n 4 ./on_host "$pattern" "${name%%-*}" 4 "$size"; then
        echo "not ok $name: the job failed: $(tail -n 1 job.log)"
        cp job.log "${OUT:-/tmp}/$name.log"
        return
    fi
    "$commatrix" --by rank --json "$name.pcap" >"$name.json" 2>"$name.err"
    cp "$name".* "${OUT:-/tmp}" 2>/dev/null
    if found=$(python3 "$here/counted.py" "$name.json" "$work/count" --apart 2); then
        echo "ok $name: $found"
    else
        echo "not ok $name: $found $(tail -n 1 "$name.err")"
    fi
}

judge bt-ud 131072 ud_verbs,self # the jobs below are over rc

# ---- commatrix-collect on RoCE -----------------------------------------------------------------------

collect=$here/../../src/commatrix/commatrix-collect
kernel=$(echo "$HOME"/.cache/openglex/kernel-*)
for module in sch_ingress cls_matchall act_mirred; do
    modprobe -d "$kernel" "$module" 2>modprobe.log || echo "# $module: $(cat modprobe.log)"
done

# What a collection left behind, a line each
leftovers()
{
    [ ! -e "$1/undo" ] || echo "$1/undo"
    compgen -G '/tmp/commatrix-[0-9a-f]*/*.pcap*' || :
    pgrep -a tcpdump || :
}

# The same, after a while in which captures may end
leftovers_at_last()
{
    for ((i = 0; i < 30; i++)); do
        [ -n "$(leftovers "$1")" ] || return 0
        sleep 1
    done
    leftovers "$1"
}

# collected NAME OPTION...: the matrix of what was collected around a job
collected()
{
    local name=$1 found left
    shift
    rm -rf count.* "$name"
    export PMPI_COUNT=$work/count UCX_TLS=rc_verbs,ud_verbs:aux,self
    if ! "$collect" -q --remote 'bash -c' -o "$name" "$@" timeout 200 mpirun.openmpi \
        --oversubscribe --mca pml ucx --mca osc ucx --mca opal_common_ucx_tls any \
        --mca opal_common_ucx_devices any --mca btl ^openib --mca coll ^hcoll -n 4 ./on_host "$pattern" bt \
        4 131072 >job.log 2>&1; then
        echo "not ok $name: $(tail -n 1 job.log)"
        return
    fi
    "$commatrix" --by rank --skew 10ms --map "$name/map" --json "$name"/*.pcap >"$name.json" 2>"$name.err"
    cp "$name.json" "${OUT:-/tmp}"
    if ! found=$(python3 "$here/counted.py" "$name.json" "$work/count" --apart 2); then
        echo "not ok $name: $found $(tail -n 1 "$name.err")"
    elif left=$(leftovers_at_last "$name") && [ -n "$left" ]; then
        echo "not ok $name: stays: $left $(cat "$name/undo.log")"
    else
        echo "ok $name: $found; $(jq -c '.capture | [.duplicates, .lost]' "$name.json") copies, lost"
    fi
}

collected collect-host --nodes h1,h2 --method host --interface %h
if [ "${HOSTS:-2}" -ge 3 ]; then
    collected collect-tc --nodes h1,h2,h3 --method tc --dump h3 --ports h1=p1,h2=p2,h3=p3 \
        --switch-remote 'ip netns exec fab bash -c' --interface h3
    if ip netns exec fab tc qdisc show | grep -q clsact; then
        echo "not ok collect-tc undone: $(ip netns exec fab tc qdisc show | grep clsact)"
    else
        echo "ok collect-tc undone"
    fi
fi
