#!/usr/bin/env python3
"""circles.py BUILD KNOWN: groups of object files that need each other's functions in a circle.

A circle means that no file of the group can be understood, tested or replaced alone. The file KNOWN
lists the circles that are still there, a line each: the directory below src, then the names of the
files. A circle that KNOWN does not list, and a listed circle that has gone, are errors. Directories
that were not built are left out.
"""
import os
import subprocess
import sys


def objects(directory):
    """Position-independent objects where libtool has made two of a source, else the only one."""
    found = []
    for folder, _, names in os.walk(directory):
        for name in names:
            if not name.endswith('.o'):
                continue
            if os.path.basename(folder) != '.libs' and os.path.exists(
                    os.path.join(folder, '.libs', name)):
                continue
            found.append(os.path.join(folder, name))
    return found


def symbols(path):
    """Functions and variables that an object defines for others, and those that it needs."""
    defined, needed = set(), set()
    output = subprocess.run(['nm', '-P', path], capture_output=True, text=True, check=True).stdout
    for line in output.splitlines():
        name, kind = line.split()[:2]
        if kind in 'TDBRVW':
            defined.add(name)
        elif kind == 'U':
            needed.add(name)
    return defined, needed


def edges(paths):
    """For each object the objects that it needs. Two programs may define the same name: then the name
    tells nothing."""
    owner, needs = {}, {}
    for path in paths:
        defined, needs[path] = symbols(path)
        for name in defined:
            owner[name] = None if name in owner else path
    return {path: {owner[name] for name in names if owner.get(name) not in (None, path)}
            for path, names in needs.items()}


def circles(graph):
    """Strongly connected components of more than one object (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(group) > 1:
                found.append(group)

    for node in graph:
        if node not in index:
            visit(node)
    return found


def source_name(path, directory):
    folder, name = os.path.split(os.path.relpath(path, directory).replace('.libs/', ''))
    return os.path.join(folder, name.rsplit('_la-', 1)[-1][:-len('.o')])


def main():
    build, known_file = sys.argv[1:]
    sys.setrecursionlimit(10000)
    now, built = set(), set()
    for folder, subfolders, names in os.walk(os.path.join(build, 'src')):
        paths = objects(folder) if 'Makefile' in names else []
        if not paths:
            continue
        where = os.path.relpath(folder, os.path.join(build, 'src'))
        built.add(where)
        for group in circles(edges(paths)):
            now.add(' '.join([where] + sorted(source_name(o, folder) for o in group)))
    with open(known_file) as file:
        lines = {line.strip() for line in file if line.strip() and not line.startswith('#')}
    known = {line for line in lines if line.split()[0] in built}
    for circle in sorted(now - known):
        print('a new circle: ' + circle)
    for circle in sorted(known - now):
        print('no circle any more, take it out of %s: %s' % (known_file, circle))
    sys.exit(now != known)


main()
