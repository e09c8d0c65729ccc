#!/bin/bash
# packaging/compose without Docker: compose.py says how, and what that leaves out.
set -u
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck disable=SC2154 # make check says where
timeout -k 10 300 /usr/bin/python3 "$here/compose.py" "$here/../../packaging/compose" "$abs_top_builddir"
