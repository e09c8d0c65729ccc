#!/bin/bash
# libglex's management calls against the emulated network.
set -eu
dir=$(mktemp -d)
export GLEX_INM=$dir/fabric
../../src/inm/inm-fabric -t small -c model >"$dir/out" &
fabric=$!
trap 'kill $fabric 2>/dev/null || true; wait $fabric || true; rm -rf "$dir"' EXIT
until grep -q ready "$dir/out"; do
    kill -0 $fabric
    sleep 0.05
done
./mgmt_test
