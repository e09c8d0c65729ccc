#!/bin/sh
# The table "message x state" of docs/protocol.md says the same as test/uct/test_states.cc, which
# tests each pair.
# shellcheck source=test/tools/lib.sh
. "${srcdir:-.}/lib.sh"
top=${srcdir:-.}/../..

python3 - "$top" << 'END' || fail "docs/protocol.md and test/uct/test_states.cc do not agree"
import re
import sys

top = sys.argv[1]
LETTERS = 'NWCAOLPF' # no VC, WAIT_MPQ, CONNECTING, ACCEPTING, OPEN, leaving, PEER_CLOSED, FAILED
# The messages of each row of the document, as columns of the test
COLUMNS = [[0], [1], [25], [2], [3], [4, 15, 17, 18, 19], [16], [5, 20, 21], [6, 26], [7, 8], [27],
           [9], [22], [23], [24], [10], [11], [12, 13, 14], [28]]


def letter(cell, own):
    """The state after a message, in the test's letters."""
    word = cell.replace('new VC, ', '').split(',')[0].strip()
    return own if word == '-' else {'ACCEPTING': 'A', 'OPEN': 'O', 'FAILED': 'F',
                                    'PEER_CLOSED': 'P'}[word]


text = open(top + '/docs/protocol.md').read()
table = text[text.index('| message | no VC |'):].split('\n\n')[0].split('\n')[2:]
source = open(top + '/test/uct/test_states.cc').read()
rows = [row.replace(' ', '') for row in
        re.findall(r'/\* [\w ]+ \*/ "([A-Z ]+)"', source[source.index('expected[ROWS]'):])]
if len(table) != len(COLUMNS) or len(rows) != len(LETTERS):
    sys.exit('one of the tables is read wrongly: %d and %d rows' % (len(table), len(rows)))
status = 0
for line, columns in zip(table, COLUMNS):
    cells = [cell.strip() for cell in line.strip('|').split(' | ')]
    for state, own in enumerate(LETTERS):
        for column in columns:
            said = letter(cells[1 + state].strip(' |'), own)
            if said != rows[state][column]:
                print('%s, state %s: the document says %s, the test %s' % (
                    cells[0], own, said, rows[state][column]))
                status = 1
sys.exit(status)
END
