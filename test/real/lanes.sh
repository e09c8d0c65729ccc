#!/bin/bash
# Which transport UCP chooses for messages, by ucx_info's list of lanes, for every value of UCX_TLS
# that a document of ours names, and for "all". UCP compares numbers that each transport states
# about itself, so this is a test of the numbers in src/uct/glex/tl/glex_query.c.
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

if [ "$tls" != glex ]; then
    skip lanes "a test of glex"
    exit 0
fi
export UCX_LOG_LEVEL=error

# Each value with glex in it, once. "all" and UCX's own transports of one host are what programs
# have that set nothing.
documented_values()
{
    {
        grep -r -h -o -E 'UCX_TLS=[a-z_,]+' "$top/README.md" "$top/docs" --include='*.md' \
            --include='*.1' | sed 's/^UCX_TLS=//' | grep -w glex
        printf '%s\n' all glex,posix,self glex,sysv,self glex,posix,cma,self glex,shm,self
    } | sort -u
}

# lanes FEATURES PLACE: the lanes of an endpoint, one a line: its transport, and what it is used for
lanes()
{
    "$GLEXRUN" ucx_info -e -u "$1" -P "$2" |
        sed -n -E 's|^# *lane\[[0-9]+\]: *[0-9]+:([a-z0-9_]+)/.* -> [^ ]* *(.*)|\1 \2|p'
}

# What is wrong with the lanes in $work/lanes: USE must be on a lane of glex.
lane_problem()
{
    local use=$1 found
    found=$(awk -v use="$use" '{ for (i = 2; i <= NF; i++) if ($i == use) print $1 }' \
        "$work/lanes" | paste -s -d ' ')
    [ "$found" = glex ] || printf '"%s" is on %s\n' "$use" "${found:-no lane}"
}

# Messages with and without wake-up, and with error handling. The first lane for many bytes
# (rma_bw#0, am_bw#0) is glex as well.
test_value()
{
    local value=$1 features use uses problem
    for features in tarms tarmsw tarmswe; do
        UCX_TLS=$value lanes "$features" intra >"$work/lanes"
        uses='am rma_bw#0' # UCX 1.18 and later have no lane for many bytes of messages
        ! grep -q 'am_bw#0' "$work/lanes" || uses="$uses am_bw#0"
        problem=$(for use in $uses; do lane_problem "$use"; done | paste -s -d ';')
        if [ -n "$problem" ]; then
            not_ok "lanes $value" "features $features: $problem"
            return 0
        fi
    done
    ok "lanes $value"
}

# The length from which on UCP sends tag messages by rendezvous. UCX 1.16 and later print tables.
first_rendezvous()
{
    UCX_TLS=glex "$GLEXRUN" ucx_info -e -u t -P intra | sed -n -E \
        -e 's/^# *tag_send: .*\.\.([0-9]+)\.\.<rndv>.*/\1/p' \
        -e '/ucp_tag_send\* from host/,/rendezvous/s/^# \| *([0-9]+)\.\.inf \|.* rendezvous .*/\1/p'
}

# 16 KB go in fragments, 64 KB by rendezvous.
test_rendezvous()
{
    local first
    first=$(first_rendezvous)
    if [ "${first:-0}" -gt 16384 ] && [ "$first" -le 65536 ]; then
        ok rendezvous
    else
        not_ok rendezvous "begins at ${first:-no length}"
    fi
}

# The NIC's counters say the same of a program that exchanges messages.
test_traffic()
{
    local value=$1
    printf 'size8 -t tag_lat -s 8 -n 1000 -w 10\n' >"$work/batch"
    UCX_TLS=$value run "traffic $value" 60 "$(dirname "$0")/perftest_pair" "$work/batch" || return 0
    finish "traffic $value" counters_problem
}

while read -r value; do
    test_value "$value"
done < <(documented_values)
test_rendezvous
test_traffic all
test_traffic glex,posix,self
