#!/usr/bin/env python3
"""routes.py FABRIC CLUSTER... -- FILE...: counts SMPs that arrived beyond the border of the manager
that sent them. Each FILE is HOST.smps of the shim: lines "DIRECTED-ROUTE COUNT", ports from the
manager's own on. Prints the number; with no SMPs at all it fails, since then nothing was counted."""
import os
import re
import sys


def read_fabric(path):
    links, node = {}, None
    with open(path, encoding="ascii") as lines:
        for line in lines:
            head = re.match(r'(?:Switch|Hca)\s+\d+\s+"([^"]+)"', line)
            link = re.match(r'\[(\d+)\]\s+"([^"]+)"\[(\d+)\]', line)
            if head:
                node = head.group(1)
            elif link:
                links[node, int(link.group(1))] = (link.group(2), int(link.group(3)))
    return links


def main():
    at = sys.argv.index("--")
    links, total, beyond = read_fabric(sys.argv[1]), 0, 0
    for path in sys.argv[at + 1:]:
        host = os.path.basename(path)[:-len(".smps")]
        own = host.split("-")[0]
        with open(path, encoding="ascii") as lines:
            for line in lines:
                route, count = line.split()
                node = host
                for port in filter(None, route.split(",")):
                    node = links.get((node, int(port)), (None, 0))[0]
                    if node is None:
                        break
                total += int(count)
                if node is not None and node.split("-")[0] != own:
                    beyond += int(count)
                    print(f"# {host}: {count} SMPs to {node} by {route}", file=sys.stderr)
    if total == 0:
        sys.exit("routes.py: the shim saw no SMP")
    print(beyond)


main()
