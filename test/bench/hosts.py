"""contrib/bench hosts: GLEX between hosts against what carries it, and against UCX's own tcp.

Hosts are network namespaces of this machine (contrib/hosts). In each round everything is measured
once, ours and theirs in turn, bound to the same two processors; a row shows the medians of the
rounds, and the median and the spread of their ratios. GLEX_NET names libfabric's provider
(default: tcp).
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from runner import processors

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
INSIDE = 'OPENGLEX_BENCH_INSIDE' # the build directory, for who runs in the first host

# title, ours, theirs, how, target. Rates and bandwidths are told by their unit.
ROWS = [
    ('message 8 B, latency / fi_pingpong', 'mp.lat', 'fi.lat', 'us', '<=', 1.10),
    ('put 1 MB, bandwidth / fi_pingpong', 'put.bw', 'fi.bw', 'MB/s', '>=', 0.95),
    ('get 1 MB, bandwidth / fi_pingpong', 'get.bw', 'fi.bw', 'MB/s', '>=', 0.95),
    ('UCP tag 8 B latency / tcp', 'glex.lat', 'tcp.lat', 'us', '<=', 1.25),
    ('UCP tag 8 B rate / tcp', 'glex.rate', 'tcp.rate', 'M/s', '>=', 2.0),
    ('UCP tag 64 KB bandwidth / tcp', 'glex.64k', 'tcp.64k', 'MB/s', '>=', 1.0),
    ('UCP tag 1 MB bandwidth / tcp', 'glex.1m', 'tcp.1m', 'MB/s', '>=', 1.0),
    ('UCP tag 4 MB bandwidth / tcp', 'glex.4m', 'tcp.4m', 'MB/s', '>=', 1.0),
    ('inside a host, 8 B latency, GLEX_NET / without', 'shm.net', 'shm.alone', 'ns', '<=', 1.05),
]
SCALE = {'us': 1e6, 'ns': 1e9, 'M/s': 1e-6, 'MB/s': 1e-6}
IDLE_PEERS, IDLE_TARGET = 1000, 100e-9


def arguments():
    parser = argparse.ArgumentParser(prog='bench hosts', description=__doc__)
    parser.add_argument('--quick', action='store_true', help='fewer messages, 100 idle peers')
    parser.add_argument('--rounds', metavar='N', type=int, default=5, help='default: 5')
    parser.add_argument('--json', metavar='FILE', help='write all values to FILE, too')
    return parser.parse_args(sys.argv[2:])


class Bench:
    """Runs a server on host2 and a client here, on host1."""

    def __init__(self, build, quick):
        self.build, self.quick, self.cpus = build, quick, processors()
        self.provider = os.environ.get('GLEX_NET', 'tcp').split('/')[0]
        self.work = tempfile.mkdtemp(prefix='openglex-bench.')
        self.port = 10000
        env = {k: v for k, v in os.environ.items() if not k.startswith(('UCX_', 'GLEX_'))}
        env.update(OPENGLEX_BUILD=build, LC_ALL='C.UTF-8', UCX_WARN_UNUSED_ENV_VARS='n',
                   GLEX_NET_MODULE=os.path.join(build, 'src/glex/.libs/glex-net.so'))
        self.alone = env
        self.net = dict(env, GLEX_NET=self.provider, GLEX_NET_KEY='5ca1ab1e' * 4)

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)

    def _start(self, args, env, cpu, host=None):
        """Its output is in a file, whose end is read as text. Values of `env` have no blanks."""
        there = {k: v for k, v in env.items() if os.environ.get(k) != v}
        args = ['env'] + ['%s=%s' % item for item in there.items()] + args
        args = ['taskset', '-c', str(cpu)] + args
        if host:
            args = [os.path.join(os.environ['OPENGLEX_HOSTS'], 'contrib/hosts-agent'), host] + args
        out = open(os.path.join(self.work, 'server' if host else 'client'), 'w+')
        child = subprocess.Popen(args, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT)
        child.out = out
        return child

    @staticmethod
    def _text(child):
        child.out.flush()
        with open(child.out.name) as file:
            return file.read()

    def _finish(self, child, limit=60):
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            child.kill()
            status = 'no end within %d seconds' % limit
        text = self._text(child)
        if status != 0:
            sys.exit('bench: %s: status %s: %s' % (' '.join(child.args), status, text[-500:]))
        return text

    def _wait_for(self, child, pattern, limit=20):
        """What a server says when it is ready."""
        end = time.monotonic() + limit
        while time.monotonic() < end and child.poll() is None:
            found = re.search(pattern, self._text(child))
            if found:
                return found
            time.sleep(0.01)
        sys.exit('bench: %s is not ready: %s' % (' '.join(child.args), self._text(child)[-500:]))

    def _listening(self, port, host):
        agent = os.path.join(os.environ['OPENGLEX_HOSTS'], 'contrib/hosts-agent')
        args = (['cat'] if host is None else [agent, host, 'cat']) + ['/proc/net/tcp']
        text = subprocess.run(args, stdout=subprocess.PIPE, text=True, check=True).stdout
        return ':%04X 00000000:0000 0A' % port in text

    def _wait_port(self, child, port, host):
        end = time.monotonic() + 20
        while not self._listening(port, host):
            if time.monotonic() > end or child.poll() is not None:
                sys.exit('bench: %s does not listen: %s' % (' '.join(child.args),
                                                            self._text(child)[-500:]))
            time.sleep(0.02)

    # ---- what is measured ----

    def glex_perf(self, op, metric, size):
        """The seconds of an operation, or bytes per second."""
        program = os.path.join(self.build, 'src/tools/glex_perf')
        server = self._start([program, '--no-pin', '--server'], self.net, self.cpus[0], 'host2')
        address = self._wait_for(server, r'(0x[0-9a-f]+)\n').group(1)
        args = [program, '--no-pin', '-j', '--connect', address, '--op', op, '--metric', metric,
                '--size', size, '--repeats', '3', '--time', '50' if self.quick else '200']
        result = json.loads(self._finish(self._start(args, self.net, self.cpus[1])))['results'][0]
        self._finish(server)
        if metric == 'latency':
            return result['latency_us']['median'] * 1e-6
        return result['mb_per_s']['median'] * 1e6

    def fi_pingpong(self, size, count):
        """The seconds of a transfer of libfabric's own, and its bytes per second."""
        self.port += 1
        base = ['fi_pingpong', '-p', self.provider, '-e', 'msg', '-I', str(count), '-S', str(size)]
        server = self._start(base + ['-B', str(self.port)], self.alone, self.cpus[0], 'host2')
        self._wait_port(server, self.port, 'host2')
        text = self._finish(self._start(base + ['-P', str(self.port), '10.77.0.2'], self.alone,
                                        self.cpus[1]))
        self._finish(server)
        figures = text.strip().splitlines()[-1].split()
        return float(figures[6]) * 1e-6, float(figures[5]) * 1e6

    def perftest(self, tls, test, size, count, net=True, host='host2'):
        """Operations per second of stock ucx_perftest."""
        self.port += 1
        count = count // 10 if self.quick else count
        glexrun = [os.path.join(TOP, 'contrib/glexrun')] if tls == 'glex' else []
        env = dict(self.net if net and tls == 'glex' else self.alone, UCX_TLS=tls + ',self')
        base = glexrun + ['ucx_perftest', '-t', test, '-s', str(size), '-n', str(count), '-w',
                          str(count // 10), '-p', str(self.port)]
        server = self._start(base, env, self.cpus[0], host)
        self._wait_port(server, self.port, host)
        text = self._finish(self._start(
            base + ['-v', '-f', '10.77.0.2' if host == 'host2' else '10.77.0.1'], env,
            self.cpus[1]))
        self._finish(server)
        return float(text.strip().splitlines()[-1].split(',')[7])

    def round(self):
        found = {'mp.lat': self.glex_perf('mp', 'latency', '8'),
                 'fi.lat': self.fi_pingpong(8, 20000)[0],
                 'put.bw': self.glex_perf('put/private', 'stream', '1m'),
                 'fi.bw': self.fi_pingpong(1 << 20, 1000)[1],
                 'get.bw': self.glex_perf('get/private', 'stream', '1m')}
        for tls in ('glex', 'tcp'):
            found[tls + '.lat'] = 1 / self.perftest(tls, 'tag_lat', 8, 20000)
            found[tls + '.rate'] = self.perftest(tls, 'tag_bw', 8, 300000)
            for name, size, count in (('64k', 1 << 16, 10000), ('1m', 1 << 20, 1000),
                                      ('4m', 1 << 22, 300)):
                found['%s.%s' % (tls, name)] = size * self.perftest(tls, 'tag_bw', size, count)
        for name, net in (('shm.net', True), ('shm.alone', False)):
            found[name] = 1 / self.perftest('glex', 'tag_lat', 8, 300000, net, 'host1')
        return found

    def idle(self):
        """Seconds of a poll beside peers that were talked to and are silent; bytes for each."""
        program = os.path.join(self.build, 'test/bench/hosts_idle')
        num = IDLE_PEERS // 10 if self.quick else IDLE_PEERS
        server = self._start([program], self.net, self.cpus[0], 'host2')
        address = self._wait_for(server, r'(0x[0-9a-f]+)\n').group(1)
        text = self._finish(self._start([program, address, str(num)], self.net, self.cpus[1]), 300)
        self._finish(server)
        found = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
        return {name: float(value) for name, value in found.items()}


def report(provider, rounds, idle):
    print('between two hosts, provider %s, %d rounds' % (provider, len(rounds)))
    print('%-48s %12s %12s %7s %-12s %s' % ('', 'ours', 'theirs', 'ratio', 'spread', 'target'))
    for title, ours, theirs, unit, how, target in ROWS:
        ratios = sorted(r[ours] / r[theirs] for r in rounds)
        values = [statistics.median(r[name] for r in rounds) * SCALE[unit] for name in (ours, theirs)]
        ratio = statistics.median(ratios)
        met = ratio <= target if how == '<=' else ratio >= target
        print('%-48s %7.3g %-4s %7.3g %-4s %7.2f %-12s %s %.2f %s' % (
            title, values[0], unit, values[1], unit, ratio,
            '%.2f..%.2f' % (ratios[0], ratios[-1]), how, target, 'met' if met else 'NOT MET'))
    print('%-48s %7.3g ns %32s<= %.0f %s' % (
        'a poll beside %d silent peers' % idle['peers'], idle['poll_ns'], '', IDLE_TARGET * 1e9,
        'met' if idle['poll_ns'] * 1e-9 <= IDLE_TARGET else 'NOT MET'))
    print('%-48s %7.3g KB' % ('heap and libfabric, for each such peer', idle['peer_kb']))


def inside(build):
    options = arguments()
    bench, rounds = Bench(build, options.quick), []
    try:
        for number in range(options.rounds):
            sys.stderr.write('bench: round %d of %d\n' % (number + 1, options.rounds))
            rounds.append(bench.round())
        idle = bench.idle()
    finally:
        bench.close()
    report(bench.provider, rounds, idle)
    if options.json:
        with open(options.json, 'w') as file:
            json.dump({'provider': bench.provider, 'rounds': rounds, 'idle': idle}, file, indent=1)
            file.write('\n')
    return 0


def main():
    if INSIDE in os.environ:
        return inside(os.environ[INSIDE])
    arguments() # --help and mistakes are answered here
    build = os.path.abspath(os.environ.get('OPENGLEX_BUILD', os.path.join(TOP, 'build')))
    if not os.path.exists(os.path.join(build, 'test/bench/hosts_idle')):
        sys.exit('bench: test/bench/hosts_idle is not built in %s: make -C %s' % (build, build))
    print('load before: %.1f' % os.getloadavg()[0], flush=True)
    return subprocess.call([os.path.join(TOP, 'contrib/hosts'), '2', sys.executable,
                            os.path.join(TOP, 'contrib/bench')] + sys.argv[1:],
                           env=dict(os.environ, **{INSIDE: build}))
