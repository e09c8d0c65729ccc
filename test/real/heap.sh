#!/bin/bash
# glexrun --shared-heap: long buffers of malloc() are memory that peers map, so that the kernel copies no
# message, and programs notice nothing: heap.sh [programs|mpich|openmpi]...
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

here=$(dirname "$0")
said='glex: shared heap: '
glex_info=$build/src/tools/glex_info

compile()
{
    gcc -w -O1 -g -fno-builtin -pthread -o "$work/$1" "$here/heap_user.c" "${@:2}"
}

# heap NAME SECONDS COMMAND...: as run, with the heap.
heap()
{
    run "$1" "$2" "$GLEXRUN" --shared-heap "${@:3}"
}

# What the heap said: nothing, if all is well.
line_problem()
{
    ! grep -h "$said" "$work/out" || :
}

# test_user WORDS...: heap_user does it, with the heap, and the heap says nothing.
test_user()
{
    heap "heap $*" 240 "$work/heap_user" "$@" || return 0
    finish "heap $*" program_problem line_problem
}

# The program closes all descriptors: the heap says once that it does not grow.
closed_problem()
{
    [ "$(grep -c "${said}the program has closed descriptor" "$work/out")" -eq 1 ] ||
        printf 'it does not say once that it does not grow'
}

test_closed()
{
    heap "heap limits" 60 "$work/heap_user" limits || return 0
    finish "heap limits" program_problem closed_problem
}

# A heap of 64 MB for 100 MB: one line.
full_problem()
{
    [ "$(grep -c "${said}full with" "$work/out")" -eq 1 ] || printf 'it does not say once that it is full'
}

test_full()
{
    GLEX_HEAP_SIZE=64M heap "heap full" 60 "$work/heap_user" fill 100 || return 0
    finish "heap full" program_problem full_problem
}

# A program or a library of the user brings an allocator: it stays.
test_allocators()
{
    local library path
    HEAP_USER_ALONE=y run "heap own allocator" 60 "$GLEXRUN" --shared-heap "$work/heap_own" api &&
        finish "heap own allocator" program_problem
    for library in libtcmalloc_minimal.so.4 libjemalloc.so.2 libmimalloc.so.2; do
        path=$(ldconfig -p | sed -n "s/.*$library .*=> //p" | head -n 1)
        if [ -z "$path" ]; then
            skip "heap beside $library" "not installed"
            continue
        fi
        HEAP_USER_ALONE=y LD_PRELOAD=$path run "heap beside $library" 120 \
            "$GLEXRUN" --shared-heap "$work/heap_user" threads || continue
        finish "heap beside $library" program_problem
    done
}

# Limits of the shell, and a wrong size
test_limits()
{
    local limit
    for limit in 'ulimit -n 64' 'ulimit -v 4000000' 'export HEAP_USER_ALONE=y && ulimit -f 100'; do
        # shellcheck disable=SC2016
        run "heap with $limit" 60 bash -c "$limit"' && exec "$@"' limit \
            "$GLEXRUN" --shared-heap "$work/heap_user" fill 30 || continue
        finish "heap with $limit" program_problem
    done
    HEAP_USER_ALONE=y GLEX_HEAP_SIZE=3M run "heap of a wrong size" 60 \
        "$GLEXRUN" --shared-heap "$work/heap_user" fill 30 || return 0
    finish "heap of a wrong size" program_problem
}

# ---- python3 -------------------------------------------------------------------------------------

python_program='
import ctypes, multiprocessing, os, subprocess, threading

def work(data, queue):
    data[:] = bytes(len(data))
    queue.put(bytes([7]) * 5000000)

data = bytearray(os.urandom(3000000))
copy = bytes(data)
context = multiprocessing.get_context("fork")
for i in range(3):
    queue = context.Queue()
    child = context.Process(target=work, args=(data, queue))
    child.start()
    assert queue.get(timeout=60) == bytes([7]) * 5000000
    child.join()
    assert child.exitcode == 0 and data == copy
pid = os.fork()
if pid == 0:
    data += copy
    os._exit(0 if data == copy + copy else 1)
data.reverse()
assert os.waitpid(pid, 0)[1] == 0
assert bytes(reversed(data)) == copy
out = subprocess.run(["cat"], input=copy, stdout=subprocess.PIPE, check=True).stdout
assert out == copy
assert os.system("true") == 0 and os.popen("echo word").read() == "word\n"
lists = [[bytearray(20000 + i) for i in range(500)] for j in range(4)]
assert "glex-heap" in open("/proc/self/maps").read()
print("python3: checks passed")
'

test_python()
{
    if ! have python3; then
        skip "heap python3" "not installed"
        return
    fi
    heap "heap python3" 120 python3 -c "$python_program" || return 0
    finish "heap python3" program_problem line_problem
}

# ---- MPI -----------------------------------------------------------------------------------------

mapped_problem()
{
    [ "$(counted heap_maps)" -ge 1 ] || printf "no rank mapped the heap of another one"
}

no_kernel_problem()
{
    [ "$(counted kernel_bytes)" -eq 0 ] || printf 'the kernel copied %s bytes' "$(counted kernel_bytes)"
}

kernel_problem()
{
    if [ "$(counted heap_maps)" -ne 0 ]; then
        printf 'a heap was mapped without --shared-heap'
    elif [ "$(counted kernel_bytes)" -lt 100000000 ]; then
        printf 'the kernel copied only %s bytes' "$(counted kernel_bytes)"
    fi
}

# test_mpi LIBRARY RANKS PROGRAM [ARGUMENT...]: data arrives, and through mapped memory.
test_mpi()
{
    local library=$1 ranks=$2 name="heap $1 $2 ranks $3"
    shift 2
    heap "$name" 300 "mpirun.$library" -n "$ranks" "$programs/$library/$1" "${@:2}" || return 0
    finish "$name" program_problem line_problem connections_problem mapped_problem fabric_problem
}

# 256 messages of 1 MB, with and without the heap: who copies them.
test_copies()
{
    local library=$1 name="heap $1 no copies by the kernel"
    heap "$name" 120 "mpirun.$library" -n 2 "$programs/$library/mpi_bw" 1000000 || return 0
    finish "$name" line_problem connections_problem mapped_problem no_kernel_problem fabric_problem
    name="heap $1 copies by the kernel without"
    run "$name" 120 "$GLEXRUN" "mpirun.$library" -n 2 "$programs/$library/mpi_bw" 1000000 || return 0
    finish "$name" connections_problem kernel_problem fabric_problem
}

# The program's malloc() is linked into it.
own_problem()
{
    grep -q 'glex: the shared heap is not used: the program has an allocator of its own' "$work/out" ||
        printf 'it does not say that the heap is not used'
}

test_own()
{
    local library=$1 name="heap $1 program with an allocator"
    if ! "mpicc.$library" -w -O1 -o "$work/own.$library" "$top/test/mpi/pingpong.c" \
        "$top/test/mpi/common.c" "$here/heap_own.c" >"$work/out" 2>&1; then
        not_ok "$name" "cannot be compiled"
        show "$work/out"
        return
    fi
    heap "$name" 120 "mpirun.$library" -n 2 "$work/own.$library" 1000000 || return 0
    finish "$name" program_problem own_problem fabric_problem
}

# A full heap in the midst of a job: buffers of 1 MB are in it, and longer ones are not.
test_mpi_full()
{
    local library=$1 name="heap $1 full"
    GLEX_HEAP_SIZE=16M heap "$name" 120 "mpirun.$library" -n 2 "$programs/$library/pingpong" 40000000 ||
        return 0
    finish "$name" program_problem rank_lines_problem fabric_problem
}

rank_lines_problem()
{
    [ "$(grep -c "${said}full with" "$work/out")" -eq 2 ] || printf 'there are not two lines of two ranks'
}

# /dev/shm has room for the endpoints, and not for the buffers.
test_small_shm()
{
    local library=$1 name="heap $1 small /dev/shm"
    if ! unshare -rm mount -t tmpfs -o size=1m none /dev/shm 2>/dev/null; then
        skip "$name" "cannot mount a small /dev/shm"
        return
    fi
    # shellcheck disable=SC2016
    run "$name" 120 unshare -rm bash -c 'mount -t tmpfs -o size=24m none /dev/shm && exec "$@"' small \
        "$GLEXRUN" --shared-heap "mpirun.$library" -n 2 "$programs/$library/pingpong" 30000000 || return 0
    finish "$name" program_problem line_problem mapped_problem
}

# Killed ranks leave their endpoints, which glex_info --clean removes, and nothing else.
test_killed()
{
    local library=$1 name="heap $1 killed" job tries
    OMPI_MCA_btl=self timeout -k 5 120 "$GLEXRUN" --shared-heap "mpirun.$library" -n 2 \
        "$programs/$library/forks" 1000000 >"$work/killed" 2>&1 </dev/null
    find /dev/shm -mindepth 1 -user "$(id -u)" -not -path '/dev/shm/glex-*' | sort >"$work/before"
    OMPI_MCA_btl=self timeout -k 5 120 "$GLEXRUN" --shared-heap "mpirun.$library" -n 2 \
        "$programs/$library/mpi_bw" 1000000 100000000 >"$work/killed" 2>&1 </dev/null &
    job=$!
    for tries in {1..300}; do
        [ "$(find "$fabric_dir" -type f 2>/dev/null | wc -l)" -lt 2 ] || break
        sleep 0.1
    done
    sleep 1
    mapfile -t tree < <(process_tree "$job")
    mapfile -t maps < <(printf '/proc/%s/maps\n' "${tree[@]}")
    if ! grep -q glex-heap "${maps[@]}" 2>/dev/null; then
        not_ok "$name" "no rank has a heap after $tries looks"
        show "$work/killed"
    fi
    kill -KILL "${tree[@]}" 2>/dev/null || :
    wait "$job" 2>/dev/null || :
    "$glex_info" --clean >"$work/out" 2>&1
    finish "$name" fabric_problem shm_problem
}

shm_problem()
{
    local new
    new=$(find /dev/shm -mindepth 1 -user "$(id -u)" -not -path '/dev/shm/glex-*' | sort |
        comm -13 "$work/before" - | grep glex) || :
    [ -z "$new" ] || printf 'left in /dev/shm: %s' "$new"
}

if [ "$tls" != glex ] || [ ! -e "$build/src/heap/.libs/libglex_heap.so" ]; then
    skip heap "not over glex, or openglex was built without jemalloc"
    exit 0
fi
if ! compile heap_user >"$work/out" 2>&1 || ! compile heap_own "$here/heap_own.c" >"$work/out" 2>&1; then
    not_ok heap "cannot be compiled"
    show "$work/out"
    exit 0
fi
test_programs()
{
    local what
    for what in api fork threads; do
        test_user "$what"
    done
    test_closed
    test_full
    test_allocators
    test_limits
    test_python
}

test_library()
{
    local library=$1
    if ! have "mpirun.$library"; then
        skip "heap $library" "mpirun.$library is not installed"
        return
    fi
    test_mpi "$library" 2 pingpong 4194304
    test_mpi "$library" 4 many_to_one
    test_mpi "$library" 4 all_to_all 65536
    test_mpi "$library" 4 one_sided 65536
    test_mpi "$library" 2 forks
    test_copies "$library"
    test_own "$library"
    test_mpi_full "$library"
    test_small_shm "$library"
    test_killed "$library"
}

[ $# -gt 0 ] || set -- programs mpich openmpi
for part; do
    case $part in
    programs) test_programs ;;
    *) test_library "$part" ;;
    esac
done
