#!/bin/bash
# shellcheck disable=SC2016 # commands for eval
# A job of Slurm on two nodes, from trees of files like the kernel's: what /api/job and udmon-top say about it while it
# runs and after it has ended.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin

# cgroup NODE JOB: the job's control group, which the sensor of the node reads
cgroup() {
    echo "$dir/$1/system.slice/slurmstepd.scope/job_$2"
}

# start_job NODE JOB CPUS BYTES
start_job() {
    local group
    group=$(cgroup "$1" "$2")
    mkdir -p "$group"
    echo "$3" >"$group/cpuset.cpus.effective"
    echo "$4" >"$group/memory.current"
    printf 'user_usec 0\nsystem_usec 0\n' >"$group/cpu.stat"
}

# The job's processes work as long as the job is there.
work() {
    local usec=0 node
    while [[ -e $dir/n1 ]]; do
        usec=$((usec + 100000))
        for node in n1 n2; do
            printf 'user_usec %d\nsystem_usec 0\n' $usec >"$dir/cpu.$node" &&
                mv "$dir/cpu.$node" "$(cgroup $node 4711)/cpu.stat"
        done 2>/dev/null
        sleep 0.1
    done
}

printf '#!/bin/sh\necho "4711 ann gpu"\n' >"$dir/squeue"
chmod +x "$dir/squeue"
start_job n1 4711 0-3,8 1048576
start_job n2 4711 0-3 3145728
start_job n2 4712 0-1 5
launch work work
collector 0
for node in n1 n2 n3; do
    mkdir -p "$dir/$node/system.slice/slurmstepd.scope"
    agent $node "server = tcp://$(address 0)" <<-END
	[slurm]
	type = slurm
	root = $dir/$node
	squeue = $dir/squeue
	interval = 0.2
	to = out
	[network]
	type = network
	interval = 0.2
	to = out
	END
done

# job FILTER: jq's filter holds for the answer of the API
job() {
    get 0 '/api/job?job=4711' >"$dir/job.json" && jq -e "$1" "$dir/job.json" >/dev/null
}

check "a job is known on its nodes, and only there" await job '[.nodes[].name] == ["n1", "n2"]'
check "with user and partition" job '.user == "ann" and .partition == "gpu" and .running'
check "and the processors that it may use" await job '.cores == 9 and .nodes[0].cores == 5'
check "and its memory" await job '.nodes[0].memory == 1048576 and .nodes[1].memory == 3145728 and .imbalance.memory == 1.5'
check "and busy processors, over time" await job '.nodes[0].cpu > 0 and (.lines[0].points | length > 3)'
check "and the network of the nodes" await job '.nodes[0].network_in >= 0'
check "a node that has another job, too" await job '.nodes[0].others == 0 and .nodes[1].others == 1'
"$bin/udmon-top" -u "$(web 0)" job 4711 >"$dir/top"
check "udmon-top: a summary" grep -qE '^job 4711 of ann in gpu: 2 nodes, .*, running$' "$dir/top"
check "udmon-top: processors" grep -qE '^processors: [0-9.]+ busy of 9 \([0-9]+ %\), [0-9.]+ idle; the busiest node' "$dir/top"
check "udmon-top: a line for each node" [ "$(grep -cE '^n[12] ' "$dir/top")" -eq 2 ]
check "udmon-top: other jobs of a node" grep -qE '^n2 .*\(other jobs, too\)$' "$dir/top"
check "udmon-top: the same as JSON" eval '"$bin/udmon-top" -j -u "$(web 0)" job 4711 | jq -e ".job == \"4711\"" >/dev/null'
check "udmon-top: a job that nobody knows" eval \
    '! "$bin/udmon-top" -u "$(web 0)" job 5 2>"$dir/err" && grep -q "job 5: no node of the collector knows this job" "$dir/err"'
check "udmon-top: nobody there" eval \
    '! "$bin/udmon-top" -u "$(web 1)" job 5 2>"$dir/err" && grep -qF "job 5: no answer from http://$(web 1)/api/job (" "$dir/err"'
printf 'HTTP/1.0 200 OK\r\n\r\n{"job":"5","user":null,"from_ms":null,"until_ms":1,"cores":null,"nodes":[{"name":"n","cpu":null,"memory":1048576}],"lines":[]}' >"$dir/answer"
launch nulls /usr/bin/python3 -c 'import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        client = server.accept()[0]
        client.recv(9999)
        client.sendall(open(sys.argv[2], "rb").read())
        client.close()' $((port + 5)) "$dir/answer"
check "udmon-top: values that are null are not known" await eval \
    '"$bin/udmon-top" -u "$(web 2)" job 5 >"$dir/top" && grep -qE "^n +- +- +1( +-){6}$" "$dir/top" && ! grep -qE "nan|null" "$dir/top"'
printf 'HTTP/1.0 200 OK\r\n\r\n{"nodes":[{"name":"n","up":true,"received":null,"values":{"cpu":null}}],"matching":1,"up":1}' >"$dir/answer"
check "udmon-top: the same of nodes" await eval \
    '"$bin/udmon-top" -b -u "$(web 2)" >"$dir/top" && grep -qE "^n +up( +-){10}$" "$dir/top"'
echo 'HTTP/1.0 200 OK' >"$dir/answer"
check "udmon-top: no collector" eval \
    '! "$bin/udmon-top" -u "$(web 2)" job 5 2>"$dir/err" && grep -q "is no udmon-collector (HTTP status 200)" "$dir/err"'
check "no number of a job" eval '[[ $(get 0 "/api/job?job=a" -o /dev/null -w "%{http_code}") -eq 400 ]]'
rm -r "$dir/n1/system.slice/slurmstepd.scope/job_4711" "$dir/n2/system.slice/slurmstepd.scope/job_4711"
until_ms=0
over() {
    local before=$until_ms
    until_ms=$(get 0 '/api/job?job=4711' | jq .until_ms)
    sleep 0.5
    [[ $until_ms -eq $before ]]
}
check "the end of a job" await over
stop collector0
collector 0
check "the history has a job after its end, and after a restart" await job \
    '[.nodes[].name] == ["n1", "n2"] and .user == "ann" and .until_ms == '"$until_ms"
check "the demo starts and ends" eval 'OPENGLEX_BUILD=$top "$(dirname "$0")/../../contrib/udmon-demo" --nodes 2 --seconds 1 \
    --port $((port + 6)) --without-prometheus >"$dir/demo" && grep -q "^page: *http://127.0.0.1:$((port + 6))/$" "$dir/demo"'
