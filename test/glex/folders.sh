#!/bin/bash
# Folders of src/glex include only those below them: docs/architecture.md, "libglex, folder by folder".
set -eu
src=${srcdir:-.}/../../src/glex
order=(base shm core debug coll net api)

below=
for folder in "${order[@]}"; do
    if grep -n '#include "[a-z_]*/' "$src/$folder"/*.[ch] |
        grep -vE "#include \"($below$folder|common)/"; then
        echo "folders.sh: src/glex/$folder may include $below$folder"
        exit 1
    fi
    below="$below$folder|"
done
