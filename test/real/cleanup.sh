#!/bin/bash
# What a job leaves behind: nothing if it ends, and nothing after the next start if it is killed.
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

ranks=32

# Everything of this user in shared memory that is not another glex fabric's.
shared_memory()
{
    {
        find /dev/shm -mindepth 1 -user "$(id -u)" -not -path '/dev/shm/glex-*' 2>/dev/null
        find "$fabric_dir" -type f 2>/dev/null
    } | sort
}

# What some process has open or mapped there: other jobs come and go meanwhile.
in_use()
{
    find /proc/[0-9]*/fd /proc/[0-9]*/map_files -lname '/dev/shm/*' -printf '%l\n' 2>/dev/null |
        sort -u
}

segments()
{
    find "$fabric_dir" -type f 2>/dev/null | wc -l
}

left_problem()
{
    local new
    new=$(comm -13 "$work/before" <(shared_memory) | comm -23 - <(in_use)) || :
    [ -z "$new" ] || printf 'left in /dev/shm: %s' "$(tr '\n' ' ' <<<"$new")"
}

test_end()
{
    local name="cleanup $1 $ranks ranks that end"
    shared_memory >"$work/before"
    run "$name" 240 "$GLEXRUN" "mpirun.$1" -n $ranks "$programs/$1/all_to_all" 1 || return 0
    finish "$name" program_problem connections_problem left_problem
}

# Kill every process of a job at one instant, in the midst of its traffic.
kill_job()
{
    local job=$1 tries
    for tries in {1..600}; do
        [ "$(segments)" -lt $ranks ] || break
        kill -0 "$job" 2>/dev/null || return 1
        sleep 0.1
    done
    [ "$tries" -lt 600 ] || return 1
    sleep 0.5
    mapfile -t tree < <(process_tree "$job")
    kill -STOP "${tree[@]}" 2>/dev/null || :
    kill -KILL "${tree[@]}" 2>/dev/null || :
}

test_killed()
{
    local library=$1 name="cleanup $1 $ranks ranks that are killed" job killed=1
    # Open MPI's own transports would leave their segments, too, and nobody would remove those.
    OMPI_MCA_btl=self timeout -k 5 300 \
        "$GLEXRUN" "mpirun.$library" -n $ranks "$programs/$library/many_to_one" 1000000000 \
        >"$work/killed" 2>&1 </dev/null &
    job=$!
    kill_job "$job" || killed=
    wait "$job" 2>/dev/null || :
    if [ -z "$killed" ]; then
        kill -KILL "$job" 2>/dev/null || :
        not_ok "$name" "there were never $ranks endpoints to kill"
        show "$work/killed"
        return 0
    fi
    if [ "$(segments)" -eq 0 ]; then
        not_ok "$name" "the killed ranks left nothing, so that nothing was tested"
        return 0
    fi
    run "$name" 60 "$GLEXRUN" "mpirun.$library" -n 2 "$programs/$library/pingpong" 1000 || return 0
    finish "$name" program_problem fabric_problem
}

for library in mpich openmpi; do
    if [ "$tls" != glex ] || ! have "mpirun.$library"; then
        skip "cleanup $library" "not over glex, or no mpirun.$library"
        continue
    fi
    test_end "$library"
    test_killed "$library"
done
