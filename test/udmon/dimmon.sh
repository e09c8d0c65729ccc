#!/bin/bash
# The module for DiMMon between two real DiMMon agents, built here from the source that configure
# was told by --with-dimmon=DIR: data arrives unchanged, also after the receiving agent was
# restarted; a wrong address or secret is a message, and the agent goes on.
#
# Its Lua is Debian's LuaJIT. UDMON_TEST_SCHEMES names the networks, UDMON_TEST_HOST the receiver's
# address and UDMON_TEST_SOURCE the sender's, as for udmon_test.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
source=${DIMMON_SOURCE:-}
top=${abs_top_builddir:-}
skip() {
    echo "skipped: $*"
    exit 77
}
[[ -n $source && -n $top ]] || skip "configure was not told DiMMon's source (--with-dimmon=DIR)"
[[ -f /usr/include/luajit-2.1/lua.hpp ]] || skip "DiMMon needs LuaJIT: install libluajit-5.1-dev"
module=$top/src/udmon/dimmon
dir=$(mktemp -d)
agent=$dir/dimmon
failed=0 pids=()
export LD_LIBRARY_PATH=$top/src/udmon/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

finish() {
    [[ ${#pids[@]} -eq 0 ]] || kill "${pids[@]}" 2>/dev/null
    wait
    [[ $failed -eq 0 ]] || tail -n 15 "$dir"/*.log | sed 's/^/# /'
    rm -rf "$dir"
    exit $failed
}
trap finish EXIT

# The agent by its own makefiles, with Debian's LuaJIT in place of a copy of LuaJIT's source. What
# make check was told is not for them.
make_agent() {
    env -u MAKEFLAGS -u MAKEOVERRIDES -u CFLAGS -u CXXFLAGS -u CPPFLAGS -u LDFLAGS -u LIBS \
        make -C "$agent/$1" TOPDIR="$agent" VENDOR_LDFLAGS= \
        VENDOR_CPPFLAGS=-I/usr/include/luajit-2.1 "${@:2}"
}

build_agent() {
    mkdir -p "$agent"/{vendor,lib,bin}
    cp -r "$source"/*.[ch] "$source"/*.mk "$source"/{Makefile,modules,src} "$agent/"
    cp "$source/vendor/dmm.vendor.mk" "$agent/vendor/"
    make_agent . main && make_agent src/lib/dmm-lua.ll &&
        make_agent modules/luacontrol LIBS=-lluajit-5.1 &&
        ${CC:-cc} -O -g -D_GNU_SOURCE -shared -fPIC -I"$agent" \
            -o "$agent/lib/libdata.so" "${srcdir:-.}/dimmon_data.c"
}

# What both configurations begin with; modules are loaded from the build tree.
config_head() {
    printf '%s\n' "$agent/lib/libluacontrol.so" "$agent/lib/libdata.so" \
        "$module/.libs/libnet_udmon.so" == luacontrol ==
    cat <<-END
	package.path = package.path .. ';$agent/lib/?.lua'
	package.cpath = package.cpath .. ';$agent/lib/lib?.so;'
	dmm = require('dmm')
	ffi = require('ffi')
	dmm.ll_ipath = '$agent/lib/?.i;$module/?.i'
	dmm.hl_ipath = '${srcdir:-.}/../../src/udmon/dimmon/?.lua'
	local net_udmon = assert(dmm.require_interface('net/udmon'))
	END
}

sender_config() {
    config_head
    cat <<-END
	local send = net_udmon.Send:new()
	send:connect_to{addr = '$1', secret_file = '$dir/secret', source = '${UDMON_TEST_SOURCE:-}'}
	local source = dmm.Module:new('test/source')
	source:connect('out', send, 'in')
	local timer = dmm.Timer:new()
	timer:setperiodic(0, 5000000)
	source:timer_subscribe(timer)
	END
}

receiver_config() {
    config_head
    cat <<-END
	local recv = net_udmon.Recv:new()
	recv:bind{addr = '$1', secret_file = '$dir/secret'}
	local sink = dmm.Module:new('test/sink')
	recv:connect('out', sink, 'in')
	END
}

# start NAME: the agent with configuration NAME.conf; its process is then the last of pids.
start() {
    (cd "$agent" && exec "$agent/bin/dimmon" -c "$dir/$1.conf" 2>>"$dir/$1.log") &
    pids+=($!)
}

stop_last() {
    local last=$((${#pids[@]} - 1))
    kill "${pids[last]}"
    wait "${pids[last]}" 2>/dev/null
    unset "pids[last]"
}

unchanged() {
    [[ $(grep -c 'sink: [0-9]* unchanged' "$dir/receiver.log") -ge $1 ]]
}

# Numbers of pieces have come in once each, in order.
in_order() {
    sed -n 's/.*sink: \([0-9]*\) .*/\1/p' "$dir/receiver.log" | sort -cnu
}

data_between_agents() {
    local url=$1://${UDMON_TEST_HOST:-127.0.0.1}:$port
    : >"$dir/receiver.log"
    sender_config "$url" >"$dir/sender.conf"
    receiver_config "$url" >"$dir/receiver.conf"
    start sender
    start receiver
    check "$1: data arrives at another agent" await unchanged 300
    stop_last
    start receiver
    check "$1: the receiving agent restarted is found again" await unchanged 500
    check "$1: nothing is changed" [ "$(grep -c 'sink: .* changed' "$dir/receiver.log")" -eq 0 ]
    check "$1: nothing comes twice" in_order
    stop_last
    stop_last
}

# An agent with a statement that has to fail with a message, and one after it that has to work.
refuses() {
    local what=$1 message=$2
    {
        config_head
        printf '%s\n' "local ok, err = pcall(function() $3 end)" "dmm.log(ffi.C.DMM_LOG_ERR, err)" \
            "dmm.log(ffi.C.DMM_LOG_ERR, 'goes on')"
    } >"$dir/wrong.conf"
    : >"$dir/wrong.log"
    start wrong
    check "$what is a message" await grep -q "$message" "$dir/wrong.log"
    check "$what: the agent goes on" await grep -q 'goes on' "$dir/wrong.log"
    check "$what: and lives" kill -0 "${pids[-1]}"
    stop_last
}

umask 077
echo "something nobody guesses" >"$dir/secret"
build_agent >"$dir/build.log" 2>&1 || { check "the agent builds from $source" false && exit; }
port=$((10000 + $$ % 2200 * 10)) # below those that the kernel gives to clients: 32768 and more
for scheme in ${UDMON_TEST_SCHEMES:-tcp}; do
    data_between_agents "$scheme"
    port=$((port + 1))
done
refuses "a wrong address to send to" "Cannot connect to nonsense" \
    "net_udmon.Send:new():connect_to{addr = 'nonsense'}"
refuses "a wrong address to listen on" "Cannot listen on tcp://192.0.2.1:4999" \
    "net_udmon.Recv:new():bind{addr = 'tcp://192.0.2.1:4999'}"
refuses "a missing secret" "Cannot listen on tcp://127.0.0.1:$port" \
    "net_udmon.Recv:new():bind{addr = 'tcp://127.0.0.1:$port', secret_file = '$dir/none'}"
refuses "a second connection of one node" "it has been connected" \
    "local s = net_udmon.Send:new() for i = 1, 2 do s:connect_to{addr = 'tcp://127.0.0.1:9'} end"
