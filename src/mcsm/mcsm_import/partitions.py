"""partitions.conf: partitions, their ports and their multicast groups."""
from .result import hexadecimal, lines_of, number

FULL, LIMITED = "full", "limited"
GROUP_FLAGS = {"rate": (2, 24), "mtu": (1, 5), "sl": (0, 15), "Q_Key": (0, 0xFFFFFFFF)}
OTHER_FLAGS = ("scope", "TClass", "FlowLabel")
EVERY_PORT = ("ALL", "ALL_CAS")


class Partition:
    def __init__(self, name, pkey, where):
        self.name, self.pkey, self.where = name, pkey, where
        self.ipoib = False
        self.flags = {}
        self.members = {FULL: [], LIMITED: []}


def statements(path):
    """Yields the place and the lines of each statement up to its semicolon."""
    lines = []
    for where, line in lines_of(path):
        parts = line.split(";")
        for part in parts[:-1]:
            lines.append((where, part))
            if any(text.strip() for _, text in lines):
                yield lines, True
            lines = []
        lines.append((where, parts[-1]))
    if any(text.strip() for _, text in lines):
        yield lines, False


def split_statement(lines):
    """The words before the first colon, and the lines after it."""
    head, rest = [], None
    for where, text in lines:
        if rest is not None:
            rest.append((where, text))
        elif ":" in text:
            before, after = text.split(":", 1)
            head.append(before)
            rest = [(where, after)]
        else:
            head.append(text)
    return [word.strip() for word in " ".join(head).split(",")], rest


def is_prefix(word, full):
    """OpenSM accepts "limi" for "limited"."""
    return word != "" and full.startswith(word)


def set_flag(result, flags, word, where):
    """A property of a multicast group. Returns whether the word is one."""
    name, _, value = (part.strip() for part in word.partition("="))
    if name in OTHER_FLAGS:
        result.lacks(where, word)
        return True
    if name not in GROUP_FLAGS:
        return False
    try:
        flags[name] = number(value, *GROUP_FLAGS[name])
    except ValueError:
        result.error(where, f"{word}: expected {GROUP_FLAGS[name][0]} to {GROUP_FLAGS[name][1]}")
    return True


def find_partition(result, word, where):
    """The partition of "NAME=PKEY". OpenSM counts P_Keys from 1 for partitions without one."""
    name, _, key = (part.strip() for part in word.partition("="))
    try:
        pkey = number(key, 0, 0xFFFF) & 0x7FFF if key else 0
        if key and pkey == 0:
            raise ValueError
    except ValueError:
        result.error(where, f"{word}: expected NAME=PKEY, a P_Key of 1 to 0x7fff")
        return None
    if not key and name == "Default":
        pkey = 0x7FFF
    elif not key:
        pkey = next((p for p in range(1, 0x7FFF) if p not in result.partitions), 0)
        result.remark(where, f"partition {name} has no P_Key: the import chooses 0x{pkey:04x}, "
                             "and OpenSM may have chosen another one")
    return result.partitions.setdefault(pkey, Partition(name, pkey, where))


def read_definition(result, words, where):
    """Returns the partition and the membership of ports that do not name one."""
    partition = find_partition(result, words[0], where)
    member = LIMITED
    for word in words[1:] if partition else []:
        name, _, value = (part.strip() for part in word.partition("="))
        if name == "ipoib":
            partition.ipoib = True
        elif name == "indx0":
            result.lacks(where, f"indx0 of partition {partition.name}", "a P_Key keeps its index")
        elif name == "defmember":
            member = membership(result, value, LIMITED, where)
        elif word and not set_flag(result, partition.flags, word, where):
            result.error(where, f'"{word[:60]}" is no flag of a partition')
    return partition, member


def membership(result, word, default, where):
    if word == "":
        return default
    if word == "both":
        result.lacks(where, "membership both", "the port becomes a full member")
        return FULL
    if is_prefix(word, FULL):
        return FULL
    if not is_prefix(word, LIMITED):
        result.remark(where, f'membership "{word}" is unknown: OpenSM takes limited')
    return LIMITED


def add_member(result, partition, word, default, where):
    port, _, value = (part.strip() for part in word.partition("="))
    kind = membership(result, value, default, where)
    if port in EVERY_PORT:
        partition.members[kind].append("all")
        if port != "ALL":
            result.lacks(where, port, "all has switches and routers, too")
    elif port in ("ALL_SWITCHES", "ALL_ROUTERS"):
        result.lacks(where, f"{port} as members", "name the port GUIDs")
    elif port == "SELF":
        own = result.get("cluster", "port-guid")
        if own is not None:
            partition.members[kind].append(own)
        elif partition.pkey != 0x7FFF:  # the manager is always a full member of the default one
            result.lacks(where, "SELF", "name the port GUID of the manager")
    else:
        try:
            value = number(port, 1, (1 << 64) - 1)
            partition.members[kind].append(hexadecimal(value))
        except ValueError:
            result.error(where, f'"{port[:60]}": expected a port GUID, ALL or SELF')


def read_members(result, partition, default, where, line):
    """One line of port names and groups. The flags of a group reach to the end of the line."""
    words = [word.strip() for word in line.split(",")]
    for i, word in enumerate(words):
        if word.startswith("mgid="):
            flags = []
            while i + 1 < len(words) and set_flag(result, {}, words[i + 1], where):
                flags.append(words.pop(i + 1))
            address, *rest = word.split()  # a list of ports may follow without a comma
            result.lacks(where, f"group {','.join([address] + flags)}", "hosts create groups")
            words[i:i + 1] = [address]
            for port in rest:
                add_member(result, partition, port, default, where)
        elif word:
            add_member(result, partition, word, default, where)


def read_partitions(path, result):
    for lines, ended in statements(path):
        where = next(where for where, text in lines if text.strip())
        if not ended:
            result.error(where, "the definition has no semicolon at its end")
            return
        words, body = split_statement(lines)
        if body is None:
            result.error(where, 'expected "NAME=PKEY, FLAGS : MEMBERS;"')
            continue
        partition, default = read_definition(result, words, where)
        for place, line in body if partition else []:
            read_members(result, partition, default, place, line)
    if 0x7FFF not in result.partitions:
        default = Partition("Default", 0x7FFF, path)
        default.members[LIMITED].append("all")
        result.partitions[0x7FFF] = default


def drop_service_levels(result):
    """Levels that mcsm refuses: all with lash and torus, and otherwise levels without a lane."""
    engine = result.get("routing", "engine")
    if engine in ("lash", "torus"):
        drop_all_levels(result, engine)
        return
    lanes = result.get("port", "sl2vl")
    lanes = [int(vl) for vl in lanes.split()] if lanes else list(range(16))
    for partition in result.partitions.values():
        if lanes[partition.flags.get("sl", 0)] == 15 and partition.flags.get("sl", 0) > 0:
            result.lacks(partition.where, f"sl {partition.flags.pop('sl')} of a partition",
                         "the service level has no virtual lane")
    for rule in result.rules:
        if lanes[rule.sl] == 15:
            result.lacks(rule.where, f"a rule with service level {rule.sl}",
                         "the service level has no virtual lane")
    result.rules = [rule for rule in result.rules if lanes[rule.sl] != 15]


def drop_all_levels(result, engine):
    """lash and torus choose the service levels themselves."""
    for key, _, where in result.settings["port"]:
        if key == "sl2vl":
            result.lacks(where, f"qos_sl2vl with engine {engine}", "the engine sets the lanes")
    result.drop("port", ("sl2vl",))
    for partition in result.partitions.values():
        if partition.flags.pop("sl", 0) != 0:
            result.lacks(partition.where, f"sl of a partition with engine {engine}",
                         "the engine chooses the service levels")
    for rule in result.rules:
        result.lacks(rule.where, f"a rule for service levels with engine {engine}",
                     "the engine chooses the service levels")
    result.rules, result.groups = [], []
