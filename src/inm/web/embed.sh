#!/bin/sh
# embed.sh FILE...: print a C file that has these files of the page as arrays.
set -eu
echo '#include "inm/server/http/web.h"'
n=0
for file in "$@"; do
    echo "static const unsigned char file_${n}[] = {"
    od -An -v -tu1 "$file" | sed 's/  */,/g; s/^,//; s/$/,/'
    echo "};"
    n=$((n + 1))
done
echo "const struct web_file web_files[] = {"
n=0
for file in "$@"; do
    name=/$(basename "$file")
    case $name in
    *.html) type="text/html; charset=utf-8"; name=/ ;;
    *.js) type="text/javascript; charset=utf-8" ;;
    *.css) type="text/css; charset=utf-8" ;;
    *) type="application/octet-stream" ;;
    esac
    echo "    {\"$name\", \"$type\", file_$n, sizeof(file_$n)},"
    n=$((n + 1))
done
echo "};"
echo "const size_t web_files_num = $n;"
