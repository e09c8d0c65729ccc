#!/bin/bash
# The systemd units: systemd reads them without a complaint, and they run as a user of their own in
# a sandbox (exposure at most 2.0 of 10 by systemd's own measure).
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
command -v systemd-analyze >/dev/null || { echo "skip units: no systemd-analyze here"; exit 77; }
# shellcheck disable=SC2154 # make check says where
bin=$abs_top_builddir/src/udmon
dir=$(mktemp -d)
failed=0
trap 'rm -rf "$dir"; exit $failed' EXIT

explain() {
    sed 's/^/# /' "$dir/log"
}

reads_well() {
    systemd-analyze verify --man=no "$1" 2>"$dir/log" && [[ ! -s $dir/log ]]
}

sandboxed() {
    systemd-analyze security --no-pager --offline=true --threshold=20 "$1" >"$dir/log" 2>&1
}

for unit in udmon-agent udmon-collector; do
    # the programs of this build, since verify looks whether they are there
    sed "s,^ExecStart=[^ ]*,ExecStart=$bin/$unit," "$bin/service/$unit.service" \
        >"$dir/$unit.service"
    check "$unit: systemd reads the unit" reads_well "$dir/$unit.service"
    check "$unit: its sandbox" sandboxed "$dir/$unit.service"
    check "$unit: a user of its own" grep -qx 'User=udmon' "$dir/$unit.service"
done
