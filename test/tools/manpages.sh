#!/bin/sh
# The man pages are well formed, and name every option that --help names, and no other.
# shellcheck source=test/tools/lib.sh
. "${srcdir:-.}/lib.sh"

for tool in glex_info glex_perf; do
    page=$srcdir/../../docs/man/$tool.1
    man --warnings -E UTF-8 -l -Tutf8 "$page" > "$work/page" 2> "$work/warnings"
    [ ! -s "$work/warnings" ] || { cat "$work/warnings"; fail "$page has warnings"; }
    col -b < "$work/page" | grep -o -e '--[a-z][a-z-]*' | sort -u > "$work/in_page"
    limited ../../src/tools/$tool --help | grep -o -e '--[a-z][a-z-]*' | sort -u > "$work/in_help"
    diff "$work/in_help" "$work/in_page" || fail "$page and --help of $tool differ"
done
