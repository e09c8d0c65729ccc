"""Lists of GUIDs and LIDs: root_guid_file, guid2lid, prefix-routes.conf."""
from .result import MEMBERS_IN_LINE, guid_of, lines_of, number

LID_MAX = 0xBFFF


def read_roots(path, result):
    roots = []
    for where, line in lines_of(path):
        try:
            roots.append((guid_of(line.split()[0]), where))
        except ValueError:
            result.error(where, f'"{line[:60]}": expected the GUID of a switch')
    engine = result.get("routing", "engine")
    if engine in (None, "auto", "updn"):
        for i in range(0, len(roots), MEMBERS_IN_LINE):
            some = roots[i : i + MEMBERS_IN_LINE]
            result.set("routing", "roots", " ".join(guid for guid, _ in some), some[0][1])
    elif roots:
        result.lacks(path + ":1", f"roots for engine {engine}", "only updn and auto have roots")


def read_lids(path, result):
    """guid2lid: GUID, lowest and highest LID. mcsm keeps the lowest LID of a port."""
    owners = {}
    for where, line in lines_of(path):
        words = line.split()
        try:
            guid, low, high = guid_of(words[0]), *(number(w, 1, LID_MAX) for w in words[1:3])
            if low > high or len(words) != 3:
                raise ValueError
        except (ValueError, IndexError):
            result.error(where, f'"{line[:60]}": expected "GUID LOWEST-LID HIGHEST-LID"')
            continue
        if guid in owners.values() or low in owners:
            result.error(where, f"GUID {guid} or LID {low} stands in an earlier line")
        owners[low] = guid
        result.lids.append((guid, low))


def read_prefix_routes(path, result):
    for where, line in lines_of(path):
        words = line.split()
        try:
            if len(words) != 2:
                raise ValueError
            for word in words:
                int("0" if word == "*" else word, 16)
        except ValueError:
            result.error(where, f'"{line[:60]}": expected "PREFIX GUID", each may be *')
            continue
        result.lacks(where, f"prefix route {line}", "mcsm answers no path to another subnet")
