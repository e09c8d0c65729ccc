#!/bin/bash
# contrib/bench and contrib/scale, in their shortest form: they measure what they say, and what is no
# time keeps its bound. How fast it was decides nothing here.
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

# What is in bytes, or counted, and who got how much of it, is as it must be.
bounds_problem()
{
    python3 - "$work/figures.json" <<'EOF'
import json
import sys

rows = json.load(open(sys.argv[1]))
broken = ['%(what)s: %(value)g %(unit)s' % row for row in rows
          if row['met'] is False and row['unit'] not in ('ns', 'x')]
broken += ['%(what)s: %(value)g' % row for row in rows
           if row['met'] is False and 'slowest sender' in row['what']]
print('; '.join(broken) if rows else 'no figures', end='')
EOF
}

# A ratio of what was measured on both sides, for each row.
rows_problem()
{
    python3 - "$work/figures.json" <<'EOF'
import json
import sys

rows = json.load(open(sys.argv[1]))['rows']
broken = [row['what'] for row in rows if not row['median'] or row['median'] <= 0]
print('; '.join(broken) if rows else 'no rows', end='')
EOF
}

scale()
{
    local name="scale $1"
    rm -f "$work/figures.json"
    run "$name" 240 "$top/contrib/scale" --quick --peers 50 --ranks 4 --rounds 1 \
        --json "$work/figures.json" "$1" || return 0
    finish "$name" bounds_problem
}

bench()
{
    local name="bench $1"
    rm -f "$work/figures.json"
    run "$name" 240 "$top/contrib/bench" --quick --rounds 1 --only "$1" \
        --json "$work/figures.json" || return 0
    finish "$name" rows_problem
}

for subject in endpoints connections simulated promotion storm memory; do
    scale $subject
done
for row in bare am.lat.8 am.bw.8192 put.zc.65536 put.nic.65536 get.nic.4096 \
    tag.rate.8 wakeup openmpi.rate mpich.bw.1048576; do
    bench $row
done
