#!/bin/bash
# A server with a UCP listener: what the server holds does not grow with the number of its clients.
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

# With the first clients, the transport has begun to reuse the places of connections.
first=40
more=40

compile()
{
    # shellcheck disable=SC2046
    gcc -w -std=gnu11 $(configured UCX_CPPFLAGS "$build") -o "$work/listener" \
        "$(dirname "$0")/listener.c" -l:libucp.so.0 $(configured UCX_LIBS "$build")
}

test_listener()
{
    run listener 120 "$GLEXRUN" "$work/listener" "$first" "$more" || return 0
    finish listener counters_problem # a killed client leaves its file in shared memory
}

if compile >"$work/out" 2>&1; then
    # UCP connects by TCP, and then sends by glex.
    export UCX_TLS=$tls,tcp,self
    test_listener
else
    not_ok listener "cannot be compiled"
    show "$work/out"
fi
