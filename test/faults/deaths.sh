# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are shared with run and its other parts
# Cases of run: what happens to processes, and what dead ones leave. Sourced.

# ---- what happens to processes -------------------------------------------------------------------

case_fork()
{
    exchange_options=(--fork)
    megabytes=100
    pair
    all_right "fork with a live worker: children that leave, exit and exec"
    exchange_options=()
}

case_stopped()
{
    megabytes=0
    board 2
    start 0
    start 1
    busy 2
    kill -STOP "${pids[1]}"
    sleep 10
    if ! kill -0 "${pids[0]}" 2>/dev/null; then
        failed_case "a peer that is stopped for 10 s" "the other one ended meanwhile"
        kill -KILL "${pids[1]}"
        return 0
    fi
    kill -CONT "${pids[1]}"
    sleep 1
    finish
    all_right "a peer that is stopped for 10 s"
}

case_killed()
{
    megabytes=0
    board 2
    start 0
    start 1
    busy 2
    kill -KILL "${pids[@]}" 2>/dev/null || : # the second may have ended for want of the first
    await
    if [ "$(segments)" -eq 0 ]; then
        not_ok "segments left by kill -9" "nothing was left, so nothing was tested"
        return 0
    fi
    megabytes=10
    pair
    if [ "$(segments)" -ne 0 ]; then
        failed_case "segments left by kill -9" "they are still there after the next job"
        return 0
    fi
    all_right "segments left by kill -9 are gone after the next job"
}

# One that sleeps on its event descriptor is woken by UCP's keepalive and finds it then
case_asleep()
{
    local name="a peer dies while the worker sleeps" status=0
    rm -f "$work"/out.*
    UCX_KEEPALIVE_INTERVAL=1s timeout -k 5 90 \
        "$top/contrib/glexrun" "$programs/sleeper" >"$work/out.0" 2>&1 </dev/null || status=$?
    if [ "$status" -ne 0 ] || ! saw 'sleeper: told after'; then
        failed_case "$name" "status $status"
        return 0
    fi
    ok "$name"
    show_seen
}

# Without peer error mode UCP ends the program: with a line, and soon
case_no_error_mode()
{
    local name="a peer dies, without peer error mode"
    exchange_options=(--no-peer-errors)
    megabytes=0
    board 3
    start 0
    start 1
    start 2
    busy 3
    kill -KILL "${pids[2]}"
    patience=20
    await
    exchange_options=()
    for index in 0 1; do
        if [ "${statuses[index]}" = late ] || [ "${statuses[index]}" = 0 ]; then
            failed_case "$name" "process $index: status ${statuses[index]}"
            return 0
        fi
        if ! grep -q "glex: process ${pids[2]} was killed" "$work/out.$index"; then
            failed_case "$name" "process $index does not name the peer"
            return 0
        fi
    done
    saw 'glex: process .* was killed' || :
    ok "$name"
    show_seen
}

# ---- segments that nobody would make -------------------------------------------------------------

# Files among the segments that are none, as if somebody had them: a job is not disturbed, and
# glex_info names each.
case_damaged()
{
    local name="damaged segments beside a job" kind n=0 file problem fd owned=()
    local kinds=(noise short version order)
    local problems=("not a segment" "too short for a segment" "another version"
        "another byte order")
    megabytes=0
    board 2
    start 0
    start 1
    busy 2
    cp "$(find "$fabric_dir" -type f | head -n 1)" "$work/segment"
    for kind in "${kinds[@]}"; do
        file=$fabric_dir/n00000abc.e000$n
        n=$((n + 1))
        damaged "$kind" >"$file"
        exec {fd}<"$file" # somebody owns it
        flock "$fd"
        owned+=("$fd")
    done
    "$build/src/tools/glex_info" -v >"$work/info" 2>&1 || :
    finish
    for fd in "${owned[@]}"; do
        exec {fd}<&-
    done
    for problem in "${problems[@]}"; do
        if ! grep -m 1 "damaged .*$problem" "$work/info" >"$work/line"; then
            not_ok "$name" "glex_info does not say '$problem'"
            show "$work/info"
            return 0
        fi
        sed 's/^ */# glex_info: /' "$work/line" >>"$work/seen"
    done
    all_right "$name"
    "$build/src/tools/glex_info" --clean >/dev/null 2>&1 || :
    if [ "$(segments)" -eq 0 ]; then
        ok "glex_info --clean removes damaged segments that nobody owns"
    else
        not_ok "glex_info --clean removes damaged segments" "$(ls "$fabric_dir")"
    fi
}

# damaged KIND: such a file, made from a real segment
damaged()
{
    case $1 in
    noise) head -c 1000000 /dev/urandom ;;
    short) head -c 100 "$work/segment" ;;
    version)
        head -c 8 "$work/segment"
        printf '\377\0\0\0'
        tail -c +13 "$work/segment"
        ;;
    order)
        printf 'glex-seg'
        tail -c +9 "$work/segment"
        ;;
    esac
}

# ---- MPI -----------------------------------------------------------------------------------------

# rank_dies LIBRARY: one of four ranks is killed in the midst of its traffic
rank_dies()
{
    local name="a rank of $1 dies" job process victim="" status=0 tries=$((patience * 10))
    OMPI_MCA_btl=self timeout -k 5 $((2 * patience)) \
        "$top/contrib/glexrun" "mpirun.$1" -n 4 "$build/test/mpi/$1/many_to_one" 1000000000 \
        >"$work/out.0" 2>&1 </dev/null &
    job=$!
    busy 4
    for process in $(process_tree "$job"); do
        [ "$(cat "/proc/$process/comm" 2>/dev/null)" != many_to_one ] || victim=$process
    done
    [ -z "$victim" ] || kill -KILL "$victim"
    while kill -0 "$job" 2>/dev/null && [ "$tries" -gt 0 ]; do
        sleep 0.1
        tries=$((tries - 1))
    done
    if [ "$tries" -eq 0 ]; then
        mapfile -t tree < <(process_tree "$job")
        kill -KILL "${tree[@]}" 2>/dev/null || :
    fi
    wait "$job" 2>/dev/null || status=$?
    if [ -z "$victim" ] || [ "$tries" -eq 0 ] || [ "$status" -eq 0 ]; then
        failed_case "$name" "victim '$victim', status $status, seconds left $((tries / 10))"
        return 0
    fi
    saw '[Ss]ignal 9|Killed|KILL' || :
    ok "$name: the job ends with status $status"
    show_seen
}

case_mpi()
{
    local library
    for library in openmpi mpich; do
        if [ ! -x "$build/test/mpi/$library/many_to_one" ]; then
            skip "a rank of $library dies" "not built"
            continue
        fi
        rank_dies "$library"
    done
}

# ---- kills at random moments ---------------------------------------------------------------------

# show_kills SUFFIX OPTION...: a job of contrib/kills, a line for each value of UCX_GLEX_CHANNELS
show_kills()
{
    local suffix=$1 channels kills early told slow median max right leaked status=0
    shift
    "$top/contrib/kills" -q "$@" >"$work/kills" 2>"$work/out.0" || status=$?
    while read -r channels kills early told slow median max right leaked; do
        if [ "$leaked" = nothing ]; then
            ok "kills, $channels$suffix"
            printf '# %s kills, %s error handlers called, after %s ms at most\n' \
                "$kills" "$told" "$max"
        else
            not_ok "kills, $channels$suffix" "$kills $early $told $slow $median $max $right: $leaked"
        fi
    done < <(grep -E '^(er|sr)' "$work/kills")
    grep -q '^sr ' "$work/kills" || failed_case "kills$suffix" "status $status, no table"
}

case_kills()
{
    show_kills "" 60
    # Senders put; endpoints are then closed whose peer left before.
    UCX_RNDV_SCHEME=put_zcopy show_kills ", put_zcopy" --ranks 6 27
}
