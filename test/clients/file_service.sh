#!/bin/sh
# One server, many clients: requests by message, data by RDMA.
# shellcheck source=test/clients/common.sh
. "${srcdir:-.}/common.sh"

right='every byte is right$'
job 2 "$right" file_service
job 16 "$right" file_service
job 4 "$right" file_service 3
(
    # A busy NIC, and requests that overtake each other.
    export GLEX_FAULT=busy=0.3,mp_reorder=0.2
    job 3 "$right" file_service 2
)
assert_no_segments
