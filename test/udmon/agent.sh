#!/bin/bash
# udmon-agent by itself: a module from a shared library, its samples through each processing node,
# configurations that it reads anew and that it refuses.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2154 # make check says where
agent=$abs_top_builddir/src/udmon/udmon-agent
module=$abs_top_builddir/test/udmon/.libs/agent_module.so
dir=$(mktemp -d)
failed=0
trap 'rm -rf "$dir"; exit $failed' EXIT

explain() {
    sed 's/^/# /' "$dir/out" "$dir/log"
}

# What the agent prints, until it has printed a line that begins with $1; its configuration is read
# from standard input.
prints() {
    local pid
    { printf '[agent]\nmodule = %s\n' "$module" && cat; } >"$dir/conf"
    "$agent" -c "$dir/conf" >"$dir/out" 2>"$dir/log" &
    pid=$!
    await grep -q "^$1" "$dir/out"
    kill $pid
    wait $pid
}

# A line as it has to be, to the last digit.
has_line() {
    grep -qxF "$1" "$dir/out"
}

refuses() {
    { printf '[agent]\nmodule = %s\n' "$module" && cat; } >"$dir/conf"
    ! "$agent" -t -c "$dir/conf" >"$dir/out" 2>"$dir/log" && grep -q "$1" "$dir/log"
}

prints 'ramp_mean 5.5 ' <<'END'
[ramp]
type = ramp
interval = 0.01
to = rate, window
[rate]
type = rate
to = print
[window]
type = window
window = 4
to = print
[print]
type = print
END
check "rate of a counter" has_line 'ramp_total_rate{kind="test"} 5 1000'
check "and again" has_line 'ramp_total_rate{kind="test"} 5 7000'
check "no rate of the first sample" [ "$(grep -c '_rate.* 0$' "$dir/out")" -eq 0 ]
check "no rate of a gauge" [ "$(grep -c '^ramp_rate' "$dir/out")" -eq 0 ]
check "least of a window" has_line 'ramp_min 0 4000'
check "greatest of a window" has_line 'ramp_max 3 4000'
check "mean of a window" has_line 'ramp_mean 1.5 4000'
check "mean of the next" has_line 'ramp_mean 5.5 8000'

prints 'ramp 8 ' <<'END'
[ramp]
type = ramp
interval = 0.01
to = threshold
[threshold]
type = threshold
above = 7
below = 1
to = print
[print]
type = print
END
check "threshold passes what is beyond, and that only" \
    [ "$(grep '^ramp ' "$dir/out" | head -n 2 | tr '\n' ';')" = "ramp 0 0;ramp 8 8000;" ]

prints 'ramp 42 ' <<'END'
[ramp]
type = ramp
interval = 0.01
first = 42
to = print
[print]
type = print
END
check "a module's own option" [ "$(head -n 1 "$dir/out")" = 'ramp_total{kind="test"} 210 42000' ]

# "ramp N" of two sensors: [steady] counts from 0, [changed] from $1. Their numbers do not meet
# before 20 s are over.
two_ramps() {
    cat <<-END
	[agent]
	module = $module
	[steady]
	type = ramp
	interval = 0.05
	to = print
	[changed]
	type = ramp
	interval = 0.05
	first = $1
	to = print
	[print]
	type = print
	END
}

two_ramps 400 >"$dir/conf"
"$agent" -c "$dir/conf" >"$dir/out" 2>"$dir/log" &
reloaded=$!
await grep -q '^ramp 403 ' "$dir/out"
two_ramps 900 >"$dir/conf"
kill -HUP $reloaded
check "SIGHUP: a node described otherwise begins anew" await grep -q '^ramp 903 ' "$dir/out"
kill $reloaded
wait $reloaded
# shellcheck disable=SC2016 # it is awk's
check "SIGHUP: a node described as before goes on, nothing missing and nothing twice" \
    awk '$1 == "ramp" && $2 < 400 { wrong += ($2 != count++) } END { exit wrong || count < 6 }' \
    "$dir/out"
# shellcheck disable=SC2016
check "SIGHUP: and what it replaced has ended" \
    awk '$1 == "ramp" && $2 >= 900 { begun = 1 }
        $1 == "ramp" && $2 >= 400 && $2 < 900 { wrong += begun }
        END { exit wrong }' "$dir/out"

check "a module's option out of range is refused" refuses 'conf:6: node ramp: first' <<'END'
[ramp]
type = ramp
to = print
first = 2000
[print]
type = print
END
check "a threshold without a limit is refused" refuses 'node threshold: needs an option' <<'END'
[threshold]
type = threshold
to = print
[print]
type = print
END
check "a circle is refused" refuses 'conf:5: node a: to: its output comes back' <<'END'
[a]
type = rate
to = b
[b]
type = rate
to = a
END
check "an unknown type is refused" refuses 'conf:4: node x: .*bogus' <<'END'
[x]
type = bogus
END
module=$dir/none.so
check "a module that is not there is refused" refuses 'conf:2: module .*none.so' <<'END'
[print]
type = print
END
