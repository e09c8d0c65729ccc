#!/bin/bash
# What unexpected messages take of the receiver's memory: over glex not more than over posix. UCP
# keeps each of them in a buffer as long as the longest active message of any transport.
set -eu
# shellcheck source=test/real/lib.sh
. "$(dirname "$0")/lib.sh"

messages=20000
# What a connection takes once it is used, such as FIFOs and receive buffers, in KiB.
connection=4096

# growth TRANSPORT LIBRARY BYTES: in $grown, KiB of address space and of resident memory
growth()
{
    local transport=$1 library=$2 bytes=$3
    use_transport "$transport"
    run "$name" 120 "$GLEXRUN" "mpirun.$library" -n 2 "$programs/$library/flood" "$bytes" \
        "$messages" || return 1
    read -r _ size rss < <(grep '^growth ' "$work/out") || :
}

# flood LIBRARY BYTES [WORD]. Over posix the senders write into the receiver's memory. The resident
# memory of the receiver lacks the pages of long messages that the receiver has not read yet, so it
# counts as at least the length of all messages.
flood()
{
    local library=$1 bytes=$2 name="flood $1 $2 bytes${3:+ $3}" size rss posix_size posix_rss
    local payload=$((messages * $2 / 1024))
    growth posix "$library" "$bytes" || return 0
    posix_size=$size
    posix_rss=$((rss > payload ? rss : payload))
    growth glex "$library" "$bytes" || return 0
    if [ "$size" -gt $((posix_size + posix_size / 10 + connection)) ]; then
        not_ok "$name" "$size KiB of address space, posix $posix_size"
    elif [ "$rss" -gt $((posix_rss + posix_rss / 10 + connection)) ]; then
        not_ok "$name" "$rss KiB of resident memory, posix $posix_rss"
    else
        finish "$name" program_problem counters_problem
    fi
}

if [ "$tls" != glex ]; then
    skip flood "a comparison of glex with posix"
    exit 0
fi
for library in mpich openmpi; do
    if ! have "mpirun.$library"; then
        skip "flood $library" "mpirun.$library is not installed"
        continue
    fi
    for bytes in 64 1024 8192; do
        flood "$library" "$bytes"
    done
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 flood "$library" 1024 "huge pages"
done
