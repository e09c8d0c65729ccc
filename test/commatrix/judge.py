#!/usr/bin/env python3
"""Hold commatrix against what the generator knows, and against tshark.

    judge.py COMMATRIX DIR expected     one line per capture: ok NAME, or not ok NAME: why
    judge.py COMMATRIX DIR tshark

`expected`: cells, excluded kinds and the capture's counts are what generate.py put in. `tshark`:
wire bytes and packets by (source, destination) are the sums over tshark's own fields, over all
kinds of RDMA traffic.
"""
import collections
import json
import os
import struct
import subprocess
import sys


def commatrix(program, *arguments):
    run = subprocess.run([program, "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         check=False)
    if run.returncode != 0:
        raise ValueError(f"exit status {run.returncode}: {run.stderr.decode().strip()}")
    return json.loads(run.stdout)


def compare(what, found, expected):
    for key in sorted(set(found) | set(expected)):
        if found.get(key) != expected.get(key):
            raise ValueError(f"{what} {key}: {found.get(key)}, expected {expected.get(key)}")


def judge_expected(program, path, form):
    with open(path + ".json") as file:
        expected = json.load(file)
    result = commatrix(program, "--by", expected["by"], path + form)
    cells = {f"{c['from']} {c['to']}": dict(wire=c["wire_bytes"], payload=c["payload_bytes"],
                                            packets=c["packets"], messages=c["messages"])
             for c in result["cells"]}
    compare("cell", cells, expected["cells"])
    compare("excluded", {k: v for k, v in result["excluded"].items() if v["packets"]}, expected["excluded"])
    compare("capture", {k: result["capture"][k] for k in expected["capture"]}, expected["capture"])


# tshark's own view: who sent it, to whom, how long it was.
FIELDS = ["frame.len", "erf.wlen", "infiniband.lrh.slid", "infiniband.lrh.dlid", "ip.src", "ip.dst",
          "ipv6.src", "ipv6.dst", "infiniband.grh.sgid", "infiniband.grh.dgid", "infiniband.bth.opcode",
          "ip.id", "ip.frag_offset", "ipv6.fraghdr.ident", "ipv6.fraghdr.offset"]


def as_erf(path):
    """tshark 4.0 cannot read link type 247: the same packets as records of ERF."""
    with open(path, "rb") as file:
        data = file.read()
    magic, *_, link = struct.unpack_from("<IHHiIII", data)
    if link != 247:
        return path
    out = [struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 262144, 197)]
    at = 24
    while at < len(data):
        seconds, fraction, captured, wire = struct.unpack_from("<IIII", data, at)
        frame = data[at + 16:at + 16 + captured]
        header = struct.pack("<Q", 0) + struct.pack(">BBHHH", 21, 4, 16 + captured, 0, wire)
        out.append(struct.pack("<IIII", seconds, fraction, 16 + captured, 16 + wire) + header + frame)
        at += 16 + captured
    with open(path + ".erf", "wb") as file:
        file.write(b"".join(out))
    return path + ".erf"


def tshark_rows(path):
    command = ["tshark", "-n", "-r", path, "-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE",
               "-T", "fields", "-E", "occurrence=f"]
    for field in FIELDS:
        command += ["-e", field]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if run.returncode != 0:
        raise ValueError(f"tshark: {run.stderr.decode().strip()}")
    for line in run.stdout.decode().splitlines():
        yield dict(zip(FIELDS, line.split("\t") + [""] * len(FIELDS)))


def tshark_sums(path, by):
    sums = collections.defaultdict(lambda: [0, 0])
    started = {}
    for row in tshark_rows(as_erf(path)):
        rdma = row["infiniband.bth.opcode"] != ""
        fragment = row["ip.frag_offset"] not in ("", "0") or row["ipv6.fraghdr.offset"] not in ("", "0")
        if by == "lid":
            pair = (row["infiniband.lrh.slid"], row["infiniband.lrh.dlid"])
        elif by == "gid":
            pair = (row["infiniband.grh.sgid"], row["infiniband.grh.dgid"])
        else:
            pair = (row["ip.src"] or row["ipv6.src"], row["ip.dst"] or row["ipv6.dst"])
        packet = (pair, row["ip.id"], row["ipv6.fraghdr.ident"])
        if rdma:
            started[packet] = True
        elif not (fragment and packet in started):
            continue
        key = " ".join(str(int(p, 0)) if by == "lid" else p for p in pair)
        sums[key][0] += int(row["erf.wlen"] or row["frame.len"])
        sums[key][1] += 1
    return dict(sums)


def judge_tshark(program, path, form):
    with open(path + ".json") as file:
        by = json.load(file)["by"]
    result = commatrix(program, "--by", by, "--with",
                       "smp,sa,cm,gmp,ack,nak,cnp,ipoib,multicast", "--skew", "0", path + form)
    cells = {f"{c['from']} {c['to']}": [c["wire_bytes"], c["packets"]] for c in result["cells"]}
    compare("cell", cells, tshark_sums(path + form, by))


def main():
    program, directory, how = sys.argv[1:4]
    judge = {"expected": judge_expected, "tshark": judge_tshark}[how]
    failed = 0
    with open(os.path.join(directory, "cases")) as file:
        names = file.read().split()
    for name in names:
        for form in (".pcap", ".pcapng"):
            path = os.path.join(directory, name)
            with open(path + ".json") as file:
                judges = json.load(file).get("judges", "")
            if how not in judges or not os.path.exists(path + form) or (how == "tshark" and form == ".pcapng"):
                continue
            try:
                judge(program, path, form)
                print(f"ok {how} {name}{form}")
            except (ValueError, KeyError) as error:
                failed += 1
                print(f"not ok {how} {name}{form}: {error}")
    sys.exit(failed > 0)


main()
