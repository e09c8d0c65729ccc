# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are shared with run and its other parts
# Cases of run: what a machine grants or forbids. Sourced.

# ---- shared memory -------------------------------------------------------------------------------

# in_shm OPTIONS COMMAND...: with an own file system in /dev/shm
in_shm()
{
    local options=$1
    shift
    # shellcheck disable=SC2016
    "${namespace[@]}" bash -c 'mount -t tmpfs -o "$0" none /dev/shm && "$@"' "$options" "$@"
}

# The whole job in one such namespace: this script once more, with one case
inner()
{
    in_shm "$1" "$0" "inner_$2" >"$work/inner" 2>&1 || :
    if ! grep -q -E '^(ok|not ok|skip) ' "$work/inner"; then
        not_ok "$2" "no result from inside"
    fi
    cat "$work/inner"
}

case_small_shm()
{
    possible "shm of 8 MB" "${namespace[@]}" true || return 0
    inner size=8m small_shm
    inner size=256k tiny_shm
    inner size=24m full_shm
}

case_inner_small_shm()
{
    pair
    all_right "shm of 8 MB"
}

case_inner_tiny_shm()
{
    pair
    refused "shm of 256 KB" 'cannot reserve .* KiB .*No space left.*--shm-size.*GLEX_SHM_DIR'
}

# What is there goes on; what would need more memory does without
case_inner_full_shm()
{
    megabytes=0
    board 2
    start 0
    start 1
    busy 2
    dd if=/dev/zero of=/dev/shm/filler bs=4k status=none 2>"$work/dd" || :
    if ! grep -q 'No space left' "$work/dd"; then
        not_ok "shm full in the midst of a run" "it could not be filled: $(head -n 1 "$work/dd")"
        return 0
    fi
    sleep 1
    finish
    all_right "shm full in the midst of a run"
    rm -f /dev/shm/filler
}

case_no_shm()
{
    possible "no shm" "${namespace[@]}" true || return 0
    # shellcheck disable=SC2016
    "${namespace[@]}" bash -c 'mount --bind /proc /dev/shm && "$0" inner_no_shm' "$0" ||
        not_ok "no shm" "no result from inside"
}

case_inner_no_shm()
{
    pair
    refused "no shm" 'cannot open the fabric /dev/shm.*GLEX_SHM_DIR names' "not available"
    export GLEX_SHM_DIR=$work
    pair
    all_right "no shm, with GLEX_SHM_DIR elsewhere"
}

# ---- limits --------------------------------------------------------------------------------------

case_files()
{
    pair "$programs/confine" nofile 32
    all_right "RLIMIT_NOFILE 32"
    pair "$programs/confine" nofile 10
    refused "RLIMIT_NOFILE 10" 'Too many open files.*ulimit -n'
}

case_memory()
{
    pair "$programs/confine" as 100000000
    all_right "RLIMIT_AS 100 MB"
    UCX_GLEX_EP_MPQ_CAPACITY=65536 UCX_GLEX_EP_EQ_CAPACITY=65536 \
        pair "$programs/confine" as 24000000
    refused "RLIMIT_AS 24 MB, queues of 16 MB" \
        'cannot map a segment of .* KiB: Cannot allocate memory'
}

# ---- what is forbidden ---------------------------------------------------------------------------

case_ptrace()
{
    possible "ptrace forbidden" "$programs/confine" ptrace true || return 0
    UCX_LOG_LEVEL=diag pair "$programs/confine" ptrace
    all_right "ptrace and process_vm_* forbidden" \
        'no zero-copy: RDMA to private memory: process_vm_readv is forbidden \(a seccomp filter'
    "$programs/confine" ptrace "$top/contrib/glexrun" ucx_info -d -t glex >"$work/info" || :
    if ! grep -q 'Transport: glex' "$work/info"; then
        not_ok "ptrace forbidden: capabilities" "ucx_info does not show glex"
    elif grep -q 'put_zcopy' "$work/info"; then
        not_ok "ptrace forbidden: capabilities" "put_zcopy is advertised all the same"
    else
        ok "ptrace forbidden: no zero-copy is advertised"
    fi
    board 2
    start 0 "$programs/confine" ptrace
    start 1
    await
    refused "ptrace forbidden to one of two" \
        'not usable with a process .*ptrace, seccomp.*GLEX_PRIVATE_RDMA=n in all'
    board 2
    export GLEX_PRIVATE_RDMA=n
    start 0 "$programs/confine" ptrace
    start 1
    unset GLEX_PRIVATE_RDMA
    await
    all_right "ptrace forbidden to one of two, GLEX_PRIVATE_RDMA=n"
}

# ---- namespaces ----------------------------------------------------------------------------------

# apart NAME OPTION...: two processes, each in namespaces of its own
apart()
{
    local name=$1
    shift
    possible "$name" unshare "$@" true || return 0
    pair unshare "$@"
    refused "$name" \
        'not usable with a process .* in another pid or user namespace.*GLEX_PRIVATE_RDMA=n'
    export GLEX_PRIVATE_RDMA=n
    pair unshare "$@"
    unset GLEX_PRIVATE_RDMA
    all_right "$name, GLEX_PRIVATE_RDMA=n"
}

case_namespaces()
{
    local pid=(-p -f) other=(-i -u -n)
    [ "$(id -u)" -eq 0 ] || { pid=(-r -p -f) other=(-r -i -u -n); }
    apart "pid namespaces, same hostname" "${pid[@]}"
    # both are the same user inside, and so meet on one fabric
    [ "$(id -u)" -ne 0 ] || apart "user namespaces, same hostname" -U -r
    if possible "ipc, uts and net namespaces" unshare "${other[@]}" true; then
        [ "$(id -u)" -eq 0 ] || return 0
        pair unshare "${other[@]}"
        all_right "ipc, uts and net namespaces"
    fi
}

# What a process may see of others in /proc does not matter
case_hidepid()
{
    local mounts=("${namespace[@]}" -p -f)
    # shellcheck disable=SC2016
    local script='mount -t proc -o hidepid=2 none /proc && "$@"'
    possible "hidepid=2" "${mounts[@]}" bash -c "$script" hidepid true || return 0
    "${mounts[@]}" bash -c "$script" hidepid "$0" inner_hidepid ||
        not_ok "hidepid=2" "no result from inside"
}

# As a user, because root sees all processes
case_inner_hidepid()
{
    local user=()
    [ "$(id -u)" -ne 0 ] || user=("$programs/confine" uid 1001)
    board 2
    chmod 755 "$work"
    chmod 666 "$work/board"
    start 0 "${user[@]}"
    start 1 "${user[@]}"
    await
    all_right "hidepid=2"
    rm -rf /dev/shm/glex-1001
}

# ---- users ---------------------------------------------------------------------------------------

# What another user may not do to a running job, tried by him. Prints what he could.
intrude()
{
    # shellcheck disable=SC2016
    "$programs/confine" uid 1002 bash -c '
        ls "$0" 2>/dev/null
        cat "$0"/* 2>/dev/null | head -c 10
        rm -rf "$0" 2>/dev/null && echo removed
        : >"$0/n00000000.e0000" && echo made' "$fabric_dir" 2>/dev/null
    "$programs/confine" uid 1002 "$build/src/tools/glex_info" --clean 2>/dev/null | grep -i removed
}

case_users()
{
    local name="two users on one machine" could
    local fabric_dir=/dev/shm/glex-1001/$GLEX_FABRIC # of that user's jobs
    possible "$name" "$programs/confine" uid 1001 test -x "$programs/exchange" || return 0
    chmod 755 "$work"
    megabytes=0
    board 2
    chmod 666 "$work/board"
    possible "$name" "$programs/confine" uid 1001 test -w "$work/board" || return 0
    start 0 "$programs/confine" uid 1001
    start 1 "$programs/confine" uid 1001
    busy 2
    could=$(intrude) || :
    finish
    if [ -n "$could" ]; then
        not_ok "$name" "another user could: $could"
        return 0
    fi
    all_right "$name"
    # what the other one put there before is not trusted
    megabytes=10
    "$programs/confine" uid 1002 mkdir -p /dev/shm/glex-1003
    board 2
    chmod 666 "$work/board"
    start 0 "$programs/confine" uid 1003
    start 1 "$programs/confine" uid 1003
    await
    refused "a directory that another user has put there" \
        '/dev/shm/glex-1003 is owned by uid 1002 .*must belong to uid 1003'
    rm -rf /dev/shm/glex-1001 /dev/shm/glex-1003
}
