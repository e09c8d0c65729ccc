#!/bin/sh
# Every source file of the transport stands in the table of docs/architecture.md, and includes headers
# with their folder. includes.py checks the directions.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/../clients/common.sh"

top=${srcdir:-.}/../..

# table HEAD: a line FOLDER REST... for each row of the table whose first column is headed HEAD, a
# pattern of sed; a row without a folder belongs to the one above.
table()
{
    sed -n "/^| $1 |/,/^\$/p" "$top/docs/architecture.md" | tr -d '`,/' |
        awk -F'|' 'NR > 2 && $2 !~ /[.]/ {
            gsub(/ /, "", $2); if ($2 != "") folder = $2; print folder $3 }' > "$work/table"
    cut -d' ' -f1 "$work/table" | uniq > "$work/order"
    [ -s "$work/order" ] || fail "docs/architecture.md has no table that begins with $1"
}

table 'folder'
for file in "$top"/src/uct/glex/*/*.[ch]; do
    ! grep -n '^#include "glex_' "$file" || fail "$file includes a header without its folder"
    folder=$(basename "$(dirname "$file")")
    subject=${file##*/glex_}
    grep -q "^$folder .*\<${subject%.*}\>" "$work/table" || fail "$file is not in the table"
done
