#!/bin/bash
# coverage.sh BUILD: which lines of src/glex and src/uct/glex the unit tests run. For
# `make coverage`, in a build directory that was configured with --enable-coverage.
#
# Prints a line for each of the two, and writes what ran and what did not to BUILD/coverage, to be
# read with a browser. Fails if a test fails, or if it is fewer than 85 of 100 lines.
set -eu
# shellcheck source=contrib/lib.sh
. "$(dirname "$0")/../contrib/lib.sh"

build=$(cd "$1" && pwd)
out=$build/coverage
least=85
# Not optimised, and with counts, tests take long for what they think is a hang.
export UCT_TEST_HANG_TIME=300
parts=(src/glex src/uct/glex)
tests=(glex uct tools clients)

quiet_lcov()
{
    quietly lcov --quiet --rc lcov_branch_coverage=0 "$@"
}

# Of files that no test touched, too, all lines count.
capture()
{
    local part directories=()
    for part in "${parts[@]}"; do
        directories+=(--directory "$build/$part")
    done
    quiet_lcov --capture "${directories[@]}" --include "$top/src/*" "$@"
}

run_tests()
{
    local test
    for test in "${tests[@]}"; do
        say "test/$test"
        quietly make -C "$build/test/$test" check || die "a test in test/$test failed"
    done
}

# Lines of a part that ran, in percent with one digit.
percentage()
{
    lcov --summary "$1" 2>&1 | sed -n 's/^ *lines\.*: \([0-9.]*\)%.*/\1/p'
}

report()
{
    local part lines status=0
    quietly genhtml --quiet --output-directory "$out" "$out/all.info" || die "genhtml failed"
    for part in "${parts[@]}"; do
        quiet_lcov --extract "$out/all.info" "$top/$part/*" --output-file "$out/part.info"
        lines=$(percentage "$out/part.info")
        printf '%s: %s %% of the lines\n' "$part" "$lines"
        [ "${lines%.*}" -ge "$least" ] || status=1
    done
    say "line by line: $out/index.html"
    [ "$status" -eq 0 ] || die "fewer than $least % of the lines"
}

have lcov || die "lcov is needed: contrib/setup installs it"
[ -n "$(find "$build/src/glex" -name '*.gcno' -print -quit)" ] ||
    die "$build was not configured with --enable-coverage"
rm -rf "$out"
mkdir -p "$out"
find "$build" -name '*.gcda' -delete
run_tests
capture --initial --output-file "$out/none.info"
capture --output-file "$out/run.info"
quiet_lcov --add-tracefile "$out/none.info" --add-tracefile "$out/run.info" \
    --output-file "$out/all.info"
report
