#!/usr/bin/env python3
"""Hold a matrix by ranks against what was counted through MPI's profiling interface.

    counted.py MATRIX.json PREFIX [--apart RANKS_PER_HOST] [--limit PERCENT]

PREFIX is PMPI_COUNT of pmpi_count.c. With --apart only pairs on different hosts are compared: what
stays in a host is on no wire. Prints a line for each pair that differs by more than the limit, and
the largest difference; exit status 1 if there is such a pair, or a pair that did not communicate.
"""
import argparse
import glob
import json
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("matrix")
    parser.add_argument("prefix")
    parser.add_argument("--apart", type=int, default=0)
    parser.add_argument("--limit", type=float, default=1.0)
    options = parser.parse_args()
    with open(options.matrix) as file:
        matrix = json.load(file)
    found = {(c["from"], c["to"]): c["payload_bytes"] for c in matrix["cells"]}
    expected = {}
    for name in glob.glob(options.prefix + ".*"):
        with open(name) as file:
            for line in file:
                a, b, count = line.split()
                expected[a, b] = int(count)
    worst = compared = 0
    for (a, b), count in sorted(expected.items()):
        if a == b or (options.apart and int(a) // options.apart == int(b) // options.apart):
            continue
        if count == 0:
            # Nothing but what the library itself sends, to set up connections.
            if found.get((a, b), 0) > 16384:
                print(f"{a} -> {b}: {found[a, b]} bytes, counted none")
                worst = 100
            continue
        compared += 1
        off = 100 * (found.get((a, b), 0) / count - 1)
        worst = max(worst, abs(off))
        if abs(off) > options.limit:
            print(f"{a} -> {b}: {found.get((a, b), 0)} bytes, counted {count}: {off:+.2f} %")
    print(f"{compared} pairs, largest difference {worst:.3f} %")
    sys.exit(worst > options.limit or compared == 0)


main()
