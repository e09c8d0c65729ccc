#!/bin/bash
# Folders of src/glex include only those below them: docs/architecture.md, "libglex, folder by folder".
set -eu
src=${srcdir:-.}/../../src/glex
order=(base shm core debug net coll api) # net and coll do not include each other

below=
for folder in "${order[@]}"; do
    [ "$folder" = coll ] && allowed=${below/net|/} || allowed=$below
    if grep -n '#include "[a-z_]*/' "$src/$folder"/*.[ch] |
        grep -vE "#include \"($allowed$folder|common)/"; then
        echo "folders.sh: src/glex/$folder may include $allowed$folder"
        exit 1
    fi
    below="$below$folder|"
done
