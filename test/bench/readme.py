"""Write the tables of README.md and docs/performance.md from the values of one run."""

import contextlib
import io
import os
import re

import report
import rows as table

# The tables by name: the file, and how to show the table there.
PLACES = {'brief': 'README.md', 'expect': 'docs/performance.md', 'whole': 'docs/performance.md'}

# The rows of the first table of docs/performance.md: what it is called there, and its test.
EXPECTED = [
    ('Open MPI, 8 B, latency', 'openmpi.lat'), ('MPICH, 8 B, latency', 'mpich.lat'),
    ('UCP tag, 8 B, latency', 'tag.lat.8'),
    ('Open MPI, 8 B, messages per second', 'openmpi.rate'),
    ('MPICH, 8 B, messages per second', 'mpich.rate'),
    ('Open MPI, 64 KB, bandwidth', 'openmpi.bw.%d' % (64 * table.KB)),
    ('MPICH, 64 KB, bandwidth', 'mpich.bw.%d' % (64 * table.KB)),
    ('Open MPI, 1 MB, bandwidth', 'openmpi.bw.%d' % table.MB),
    ('MPICH, 1 MB, bandwidth', 'mpich.bw.%d' % table.MB),
    ('UCP tag, 1 MB, memory of the NIC, bandwidth', 'tag.bw.%d' % table.MB),
    ('a sleeping process is woken', 'wakeup'),
    ('Open MPI, 64 ranks on 2 processors, all-to-all of 8 B', 'openmpi.a2a.64.8'),
]


def block(show):
    """What a function prints, as a block of code."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        show()
    return '```\n%s\n```' % text.getvalue().strip()


def print_brief(name, results, rounds):
    """The table of the README: the machine and a few rows, without targets."""
    print(name)
    report.print_table([dict(result, target=None) for result in results], rounds, with_notes=False)


def expectations(name, tests, values):
    """A table of Markdown: each quantity over glex and over each of the others."""
    others = [column for column in ('posix', 'posix,cma', 'vader', 'default')
              if any((test, column) in values for _, test in EXPECTED)]
    lines = [name + '.', '', '| | glex | %s |' % ' | '.join(others),
             '| --- ' * (len(others) + 2) + '|']
    for title, test in EXPECTED:
        cells = [report.median_text(values, test, column, tests[test].unit)
                 for column in ['er'] + others]
        lines.append('| %s | %s |' % (title, ' | '.join(cells)))
    return '\n'.join(lines)


def replaced(text, name, new):
    """A document whose table of this name is new."""
    begin, end = '<!-- table of contrib/bench: %s -->' % name, '<!-- end of the table -->'
    pattern = re.compile(re.escape(begin) + '.*?' + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise ValueError('no line "%s"' % begin)
    return pattern.sub(lambda _: '%s\n%s\n%s' % (begin, new, end), text, count=1)


def write(top, tables):
    """Each table goes between two comments of its document, which stay."""
    for name, new in tables.items():
        path = os.path.join(top, PLACES[name])
        with open(path) as file:
            text = file.read()
        with open(path + '.new', 'w') as out:
            out.write(replaced(text, name, new))
        os.replace(path + '.new', path)
