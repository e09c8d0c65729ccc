"""Latency, bandwidth and message rate over message size, as SVG and PNG, by gnuplot."""

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


def measure(runner, rounds, quick, progress):
    """Seconds of a ping-pong's half, and messages per second of a stream, by size and column."""
    points = {}
    steps = [(name, size, column) for name in ('tag_lat', 'tag_bw') for size in SIZES
             for column in COLUMNS]
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


def script_of(plot, data, directory):
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
    for terminal, suffix in (('svg size 760,480 background "white"', 'svg'),
                             ('pngcairo size 1140,720 fontscale 1.3', 'png')):
        lines += ['set terminal ' + terminal,
                  'set output "%s"' % os.path.join(directory, '%s.%s' % (plot, suffix)),
                  'plot ' + curves]
    return '\n'.join(lines) + '\n'


def draw(points, work, directory):
    """Write DIRECTORY/{latency,bandwidth,rate}.{svg,png}."""
    os.makedirs(directory, exist_ok=True)
    for plot in PLOTS:
        data = os.path.join(work, plot + '.dat')
        with open(data, 'w') as file:
            file.write(data_of(plot, points))
        done = subprocess.run(['gnuplot', '-'], input=script_of(plot, data, directory), text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise Failure('gnuplot cannot draw %s: %s' % (plot, done.stderr.strip()))
