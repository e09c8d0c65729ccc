"""The descriptor once more, from a table of bit positions: a second, independent model.

Reads what nmp_dump prints, and compares every field with the bits of the descriptor."""
import json
import sys

# name: first bit, last bit. The figure of the paper, as docs/inm.md places it.
BITS = {
    "Head": (0, 7), "Type": (8, 11), "SM": (12, 12), "Inst": (13, 13), "Err": (14, 14),
    "Fen": (15, 15), "Lint": (16, 16), "Rint": (17, 17), "RtType": (18, 19), "DestType": (20, 21),
    "DestID": (24, 47), "DestVP": (48, 55), "SrcVP": (56, 63), "TransactionID": (64, 79),
    "NMPType": (80, 85), "FHops": (86, 90), "BHops": (191, 195), "Count": (296, 299),
    "Status": (300, 303),
}
for hop in range(20):
    BITS[f"F{hop}"] = (91 + 5 * hop, 95 + 5 * hop)
    BITS[f"B{hop}"] = (196 + 5 * hop, 200 + 5 * hop)
REGISTERS = {"addr0": (304, 319), "addr1": (320, 335), "reg0": (352, 415), "reg1": (416, 479)}
EEPROM = {}
for byte in range(6):
    EEPROM[f"addr{byte}"] = (304 + 24 * byte, 319 + 24 * byte)
    EEPROM[f"bytes{byte}"] = (320 + 24 * byte, 327 + 24 * byte)
REPORT = {"event": (304, 311), "port": (312, 319), "src_type": (320, 327), "src_id": (328, 351),
          "seq": (352, 383), "value": (384, 447)}


def main():
    count = 0
    for line in sys.stdin:
        record = json.loads(line)
        number = int.from_bytes(bytes.fromhex(record["hex"]), "little")
        for name in ("F", "B", "addr", "reg", "bytes"):
            for i, value in enumerate(record[name]):
                record[f"{name}{i}"] = value
        kind = record["NMPType"]
        table = dict(BITS, **(REPORT if kind == 11 else EEPROM if kind >= 6 else REGISTERS))
        built = 0
        for name, (first, last) in table.items():
            assert number >> first & (1 << last - first + 1) - 1 == record[name], (name, record)
            built |= record[name] << first
        assert built == number, "bits outside of the fields are set"
        count += 1
    assert count == 550, count
    print(f"{count} descriptors agree, bit for bit")


main()
