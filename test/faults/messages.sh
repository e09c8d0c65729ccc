# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are shared with run and its other parts
# Case messages of run: what a user reads. docs/known-problems.md has a table of messages with a name
# for each row. The case provokes the message of each row and compares it with the row. So the
# program and the document cannot differ. Sourced.

messages_document=$top/docs/known-problems.md
messages_seen=()

# The rows of the table: "NAME<tab>MESSAGE"
message_rows()
{
    # shellcheck disable=SC2016 # the expression is of sed
    sed -n '/^## What the messages mean/,/^## /s/^| \([a-z_]*\) | `\([^`]*\)` |.*/\1\t\2/p' \
        "$messages_document"
}

# message NAME: somebody was told the message of this row. "..." in the row stands for any text.
message()
{
    local text pattern line
    messages_seen+=("$1")
    text=$(message_rows | sed -n "s/^$1\t//p")
    if [ -z "$text" ]; then
        not_ok "message $1" "not in the table of ${messages_document##*/}"
        return 0
    fi
    # shellcheck disable=SC2016 # no expansion is wanted in sed's expressions
    pattern=$(sed -e 's/[][\.*^$()+?{}|]/\\&/g' -e 's/\\\.\\\.\\\./.*/g' <<<"$text")
    line=$(cat "$work"/out.* 2>/dev/null | grep -m 1 -E -e "$pattern") || {
        not_ok "message $1" "nobody said '$text'"
        show "$work"/out.*
        return 0
    }
    ok "message $1"
    cut -c 1-500 <<<"# $line"
}

# A row whose condition cannot be made here
message_skip()
{
    messages_seen+=("$1")
    skip "message $1" "not possible here: $2"
}

# lost NAME SIGNAL [OPTION...]: process 1 of two ends by the signal, and process 0 says so. The rank
# is what a launcher would have set.
lost()
{
    local name=$1 signal=$2
    shift 2
    exchange_options=(--no-peer-errors "$@")
    megabytes=0
    board 2
    start 0
    PMIX_RANK=1 start 1
    busy 2
    kill "-$signal" "${pids[1]}"
    wait "${pids[0]}" 2>/dev/null || :
    kill -KILL "${pids[1]}" 2>/dev/null || :
    await
    exchange_options=()
    message "$name"
    if [ "$(grep -c 'process .* (rank 1)' "$work/out.0")" -ne 1 ]; then
        not_ok "message $name once" "process 0 names process 1 another number of times"
        show "$work/out.0"
    elif grep -q 'backtrace' "$work/out.0"; then
        not_ok "message $name" "it comes with a backtrace of the innocent process"
    else
        ok "message $name once, without a backtrace"
    fi
}

# With an error handler the program speaks, and glex is silent at the default level
lost_quietly()
{
    megabytes=0
    board 2
    start 0
    start 1
    busy 2
    kill -KILL "${pids[1]}"
    wait "${pids[1]}" 2>/dev/null || :
    sleep 1
    finish
    if grep -q 'glex: process' "$work/out.0"; then
        not_ok "no message to a program with an error handler" "$(grep glex: "$work/out.0")"
    else
        ok "no message to a program with an error handler"
    fi
    megabytes=10
}

# apart_message NAME COMMAND...: two processes, each started by the command
apart_message()
{
    local name=$1
    shift
    pair "$@"
    message "$name"
}

# A process that takes itself for one of another host
# shellcheck disable=SC2016
other_host=('printf "00000000-0000-0000-0000-%012x\n" $((RANDOM + 1)) >"$0.id.$$"
    mount --bind "$0.id.$$" /proc/sys/kernel/random/boot_id && exec "$@"')

messages_in_namespaces()
{
    local name
    if ! "${namespace[@]}" true 2>/dev/null; then
        for name in shm no_shm fabric host one_net networks nic_id; do
            message_skip "$name" "a mount namespace"
        done
        return 0
    fi
    apart_message shm in_shm size=256k
    # shellcheck disable=SC2016
    apart_message no_shm "${namespace[@]}" bash -c 'mount --bind /proc /dev/shm && exec "$@"' x
    apart_message fabric in_shm size=64m
    if "${namespace[@]}" bash -c "${other_host[0]}" "$work/host" true 2>/dev/null; then
        apart_message host "${namespace[@]}" bash -c "${other_host[0]}" "$work/host"
        messages_of_networks
    else
        for name in host one_net networks nic_id; do
            message_skip "$name" "mount --bind over the boot id"
        done
    fi
}

# hosts_message NAME COMMAND -- COMMAND: two processes that take each other for processes of another
# host. Each command is env with the variables of one process.
hosts_message()
{
    local name=$1 index=0 word
    local -a command=()
    shift
    board 2
    for word in "$@" --; do
        if [ "$word" != -- ]; then
            command+=("$word")
            continue
        fi
        start "$index" "${namespace[@]}" bash -c "${other_host[0]}" "$work/host$index" \
            env "GLEX_NET_KEY=$(printf %064d 39)" "${command[@]}"
        index=$((index + 1))
        command=()
    done
    await
    message "$name"
}

messages_of_networks()
{
    local name
    if [ ! -e "$build/src/glex/.libs/glex-net.so" ]; then
        for name in one_net networks nic_id; do
            message_skip "$name" "no network engine: configure found no libfabric"
        done
        return 0
    fi
    hosts_message one_net GLEX_NET=tcp/lo -- GLEX_NET_PORT=20000
    hosts_message networks GLEX_NET=tcp/lo -- GLEX_NET=tcp/lo GLEX_NET_PORT=21000
    # Each host has a loopback of its own, so the two need another interface with one address
    if ip -o -4 addr show up 2>/dev/null | grep -qv ' lo '; then
        hosts_message nic_id GLEX_NET=tcp -- GLEX_NET=tcp
    else
        message_skip nic_id "no interface beside the loopback"
    fi
}

messages_of_processes()
{
    if "$programs/confine" ptrace true >/dev/null 2>&1; then
        board 2
        start 0 "$programs/confine" ptrace
        start 1
        await
        message ptrace
    else
        message_skip ptrace "a seccomp filter"
    fi
    local pid=(-p -f)
    [ "$(id -u)" -eq 0 ] || pid=(-r -p -f)
    if unshare "${pid[@]}" true 2>/dev/null; then
        apart_message namespace unshare "${pid[@]}"
    else
        message_skip namespace "a pid namespace"
    fi
}

# A process whose address has another version of the wire protocol, as of another openglex
message_of_version()
{
    export GLEX_NIC_ID=7654321
    board 2
    exchange_options=(--wire-version=1)
    start 0
    exchange_options=()
    start 1
    await
    unset GLEX_NIC_ID
    message version
}

# What only root can make
messages_of_users()
{
    if ! "$programs/confine" uid 1003 test -x "$programs/exchange" 2>/dev/null; then
        message_skip setuid "another user"
        message_skip owner "another user"
        return 0
    fi
    exchange_options=(--setuid=1003)
    board 2
    chmod 755 "$work"
    chmod 666 "$work/board"
    start 0
    start 1
    patience=5
    await
    patience=60
    exchange_options=()
    message setuid
    "$programs/confine" uid 1002 mkdir -p /dev/shm/glex-1003
    board 2
    chmod 666 "$work/board"
    start 0 "$programs/confine" uid 1003
    start 1 "$programs/confine" uid 1003
    await
    message owner
    rm -rf /dev/shm/glex-1003
}

# Mistakes in variables: the processes need not communicate
messages_of_variables()
{
    board 2
    GLEX_SHMDIR=/tmp "$build/src/tools/glex_info" >"$work/out.0" 2>&1 || :
    message variable
    GLEX_LOG=loud "$build/src/tools/glex_info" >"$work/out.0" 2>&1 || :
    message value
    UCX_TLS=posix,self "$top/contrib/glexrun" true >"$work/out.0" 2>&1 || :
    message tls
}

case_messages()
{
    local name text
    export GLEX_UCX_TLS=glex,self
    unset UCX_TLS
    lost killed KILL
    lost exited TERM --on-term=exit
    lost closed TERM --on-term=close
    lost_quietly
    messages_in_namespaces
    messages_of_processes
    apart_message files "$programs/confine" nofile 10
    UCX_GLEX_EP_MPQ_CAPACITY=65536 UCX_GLEX_EP_EQ_CAPACITY=65536 \
        apart_message memory "$programs/confine" as 24000000
    message_of_version
    messages_of_users
    messages_of_variables
    while IFS=$'\t' read -r name text; do
        case " ${messages_seen[*]} " in
        *" $name "*) ;;
        *) not_ok "message $name" "no test provokes '$text'" ;;
        esac
    done < <(message_rows)
}
