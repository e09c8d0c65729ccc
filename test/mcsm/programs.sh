#!/bin/bash
# The programs' command lines, without a fabric.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
bin=${OPENGLEX_BUILD:?}/src/mcsm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# expect STATUS WORD COMMAND...: the exit code, and a word of what is printed.
expect()
{
    local status=0 wanted=$1 word=$2 out
    shift 2
    out=$("$@" 2>&1 </dev/null) || status=$?
    if [ "$status" -ne "$wanted" ] || ! grep -q -- "$word" <<<"$out"; then
        printf '%s: exit code %s, not %s, or no "%s" in:\n%s\n' "$*" "$status" "$wanted" "$word" "$out"
        bad=1
    fi
}

PATH=$top/src/mcsm:$PATH
expect 0 'usage' mcsm-import --help
expect 0 'mcsm-import' mcsm-import --version
expect 2 'usage' mcsm-import --nonsense
expect 2 'usage' mcsm-import
for program in mcsm mcsm-ctl mcsm-check; do
    expect 0 Usage "$bin/$program" --help
    expect 0 "$program [0-9]" "$bin/$program" --version
    expect 2 Usage "$bin/$program" --nonsense
    expect 2 Usage "$bin/$program"
done
expect 0 'cluster left' "$bin/mcsm" --check-config "$top/src/mcsm/mcsm.conf.example"
printf '[cluster]\nname = x\nlmc = 9\n' >"$work/bad.conf"
expect 3 "$work/bad.conf:3: " "$bin/mcsm" --check-config "$work/bad.conf"
expect 3 "$work/bad.conf:3: " "$bin/mcsm" -f "$work/bad.conf" --foreground
expect 3 'No such file' "$bin/mcsm" -f "$work/nothing.conf"
expect 3 'does mcsm run' "$bin/mcsm-ctl" -s "$work/nothing.sock" status
expect 2 "expected: path A B" "$bin/mcsm-ctl" -s "$work/nothing.sock" path 1
expect 2 "expected: status" "$bin/mcsm-ctl" -s "$work/nothing.sock" status now
expect 2 "expected: dump lft" "$bin/mcsm-ctl" -s "$work/nothing.sock" dump
expect 2 "expected: dump lft" "$bin/mcsm-ctl" -s "$work/nothing.sock" dump nonsense
expect 3 'does mcsm run' "$bin/mcsm-ctl" -s "$work/nothing.sock" dump lft
expect 3 'does mcsm run' "$bin/mcsm-ctl" -s "$work/nothing.sock" worst
# The manual page has each command of the help.
while read -r command; do
    grep -q "^\..*\<$command\>" "$top/docs/man/mcsm-ctl.8" ||
        { echo "mcsm-ctl.8 lacks $command"; bad=1; }
done < <("$bin/mcsm-ctl" --help | sed -n 's/^  \([a-z]\{1,\}\( [a-z]\{2,\}\)\{0,1\}\) .*/\1/p')
expect 3 'nothing.dump' "$bin/mcsm-check" "$work/nothing.dump"
echo nonsense >"$work/bad.dump"
expect 3 "bad.dump:1: " "$bin/mcsm-check" "$work/bad.dump"

# Two clusters that fit, and one that does not.
"$top/contrib/ibsim-fabric" fattree "$work/net" --clusters 2
expect 0 '2 clusters, 0 contradictions' "$bin/mcsm-check" --config "$work"/net/*.conf
sed 's/^lid-max = .*/lid-max = 40/; /^\[neighbour/,/^$/d; /^\[border/,/^$/d' "$work/net/a.conf" >"$work/net/c.conf"
expect 1 'contradictions' "$bin/mcsm-check" --config "$work"/net/*.conf

# The fabrics that are kept here are what the generator makes.
same()
{
    "$top/contrib/ibsim-fabric" "${@:2}" >/dev/null
    cmp "$top/test/mcsm/fabrics/$1.net" "$3/fabric.net" || bad=1
}
same paper paper "$work/paper"
same chain chain "$work/chain" --clusters 4 --leaves 2 --down 1 --spines 1
same hypercube hypercube "$work/cube" --size 4 --down 1
same torus torus "$work/torus" --size 4 --down 1
same two-trees fattree "$work/trees" --clusters 2 --leaves 4 --down 2 --spines 2
same random random "$work/random" --clusters 3 --seed 7

# A dump with each fault.
cat >"$work/good.dump" <<'END'
mcsm-dump 1
cluster a 1 9
node switch 0x1 4 "s1"
lid 0x1 0 0x1 1
node switch 0x2 4 "s2"
lid 0x2 0 0x2 2
node ca 0x10 1 "h1"
lid 0x10 1 0x11 3
node ca 0x20 1 "h2"
lid 0x20 1 0x21 4
link 0x1 1 0x10 1
link 0x2 1 0x20 1
link 0x1 2 0x2 2
link 0x1 3 0x2 3
lft 0x1 1-1:0 2-2:2 3-3:1 4-4:2
lft 0x2 1-1:2 2-2:0 3-3:2 4-4:1
mft 0x1 49152 1 2
mft 0x2 49152 1 2
end
END
expect 0 '^good' "$bin/mcsm-check" "$work/good.dump"
sed 's/4-4:1$/4-4:2/' "$work/good.dump" >"$work/loop.dump"
expect 1 'loop: from s1 to LID 4' "$bin/mcsm-check" "$work/loop.dump"
sed 's/ 4-4:2$//' "$work/good.dump" >"$work/lost.dump"
expect 1 's1 has no route' "$bin/mcsm-check" "$work/lost.dump"
sed 's/49152 1 2$/49152 1 2 3/' "$work/good.dump" >"$work/circle.dump"
expect 1 'goes in a circle' "$bin/mcsm-check" "$work/circle.dump"
sed 's/0x21 4$/0x21 3/' "$work/good.dump" >"$work/conflict.dump"
expect 1 'LID 3 is both' "$bin/mcsm-check" "$work/conflict.dump"
sed 's/^end$/border 0x1 4 b 0x9 1 transit\nend/' "$work/good.dump" >"$work/border.dump"
expect 1 'known to cluster a only' "$bin/mcsm-check" "$work/border.dump"
expect 3 'ends too early' "$bin/mcsm-check" <(sed '$d' "$work/good.dump")
expect 0 '"good": *true' "$bin/mcsm-check" --json --svg "$work/x.svg" "$work/good.dump"
expect 0 '</svg>' cat "$work/x.svg"
sed 's/^end$/rings 0x1 40444\nrings 0x2 40444\nend/' "$work/good.dump" >"$work/levels.dump"
expect 0 '^good' "$bin/mcsm-check" "$work/levels.dump"
expect 3 'cluster a has no line "rings 0x0*1"' "$bin/mcsm-check" <(sed /^rings.0x1/d "$work/levels.dump")
expect 3 'rings 0x0*2 4044: expected' "$bin/mcsm-check" <(sed 's/\(^rings.0x2.*\)4$/\1/' "$work/levels.dump")
expect 3 'rings 0x0*2 45444: expected' "$bin/mcsm-check" <(sed 's/\(^rings.0x2 4\)0/\15/' "$work/levels.dump")

# Four clusters of one switch and one host each, in a ring that all packets go round one way: no
# cluster has a credit loop, all together have one.
for i in 0 1 2 3; do
    next=$(((i + 1) % 4)) before=$(((i + 3) % 4))
    lfts=
    for to in 0 1 2 3; do
        host=2 own=2
        [ "$to" -ne "$i" ] || host=1 own=0
        lfts+=" $((10 * to + 1))-$((10 * to + 1)):$host $((10 * to + 2))-$((10 * to + 2)):$own"
    done
    cat >"$work/ring$i.dump" <<END
mcsm-dump 1
cluster c$i $((10 * i + 1)) $((10 * i + 9))
node switch 0x10$i 4 "s$i"
lid 0x10$i 0 0x10$i $((10 * i + 2))
node ca 0x20$i 1 "h$i"
lid 0x20$i 1 0x30$i $((10 * i + 1))
link 0x10$i 1 0x20$i 1
border 0x10$i 2 c$next 0x10$next 3 transit
border 0x10$i 3 c$before 0x10$before 2 transit
lft 0x10$i$lfts
end
END
done
expect 0 'credit loop over 4 links: > s' "$bin/mcsm-check" "$work"/ring?.dump
expect 0 'credit loops      yes' "$bin/mcsm-check" "$work"/ring?.dump
exit "$bad"
