#!/bin/bash
# udmon-top in terminals of several sizes, over the page's server, whose nodes are known: widths,
# scrolling, sorting, filter, a collector that is not there.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
command -v tmux >/dev/null || { echo "skip udmon-top: tmux is not installed"; exit 77; }
# shellcheck disable=SC2154 # make check says where
top=$abs_top_builddir/src/udmon/udmon-top
dir=$(mktemp -d)
failed=0 server='' terminals=0
address=127.0.0.1:$((10000 + $$ % 2200 * 10 + 6))
export TMUX_TMPDIR=$dir

finish() {
    terminal kill-server 2>/dev/null
    exec 3>&-
    [[ -z $server ]] || wait "$server"
    rm -rf "$dir"
    exit $failed
}
trap finish EXIT

# Each terminal has a server of tmux of its own: one that ends is not asked for the next.
terminal() {
    tmux -L "top$terminals" "$@"
}

screen() {
    terminal capture-pane -p -t top
}

explain() {
    screen | head -n 12 | sed 's/^/# /'
}

keys() {
    terminal send-keys -t top "$@"
}

# start WIDTH HEIGHT OPTION...: in a terminal of that size
start() {
    local size=(-x "$1" -y "$2")
    shift 2
    terminal kill-server 2>/dev/null
    terminals=$((terminals + 1))
    terminal -f /dev/null new-session -d -s top "${size[@]}" "$top -i 1 $*; sleep 1000"
    terminal set -g status off
}

# line N EXPRESSION: of the screen
line() {
    screen | sed -n "$1p" | grep -qE "$2"
}

cuts_nothing_in_two() {
    # each line of nodes ends with a whole column: as many words as the title has
    screen | awk 'NR == 2 { sub(/CPU %/, "CPU"); sub(/memory %/, "memory"); gsub(/kB\/s/, ""); sub(/rdma in/, "rdmain");
                            sub(/rdma out/, "rdmaout"); words = NF }
        NR > 2 && NF > 0 && NF != words { wrong = 1 } END { exit wrong || words < 2 }'
}

mkfifo "$dir/commands"
"$abs_top_builddir/test/udmon/page_server" "$address" "$dir/history.db" 40 <"$dir/commands" >"$dir/answers" &
server=$!
exec 3>"$dir/commands"
await grep -q ready "$dir/answers"

for width in 20 40 71 80 132 200; do
    start $width 20 -u "$address"
    check "$width columns: nodes are shown" await line 3 '^cn1 '
    check "$width columns: no column is cut" await cuts_nothing_in_two
done
check "200 columns: all columns" await line 2 'CPU %.*rdma out.*series.*received.*lost'

start 100 12 -u "$address" # room for 10 nodes
await line 3 '^cn1 '
check "as many as there is room for" await line 12 '^cn10 '
keys Down Down
check "scrolling by lines" await line 3 '^cn3 '
keys PageDown
check "by pages" await line 3 '^cn13 '
keys End
check "to the end" await line 12 '^cn40 '
keys Home
check "and back" await line 3 '^cn1 '
keys '>'
check "sorting by the first column" await line 1 'sorted by CPU %'
keys r
check "and the other way: the busiest first" await line 3 '^cn40 .*down'
keys / c n 2
check "a filter while it is typed" await line 1 '^10 of 11 nodes up.*filter: cn2_|^9 of 11 nodes up.*filter: cn2_'
keys Enter '<'
check "a filter stays" await line 3 '^cn29 '
keys / Escape
check "until it is taken away" await line 1 'of 40 nodes up'
terminal resize-window -t top -x 60 -y 8
check "a terminal that is made smaller" await cuts_nothing_in_two
keys q
check "q ends it" await line 1 '^$'

start 100 12 -u "http://$address" -f cn3
check "the collector of another host, by its URL, and a filter from the start" await line 3 '^cn3 '
check "only what matches" await line 4 '^cn30 '
! "$top" -b -u 127.0.0.1:1 >"$dir/out" 2>"$dir/err"
check "no collector: it says where" grep -q 'udmon-top: no answer from http://127.0.0.1:1/api/nodes (' "$dir/err"
check "for scripts: a line for each node" [ "$("$top" -b -u "$address" | grep -c '^cn')" -eq 40 ]
