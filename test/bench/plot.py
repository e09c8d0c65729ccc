"""Latency, bandwidth and message rate over message size, and bars of a few sizes beside all of
UCX's own transports, as SVG and PNG, by gnuplot."""

import os
import statistics
import subprocess

import rows as table
from runner import Failure

COLUMNS = {'er': 'glex, ER', 'sr': 'glex, SR', 'posix': 'UCX posix', 'posix,cma': 'UCX posix,cma'}
SIZES = [8 * 4 ** n for n in range(11)] # 8 B to 8 MB

PLOTS = {
    'latency': ('tag_lat', SIZES, 'one way, microseconds', 1e6, True),
    'bandwidth': ('tag_bw', SIZES, 'MB/s (10^6 bytes)', 1e-6, False),
    'rate': ('tag_bw', SIZES[:6], 'million messages per second', 1e-6, False),
}

# The bars: how many times as fast as posix a column is. Each group is a test of COLUMNS' sizes.
BAR_COLUMNS = {'er': 'openglex glex', 'posix': 'UCX posix', 'sysv': 'UCX sysv',
               'posix,cma': 'UCX posix,cma'}
BARS = [('tag_lat', 8, '8 B\\nlatency'), ('tag_bw', 8, '8 B\\nrate'),
        ('tag_bw', 8192, '8 KB\\nbandwidth'), ('tag_bw', 131072, '128 KB\\nbandwidth'),
        ('tag_bw', 2097152, '2 MB\\nbandwidth')]


def measure(runner, rounds, quick, progress):
    """Seconds of a ping-pong's half, and messages per second of a stream, by size and column."""
    points = {}
    steps = [(name, size, column) for name in ('tag_lat', 'tag_bw') for size in SIZES
             for column in COLUMNS]
    steps += [(name, size, column) for name, size, _ in BARS for column in BAR_COLUMNS
              if column not in COLUMNS]
    for turn in range(rounds):
        for done, (name, size, column) in enumerate(steps):
            progress('plots, round %d of %d: %s %d bytes, %s' % (turn + 1, rounds, name, size,
                                                               column), done, len(steps))
            count = table.repeats(quick, size)
            options = ['-t', name, '-s', str(size), '-n', str(count), '-w', str(count // 10)]
            points.setdefault((name, size, column), []).append(
                runner.perftest(column, options, seconds=name == 'tag_lat', messages=False))
    return points


def data_of(plot, points):
    """A block of lines "size value" for each column."""
    name, sizes, _, factor, _ = PLOTS[plot]
    blocks = []
    for column in COLUMNS:
        lines = []
        for size in sizes:
            value = statistics.median(points[name, size, column]) * factor
            lines.append('%d %g' % (size, value * (size if plot == 'bandwidth' else 1)))
        blocks.append('\n'.join(lines))
    return '\n\n\n'.join(blocks) + '\n'


def curves_script(plot, data):
    _, _, label, _, logarithmic = PLOTS[plot]
    lines = [
        'set logscale x 2', 'set logscale y 10' if logarithmic else 'set yrange [0:*]',
        'set xlabel "message size, bytes"', 'set ylabel "%s"' % label,
        'set title "UCP tag %s"' % plot, 'set grid', 'set key %s' % (
            'right top' if plot == 'rate' else 'left top'),
        # as powers: 8, 1K, 1M
        'set format x "%.0b%B"',
    ]
    curves = ', '.join('"%s" index %d with linespoints linewidth 2 title "%s"' % (data, i, title)
                       for i, title in enumerate(COLUMNS.values()))
    return lines, curves


def bars_data(points):
    """A line for each group: its name, then for each column the speed in multiples of posix's."""
    lines = []
    for name, size, title in BARS:
        values = {column: statistics.median(points[name, size, column]) for column in BAR_COLUMNS}
        base = values['posix']
        lines.append('"%s" %s' % (title, ' '.join(
            '%g' % (base / value if name == 'tag_lat' else value / base)
            for value in values.values())))
    return '\n'.join(lines) + '\n'


def bars_script(data):
    lines = [
        'set style data histograms', 'set style histogram clustered gap 1',
        'set style fill solid 0.9 border -1', 'set boxwidth 0.9', 'set yrange [0:*]',
        'set xrange [-0.6:%g]' % (len(BARS) - 0.4),
        'set ylabel "speed, UCX posix = 1 (higher is better)"', 'set grid ytics',
        'set title "UCP tag messages between two processes"',
        'set key outside top center horizontal',
        'set xtics scale 0', 'set bmargin 4',
    ]
    bars = ', '.join('"%s" using %d%s title "%s"' % (data, i + 2, ':xtic(1)' * (i == 0), title)
                     for i, title in enumerate(BAR_COLUMNS.values()))
    return lines, bars


def run_gnuplot(plot, lines, what, directory):
    """Draw the same thing as SVG and as PNG."""
    script = list(lines)
    for terminal, suffix in (('svg size 760,480 background "white"', 'svg'),
                             ('pngcairo size 1140,720 fontscale 1.3', 'png')):
        script += ['set terminal ' + terminal,
                   'set output "%s"' % os.path.join(directory, '%s.%s' % (plot, suffix)),
                   'plot ' + what]
    done = subprocess.run(['gnuplot', '-'], input='\n'.join(script) + '\n', text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise Failure('gnuplot cannot draw %s: %s' % (plot, done.stderr.strip()))


def draw(points, work, directory):
    """Write DIRECTORY/{latency,bandwidth,rate,bars}.{svg,png}."""
    os.makedirs(directory, exist_ok=True)
    texts = {plot: data_of(plot, points) for plot in PLOTS}
    texts['bars'] = bars_data(points)
    for plot, text in texts.items():
        data = os.path.join(work, plot + '.dat')
        with open(data, 'w') as file:
            file.write(text)
        lines, what = bars_script(data) if plot == 'bars' else curves_script(plot, data)
        run_gnuplot(plot, lines, what, directory)
