#!/bin/bash
# The man pages are well formed, and name every option that --help names.
# shellcheck source=test/commatrix/lib.sh
. "$(dirname "$0")/lib.sh"

for tool in "$commatrix" "$here/../../src/commatrix/commatrix-collect"; do
    page=$here/../../docs/man/$(basename "$tool").1
    man --warnings -E UTF-8 -l -Tutf8 "$page" >"$work/page" 2>"$work/warnings"
    [ ! -s "$work/warnings" ] || fail "$page: $(cat "$work/warnings")"
    col -b <"$work/page" | grep -oe '--[a-z][a-z-]*[a-z]' | sort -u >"$work/in_page"
    status 0 "$tool" --help
    grep -oe '--[a-z][a-z-]*[a-z]' "$work/out" | sort -u >"$work/in_help"
    missing=$(comm -23 "$work/in_help" "$work/in_page")
    [ -z "$missing" ] || fail "$page does not name $missing"
    status 0 "$tool" --version
done
