#!/bin/sh
# The folders of the transport include each other as docs/architecture.md says: the table there lists
# them from the highest to the lowest, and a file includes headers of its own folder and of lower
# ones. Every folder and every source file stands in the table.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/../clients/common.sh"

top=${srcdir:-.}/../..
table=$work/table

# One line FOLDER/ FILE... for each row of the table; a row without a folder belongs to the one above.
sed -n '/^| folder | file/,/^$/p' "$top/docs/architecture.md" | tr -d '`,' |
    awk -F'|' 'NR > 2 { gsub(/ /, "", $2); if ($2 != "") folder = $2; print folder $3 }' > "$table"
[ -s "$table" ] || fail "docs/architecture.md has no table of the transport's folders"

# level FOLDER: its row among the folders, counted from the highest
level()
{
    awk -v folder="$1/" '$1 != last { last = $1; ++n } $1 == folder { print n; exit }' "$table"
}

cd "$top/src/uct/glex" || fail "there is no src/uct/glex"
for file in */*.[ch]; do
    folder=${file%/*}
    from=$(level "$folder")
    [ -n "$from" ] || fail "$folder/ is not in the table of docs/architecture.md"
    sed -n 's|^#include "\(.*/glex_[a-z_]*\.h\)".*|\1|p' "$file" > "$work/includes"
    while IFS= read -r header; do
        to=$(level "${header%/*}")
        [ "${to:-0}" -ge "$from" ] || fail "$file includes $header, which is not below it"
    done < "$work/includes"
    ! grep -n '^#include "glex_' "$file" || fail "$file includes a header without its folder"
    subject=${file##*/glex_}
    grep -q "^$folder/ .*\<${subject%.*}\>" "$table" || fail "$file is not in the table"
done
