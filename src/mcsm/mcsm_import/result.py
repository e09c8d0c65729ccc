"""The result of an import, which all readers fill, and numbers and lines of OpenSM's files."""
import re

LINE_MAX = 190  # mcsm refuses longer lines
MEMBERS_IN_LINE = 8
SECTIONS = ("cluster", "routing", "port", "sweep", "health")


class Import:
    """What was read: settings by section, partitions, LIDs, remarks and errors."""

    def __init__(self):
        self.settings = {section: [] for section in SECTIONS}
        self.partitions = {}  # by P_Key
        self.groups = []  # of ports, for the rules
        self.rules = []  # in the order in which they count
        self.lids = []
        self.remarks = []
        self.errors = []

    def set(self, section, key, value, where):
        if len(f"{key} = {value}") > LINE_MAX:
            self.lacks(where, f"a value of {len(value)} characters for {key}")
        else:
            self.settings[section].append((key, value, where))

    def get(self, section, key):
        return next((v for k, v, _ in self.settings[section] if k == key), None)

    def drop(self, section, keys):
        self.settings[section] = [s for s in self.settings[section] if s[0] not in keys]

    def remark(self, where, text):
        self.remarks.append(f"{where}: {text}")

    def lacks(self, where, what, hint=None):
        self.remark(where, f"no counterpart in mcsm: {what}" + (f" ({hint})" if hint else ""))

    def error(self, where, text):
        self.errors.append(f"{where}: error: {text}")


def lines_of(path):
    """The lines of a file with their places, without comments."""
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, 1):
            line = re.sub(r"[^\x20-\x7e\t]", " ", line.split("#")[0]).strip()
            if line:
                yield f"{path}:{number}", line


def number(text, low, high):
    """A number as strtoull() of base 0 reads it; ValueError outside of low..high."""
    value = int(text, 8) if re.fullmatch("0[0-7]+", text) else int(text, 0)
    if not low <= value <= high:
        raise ValueError
    return value


def guid_of(text):
    """A GUID: hexadecimal with or without 0x."""
    value = int(text, 16)
    if not 0 < value < 1 << 64:
        raise ValueError
    return f"0x{value:016x}"


def hexadecimal(value):
    return f"0x{value:016x}"
