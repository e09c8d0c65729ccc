# shellcheck shell=sh
# For the tests of the tools, beside what the clients' tests have.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/../clients/common.sh"

# shellcheck disable=SC2034 # used by who reads this file
glex_info=../../src/tools/glex_info
# shellcheck disable=SC2034
glex_perf=../../src/tools/glex_perf

# expect STATUS COMMAND...: runs it, its output into $work/out and $work/err.
expect()
{
    want=$1
    shift
    got=0
    limited "$@" > "$work/out" 2> "$work/err" < /dev/null || got=$?
    [ "$got" = "$want" ] || {
        cat "$work/out" "$work/err" >&2
        fail "exit status $got, not $want, of: $*"
    }
}

# The last output is JSON of which an expression is true.
json()
{
    jq -e "$@" < "$work/out" > /dev/null || {
        cat "$work/out" >&2
        fail "not so in JSON: $*"
    }
}

says()
{
    grep -Eq -e "$1" "$work/out" || {
        cat "$work/out" >&2
        fail "does not say: $1"
    }
}

complains()
{
    grep -Eq -e "$1" "$work/err" || {
        cat "$work/err" >&2
        fail "does not complain: $1"
    }
}

# start_owner NAME [ENDPOINTS]: its pid and addresses are in $work/NAME.pid and NAME.addresses. Its
# stdin is a pipe that a process of its own holds open: it ends in order when stop_owner ends that.
owners=
start_owner()
{
    mkfifo "$work/$1.in" "$work/$1.out"
    sleep 300 > "$work/$1.in" &
    eval "holder_$1=$!"
    ./ep_owner "${2:-1}" < "$work/$1.in" > "$work/$1.out" &
    eval "pid_$1=$!"
    echo "$!" > "$work/$1.pid"
    owners="$owners $1"
    while read -r line && [ "$line" != ready ]; do
        echo "$line" >> "$work/$1.addresses"
    done < "$work/$1.out"
    [ "$line" = ready ] || fail "the owner of endpoints did not start"
}

stop_owner()
{
    eval "kill \$holder_$1"
    eval "wait \$pid_$1" || fail "the owner of endpoints failed"
    eval "pid_$1= holder_$1="
}

kill_owner()
{
    eval "kill -9 \$pid_$1"
    eval "wait \$pid_$1" 2> /dev/null || :
    eval "kill \$holder_$1"
    eval "pid_$1= holder_$1="
}

clean_up_owners()
{
    for owner in $owners; do
        for kind in pid holder; do
            eval "process=\$${kind}_$owner"
            [ -z "$process" ] || kill -9 "$process" 2> /dev/null || :
        done
    done
    clean_up
}
trap clean_up_owners EXIT
