"""qos-policy.conf: the rules for quality of service."""
import re

from .result import MEMBERS_IN_LINE, lines_of, number

GUID_MAX = (1 << 64) - 1
TYPES = {"CA": "ca", "SWITCH": "switch", "ROUTER": "router", "SELF": "self"}
SERVICES = {"sdp": (0x10000, None), "rds": (0x1060000, 0x48CA), "iser": (0x1060000, 0x0CBC)}
LINE_MAX = 120


class Policy:
    """What was read: groups and levels by name, and rules in the order in which they count."""

    def __init__(self):
        self.groups = {}
        self.levels = {}
        self.rules = []
        self.simple = []
        self.default = None


class Group:
    def __init__(self, name, where):
        self.name, self.where = name, where
        self.lines = []


class Rule:
    def __init__(self, where, sl):
        self.where, self.sl = where, sl
        self.lines = []
        self.groups = {"source": None, "destination": None}


def ranges_of(text, low, high, mask=-1):
    """"1, 5-7" as pairs; ValueError for wrong numbers."""
    pairs = []
    for word in text.split(","):
        ends = [number(end.strip(), low, high) & mask for end in word.split("-")]
        if len(ends) > 2 or ends[0] > ends[-1] or (mask != -1 and ends[0] == 0):
            raise ValueError
        pairs.append((ends[0], ends[-1]))
    return pairs


def lines_for(key, pairs):
    """The lines of mcsm.conf for a list of ranges."""
    words = [hex(a) if a == b else f"{a:#x}-{b:#x}" for a, b in pairs]
    step = MEMBERS_IN_LINE // 2
    return [f"{key} = " + " ".join(words[i:i + step]) for i in range(0, len(words), step)]


def blocks_of(path, result):
    """Sections up to end-SECTION: (section, place, [(key, value, place)])."""
    stack = []
    for where, line in lines_of(path):
        if line.startswith("end-"):
            if not stack or stack[-1][0] != line[4:]:
                result.error(where, f'"{line[:60]}" ends no section that is open')
            else:
                yield stack.pop()
        elif ":" in line:
            key, value = (part.strip() for part in line.split(":", 1))
            if not stack:
                result.error(where, f'"{line[:60]}" stands outside of a section')
            else:
                stack[-1][2].append((key, value, where))
        elif re.fullmatch("[a-z0-9-]+", line):
            stack.append((line, where, []))
        else:
            result.error(where, f'"{line[:60]}": expected a section, "key: value" or end-SECTION')
    if stack:
        result.error(path, f"the file ends inside of {stack[-1][0]}")


def node_line(name):
    """A port name as a pattern of mcsm.conf; None if mcsm cannot read such a name."""
    line = "node = " + re.sub(r"[*?\[]", r"\\\g<0>", name.replace("\\", '"')).replace('"', "?")
    if not name or name.startswith("/P") or len(line) > LINE_MAX or ";" in name:
        return None
    return line


def read_group(policy, result, where, entries):
    names = [value for key, value, _ in entries if key == "name"]
    if not names:
        result.error(where, "port-group without a name")
        return
    group = policy.groups.setdefault(names[0], Group(names[0], where))
    for key, value, place in entries:
        try:
            if key == "port-guid":
                group.lines += lines_for("guids", ranges_of(value, 1, GUID_MAX))
            elif key == "pkey":
                group.lines += lines_for("pkeys", ranges_of(value, 1, 0xFFFF, 0x7FFF))
            elif key == "partition":
                add_partitions(group, result, value, place)
            elif key == "node-type":
                types = [word.strip() for word in value.upper().split(",")]
                every = list(TYPES.values())[:3] if "ALL" in types else []
                words = every or [TYPES[word] for word in types]
                group.lines.append("types = " + " ".join(dict.fromkeys(words)))
            elif key == "port-name":
                add_nodes(group, result, value, place)
            elif key not in ("name", "use"):
                result.lacks(place, f"port-group: {key}: {value}")
        except (ValueError, KeyError):
            result.error(place, f"{key}: {value[:60]}: OpenSM does not allow this value")


def add_partitions(group, result, value, where):
    for name in (word.strip() for word in value.split(",")):
        pkeys = [pkey for pkey, partition in result.partitions.items() if partition.name == name]
        if pkeys:
            group.lines += lines_for("pkeys", [(pkeys[0], pkeys[0])])
        else:
            result.lacks(where, f"port-group: partition: {name}", "no partition has this name")


def add_nodes(group, result, value, where):
    for name in (word.strip() for word in value.split(",")):
        line = node_line(name)
        if line:
            group.lines.append(line)
        else:
            result.lacks(where, f"port-group: port-name: {name}")


def read_level(policy, result, where, entries):
    name, sl = None, None
    for key, value, place in entries:
        if key == "name":
            name = value
        elif key == "sl":
            sl = read_sl(result, value, place)
        elif key != "use":
            result.lacks(place, f"qos-level: {key}: {value}")
    if name is None:
        result.error(where, "qos-level without a name")
    else:
        policy.levels[name] = (sl, where)


def read_sl(result, value, where):
    try:
        return number(value, 0, 15)
    except ValueError:
        result.error(where, f"{value[:60]}: expected a service level, 0 to 15")
        return None


def read_rule(policy, result, where, entries):
    rule, level = Rule(where, None), None
    keys = {"service-id": ("service-id", 0, GUID_MAX, -1), "qos-class": ("qos-class", 0, 4095, -1),
            "pkey": ("pkey", 1, 0xFFFF, 0x7FFF)}
    for key, value, place in entries:
        try:
            if key in keys:
                name, *limits = keys[key]
                rule.lines += lines_for(name, ranges_of(value, *limits))
            elif key in rule.groups:
                words = [word.strip() for word in value.split(",")]
                rule.groups[key] = (rule.groups[key] or []) + words
            elif key == "qos-level-name":
                level = value
            elif key != "use":
                result.lacks(place, f"qos-match-rule: {key}: {value}")
        except ValueError:
            result.error(place, f"{key}: {value[:60]}: OpenSM does not allow this value")
    policy.rules.append((rule, level))


def read_simple(policy, result, key, value, where):
    """A line of qos-ulps: one criterion and a service level."""
    sl = read_sl(result, value, where)
    if key == "default":
        policy.default = (sl, where)
        return
    rule = Rule(where, sl)
    program, _, criterion = (part.strip() for part in key.partition(","))
    name, _, text = criterion.partition(" ")
    try:
        if program in SERVICES and name in ("", "port-num"):
            base, port = SERVICES[program]
            ports = ranges_of(text, 0, 65535) if name else [(port or 0, port or 65535)]
            rule.lines = lines_for("service-id", [(base + a, base + b) for a, b in ports])
        elif program == "ipoib" and name in ("", "pkey"):
            rule.lines = lines_for("pkey", ranges_of(text or "0x7fff", 1, 0xFFFF, 0x7FFF))
        elif program == "any" and name == "pkey":
            rule.lines = lines_for("pkey", ranges_of(text, 1, 0xFFFF, 0x7FFF))
        elif program == "any" and name == "service-id":
            rule.lines = lines_for("service-id", ranges_of(text, 0, GUID_MAX))
        elif (program, name) in (("any", "target-port-guid"), ("srp", "target-port-guid"),
                                 ("any", "source-port-guid")):
            group = Group(f"ulp-{len(policy.simple) + 1}", where)
            group.lines = lines_for("guids", ranges_of(text, 1, GUID_MAX))
            policy.groups[group.name] = group
            rule.groups["destination" if name[0] == "t" else "source"] = [group.name]
        else:
            raise ValueError
    except ValueError:
        result.error(where, f'"{key[:60]}" is no rule of qos-ulps')
    policy.simple.append(rule)


def resolve(policy, result):
    """Rules get their level, and lose groups without ports. A rule that cannot match is left out."""
    for rule, level in policy.rules:
        if level not in policy.levels:
            result.error(rule.where, f"qos-match-rule: there is no qos-level {level}")
            continue
        rule.sl = policy.levels[level][0]
    full = [rule for rule, _ in policy.rules] + policy.simple
    sl, where = policy.levels.get("DEFAULT") or policy.default or (None, None)
    if sl is not None and (full or sl > 0):
        full.append(Rule(where, sl))
    done = False
    for rule in full:
        if done:
            result.lacks(rule.where, "a rule behind a rule that matches every path")
        elif rule.sl is None:
            result.lacks(rule.where, "a rule whose qos-level has no sl")
        elif fill_groups(policy, result, rule):
            done = not rule.lines and not any(rule.groups.values())
            result.rules.append(rule)


def fill_groups(policy, result, rule):
    for key, names in rule.groups.items():
        for name in names or []:
            if name not in policy.groups:
                result.error(rule.where, f"{key}: there is no port-group {name}")
                return False
        if names is None:
            continue
        rule.groups[key] = [policy.groups[name] for name in names if policy.groups[name].lines]
        if not rule.groups[key]:
            result.lacks(rule.where, f"a rule whose {key} groups have no ports")
            return False
        for group in rule.groups[key]:
            if group not in result.groups:
                result.groups.append(group)
    return True


def read_policy(path, result):
    policy = Policy()
    readers = {"port-group": read_group, "qos-level": read_level, "qos-match-rule": read_rule}
    for section, where, entries in blocks_of(path, result):
        if section in readers:
            readers[section](policy, result, where, entries)
            continue
        for key, value, place in entries:
            if section == "qos-ulps":
                read_simple(policy, result, key, value, place)
            else:
                result.lacks(place, f"{section}: {key}: {value}")
    resolve(policy, result)
