#!/bin/bash
# `make install` brings all that a host needs to run udmon, in files of the places that a package has
# them.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2154 # make check says where
top=$abs_top_builddir
dir=$(mktemp -d)
failed=0
trap 'rm -rf "$dir"; exit $failed' EXIT

explain() {
    tail -n 20 "$dir/log" | sed 's/^/# /'
}

# Into a tree of its own, so that nothing of this machine is touched.
installs() {
    make -C "$top/src/udmon" install DESTDIR="$dir/root" >"$dir/log" 2>&1 &&
        make -C "$top/docs/man" install DESTDIR="$dir/root" >>"$dir/log" 2>&1
}

prefix=$(sed -n 's/^prefix = //p' "$top/Makefile")
root=$dir/root$prefix

has() {
    [[ -s $root/$1 ]]
}

unit_runs_what_is_there() {
    local program
    program=$(sed -n 's/^ExecStart=\([^ ]*\).*/\1/p' "$root/lib/systemd/system/$1.service")
    [[ -x $dir/root$program ]]
}

example_is_right() {
    "$top/src/udmon/udmon-agent" -t -c "$root/share/openglex/udmon/agent.conf.example" 2>"$dir/log"
}

check "make install" installs
for program in udmon-agent udmon-collector udmon-top; do
    check "$program" has "bin/$program"
    check "its manual page" has "share/man/man8/$program.8"
done
for unit in udmon-agent udmon-collector; do
    check "the unit of $unit" has "lib/systemd/system/$unit.service"
    check "starts what was installed" unit_runs_what_is_there $unit
done
check "the user that they run as" grep -q '^u udmon ' "$root/lib/sysusers.d/udmon.conf"
check "the example configuration" has share/openglex/udmon/agent.conf.example
check "is one that the agent takes" example_is_right
check "the alert rules" has share/openglex/udmon/udmon-rules.yml
check "and those of the collector" has share/openglex/udmon/udmon-alerts.yml
check "Grafana's dashboard" has share/openglex/udmon/udmon-dashboard.json
check "headers" has include/udmon.h
check "the library" [ -e "$root/lib/libudmon.so" ]
