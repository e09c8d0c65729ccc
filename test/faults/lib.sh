# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are shared with run and its other parts
# Shared by the cases of run: how processes of a job are started and awaited, and how it is told
# what became of them. Sourced.

# ---- processes -----------------------------------------------------------------------------------

board()
{
    rm -f "$work"/board "$work"/out.*
    "$programs/exchange" make "$work/board" "$1"
    pids=()
    statuses=()
}

# start INDEX [COMMAND...]: that process of the job, started by a command that confines it
start()
{
    local index=$1
    shift
    "$@" "$top/contrib/glexrun" "$programs/exchange" "${exchange_options[@]}" run "$work/board" \
        "$index" "$megabytes" >"$work/out.$index" 2>&1 </dev/null &
    pids[index]=$!
}

# A job without end (megabytes=0) shall end in order.
finish()
{
    "$programs/exchange" finish "$work/board"
    await
}
exchange_options=()

# Wait until all have ended. One that does not is killed, and has status "late". What the shell says
# of those that were killed is not for the user.
await()
{
    reap 2>/dev/null
}

reap()
{
    local index tries=$((patience * 10))
    for index in "${!pids[@]}"; do
        while kill -0 "${pids[index]}" 2>/dev/null && [ "$tries" -gt 0 ]; do
            sleep 0.1
            tries=$((tries - 1))
        done
        if [ "$tries" -eq 0 ] && kill -KILL "${pids[index]}" 2>/dev/null; then
            statuses[index]=late
            wait "${pids[index]}" 2>/dev/null || :
        else
            statuses[index]=0
            wait "${pids[index]}" 2>/dev/null || statuses[index]=$?
        fi
    done
}

# Two processes, both confined alike
pair()
{
    board 2
    start 0 "$@"
    start 1 "$@"
    await
}

# Until so many endpoints are there, and their owners in the midst of their work
busy()
{
    local tries=100
    while [ "$tries" -gt 0 ] && [ "$(segments)" -lt "$1" ]; do
        sleep 0.1
        tries=$((tries - 1))
    done
    sleep 0.5
}

segments()
{
    find "$fabric_dir" -type f 2>/dev/null | wc -l
}

# ---- results -------------------------------------------------------------------------------------

# saw PATTERN: whether somebody was told so; prints it as a user sees it, without time and place
saw()
{
    local line
    line=$(cat "$work"/out.* 2>/dev/null | grep -m 1 -E -e "$1") || return 1
    line=$(sed -E 's/^\[[0-9.]+\] \[[^]]*\] +[^ ]+ +UCX +//' <<<"$line")
    printf '# %s\n' "${line:0:300}" >>"$work/seen"
}

show_seen()
{
    cat "$work/seen" 2>/dev/null || :
    rm -f "$work/seen"
}

failed_case()
{
    not_ok "$1" "$2"
    rm -f "$work/seen"
    show "$work"/out.*
}

# said NAME [PATTERN...]: somebody was told each; the last step of a case
said()
{
    local name=$1 pattern
    shift
    for pattern; do
        saw "$pattern" || {
            failed_case "$name" "nobody said '$pattern'"
            return 0
        }
    done
    ok "$name"
    show_seen
}

# all_right NAME [PATTERN...]: every byte was right; and what was said meanwhile
all_right()
{
    local name=$1 index
    shift
    for index in "${!statuses[@]}"; do
        if [ "${statuses[index]}" != 0 ] || ! grep -q 'bytes were right' "$work/out.$index"; then
            failed_case "$name" "process $index: status ${statuses[index]}"
            return 0
        fi
    done
    said "$name" "$@" 'bytes were right'
}

# refused NAME PATTERN...: all ended by themselves with an error, not by a signal, and said why
refused()
{
    local name=$1 index
    shift
    for index in "${!statuses[@]}"; do
        case ${statuses[index]} in
        0 | late | 13[0-9] | 14[0-9])
            failed_case "$name" "process $index: status ${statuses[index]}"
            return 0
            ;;
        esac
    done
    said "$name" "$@"
}

# possible NAME COMMAND...: whether the condition can be made here; else it is skipped
possible()
{
    local name=$1
    shift
    if ! "$@" >/dev/null 2>&1; then
        skip "$name" "not possible here: $*"
        return 1
    fi
}
