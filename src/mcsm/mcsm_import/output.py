"""The text of mcsm.conf."""
import os
import re
import stat
import textwrap

from .result import MEMBERS_IN_LINE, SECTIONS



def comment(text):
    return textwrap.fill(text, 98, initial_indent="# ", subsequent_indent="#   ")


def unique_name(name, pkey, used):
    name = re.sub("[^A-Za-z0-9._-]", "-", name)[:24] or f"pkey-{pkey:04x}"
    if name in used:
        name = f"{name}-{pkey:04x}"
    used.add(name)
    return name


def write_partition(out, partition, used):
    names = {"rate": "rate", "mtu": "mtu", "sl": "sl", "Q_Key": "qkey"}
    out.append(f"\n{comment(partition.where)}")
    out.append(f"[partition {unique_name(partition.name, partition.pkey, used)}]")
    out.append(f"pkey = 0x{partition.pkey:04x}")
    if partition.ipoib:
        out.append("ipoib = yes")
        for flag, value in partition.flags.items():
            out.append(f"{names[flag]} = " + (hex(value) if flag == "Q_Key" else str(value)))
    for kind, ports in partition.members.items():
        ports = list(dict.fromkeys(ports))
        for i in range(0, len(ports), MEMBERS_IN_LINE):
            out.append(f"{kind} = " + " ".join(ports[i : i + MEMBERS_IN_LINE]))


def write_rules(out, result):
    """Groups of ports, and the rules that name them."""
    names, used = {}, set()
    for number, group in enumerate(result.groups):
        names[group] = unique_name(group.name, number, used)
        out.append(f"\n{comment(group.where)}")
        out.append(f"[group {names[group]}]")
        out.extend(group.lines)
    for number, rule in enumerate(result.rules, 1):
        out.append(f"\n{comment(rule.where)}")
        out.append(f"[rule rule-{number}]")
        out.extend(rule.lines)
        for key, groups in rule.groups.items():
            out.extend(f"{key} = {names[group]}" for group in groups or [])
        out.append(f"sl = {rule.sl}")


def configuration(result, name, directory, lids_file):
    """The text of mcsm.conf. A comment above each setting names the line of OpenSM's file."""
    out = [comment(f"Made by mcsm-import from {directory}. mcsm.conf(5) describes every key."),
           "# Settings that have OpenSM's default are left out; then the default of mcsm counts."]
    for section in SECTIONS:
        settings = result.settings[section]
        if section != "cluster" and not settings:
            continue
        out.append(f"\n[{section}]")
        if section == "cluster":
            out.append(f"name = {name}")
            if result.lids and lids_file is None:
                out.append("# The ports keep their LIDs, and mcsm takes the LIDs over.")
            elif result.lids:
                out.append(comment(f"The LIDs are in {lids_file}. Before the first start, copy "
                                   f"this file to /var/lib/mcsm/{name}.lids. Then each port keeps "
                                   "its LID."))
            if result.get("cluster", "m-key") is None:
                out.append("# Without m-key, mcsm makes an M_Key at its first start.")
        for key, value, where in settings:
            out.append(f"{comment(where)}\n{key} = {value}")
    used = set()
    for _, partition in sorted(result.partitions.items()):
        write_partition(out, partition, used)
    write_rules(out, result)
    if result.remarks:
        out.append("\n# Remarks of the import:")
        out.extend(comment(remark) for remark in result.remarks)
    return "\n".join(out) + "\n"


def write_file(path, text):
    """Only the owner may read the file, because it may contain the M_Key."""
    with open(path, "w", encoding="utf-8",
              opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), 0o600)  # the file may have existed with another mode
        file.write(text)
