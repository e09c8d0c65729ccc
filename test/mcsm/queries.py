#!/usr/bin/env python3
"""queries.py MCSM OPENSM: compares the answers of two subnet administrations to the same queries, field
by field. Each file has the output of saquery behind a line "== QUERY" for each query. A difference needs
a line in EXPLAINED, and each line there needs a difference. Prints how many fields are equal and how
many differ, by reason; the exit code is 1 if a difference has no reason, or a reason no difference."""
import re
import sys

# (query, field, reason): regular expressions that match all of the query and of the field.
EXPLAINED = [
    ("CPI", "Capability mask", "mcsm has the optional records, and neither Set(Notice) nor MultiPathRecord"),
    ("CPI", "Capability mask 2", "mcsm has no alias GUIDs, no services of groups, and no CapabilityMask2 in PortInfoRecord"),
    ("CPI", "Response time value", "mcsm promises an answer after 1.1 s, OpenSM after 0.3 s"),
    ("CPI", "Redirect QP|Redirect QKey|Trap QKey", "mcsm redirects no client, and takes no traps in this class"),
    ("SMIR 4", "Priority", "the default of mcsm is 8"),
    ("MCMR .*", "mlid", "a hash of the MGID, which all clusters compute"),
    ("PR --slid 5 --dlid 6", "pkey", "mcsm prefers the first key of the table, the default partition"),
    ("PR --slid 5 --dlid 6 --pkey 0x12", "pkey", "one end is a full member, so the key has the membership bit"),
    ("PR --slid 5 --dlid 5", "pkt_life", "OpenSM answers 0 for a port and itself"),
    ("PR .* -R 0x8[25]", ".*", "mcsm finds a path for a lower rate, because a sender may be slower than the path"),
    ("PR .* -Q 2", "qos_class", "mcsm repeats the class of the request"),
    ("PR .* --service_id 0x17", "service_id", "mcsm repeats the service of the request"),
    ("PIR 3/3", ".*", "OpenSM does not know the port, which has no link"),
    ("SL2VL 4/0/[01]", ".*", "of a host: OpenSM answers for any output with port 0, mcsm with the number of the port"),
]
# Counts packets: the values differ by chance.
LEFT_OUT = {"ActCount"}


def read(path):
    """{(query, field): value}; lines without a field are numbered."""
    values, query, number = {}, None, 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            line = line.strip()
            if line.startswith("== "):
                query, number = line[3:], 0
                values[query, ""] = "asked"
                continue
            field = re.match(r"(.*?[^.])\.{2,}(.*)", line)
            if field:
                values[query, field.group(1)] = field.group(2)
            elif line:
                number += 1
                values[query, f"line {number}"] = re.sub(r"\s+", " ", line)
    return values


def main():
    mcsm, opensm = read(sys.argv[1]), read(sys.argv[2])
    counts, bad, equal = {}, [], 0
    for query, field in dict.fromkeys([*mcsm, *opensm]):
        ours, theirs = mcsm.get((query, field), "-"), opensm.get((query, field), "-")
        if ours == theirs or field in LEFT_OUT:
            equal += field != ""
            continue
        for entry in EXPLAINED:
            if re.fullmatch(entry[0], query) and re.fullmatch(entry[1], field):
                counts[entry] = counts.get(entry, 0) + 1
                break
        else:
            bad.append(f"{query}: {field}: mcsm {ours}, OpenSM {theirs}")
    queries = len({query for query, _ in mcsm})
    print(f"{queries} queries, {equal} fields are equal, {sum(counts.values())} differ for a known reason")
    for (_, field, reason), count in counts.items():
        print(f"{count} {field}: {reason}")
    for entry in EXPLAINED:
        if entry not in counts:
            bad.append(f"no difference: {entry}")
    for line in bad:
        print(line)
    sys.exit(1 if bad else 0)


main()
