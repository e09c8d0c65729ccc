#!/usr/bin/env python3
"""Make captures of every kind of header that commatrix reads, and what it has to find in them.

Written from the InfiniBand specification, RFCs and file formats, not from the reader: packets are
put together by fields here, and taken apart by offsets there.

    generate.py DIR             writes NAME.pcap or .pcapng and NAME.json for each case, and `cases`
    generate.py --traffic FILE HOSTS PACKETS   a large capture of traffic between all pairs of hosts

NAME.json: {"cells": {"FROM TO": {"wire", "payload", "packets", "messages"}}, "excluded": {...},
"capture": {...}, "by": ..., "link": the link type}.
"""
import ipaddress
import json
import os
import struct
import sys

RC, UC, RD, UD, CNP, XRC = range(6)
(SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM, WRITE_FIRST,
 WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM, READ_REQUEST, READ_FIRST,
 READ_MIDDLE, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK, CMP_SWAP, FETCH_ADD, RESYNC, SEND_LAST_INV,
 SEND_ONLY_INV) = range(24)
FLUSH, ATOMIC_WRITE = 0x1c, 0x1d

ENDS = {SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY,
        WRITE_ONLY_IMM, READ_LAST, READ_ONLY, SEND_LAST_INV, SEND_ONLY_INV, ATOMIC_WRITE}
ANSWERS = {READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK}
LAYOUT = {  # extended headers of each operation, behind those of the transport
    SEND_LAST_IMM: "I", SEND_ONLY_IMM: "I", WRITE_FIRST: "R", WRITE_LAST_IMM: "I", WRITE_ONLY: "R",
    WRITE_ONLY_IMM: "RI", READ_REQUEST: "R", READ_FIRST: "A", READ_LAST: "A", READ_ONLY: "A",
    ACK: "A", ATOMIC_ACK: "AK", CMP_SWAP: "T", FETCH_ADD: "T", SEND_LAST_INV: "I",
    SEND_ONLY_INV: "I", FLUSH: "FR", ATOMIC_WRITE: "R"}


def bth(transport, operation, qpn, psn, pad=0, ack=False):
    return struct.pack(">BBHII", transport << 5 | operation, 0x40 | pad << 4, 0xffff, qpn,
                       (0x80000000 if ack else 0) | psn)


def extended(transport, operation, src_qpn=0, q_key=0x11111111, dma_len=0, syndrome=0, imm=0, eec=0):
    out = b""
    if transport == RD:
        out += struct.pack(">I", eec)
    if transport == UD or (transport == RD and operation not in ANSWERS):
        out += struct.pack(">II", q_key, src_qpn)
    if transport == XRC and operation not in ANSWERS:
        out += struct.pack(">I", 77)
    parts = {"F": struct.pack(">I", 3), "R": struct.pack(">QII", 0x7f0000001000, 0xabcd, dma_len),
             "A": struct.pack(">I", syndrome << 24 | 5), "K": struct.pack(">Q", 1),
             "I": struct.pack(">I", imm), "T": struct.pack(">QIQQ", 0x7f0000002000, 0xabcd, 1, 2)}
    order = LAYOUT.get(operation, "")
    return out + b"".join(parts[letter] for letter in order)


def ib_packet(transport, operation, qpn, psn, data=b"", ack=False, **fields):
    """From the BTH to the ICRC."""
    pad = -len(data) % 4
    return (bth(transport, operation, qpn, psn, pad, ack) + extended(transport, operation, **fields) +
            data + bytes(pad) + b"ICRC")


def grh(src, dst, length, next_header=0x1b):
    return (struct.pack(">IHBB", 6 << 28, length, next_header, 64) +
            ipaddress.IPv6Address(src).packed + ipaddress.IPv6Address(dst).packed)


def lrh_frame(slid, dlid, body, vl=0, gids=None, raw=False):
    """A frame of an InfiniBand link, with LRH and VCRC."""
    link_next = 2 if gids is None else 3
    if gids is not None:
        body = grh(*gids, len(body)) + body
    words = (8 + len(body)) // 4
    return (struct.pack(">BBHHH", vl << 4, 0 if raw else link_next, dlid, words, slid) + body + b"VC")


def udp(body, source=49152, destination=4791):
    return struct.pack(">HHHH", source, destination, 8 + len(body), 0) + body


def ipv4(src, dst, body, protocol=17, options=b"", ident=1, offset=0, more=False):
    header = struct.pack(">BBHHHBBH", 0x45 + len(options) // 4, 2, 20 + len(options) + len(body),
                         ident, (0x2000 if more else 0) | offset // 8, 64, protocol, 0)
    header += ipaddress.IPv4Address(src).packed + ipaddress.IPv4Address(dst).packed + options
    total = sum(struct.unpack(">%dH" % (len(header) // 2), header))
    total = (total & 0xffff) + (total >> 16)
    total = ~((total & 0xffff) + (total >> 16)) & 0xffff
    return header[:10] + struct.pack(">H", total) + header[12:] + body


def ipv6(src, dst, body, next_header=17, extensions=()):
    """extensions: (type, the bytes behind its first one) from the first to the last"""
    types = [kind for kind, _ in extensions] + [next_header]
    chain = b"".join(bytes([types[i + 1]]) + rest for i, (_, rest) in enumerate(extensions))
    body = chain + body
    return (struct.pack(">IHBB", 6 << 28, len(body), types[0], 64) + ipaddress.IPv6Address(src).packed +
            ipaddress.IPv6Address(dst).packed + body)


def ethernet(ethertype, body, tags=()):
    """tags: (ethertype, VLAN id) from the outermost to the innermost"""
    out = bytes.fromhex("020000000002020000000001")
    for kind, vlan in tags:
        out += struct.pack(">HH", kind, vlan)
    out += struct.pack(">H", ethertype) + body
    return out + bytes(max(0, 60 - len(out)))


def cooked_1(ethertype, body):
    return struct.pack(">HHH8sH", 0, 1, 6, b"\2\0\0\0\0\1", ethertype) + body


def cooked_2(ethertype, body):
    return struct.pack(">HHIHBB8s", ethertype, 0, 2, 1, 0, 6, b"\2\0\0\0\0\1") + body


def erf(body, kind=21, extensions=0):
    head = kind | (0x80 if extensions else 0)
    extra = b"".join(bytes([0x80 if i + 1 < extensions else 0x05]) + bytes(7) for i in range(extensions))
    return struct.pack("<Q", 1 << 32) + struct.pack(">BBHHH", head, 4, 16 + len(extra) + len(body), 0,
                                                    len(body)) + extra + body


class Capture:
    """Frames, and what is to be found in them."""

    def __init__(self, name, link, by, nanoseconds=False, snaplen=262144, judges="expected tshark"):
        self.name, self.link, self.by, self.judges = name, link, by, judges
        self.nanoseconds, self.snaplen = nanoseconds, snaplen
        self.frames, self.cells, self.excluded = [], {}, {}
        self.found = {"packets": 0, "duplicates": 0, "retransmissions": 0, "lost": 0, "cut": 0}
        self.time = 1700000000 * 10**9

    def add(self, frame, src=None, dst=None, kind="data", payload=0, ends=False, wire=None, gap=1000,
            copy=False, again=False, time=None):
        """One frame; `kind` data counts for src and dst, everything else as excluded."""
        self.time += gap
        wire = len(frame) if wire is None else wire
        self.frames.append((self.time if time is None else time, frame[:self.snaplen], len(frame)))
        self.found["packets"] += 1
        self.found["cut"] += len(frame[:self.snaplen]) < wire
        if copy:
            self.found["duplicates"] += 1
        elif kind == "data":
            cell = self.cells.setdefault(f"{src} {dst}", dict(wire=0, payload=0, packets=0, messages=0))
            cell["wire"] += wire
            cell["packets"] += 1
            if again:
                self.found["retransmissions"] += 1
            else:
                cell["payload"] += payload
                cell["messages"] += ends
        else:
            excluded = self.excluded.setdefault(kind, dict(packets=0, wire_bytes=0))
            excluded["packets"] += 1
            excluded["wire_bytes"] += wire

    def pcap(self):
        magic = 0xa1b23c4d if self.nanoseconds else 0xa1b2c3d4
        out = [struct.pack("<IHHiIII", magic, 2, 4, 0, 0, self.snaplen, self.link)]
        for time, frame, length in self.frames:
            fraction = time % 10**9 if self.nanoseconds else time % 10**9 // 1000
            out.append(struct.pack("<IIII", time // 10**9, fraction, len(frame), length) + frame)
        return b"".join(out)

    def pcapng(self):
        def block(kind, body):
            body += bytes(-len(body) % 4)
            return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))
        out = [block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1))]
        interfaces = 2
        for _ in range(interfaces):
            out.append(block(1, struct.pack("<HHI", self.link, 0, self.snaplen) +
                             struct.pack("<HHB3x", 9, 1, 9) + struct.pack("<HH", 0, 0)))
        for i, (time, frame, length) in enumerate(self.frames):
            out.append(block(6, struct.pack("<IIIII", i % interfaces, time >> 32, time & 0xffffffff, len(frame),
                                            length) + frame))
        return b"".join(out)

    def write(self, directory):
        path = os.path.join(directory, self.name)
        with open(path + ".pcap", "wb") as file:
            file.write(self.pcap())
        with open(path + ".pcapng", "wb") as file:
            file.write(self.pcapng())
        with open(path + ".json", "w") as file:
            json.dump({"by": self.by, "link": self.link, "judges": self.judges, "cells": self.cells,
                       "excluded": self.excluded, "capture": self.found}, file, indent=1)


IB, ETHERNET, ERF, SLL, SLL2, RAW_IP = 247, 1, 197, 113, 276, 101


def all_operations(capture, frame, ends):
    """Every operation of every transport between the two `ends`, with payloads of several lengths."""
    a, b = ends
    psn = {}
    for transport in (RC, UC, RD, UD, XRC):
        operations = {RC: list(range(24)) + [FLUSH, ATOMIC_WRITE], XRC: list(range(24)),
                      UC: list(range(12)), RD: list(range(22)), UD: [SEND_ONLY, SEND_ONLY_IMM]}[transport]
        if transport in (RC, XRC):
            operations.remove(RESYNC)
        for operation in operations:
            for length in (0, 1, 7, 256):
                carries = operation not in (ACK, ATOMIC_ACK, CMP_SWAP, FETCH_ADD, READ_REQUEST, RESYNC, FLUSH)
                if operation == ATOMIC_WRITE:
                    length = 8
                if not carries and length:
                    continue
                space = (transport, operation in ANSWERS)
                number = psn[space] = psn.get(space, 100 * transport) + 1
                data = bytes(i * 7 + 1 & 0xff for i in range(length))
                body = ib_packet(transport, operation, 0x100 + transport, number, data, src_qpn=0x200,
                                 eec=9)
                kind = "ack" if operation == ACK else "data"
                capture.add(frame(a, b, body), a, b, kind, length, operation in ENDS, gap=200000)


def headers_infiniband():
    c = Capture("infiniband", IB, "lid", nanoseconds=True)
    all_operations(c, lrh_frame, (3, 70))
    all_operations(c, lambda s, d, body: lrh_frame(s, d, body, gids=("fe80::3", "fe80::46")), (3, 71))
    return c


def headers_erf():
    c = Capture("erf", ERF, "lid")
    for i in range(20):
        body = lrh_frame(5, 6 + i % 3, ib_packet(RC, SEND_ONLY, 50 + i % 3, i // 3, b"x" * i))
        frame = erf(body, extensions=i % 3)
        c.add(frame, 5, 6 + i % 3, payload=i, ends=True, wire=len(body))
    c.add(erf(b"\2" * 60, kind=2), kind="other", wire=60)
    return c


def roce_v1():
    c = Capture("rocev1", ETHERNET, "gid")
    ends = ("fe80::1", "fe80::2")
    frame = lambda s, d, body: ethernet(0x8915, grh(s, d, len(body)) + body)
    all_operations(c, frame, ends)
    body = ib_packet(RC, SEND_ONLY, 9, 1, b"tagged")
    c.add(ethernet(0x8915, grh(*ends, len(body)) + body, tags=[(0x8100, 5)]), *ends, payload=6, ends=True)
    return c


def roce_v2():
    c = Capture("rocev2", ETHERNET, "ip", nanoseconds=True)
    v4, v6 = ("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")
    all_operations(c, lambda s, d, body: ethernet(0x0800, ipv4(s, d, udp(body))), v4)
    all_operations(c, lambda s, d, body: ethernet(0x86dd, ipv6(s, d, udp(body))), v6)
    numbers = {40: 10, 41: 10}

    def sent(qpn, operation, data):
        numbers[qpn] += 1
        return ib_packet(RC, operation, qpn, numbers[qpn], data, dma_len=len(data))

    for tags in ([(0x8100, 7)], [(0x88a8, 7), (0x8100, 8)], [(0x9100, 1), (0x8100, 2)]):
        body = udp(sent(40, WRITE_ONLY, b"y" * 33))
        c.add(ethernet(0x0800, ipv4(*v4, body), tags), *v4, payload=33, ends=True)
        body = udp(sent(41, WRITE_ONLY, b"y" * 33))
        c.add(ethernet(0x86dd, ipv6(*v6, body), tags), *v6, payload=33, ends=True)
    for words in (1, 5, 10):
        body = udp(sent(40, SEND_ONLY, b"z" * 5))
        c.add(ethernet(0x0800, ipv4(*v4, body, options=b"\1" * 4 * words)), *v4, payload=5, ends=True)
    chains = ([(0, bytes([0] + [1, 4] + [0] * 4))], [(60, bytes([1] + [1, 12] + [0] * 12))],
              [(0, bytes([0, 1, 4, 0, 0, 0, 0])), (43, bytes([2, 0, 0, 0, 0, 0, 0]) + bytes(16)),
               (60, bytes([0, 1, 4, 0, 0, 0, 0]))],
              [(51, bytes([4]) + bytes(22))])
    for chain in chains:
        body = udp(sent(41, SEND_ONLY, b"w" * 6))
        c.add(ethernet(0x86dd, ipv6(*v6, body, extensions=chain)), *v6, payload=6, ends=True)
    # The source port of RoCE alone is not RoCE; a destination port alone is.
    c.add(ethernet(0x0800, ipv4(*v4, udp(b"\0" * 40, source=4791, destination=53))), kind="other")
    c.add(ethernet(0x0800, ipv4(*v4, udp(sent(40, SEND_ONLY, b"v" * 9), source=4791))), *v4, payload=9,
          ends=True)
    c.add(ethernet(0x0806, b"\0" * 28), kind="other")
    c.add(ethernet(0x0800, ipv4(*v4, b"\0" * 40, protocol=6)), kind="other")
    return c


def fragments():
    c = Capture("fragments", ETHERNET, "ip")
    v4, v6 = ("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")
    for i in range(6):
        whole = udp(ib_packet(RC, SEND_ONLY, 60, i, b"f" * 3000))
        for at in range(0, len(whole), 1480):
            part = whole[at:at + 1480]
            more = at + 1480 < len(whole)
            c.add(ethernet(0x0800, ipv4(*v4, part, ident=100 + i, offset=at, more=more)), *v4,
                  payload=3000 if at == 0 else 0, ends=at == 0)
        whole = udp(ib_packet(RC, SEND_ONLY, 61, i, b"f" * 3000))
        for at in range(0, len(whole), 1440):
            part = whole[at:at + 1440]
            more = at + 1440 < len(whole)
            header = struct.pack(">BHI", 0, at | more, 7000 + i)
            c.add(ethernet(0x86dd, ipv6(*v6, part, extensions=[(44, header)])), *v6,
                  payload=3000 if at == 0 else 0, ends=at == 0)
    # Fragments of other traffic are no RDMA.
    c.add(ethernet(0x0800, ipv4(*v4, b"q" * 800, ident=900, offset=800)), kind="other")
    return c


def cooked(name, link, wrap):
    c = Capture(name, link, "ip")
    v4, v6 = ("10.1.0.1", "10.1.0.2"), ("fd01::1", "fd01::2")
    for i in range(12):
        body = udp(ib_packet(UD, SEND_ONLY, 70, i, b"u" * (i * 100), src_qpn=71))
        c.add(wrap(0x0800, ipv4(*v4, body)), *v4, payload=i * 100, ends=True)
        c.add(wrap(0x86dd, ipv6(*v6, body)), *v6, payload=i * 100, ends=True)
    return c


def raw_ip():
    c = Capture("rawip", RAW_IP, "ip")
    for i in range(8):
        body = udp(ib_packet(RC, SEND_ONLY, 70, i, b"u" * i))
        c.add(ipv4("10.2.0.1", "10.2.0.2", body), "10.2.0.1", "10.2.0.2", payload=i, ends=True)
        c.add(ipv6("fd02::1", "fd02::2", body), "fd02::1", "fd02::2", payload=i, ends=True)
    return c


def snapped():
    """Packets cut by the snapshot length count as long as they were."""
    c = Capture("snapped", ETHERNET, "ip", snaplen=96)
    v4 = ("10.0.0.1", "10.0.0.2")
    for i in range(10):
        body = udp(ib_packet(RC, SEND_ONLY, 40, i, b"s" * 1000))
        c.add(ethernet(0x0800, ipv4(*v4, body)), *v4, payload=1000, ends=True)
    return c


def snapped_infiniband():
    c = Capture("snapped-ib", IB, "lid", snaplen=64)
    for i in range(10):
        c.add(lrh_frame(3, 4, ib_packet(RC, SEND_ONLY, 40, i, b"s" * 1001)), 3, 4, payload=1001, ends=True)
    return c


def system_traffic():
    c = Capture("system", IB, "lid")
    mad = lambda kind: bytes([1, kind, 1, 1]) + bytes(252)
    datagram = dict(src_qpn=1, q_key=0x80010000)
    c.add(lrh_frame(1, 2, ib_packet(UD, SEND_ONLY, 0, 1, mad(1), src_qpn=0), vl=15), kind="smp")
    c.add(lrh_frame(0xffff, 0xffff, ib_packet(UD, SEND_ONLY, 0, 2, mad(0x81), src_qpn=0), vl=15), kind="smp")
    c.add(lrh_frame(1, 2, ib_packet(UD, SEND_ONLY, 1, 3, mad(3), **datagram)), kind="sa")
    c.add(lrh_frame(1, 2, ib_packet(UD, SEND_ONLY, 1, 4, mad(7), **datagram)), kind="cm")
    c.add(lrh_frame(1, 2, ib_packet(UD, SEND_ONLY, 1, 5, mad(4), **datagram)), kind="gmp")
    c.add(lrh_frame(1, 2, ib_packet(RC, ACK, 8, 6)), kind="ack")
    c.add(lrh_frame(1, 2, ib_packet(RC, ACK, 8, 7, syndrome=0x60)), kind="nak")
    c.add(lrh_frame(1, 2, ib_packet(RC, ACK, 8, 8, syndrome=0x2c)), kind="nak")
    c.add(lrh_frame(1, 2, bth(CNP, 1, 8, 0) + bytes(16) + b"ICRC"), kind="cnp")
    arp = struct.pack(">HHHHBBH", 0x0806, 0, 32, 0x0800, 20, 4, 1) + bytes(48)
    c.add(lrh_frame(1, 0xc001, ib_packet(UD, SEND_ONLY, 0xffffff, 9, arp, src_qpn=2, q_key=0xb1b),
                    gids=("fe80::1", "ff12:401b:ffff::1")), kind="ipoib")
    inner = ipv4("192.168.0.1", "192.168.0.2", b"tcp" * 10, protocol=6)
    inner += bytes(-len(inner) % 4)
    c.add(lrh_frame(1, 2, ib_packet(UD, SEND_ONLY, 90, 10, struct.pack(">HH", 0x0800, 0) + inner,
                                    src_qpn=2, q_key=0x1234)), kind="ipoib")
    c.add(lrh_frame(1, 0xc002, ib_packet(UD, SEND_ONLY, 0xffffff, 11, b"group", src_qpn=3),
                    gids=("fe80::1", "ff12:601b::5")), kind="multicast")
    c.add(lrh_frame(1, 2, b"\x08\x00" + bytes(30), raw=True), kind="raw")
    for i in range(3):
        c.add(lrh_frame(1, 2, ib_packet(RC, SEND_ONLY, 8, 20 + i, b"real data")), 1, 2, payload=9, ends=True)
    return c


def mirrored():
    """Each packet twice, by two switches, some microseconds apart."""
    c = Capture("mirrored", ETHERNET, "ip", nanoseconds=True)
    v4 = ("10.0.0.1", "10.0.0.2")
    for i in range(200):
        frame = ethernet(0x0800, ipv4(*v4, udp(ib_packet(RC, SEND_ONLY, 40, (0xffff80 + i) & 0xffffff, b"m" * 64))))
        c.add(frame, *v4, payload=64, ends=True, gap=20000)
        c.add(frame, copy=True, gap=3000)
        if i % 3 == 0:
            c.add(frame, copy=True, gap=2000)
    for i in range(50):
        frame = ethernet(0x0800, ipv4(*v4, udp(ib_packet(UD, SEND_ONLY, 41, i, b"d" * 64, src_qpn=77))))
        c.add(frame, *v4, payload=64, ends=True, gap=20000)
        c.add(frame, copy=True, gap=3000)
    return c


def retransmitted():
    """Every packet from number 50 on is lost behind the capture, and sent again after a timeout."""
    c = Capture("retransmitted", ETHERNET, "ip", nanoseconds=True)
    v4 = ("10.0.0.1", "10.0.0.2")
    frame = lambda i: ethernet(0x0800, ipv4(*v4, udp(ib_packet(RC, SEND_ONLY, 40, i, b"r" * 100))))
    for i in range(60):
        c.add(frame(i), *v4, payload=100, ends=True)
    for i in range(50, 60):
        c.add(frame(i), *v4, again=True, gap=4000000 if i == 50 else 1000)
    for i in range(60, 100):
        c.add(frame(i), *v4, payload=100, ends=True)
    return c


def asked_again():
    """The receiver asks for packet 30 again, long before any timeout; all packets are mirrored."""
    c = Capture("asked-again", ETHERNET, "ip", nanoseconds=True)
    v4 = ("10.0.0.1", "10.0.0.2")
    frame = lambda i: ethernet(0x0800, ipv4(*v4, udp(ib_packet(RC, SEND_ONLY, 40, i, b"r" * 100))))
    for i in range(40):
        c.add(frame(i), *v4, payload=100, ends=True)
    nak = ethernet(0x0800, ipv4(v4[1], v4[0], udp(ib_packet(RC, ACK, 39, 30, syndrome=0x60))))
    c.add(nak, kind="nak")
    for i in range(30, 40):
        c.add(frame(i), *v4, again=True)
        c.add(frame(i), copy=True, gap=500)
    for i in range(40, 60):
        c.add(frame(i), *v4, payload=100, ends=True)
    return c


def gaps():
    """The capture has lost 7 and 3 packets of one pair; a read takes numbers without packets."""
    c = Capture("gaps", IB, "lid")
    for i in range(100):
        if i not in (10, 11, 12, 13, 14, 15, 16, 50, 52, 54):
            c.add(lrh_frame(3, 4, ib_packet(RC, SEND_ONLY, 40, i, b"g" * 10)), 3, 4, payload=10, ends=True)
    c.found["lost"] = 10
    psn = 1000
    for i in range(10):
        c.add(lrh_frame(4, 3, ib_packet(RC, READ_REQUEST, 41, psn, dma_len=10000)), 4, 3)
        for j, operation in enumerate((READ_FIRST, READ_MIDDLE, READ_LAST)):
            size = (4096, 4096, 1808)[j]
            c.add(lrh_frame(3, 4, ib_packet(RC, operation, 42, psn + j, b"g" * size)), 3, 4, payload=size,
                  ends=operation == READ_LAST)
        psn += 3
        c.add(lrh_frame(4, 3, ib_packet(RC, SEND_ONLY, 41, psn, b"done")), 4, 3, payload=4, ends=True)
        psn += 1
    return c


def mpls(body, labels=(16, 17)):
    out = b"".join(struct.pack(">I", label << 12 | (0x100 if i + 1 == len(labels) else 0) | 64)
                   for i, label in enumerate(labels))
    return out + body


def gre(kind, body, key=None, sequence=None):
    flags = (0x2000 if key is not None else 0) | (0x1000 if sequence is not None else 0)
    out = struct.pack(">HH", flags, kind)
    out += b"" if key is None else struct.pack(">I", key)
    out += b"" if sequence is None else struct.pack(">I", sequence)
    return out + body


def tunnels():
    """RoCE within every tunnel that is read; the addresses are those within."""
    c = Capture("tunnels", ETHERNET, "ip", judges="expected")
    v4, v6, outer, outer6 = ("10.3.0.1", "10.3.0.2"), ("fd03::1", "fd03::2"), ("192.0.2.1", "192.0.2.2"), ("fd99::1", "fd99::2")
    number = [0]

    def inner_ip(six=False):
        number[0] += 1
        body = udp(ib_packet(RC, SEND_ONLY, 90 + six, number[0] // 2 if six else number[0], b"i" * 50))
        return ipv6(*v6, body) if six else ipv4(*v4, body)

    def put(frame, six=False, wire=None):
        c.add(frame, *(v6 if six else v4), payload=50, ends=True, wire=wire)

    def inner_frame():
        return ethernet(0x0800, inner_ip())

    over_udp = lambda body, port: ethernet(0x0800, ipv4(*outer, udp(body, 5000, port)))
    over_gre = lambda body: ethernet(0x0800, ipv4(*outer, body, protocol=47))
    for _ in range(4):
        vxlan = struct.pack(">II", 0x08000000, 77 << 8)
        put(over_udp(vxlan + inner_frame(), 4789))
        put(over_udp(vxlan + inner_frame(), 8472))
        put(over_udp(struct.pack(">II", 0x0c000001, 77 << 8) + inner_ip(), 4790))
        put(ethernet(0x86dd, ipv6(*outer6, udp(vxlan + inner_frame(), 5000, 4789))))
        put(over_udp(struct.pack(">BBHI", 0, 0, 0x6558, 77 << 8) + inner_frame(), 6081))
        put(over_udp(struct.pack(">BBHI", 2, 0, 0x0800, 77 << 8) + bytes(8) + inner_ip(), 6081))
        put(over_gre(gre(0x0800, inner_ip())))
        put(over_gre(gre(0x0800, inner_ip(), key=5, sequence=9)))
        put(over_gre(gre(0x6558, inner_frame(), key=77 << 8)))        # NVGRE
        put(ethernet(0x0800, ipv4(*outer, inner_ip(), protocol=4)))
        put(ethernet(0x86dd, ipv6(*outer6, inner_ip(), next_header=4)))
        put(ethernet(0x8847, mpls(inner_ip())))
        put(ethernet(0x8847, mpls(bytes(4) + inner_frame())))         # a pseudowire
        put(over_udp(mpls(inner_ip()), 6635))
        put(ethernet(0x0800, ipv4(*outer, mpls(inner_ip()), protocol=137)))
        put(over_gre(gre(0x0800, ipv4(*outer, inner_ip(), protocol=4))))  # one in the other
        # A mirrored frame counts as long as it is.
        frame = inner_frame()
        put(over_gre(gre(0x88be, frame)), wire=len(frame))            # ERSPAN I
        frame = inner_frame()
        put(over_gre(gre(0x88be, struct.pack(">HHI", 0x1005, 1, 0) + frame, sequence=3)), wire=len(frame))
        frame = inner_frame()
        put(over_gre(gre(0x22eb, struct.pack(">HHIHH", 0x2005, 1, 0, 0, 0) + frame, sequence=3)), wire=len(frame))
        frame = inner_frame()
        put(over_gre(gre(0x22eb, struct.pack(">HHIHH", 0x2005, 1, 0, 0, 1) + bytes(8) + frame, sequence=3)),
            wire=len(frame))
    for i in range(4):
        number[0] = 2 * i
        put(ethernet(0x0800, ipv4(*outer, inner_ip(True), protocol=41)), six=True)
    # Tunnels that are not looked into are counted and named.
    c.add(ethernet(0x0800, ipv4(*outer, bytes(60), protocol=50)), kind="other")
    c.add(over_udp(bytes(60), 2152), kind="other")
    c.add(over_gre(gre(0x880b, bytes(60))), kind="other")
    c.found["tunnels"] = 84
    c.found["closed_tunnels"] = {"ESP": 1, "GTP": 1, "GRE": 1}
    return c


def mirrored_infiniband():
    """As a switch of Mellanox encapsulates what it mirrors: LRH, RWH, four bytes, the packet."""
    c = Capture("mirror-encap", ERF, "lid", judges="expected")
    for i in range(20):
        # The switch drops the VCRC of the mirrored packet.
        body = lrh_frame(5, 6 + i % 3, ib_packet(RC, SEND_ONLY, 50 + i % 3, i // 3, b"x" * i))[:-2]
        outer = lrh_frame(99, 4, struct.pack(">HHI", 0, 0x1123, 1) + body, raw=True)[:-2]
        c.add(erf(outer), 5, 6 + i % 3, payload=i, ends=True, wire=len(body))
    c.add(erf(lrh_frame(99, 4, struct.pack(">HH", 0, 0x0800) + bytes(40), raw=True)), kind="raw", wire=54)
    return c


def erf_ethernet():
    c = Capture("erf-ethernet", ERF, "ip", judges="expected")
    v4 = ("10.0.0.1", "10.0.0.2")
    for i in range(10):
        frame = ethernet(0x0800, ipv4(*v4, udp(ib_packet(RC, SEND_ONLY, 40, i, b"e" * 100))))
        record = erf(frame, kind=2)
        c.add(record[:16] + b"\0\0" + record[16:], *v4, payload=100, ends=True, wire=len(frame))
    return c


def loopback():
    c = Capture("loopback", 0, "ip", judges="expected")
    v4, v6 = ("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")
    for i in range(10):
        body = udp(ib_packet(RC, SEND_ONLY, 40, i, b"l" * 10))
        c.add(struct.pack("<I" if i % 2 else ">I", 2) + ipv4(*v4, body), *v4, payload=10, ends=True)
        c.add(struct.pack("<I", 30) + ipv6(*v6, udp(ib_packet(RC, SEND_ONLY, 41, i, b"l" * 10))), *v6,
              payload=10, ends=True)
    return c


def adaptive_routing():
    """Two paths, one of them 3,000 packets longer; every fifth packet is also captured twice."""
    c = Capture("adaptive-routing", ETHERNET, "ip", nanoseconds=True, judges="expected")
    v4, sent = ("10.0.0.1", "10.0.0.2"), 8000
    order = sorted(range(sent), key=lambda i: i + (3000 if i * 7919 % 13 < 6 and 0 < i < sent - 3001 else 0))
    for i in order:
        frame = ethernet(0x0800, ipv4(*v4, udp(ib_packet(RC, SEND_ONLY, 40, i + 0xfff000 & 0xffffff, b"a" * 64))))
        c.add(frame, *v4, payload=64, ends=True, gap=100)
        if i % 5 == 0:
            c.add(frame, *v4, copy=True, gap=100)
    return c


def new_connections():
    """A queue pair number is used again and again: from the same first number, and from others."""
    c = Capture("new-connections", ETHERNET, "ip", nanoseconds=True, judges="expected")
    v4 = ("10.0.0.1", "10.0.0.2")
    for connection in range(10):
        for i in range(30):
            for qpn, first in ((40, 0), (41, (3355505 + 1718271 * connection) & 0xffffff)):
                body = udp(ib_packet(RC, SEND_ONLY, qpn, (first + i) & 0xffffff, b"n" * 64))
                c.add(ethernet(0x0800, ipv4(*v4, body)), *v4, payload=64, ends=True,
                      gap=10**9 if i == 0 and qpn == 40 else 500000)
    c.found["restarts"] = 18
    return c


def directed_routes():
    """Management datagrams of two managers that both have the permissive LID."""
    c = Capture("directed-routes", IB, "lid", judges="expected")
    for i in range(20):
        body = ib_packet(UD, SEND_ONLY, 0, 300000 * (i % 2) + i, b"\1\x81" + bytes(254), src_qpn=0)
        c.add(lrh_frame(0xffff, 0xffff, body, vl=15), kind="smp")
    c.found["lost"] = None  # no packet that counts has a number
    return c


def fragments_backwards():
    """The first fragment comes last."""
    c = Capture("fragments-backwards", ETHERNET, "ip", judges="expected")
    v4 = ("10.0.0.1", "10.0.0.2")
    for i in range(6):
        whole = udp(ib_packet(RC, SEND_ONLY, 60, i, b"f" * 3000))
        for at in reversed(range(0, len(whole), 1480)):
            part = whole[at:at + 1480]
            c.add(ethernet(0x0800, ipv4(*v4, part, ident=100 + i, offset=at, more=at + 1480 < len(whole))), *v4,
                  payload=3000 if at == 0 else 0, ends=at == 0)
    return c


def short_headers():
    """34 bytes of each packet: not even the ports."""
    c = Capture("short-headers", ETHERNET, "ip", snaplen=34, judges="expected")
    v4 = ("10.0.0.1", "10.0.0.2")
    for i in range(10):
        c.add(ethernet(0x0800, ipv4(*v4, udp(ib_packet(RC, SEND_ONLY, 40, i, b"s" * 100)))), kind="other")
    c.found["cut_headers"] = 10
    c.found["lost"] = None
    return c


def many_sections(directory):
    """pcapng with all that one file may hold: sections of both byte orders, interfaces of several link
    types, snapshot lengths and resolutions, unused ones, old and simple blocks, unknown blocks."""
    def section(order):
        def block(kind, body):
            body += bytes(-len(body) % 4)
            return struct.pack(order + "II", kind, 12 + len(body)) + body + struct.pack(order + "I", 12 + len(body))

        def interface(link, snaplen, resolution):
            option = struct.pack(order + "HHB3x", 9, 1, resolution) + struct.pack(order + "HH", 0, 0)
            return block(1, struct.pack(order + "HHI", link, 0, snaplen) + option)

        def packet(number, time, frame, old=False):
            head = struct.pack(order + ("HH" if old else "I"), *((number, 0) if old else (number,)))
            return block(2 if old else 6, head + struct.pack(order + "IIII", time >> 32, time & 0xffffffff,
                                                             len(frame), len(frame)) + frame)
        return block, interface, packet

    v4 = ("10.0.0.1", "10.0.0.2")
    out, cell, number = [], dict(wire=0, payload=0, packets=0, messages=0), 0
    for order in "<>":
        block, interface, packet = section(order)
        out.append(block(0x0a0d0d0a, struct.pack(order + "IHHq", 0x1a2b3c4d, 1, 0, -1)))
        out += [interface(ETHERNET, 65535, 9), interface(RAW_IP, 128, 6), interface(147, 0, 6), # 147: unused
                interface(SLL, 0, 0x94)]
        out.append(block(0xbad, b"\0\0\x7e\xd9 custom"))
        for i in range(8):
            ip = ipv4(*v4, udp(ib_packet(RC, SEND_ONLY, 40, number, b"p" * 20)))
            number += 1
            seconds = 1700000000 + number
            frame, at, units = [(ethernet(0x0800, ip), 0, 10**9), (ip, 1, 10**6), (cooked_1(0x0800, ip), 3, 1 << 20),
                                (ethernet(0x0800, ip), 0, 10**9)][i % 4]
            if i == 7:
                out.append(block(3, struct.pack(order + "I", len(frame)) + frame))
            else:
                out.append(packet(at, seconds * units, frame, old=i == 3))
            cell["wire"] += len(frame)
            cell["payload"] += 20
            cell["packets"] += 1
            cell["messages"] += 1
    with open(os.path.join(directory, "sections.pcapng"), "wb") as file:
        file.write(b"".join(out))
    with open(os.path.join(directory, "sections.json"), "w") as file:
        json.dump({"by": "ip", "link": ETHERNET, "cells": {" ".join(v4): cell}, "excluded": {}, "judges": "expected",
                   "capture": {"packets": 16, "duplicates": 0, "retransmissions": 0, "lost": 0, "cut": 0,
                               "without_time": 2, "begin": 1700000001.0, "end": 1700000015.0}}, file)


CASES = [headers_infiniband, headers_erf, roce_v1, roce_v2, fragments,
         lambda: cooked("cooked1", SLL, cooked_1), lambda: cooked("cooked2", SLL2, cooked_2), raw_ip,
         snapped, snapped_infiniband, system_traffic, mirrored, retransmitted, asked_again, gaps,
         tunnels, mirrored_infiniband, erf_ethernet, loopback, adaptive_routing, new_connections,
         directed_routes, fragments_backwards, short_headers]


def traffic(path, hosts, packets):
    """Packets round all pairs of hosts, in bursts of four, cut as a monitor would cut them."""
    template = ethernet(0x0800, ipv4("10.0.0.0", "10.0.0.0", udp(ib_packet(RC, SEND_ONLY, 40, 0, b"t" * 64))))
    frame = bytearray(template)
    record = struct.Struct("<IIII")
    time, pair, written = 1700000000 * 10**9, 0, 0
    numbers = {}
    with open(path, "wb", buffering=1 << 22) as file:
        file.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 262144, ETHERNET))
        while written < packets:
            src, dst = pair % hosts, (pair + 1 + pair // hosts % (hosts - 1)) % hosts
            frame[26:30] = struct.pack(">I", 0x0a000000 + src)
            frame[30:34] = struct.pack(">I", 0x0a000000 + dst)
            psn = numbers.get(pair % (hosts * (hosts - 1)), 0)
            for i in range(4):
                frame[42 + 8:42 + 12] = struct.pack(">I", psn + i & 0xffffff)
                time += 300
                file.write(record.pack(time // 10**9, time % 10**9, len(frame), len(frame)) + frame)
            numbers[pair % (hosts * (hosts - 1))] = psn + 4
            written += 4
            pair += 1


def main():
    if sys.argv[1:2] == ["--traffic"]:
        traffic(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    directory = sys.argv[1]
    os.makedirs(directory, exist_ok=True)
    names = []
    for case in CASES:
        capture = case()
        capture.write(directory)
        names.append(capture.name)
    many_sections(directory)
    names.append("sections")
    with open(os.path.join(directory, "cases"), "w") as file:
        file.write("\n".join(names) + "\n")


main()
