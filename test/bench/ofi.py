"""contrib/bench ofi: the libfabric provider against libfabric's own shm, and against UCP over glex.

test/bench/ofi measures all of them in one process, a few microseconds each in turn, and prints
medians and the median of the turns' ratios; of the rounds the medians count. Jobs of Open MPI cannot
be mixed so finely: they run in turn, and the best repeat of each counts.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys

from runner import Runner

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

# title, figure, against which way (None: the figure itself), how, target
ROWS = [
    ('tagged 8 B latency / shm', 'lat', 'shm', '<=', 0.40),
    ('tagged 8 B latency / UCP tag', 'lat', 'ucp', '<=', 1.05),
    ('8 B rate, fi_tinject / shm', 'inject', 'shm', '>=', 2.0),
    ('8 B rate, fi_tsend window 64 / shm', 'send', 'shm', '>=', 2.0),
    ('1 MB bandwidth / shm', 'bw', 'shm', '>=', 1.0),
    ('Open MPI 8 B latency, mtl ofi / pml ucx', 'mpi', 'ucx', '<=', 1.05),
    ('10,000 receives posted / 1', 'lat', 'posted', '<=', 1.5),
    ('idle progress, ns', 'idle', None, '<=', 20e-9),
]


def arguments():
    parser = argparse.ArgumentParser(prog='bench ofi', description=__doc__)
    parser.add_argument('--quick', action='store_true', help='fewer messages')
    parser.add_argument('--rounds', metavar='N', type=int, default=5, help='default: 5')
    return parser.parse_args(sys.argv[2:])


def run(args, env, limit=180):
    done = subprocess.run(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=limit, check=False)
    if done.returncode != 0:
        sys.exit('bench: status %d from %s: %s' % (done.returncode, ' '.join(args),
                                                   done.stderr.strip()[-500:]))
    return done.stdout


class Bench:
    def __init__(self, build, quick):
        self.build = build
        self.count = 20000 if quick else 100000
        self.runner = Runner(TOP, build)
        self.env = dict(os.environ, GLEX_FABRIC='bench-ofi-%d' % os.getpid(),
                        FI_PROVIDER_PATH=os.path.join(build, 'src/ofi/.libs'))

    def providers(self):
        """{(figure, way): (value, ratio)}; glexrun leaves UCX no other transport than glex."""
        env = dict(self.env, UCX_GLEX_CHANNELS='er,sr', OPENGLEX_BUILD=self.build)
        text = run([os.path.join(TOP, 'contrib/glexrun'),
                    os.path.join(self.build, 'test/bench/ofi'), str(self.count)], env)
        lines = [line.split() for line in text.splitlines()]
        return {(figure, way): (float(value), float(ratio)) for figure, way, value, ratio in lines}

    def mpi(self, options):
        """The best of 11 short repeats: others may take a processor away during some of them."""
        env = dict(self.env, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
        glexrun = [os.path.join(TOP, 'contrib/glexrun')] if 'ucx' in options else []
        env['OPENGLEX_BUILD'] = self.build
        mca = [] if glexrun else ['--mca', 'pml', 'cm', '--mca', 'mtl', 'ofi', '--mca',
                                  'mtl_ofi_provider_include', 'glex', '-x', 'FI_PROVIDER_PATH',
                                  '-x', 'GLEX_FABRIC']
        bind = ['--map-by', 'core', '--bind-to', 'core'] if self.runner.cpus[0] != self.runner.cpus[1] else []
        text = run(glexrun + ['mpirun.openmpi', '-n', '2'] + bind + mca +
                   [os.path.join(self.build, 'test/mpi/openmpi/mpi_lat'), '8', '1000'], env)
        return float(re.search(r' best ([0-9.]+) ', text).group(1)) * 1e-6

    def round(self):
        found = self.providers()
        found['mpi'] = (self.mpi('ofi'), self.mpi('ucx'))
        return found


def shown(figure, value):
    if figure in ('inject', 'send'):
        return '%.2f M/s' % (value * 1e-6)
    return '%.0f MB/s' % (value * 1e-6) if figure == 'bw' else '%.1f ns' % (value * 1e9)


def middle(rounds, key, which=0):
    return statistics.median(r[key][which] for r in rounds)


def compare(rounds, figure, way):
    """Ours, theirs and the ratio. `posted` is ours, too, under a condition: it is to be compared."""
    if figure == 'mpi':
        ours, theirs = (min(r['mpi'][i] for r in rounds) for i in (0, 1))
        return ours, theirs, ours / theirs
    ours, theirs = middle(rounds, (figure, 'glex')), middle(rounds, (figure, way))
    ratio = middle(rounds, (figure, way), 1)
    return (theirs, ours, 1 / ratio) if way == 'posted' else (ours, theirs, ratio)


def report(rounds):
    print('%-42s %12s %12s %8s   %s' % ('', 'ours', 'theirs', 'ratio', 'target'))
    for title, figure, way, how, target in ROWS:
        if way is None:
            print('%-42s %12s %12s %8s   %s %.0f ns' % (
                title, shown(figure, middle(rounds, (figure, 'glex'))), '', '', how, target * 1e9))
            continue
        ours, theirs, ratio = compare(rounds, figure, way)
        print('%-42s %12s %12s %8.2f   %s %.2f' % (title, shown(figure, ours),
                                                   shown(figure, theirs), ratio, how, target))


def main():
    options = arguments()
    build = os.path.abspath(os.environ.get('OPENGLEX_BUILD', os.path.join(TOP, 'build')))
    if not os.path.exists(os.path.join(build, 'test/bench/ofi')):
        sys.exit('bench: test/bench/ofi is not built in %s: make -C %s' % (build, build))
    bench, rounds = Bench(build, options.quick), []
    try:
        print('load before: %.1f' % os.getloadavg()[0])
        for number in range(options.rounds):
            sys.stderr.write('bench: round %d of %d\n' % (number + 1, options.rounds))
            rounds.append(bench.round())
    finally:
        bench.runner.close()
    report(rounds)
    return 0
