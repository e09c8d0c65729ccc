#!/usr/bin/env python3
"""compare.py FABRIC LFTS...: follows the packets of every pair of hosts through forwarding tables
as dump_lfts(8) prints them, independently of mcsm-check. For each LFTS file prints "FILE pairs P
lost L hops H max_load M"; H is the sum over all pairs. With two files also "different N": how many
pairs have other hop counts in the second one."""
import re
import sys


def read_fabric(path):
    links, hosts, node = {}, [], None
    with open(path, encoding="ascii") as lines:
        for line in lines:
            head = re.match(r'(Switch|Hca)\s+\d+\s+"([^"]+)"', line)
            link = re.match(r'\[(\d+)\]\s+"([^"]+)"\[(\d+)\]', line)
            if head:
                node = head.group(2)
                if head.group(1) == "Hca":
                    hosts.append(node)
            elif link:
                links[node, int(link.group(1))] = link.group(2)
    return links, hosts


def read_tables(path):
    tables, lids, switch = {}, {}, None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            head = re.match(r"Unicast lids .* guid 0x[0-9a-f]+ \((.*)\):", line)
            entry = re.match(r"0x([0-9a-f]+) (\d+) : \((.*) portguid 0x[0-9a-f]+: '(.*)'\)", line)
            if head:
                switch = head.group(1)
                tables[switch] = {}
            elif entry:
                lid = int(entry.group(1), 16)
                tables[switch][lid] = int(entry.group(2))
                if entry.group(3) == "Channel Adapter":
                    lids.setdefault(entry.group(4), lid)
    return tables, lids


def follow(links, hosts, tables, lids):
    """Hops from each switch to each host, -1 if lost, with the number of pairs that take that way:
    {(switch, to): (hops, pairs)}; and the highest load of a link."""
    ways, load, sources = {}, {}, {}
    for host in hosts:
        sources[links[host, 1]] = sources.get(links[host, 1], 0) + 1
    for to in hosts:
        lid = lids.get(to)
        for switch, pairs in sources.items():
            at, used = switch, []
            pairs -= switch == links[to, 1]
            while at != to and len(used) <= 64:
                port = tables.get(at, {}).get(lid)
                if (at, port) not in links:
                    break
                used.append((at, port))
                at = links[at, port]
            ways[switch, to] = (len(used) if at == to else -1, pairs)
            for link in used[:-1]:
                load[link] = load.get(link, 0) + pairs
    return ways, max(load.values(), default=0)


def main():
    links, hosts = read_fabric(sys.argv[1])
    results = []
    for path in sys.argv[2:]:
        ways, load = follow(links, hosts, *read_tables(path))
        results.append(ways)
        total = sum(pairs for _, pairs in ways.values())
        lost = sum(pairs for hops, pairs in ways.values() if hops < 0)
        hops = sum((hops + 1) * pairs for hops, pairs in ways.values() if hops >= 0)
        print(f"{path.rsplit('/', 1)[-1]} pairs {total} lost {lost} hops {hops} max_load {load}")
    if len(results) == 2:
        print("different", sum(pairs for way, (hops, pairs) in results[0].items()
                               if results[1][way][0] != hops))


main()
