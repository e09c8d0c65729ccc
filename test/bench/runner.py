"""Run the programs that measure, one after the other, and prove what carried their data.

A column is a way to carry data: the glex transport by one of its channels, or one of UCX's own. A
value is one number: seconds for latency and time, per second for rates and bandwidth.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time


class Failure(Exception):
    """A program did not run, or the wrong transport carried its data."""


class Column:
    """One way to carry data: `tls` for UCX_TLS ('': not set), and UCX's name of the device."""

    def __init__(self, tls, device, **env):
        self.tls, self.device, self.env = tls, device, env
        self.is_glex = tls == 'glex'


COLUMNS = {
    'er': Column('glex', 'gni0', UCX_GLEX_CHANNELS='er,sr'),
    'sr': Column('glex', 'gni0', UCX_GLEX_CHANNELS='sr'),
    'posix': Column('posix', 'memory'),
    'sysv': Column('sysv', 'memory'),
    'cma': Column('cma', 'memory'),
    'posix,cma': Column('posix,cma', 'memory'),
    'vader': Column('', '', OMPI_MCA_pml='ob1', OMPI_MCA_btl='self,vader'), # Open MPI without UCX
    'default': Column('', ''), # UCX chooses
}

# Both MPI libraries: UCX for all, as root in containers too, many ranks on few cores.
MPI_ENV = {
    'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
    'OMPI_MCA_rmaps_base_oversubscribe': '1', 'OMPI_MCA_pml': 'ucx', 'OMPI_MCA_osc': 'ucx',
    'OMPI_MCA_opal_common_ucx_tls': 'any',
}


def processors():
    """Two processors to bind to, or one twice."""
    cpus = sorted(os.sched_getaffinity(0))
    return (cpus[0], cpus[1] if len(cpus) > 1 else cpus[0])


def descendants(pid):
    """The processes that a process has started, and theirs."""
    try:
        with open('/proc/%d/task/%d/children' % (pid, pid)) as file:
            children = [int(child) for child in file.read().split()]
    except OSError:
        return []
    return [found for child in children for found in descendants(child) + [child]]


class Runner:
    """Runs programs of a build directory, in a fabric of its own."""

    def __init__(self, top, build):
        self.top, self.build = top, build
        self.cpus = processors()
        self.work = tempfile.mkdtemp(prefix='openglex-bench.')
        self.fabric = 'bench-%d' % os.getpid()
        self.children = []
        self.requests = 0 # that the NIC has counted

    def close(self):
        """Leave nothing: no process, no file."""
        for child in self.children:
            self._kill(child)
        shutil.rmtree(self.work, ignore_errors=True)
        shm = os.environ.get('GLEX_SHM_DIR', '/dev/shm')
        shutil.rmtree(os.path.join(shm, 'glex-%d' % os.getuid(), self.fabric), ignore_errors=True)

    # ---- processes ----

    def _env(self, column, extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith(('UCX_', 'GLEX_'))}
        if 'GLEX_SHM_DIR' in os.environ:
            env['GLEX_SHM_DIR'] = os.environ['GLEX_SHM_DIR']
        env.update(MPI_ENV)
        env.update(OPENGLEX_BUILD=self.build, GLEX_FABRIC=self.fabric, LC_ALL='C.UTF-8',
                   GLEX_STATS=os.path.join(self.work, 'stats'), OMPI_MCA_orte_tmpdir_base=self.work,
                   UCX_LOG_LEVEL='info', UCX_LOG_FILE=os.path.join(self.work, 'ucx.%p'),
                   UCX_WARN_UNUSED_ENV_VARS='n')
        if column.tls:
            env['UCX_TLS'] = column.tls + ',self'
        env.update(column.env)
        env.update(extra)
        return env

    @staticmethod
    def _kill(child):
        """With all that it has started: the ranks of a launcher are in groups of their own."""
        for pid in descendants(child.pid) + [child.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        child.wait()

    def _start(self, args, env):
        out = tempfile.TemporaryFile(dir=self.work)
        child = subprocess.Popen(args, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        child.out = out
        self.children.append(child)
        return child

    def _finish(self, child, limit):
        """Wait for the end of a process; what it printed."""
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            self._kill(child)
            status = 'no end within %d seconds' % limit
        self.children.remove(child)
        child.out.seek(0)
        text = child.out.read().decode(errors='replace')
        child.out.close()
        if status != 0:
            said = [line for line in text.splitlines() if re.search(r'\w', line)]
            raise Failure('%s: status %s: %s' % (' '.join(child.args), status,
                                                 ' | '.join(said[-6:])))
        return text

    def _glexrun(self, column):
        return [os.path.join(self.top, 'contrib/glexrun')] if column.is_glex else []

    def _fresh(self):
        for name in os.listdir(self.work):
            if name == 'stats' or name.startswith('ucx.'):
                os.unlink(os.path.join(self.work, name))

    # ---- evidence ----

    def _read(self, prefix):
        text = ''
        for name in os.listdir(self.work):
            if name.startswith(prefix):
                with open(os.path.join(self.work, name), errors='replace') as file:
                    text += file.read()
        return text

    def _check_connections(self, column):
        """UCX's own word: its log names the transports of every connection that it made."""
        if not column.tls:
            return
        lanes = set()
        for line in re.findall(r'(?:ep_cfg\[\d+\]:|cfg#\d+) (.*)', self._read('ucx.')):
            lanes.update(re.findall(r'([a-z0-9_]+)/[a-z0-9_:.]+', line))
        others = lanes - set(column.tls.split(',')) - {'self'}
        if others:
            raise Failure('other transports took part: ' + ' '.join(sorted(others)))
        if not lanes & set(column.tls.split(',')):
            raise Failure('UCX reports no connection over ' + column.tls)

    def _check_channel(self, column):
        """The NIC's counters: ER carries messages by stores, or by immediate puts, SR by MPs."""
        if not column.is_glex:
            return
        stats = self._read('stats')
        count = {name: sum(map(int, re.findall(r'"%s":(\d+)' % name, stats)))
                 for name in ('mp_tx', 'mapped_tx', 'event_tx', 'imm_put_tx', 'put_tx', 'get_tx')}
        self.requests += sum(count.values())
        if column.env['UCX_GLEX_CHANNELS'] == 'sr':
            if count['mp_tx'] < 10 or count['mapped_tx'] + count['imm_put_tx'] + count['put_tx'] > 0:
                raise Failure('it was not SR that carried the messages: %s' % count)
        elif count['mapped_tx'] + count['imm_put_tx'] < 4:
            raise Failure('it was not ER that carried the messages: %s' % count)

    # ---- ucx_perftest ----

    def _listening(self, port):
        needle = ':%04X 00000000:0000 0A' % port
        with open('/proc/net/tcp') as file:
            return any(needle in line for line in file)

    def _perftest_server(self, base, env):
        for _ in range(20):
            port = random.randrange(10000, 30000)
            if self._listening(port):
                continue
            server = self._start(base + ['-p', str(port), '-c', str(self.cpus[0])], env)
            deadline = time.monotonic() + 20
            while server.poll() is None and time.monotonic() < deadline:
                if self._listening(port):
                    return server, port
                time.sleep(0.005)
            try:
                self._finish(server, 0)
            except Failure as failure:
                if 'in use' not in str(failure):
                    raise
        raise Failure('no free TCP port for the server of ucx_perftest')

    def perftest(self, column_name, options, seconds=True, messages=True, env=None, limit=60):
        """Operations per second of stock ucx_perftest, or the seconds that one takes."""
        column = COLUMNS[column_name]
        is_uct = '-D' in options
        args = options + (['-d', column.device, '-x', column.tls] if is_uct else [])
        env = self._env(column, env or {})
        base = self._glexrun(column) + ['ucx_perftest'] + args
        self._fresh()
        server, port = self._perftest_server(base, env)
        client = self._start(base + ['-v', '-f', '-c', str(self.cpus[1]), '-p', str(port),
                                     '127.0.0.1'], env)
        try:
            text = self._finish(client, limit)
        except Failure:
            self._kill(server)
            self.children.remove(server)
            raise
        self._finish(server, limit)
        if not is_uct:
            self._check_connections(column)
        if messages:
            self._check_channel(column)
        figures = text.strip().splitlines()[-1].split(',')
        if len(figures) != 8:
            raise Failure('ucx_perftest prints no figures: ' + text.strip())
        rate = float(figures[7])
        return 1 / rate if seconds else rate

    # ---- other programs ----

    def glex_perf(self, options, limit=120):
        """What glex_perf prints, as JSON."""
        cores = '%d,%d' % self.cpus
        env = self._env(COLUMNS['er'], {})
        args = [os.path.join(self.build, 'src/tools/glex_perf'), '-j']
        if self.cpus[0] != self.cpus[1]:
            args += ['--cores', cores]
        return json.loads(self._finish(self._start(args + options, env), limit))

    def figures(self, column_name, program, *arguments, env=None, limit=300):
        """What one of our own programs prints as lines "name value"."""
        args = [os.path.join(self.build, program)] + [str(a) for a in arguments]
        self._fresh()
        text = self._finish(self._start(args, self._env(COLUMNS[column_name], env or {})), limit)
        return {name: float(value) for name, value in
                (line.split() for line in text.splitlines() if len(line.split()) == 2)}

    def wakeup(self, column_name, count, limit=60):
        """Seconds until a message has woken a sleeping worker."""
        column = COLUMNS[column_name]
        self._fresh()
        program = os.path.join(self.build, 'test/bench/wakeup')
        args = self._glexrun(column) + [program, str(count)]
        text = self._finish(self._start(args, self._env(column, {})), limit)
        self._check_connections(column)
        return float(re.search(r'median ([0-9.]+)', text).group(1)) * 1e-6

    def _mpirun(self, library, ranks):
        launcher = ['mpirun.' + library]
        if ranks > 2: # on two processors, whatever the machine has
            bind = [] if library == 'mpich' else ['--bind-to', 'none']
            return ['taskset', '-c', '%d,%d' % self.cpus] + launcher + bind + ['-n', str(ranks)]
        bind = ['-bind-to', 'core'] if library == 'mpich' else ['--map-by', 'core', '--bind-to',
                                                                'core']
        if self.cpus[0] == self.cpus[1]:
            bind = []
        return launcher + bind + ['-n', str(ranks)]

    def mpi(self, column_name, library, ranks, program, *arguments, limit=120, messages=True):
        """The median that one of the MPI programs of test/mpi prints, in its own unit."""
        text = self.mpi_text(column_name, library, ranks, program, *arguments, limit=limit,
                             messages=messages)
        found = re.search(r' median ([0-9.]+) ', text)
        if not found:
            raise Failure('%s prints no figures: %s' % (program, text.strip()))
        return float(found.group(1))

    def mpi_text(self, column_name, library, ranks, program, *arguments, limit=120, messages=True):
        """What an MPI program prints, if it was the right transport that carried it, and, where it
        sends enough messages to tell, the right channel."""
        column = COLUMNS[column_name]
        env = self._env(column, {})
        launch = self._mpirun(library, ranks)
        if launch[0] == 'taskset':
            launch = launch[:3] + self._glexrun(column) + launch[3:]
        else:
            launch = self._glexrun(column) + launch
        if library == 'openmpi' and not column.is_glex: # glexrun passes the environment itself
            env['OMPI_MCA_mca_base_env_list'] = ';'.join(
                name for name in env if name.startswith('UCX_'))
        self._fresh()
        path = os.path.join(self.build, 'test/mpi', library, program)
        child = self._start(launch + [path] + [str(a) for a in arguments], env)
        text = self._finish(child, limit)
        self._check_connections(column)
        if messages:
            self._check_channel(column)
        return text
