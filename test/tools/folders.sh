#!/bin/sh
# The folders of libglex and of the transport include each other as docs/architecture.md says: its two
# tables list them from the highest to the lowest, and a file includes headers of its own folder and
# of lower ones. Every source file of the transport stands in its table.
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

# level FOLDER: which one it is, counted from the highest; nothing: it is not in the table
level()
{
    grep -nx "$1" "$work/order" | cut -d: -f1
}

# check DIRECTORY: its files include nothing above them
check()
{
    for file in "$top/$1"/*/*.[ch]; do
        folder=$(basename "$(dirname "$file")")
        [ "$folder" != net_engine ] || continue # a module of its own
        from=$(level "$folder")
        [ -n "$from" ] || fail "$1/$folder is not in docs/architecture.md"
        sed -n 's|^#include "\([a-z_]*\)/.*|\1|p' "$file" | sed '/^common$/d' > "$work/includes"
        while read -r header; do
            to=$(level "$header")
            [ "${to:-0}" -ge "$from" ] ||
                fail "$file includes a header of $header/, which is not below $folder/"
        done < "$work/includes"
    done
}

table '.src.glex..'
check src/glex

table 'folder'
check src/uct/glex
for file in "$top"/src/uct/glex/*/*.[ch]; do
    ! grep -n '^#include "glex_' "$file" || fail "$file includes a header without its folder"
    folder=$(basename "$(dirname "$file")")
    subject=${file##*/glex_}
    grep -q "^$folder .*\<${subject%.*}\>" "$work/table" || fail "$file is not in the table"
done
