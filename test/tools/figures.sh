#!/bin/sh
# The README's table of speed is of one run, whose whole table is in docs/performance.md. A reader who
# has both must not find two figures for one thing.
# shellcheck source=test/tools/lib.sh
. "${srcdir:-.}/lib.sh"
top=${srcdir:-.}/../..

# The rows of a document's tables of contrib/bench: name, glex, other, unit, what other is, ratio and
# spread. The short table does not name channel ER. Runs are told apart by the line of the machine.
rows()
{
    awk '/processors; Linux/ { machine = $0 }
        /^```/ { inside = !inside }
        inside && / [0-9.]+\.\.[0-9.]+( |$)/ {
            sub(/ *[<>]= [0-9.]+ *(NOT MET|met)$/, "")
            sub(/, ER /, " ")
            gsub(/  +/, " ")
            sub(/ $/, "")
            print machine ": " $0
        }' "$1"
}

rows "$top/README.md" > "$work/readme"
rows "$top/docs/performance.md" > "$work/performance"
[ "$(wc -l < "$work/readme")" -ge 10 ] || fail "README.md is read wrongly"
[ "$(wc -l < "$work/performance")" -ge 20 ] || fail "docs/performance.md is read wrongly"
while IFS= read -r row; do
    grep -qxF -- "$row" "$work/performance" || fail "not in docs/performance.md: $row"
done < "$work/readme"
