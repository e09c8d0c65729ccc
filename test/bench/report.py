"""From the values of all rounds to the table."""

import json
import os
import statistics

import reasons
import rows as table

FAR = 100e-9 # seconds: processors are far if a cache line takes longer from one to the other
MODE_GAP = 1.5 # two groups of rounds are two modes if a factor of this lies between them


def distance(handover):
    """Whether two processors are near (they share a cache) or far, by what a cache line takes."""
    return 'far' if handover > FAR else 'near'


def bound_of(row, kind):
    """The target of a row on near or on far processors."""
    return row.bound[kind] if isinstance(row.bound, dict) else row.bound


def show(seconds_or_rate, unit):
    """A value in its unit, with three digits that mean something."""
    value = seconds_or_rate * table.UNITS[unit]
    return '%.0f' % value if value >= 1000 else '%.3g' % value


def figure(values, places, less):
    """Per round the best of some figures; None where a round lacks one of them."""
    best = min if less else max
    rounds = [values.get(place, []) for place in places]
    return [best(row) if None not in row else None for row in zip(*rounds)]


def per_round(row, tests, values):
    """What a row compares, round by round."""
    test = row.ours[0][0]
    less = test == 'bare' or tests[test].less
    if row.kind == 'step':
        mine, below, theirs, theirs_below = (values.get(place, [])
                                             for place in row.ours + row.theirs)
        return [(a - b) - (c - d) for a, b, c, d in zip(mine, below, theirs, theirs_below)
                if None not in (a, b, c, d)]
    pairs = [(a, b) for a, b in zip(figure(values, row.ours, less),
                                    figure(values, row.theirs, less))
             if a is not None and b is not None]
    return [a / b if row.kind == 'ratio' else a - b for a, b in pairs]


def modes(ratios):
    """The medians of two groups of rounds with a wide gap between them; None if there is one group."""
    ordered = sorted(ratios)
    gaps = [(ordered[i] / ordered[i - 1], i) for i in range(2, len(ordered) - 1)]
    gap, place = max(gaps, default=(1, 0))
    if gap < MODE_GAP:
        return None
    return statistics.median(ordered[:place]), statistics.median(ordered[place:])


def judge(row, tests, values, kind):
    """A row as a dictionary, with its median, its spread and whether its target is met."""
    compared = per_round(row, tests, values)
    test = row.ours[0][0]
    bound = bound_of(row, kind)
    result = {'what': row.title, 'test': test, 'kind': row.kind, 'unit': 'ns' if test == 'bare' else
              tests[test].unit, 'target': [row.op, bound] if row.op else None}
    if not compared:
        return dict(result, median=None, met=None)
    less = test == 'bare' or tests[test].less
    for name, places in (('ours', row.ours[:1]), ('theirs', row.theirs)):
        if row.kind == 'step':
            places = places[:1]
        known = [v for v in figure(values, places, less) if v is not None]
        result[name] = statistics.median(known) if known else None
    best = min if less else max
    winner = best(row.theirs, key=lambda place: statistics.median(
        [v for v in values.get(place, [None]) if v is not None] or [0]))
    middle = statistics.median(compared)
    met = None
    if row.op:
        met = middle <= bound if row.op == '<=' else middle >= bound
    return dict(result, against=winner[1], median=middle, low=min(compared), high=max(compared),
                met=met, modes=modes(compared) if row.kind == 'ratio' else None)


def target_text(result):
    if not result['target']:
        return '', ''
    op, bound = result['target']
    verdict = {True: 'met', False: 'NOT MET', None: 'not measured'}[result['met']]
    bound = '%.2f' % bound if result['kind'] == 'ratio' else '%.0f ns' % (bound * 1e9)
    return '%s %s' % (op, bound), verdict


def line(result):
    target, verdict = target_text(result)
    if result['median'] is None:
        return '%-42s %-26s %-16s %-9s %s' % (result['what'], 'not measured', '', target, verdict)
    unit = result['unit']
    if result['kind'] == 'ratio':
        compared = '%5.2f' % result['median']
        spread = '%.2f..%.2f' % (result['low'], result['high'])
    else:
        compared = '%+.0f ns' % (result['median'] * 1e9)
        spread = '%+.0f..%+.0f' % (result['low'] * 1e9, result['high'] * 1e9)
    return '%-42s %8s %8s %-4s %-9s %7s %-13s %-9s %s' % (
        result['what'], show(result['ours'], unit), show(result['theirs'], unit), unit,
        result['against'], compared, spread, target, verdict) + modes_text(result)


def modes_text(result):
    """The two modes of a row, where a median alone says too little."""
    return '  two modes: %.2f, %.2f' % result['modes'] if result['modes'] else ''


def median_text(values, test, column, unit):
    """The median of all rounds with its unit; empty if nothing was measured."""
    known = [value for value in values.get((test, column), []) if value is not None]
    return '%s %s' % (show(statistics.median(known), unit), unit) if known else ''


def print_table(results, rounds, with_notes=True):
    """The rows, and with notes the number of targets met and how to read a ratio."""
    print(('\n%-42s %8s %8s %-4s %-9s %7s %-13s %-9s' % (
        'one round' if rounds == 1 else 'median of %d rounds' % rounds, 'glex', 'other', '', 'other is', 'ratio', 'spread',
        'target' if any(result['target'] for result in results) else '')).rstrip())
    for result in results:
        print(line(result).rstrip())
    if not with_notes:
        return
    text = ('A ratio is the median of those of each round, its spread the lowest and the highest.'
            if rounds > 1 else 'Repeat it, or ask for --rounds: the processors of a busy machine vary.')
    judged = [result['met'] for result in results if result['met'] is not None]
    if judged:
        text = '%d of %d targets met. ' % (sum(judged), len(judged)) + text
    print('\n' + text)


def print_reasons(results):
    """One sentence for each missed target: what bounds the row."""
    missed = {}
    for result in results:
        if result['met'] is False:
            missed.setdefault(reasons.of(result['test']), []).append(result['what'].strip())
    if missed:
        print('\nWhat bounds the rows that miss their target:')
    for reason, names in missed.items():
        print('- %s: %s' % ('; '.join(names), reason))


def print_evidence(requests):
    print('\nUCX reports glex for every connection of the glex columns, and nothing else; the NIC '
          'counted %d requests.' % requests)


def print_figures(tests, values, columns):
    """Every figure that was measured: medians by column."""
    print('\n%-42s' % 'medians' + ''.join('%10s' % name for name in columns))
    for name, test in tests.items():
        cells = []
        for column in columns:
            known = [v for v in values.get((name, column), []) if v is not None]
            cells.append(show(statistics.median(known), test.unit) if known else '')
        if any(cells):
            print(('%-42s' % (test.title + ', ' + test.unit) +
                   ''.join('%10s' % cell for cell in cells)).rstrip())


def write_json(file, machine, results, values):
    data = {'machine': machine, 'rows': results,
            'values': [{'test': test, 'column': column, 'values': rounds}
                       for (test, column), rounds in values.items()]}
    text = json.dumps(data, indent=1) + '\n'
    if file == '-':
        print(text, end='')
        return
    with open(file + '.new', 'w') as out:
        out.write(text)
    os.replace(file + '.new', file)
