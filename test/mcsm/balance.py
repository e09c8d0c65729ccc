#!/usr/bin/env python3
"""balance.py FABRIC LFTS DUMP: makes a dump for mcsm-check of the tables of any subnet manager.

FABRIC has the format of ibsim, LFTS is what dump_lfts(8) prints. The dump has one cluster, whose
LIDs have no lanes: mcsm-check finds the pairs, hops and loads. Prints nothing."""
import re
import sys

LINK = re.compile(r'\[(\d+)\]\s+"([^"]+)"\[(\d+)\]')
HEAD = re.compile(r'(Switch|Hca)\s+(\d+)\s+"([^"]+)"')
GUID = re.compile(r"(?:switch|ca)guid=0x([0-9a-f]+)")
TABLE = re.compile(r"Unicast lids .* guid 0x([0-9a-f]+) ")
ENTRY = re.compile(r"0x([0-9a-f]+) (\d+) : \((.*) portguid 0x([0-9a-f]+): '(.*)'\)")


def read_fabric(path):
    """{name: (type, ports, guid)}, [(name, port, peer, peer port)]"""
    nodes, links, guid, name = {}, [], 0, None
    with open(path, encoding="ascii") as lines:
        for line in lines:
            if found := GUID.match(line):
                guid = int(found.group(1), 16)
            elif found := HEAD.match(line):
                name = found.group(3)
                nodes[name] = (found.group(1), int(found.group(2)), guid)
            elif found := LINK.match(line):
                links.append((name, int(found.group(1)), found.group(2), int(found.group(3))))
    return nodes, links


def read_tables(path):
    """{switch guid: {lid: port}}, {lid: (port guid, name, is a switch)}"""
    tables, owners, table = {}, {}, {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if found := ENTRY.match(line):
                lid = int(found.group(1), 16)
                table[lid] = int(found.group(2))
                owners[lid] = (int(found.group(4), 16), found.group(5), found.group(3) == "Switch")
            elif found := TABLE.match(line):
                table = tables.setdefault(int(found.group(1), 16), {})
    return tables, owners


def runs(table):
    """"FROM-TO:PORT" of the LIDs, in their order."""
    first = before = None
    for lid in sorted(table):
        if first is not None and (lid != before + 1 or table[lid] != table[first]):
            yield f"{first}-{before}:{table[first]}"
            first = lid
        first = lid if first is None else first
        before = lid
    if first is not None:
        yield f"{first}-{before}:{table[first]}"


def main():
    nodes, links = read_fabric(sys.argv[1])
    tables, owners = read_tables(sys.argv[2])
    with open(sys.argv[3], "w", encoding="ascii") as out:
        out.write(f"mcsm-dump 1\ncluster all 1 {max(owners, default=1)}\n")
        for name, (kind, ports, guid) in nodes.items():
            kind = "switch" if kind == "Switch" else "ca"
            out.write(f'node {kind} 0x{guid:016x} {ports} "{name}"\n')
        for lid, (port_guid, name, is_switch) in owners.items():
            out.write(f"lid 0x{nodes[name][2]:016x} {0 if is_switch else 1} 0x{port_guid:016x} {lid}\n")
        for name, port, peer, peer_port in links:
            if (name, port) < (peer, peer_port):
                out.write(f"link 0x{nodes[name][2]:016x} {port} 0x{nodes[peer][2]:016x} {peer_port}\n")
        for guid, table in tables.items():
            out.write(f"lft 0x{guid:016x} {' '.join(runs(table))}\n")
        out.write("end\n")


main()
