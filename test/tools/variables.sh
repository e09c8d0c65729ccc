#!/bin/sh
# Variables GLEX_* that nothing reads are reported. libglex knows every variable that the documents
# describe and that the sources read.
# shellcheck source=test/tools/lib.sh
. "${srcdir:-.}/lib.sh"
top=${srcdir:-.}/../..

expect 0 env GLEX_SHMDIR=/tmp "$glex_info"
complains 'nothing reads the variable GLEX_SHMDIR: is GLEX_SHM_DIR meant\?$'
expect 0 env GLEX_SOMETHING_ELSE_ENTIRELY=1 "$glex_info"
complains 'nothing reads the variable GLEX_SOMETHING_ELSE_ENTIRELY: docs/variables.md has all$'
expect 0 env GLEX_SHMDIR=/tmp GLEX_LOG=error "$glex_info"
[ ! -s "$work/err" ] || fail "a warning at GLEX_LOG=error"

# shellcheck disable=SC2016 # backquotes of Markdown
described=$(sed -n 's/^| `\(GLEX_[A-Z_]*\)`.*/\1/p' "$top/docs/variables.md")
read_by_sources=$(grep -rhoE '(getenv|env_[a-z_]+)\("GLEX_[A-Z_]+"' "$top/src" |
    sed 's/.*"\(.*\)"/\1/')
[ "$(echo "$described" | wc -l)" -gt 10 ] || fail "docs/variables.md is read wrongly"
[ "$(echo "$read_by_sources" | wc -l)" -gt 10 ] || fail "the sources are read wrongly"
for name in $described $read_by_sources; do
    limited env "$name=" "$glex_info" > "$work/out" 2> "$work/err" < /dev/null || :
    ! grep "nothing reads the variable $name:" "$work/err" || fail "libglex does not know $name"
    echo "$described" | grep -qx "$name" || fail "docs/variables.md lacks $name"
done
