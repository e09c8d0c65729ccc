#!/bin/bash
# shellcheck disable=SC2016 # commands for eval
# The alert rules: promtool reads them, and they fire when they should and not before.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
command -v promtool >/dev/null || { echo "skip rules: no promtool here"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
begin
cp "$here/../../src/udmon/service/udmon-rules.yml" "$here/rules_test.yml" "$dir/"
check "promtool reads the rules" eval 'promtool check rules "$dir/udmon-rules.yml" >"$dir/rules.log"'
check "they fire when they should" eval 'cd "$dir" && promtool test rules rules_test.yml >rules.log'
