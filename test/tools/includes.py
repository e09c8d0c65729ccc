#!/usr/bin/env python3
"""includes.py TABLE: whether the files below src include only headers that TABLE allows.

TABLE (includes.txt) lists the folders of each component from the lowest to the highest. Prints each
include that leads upward or to a folder that the table does not name. Exit status: 0 if there is none,
1 if there is one, 2 for a wrong command line or table.
"""
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def read_table(path):
    """Folder -> folders that it may include, all below src."""
    allowed = {}
    for line in open(path, encoding="utf-8"):
        line = line.split("#")[0].strip()
        if not line:
            continue
        component, _, rest = line.partition(":")
        rest, _, also = rest.partition(" also ")
        below = also.split()
        inside = False
        group = []
        for word in rest.replace("[", " [ ").replace("]", " ] ").split() or ["."]:
            if word in "[]":
                inside = word == "["
                if not inside:
                    below += group
                    group = []
                continue
            folder = os.path.normpath(os.path.join(component, word))
            allowed[folder] = set(below) | {folder}
            if inside:
                group.append(folder)
            else:
                below.append(folder)
    return allowed


def sources():
    for folder, _, names in os.walk("src"):
        for name in names:
            if name.endswith((".c", ".h")):
                yield os.path.join(folder, name)


def find(folder, include, headers):
    """The header of this tree that an include means: beside the file, below src, or the only one."""
    for start in (folder, "src"):
        path = os.path.normpath(os.path.join(start, include))
        if path in headers:
            return path
    ends = [path for path in headers if path.endswith("/" + include)]
    return ends[0] if len(ends) == 1 else None


def may_include(allowed, own, other):
    """`also glex` allows all folders below glex, too."""
    return any(other == folder or (folder in allowed[own] and other.startswith(folder + "/"))
               for folder in allowed[own])


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    allowed = read_table(sys.argv[1])
    files = sorted(sources())
    headers = set(files)
    wrong = 0
    for path in files:
        own = os.path.relpath(os.path.dirname(path), "src")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for include in INCLUDE.findall(text):
            target = find(os.path.dirname(path), include, headers)
            if target is None:
                continue
            other = os.path.relpath(os.path.dirname(target), "src")
            if own not in allowed:
                print(f"{path}: {sys.argv[1]} does not name src/{own}")
            elif own != other and not may_include(allowed, own, other):
                print(f"{path} includes {include}: src/{own} may not include src/{other}")
            else:
                continue
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
