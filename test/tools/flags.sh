#!/bin/sh
# The table "state x flag" of docs/protocol.md says the same as conn/glex_rules.h of the transport,
# and names each one-bit flag of a VC.
# shellcheck source=test/tools/lib.sh
. "${srcdir:-.}/lib.sh"
top=${srcdir:-.}/../..

# FLAG and a letter for each state, as in the source
sed -n '/^| flag | WAIT_MPQ |/,/^$/p' "$top/docs/protocol.md" | tr -d '` ' |
    awk -F'|' -v letters=WCAOPF 'NR > 2 && NF > 8 {
        states = ""
        for (i = 1; i <= 6; ++i) states = states ($(i + 2) == "x" ? substr(letters, i, 1) : "-")
        print $2, states }' > "$work/table"
grep -o '{"[a-z_]*", "[A-Z-]*"}' "$top/src/uct/glex/conn/glex_rules.h" | tr -d '{",}' > "$work/rules"
[ "$(wc -l < "$work/rules")" -ge 10 ] || fail "conn/glex_rules.h is read wrongly"
diff "$work/table" "$work/rules" || fail "docs/protocol.md and conn/glex_rules.h do not agree"

sed -n 's/^ *uint8_t \([a-z_]*\) : 1;.*/\1/p' "$top/src/uct/glex/core/glex_vc.h" > "$work/flags"
[ "$(wc -l < "$work/flags")" -ge 8 ] || fail "core/glex_vc.h is read wrongly"
while read -r flag; do
    grep -q "^$flag " "$work/rules" || fail "conn/glex_rules.h has no rule for $flag"
done < "$work/flags"
