# shellcheck shell=bash
# What the tests of the programs have in common; sourced. The sourcing script has `failed`, and may
# replace `explain`.

# Called after a check that failed: print what helps.
explain() {
    :
}

# check WHAT COMMAND...: a line of the result
check() {
    local what=$1
    shift
    if "$@"; then
        echo "ok $what"
    else
        echo "not ok $what"
        # shellcheck disable=SC2034 # the sourcing script exits with it
        failed=1
        explain
    fi
}

# Until a command succeeds, for a generous time.
await() {
    local i
    for ((i = 0; i < 300; i++)); do
        ! "$@" || return 0
        sleep 0.1
    done
    return 1
}
