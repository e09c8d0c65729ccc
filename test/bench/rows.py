"""What is measured, and what is held against what: the targets of the project.

A test is measured in each of its columns once a round, all columns one right after the other, so
that a ratio compares figures of the same second. A row divides (or subtracts) two of them.
"""

import collections

from runner import COLUMNS

KB, MB = 1024, 1024 * 1024

# unit: what the value is shown in; less: whether less is better
Test = collections.namedtuple('Test', 'title less unit columns run')

# `ours` and `theirs` are lists of (test, column): of theirs the best counts. `kind` is ratio, or
# difference in seconds, or `step`: ours and theirs are pairs, and the difference in each counts.
# `bound` is a number, or a dictionary with a number for near and for far processors.
Row = collections.namedtuple('Row', 'title kind ours theirs op bound')

STREAM_SIZES = (KB, 4 * KB, 8 * KB) # copied into the channel's buffers
BULK_SIZES = (64 * KB, MB, 16 * MB)
PRIVATE_SIZES = (128 * KB, 256 * KB, MB, 4 * MB, 16 * MB, 64 * MB) # of both processes' copies
MPI_SIZES = (KB, 4 * KB, 16 * KB, 64 * KB) # from the last fragments to the first copies by the kernel

UNITS = {'ns': 1e9, 'us': 1e6, 'ms': 1e3, 'M/s': 1e-6, 'MB/s': 1e-6}


def repeats(quick, size):
    """Messages of a measurement: enough for some ten milliseconds, of which what happens once, as
    the first touch of each page, is little."""
    most = max(64, min(500000, 2048 * MB // size))
    return max(32, most // 3) if quick else most


def perftest(name, size, layout=None, seconds=True, messages=True, env=None, extra=()):
    """A run of ucx_perftest, as a function of runner, column and quickness."""
    def run(runner, column, quick):
        count = repeats(quick, size)
        options = ['-t', name, '-s', str(size), '-n', str(count), '-w', str(count // 10)]
        options += ['-D', layout] if layout else []
        value = runner.perftest(column, options + list(extra), seconds, messages,
                                env(column) if env else None)
        return value if seconds or size < 1024 else value * size
    return run


def private_memory(column):
    """Memory that is nobody's but the process's."""
    return {'UCX_%s_ALLOC' % COLUMNS[column].tls.upper(): 'mmap'}


def heap_memory(_):
    """The same for UCP, as malloc() gives it."""
    return {'UCX_ALLOC_PRIO': 'heap'}


def offered_zcopy(_):
    """The software NIC offers am_zcopy only on request."""
    return {'UCX_GLEX_ZC_MAX_SIZE': '8256'}


def nic_memory(_):
    """Memory of the transport's own, which peers can map."""
    return {'UCX_ALLOC_PRIO': 'md:*'}


def size_name(size):
    return '%d MB' % (size // MB) if size >= MB else '%d KB' % (size // KB) if size >= KB else \
        '%d B' % size


def uct_tests(tests):
    own = ['er', 'sr', 'posix', 'sysv']
    tests['am.lat.8'] = Test('UCT am_short 8 B latency', True, 'ns', own,
                             perftest('am_lat', 8, 'short'))
    tests['am.rate.8'] = Test('UCT am_short 8 B rate', False, 'M/s', own,
                              perftest('am_bw', 8, 'short', seconds=False))
    tests['am.lat.4096'] = Test('UCT am_bcopy 4 KB latency', True, 'ns', own,
                                perftest('am_lat', 4096, 'bcopy'))
    for size in (4096, 8192):
        tests['am.bw.%d' % size] = Test('UCT am_bcopy %s bandwidth' % size_name(size), False,
                                        'MB/s', own, perftest('am_bw', size, 'bcopy', False))
    tests['zc.lat.8192'] = Test('UCT am_zcopy 8 KB latency', True, 'ns', ['er', 'sr'],
                                perftest('am_lat', 8192, 'zcopy', env=offered_zcopy))
    tests['zc.bw.8192'] = Test('UCT am_zcopy 8 KB bandwidth', False, 'MB/s', ['er', 'sr'],
                               perftest('am_bw', 8192, 'zcopy', False, env=offered_zcopy))
    tests['put.lat.8'] = Test('UCT put_short 8 B latency', True, 'ns', ['er', 'posix', 'sysv'],
                              perftest('put_lat', 8, 'short', messages=False))
    for layout in ('short', 'bcopy'):
        tests['put.rate.%s' % layout] = Test('UCT put_%s 8 B rate' % layout, False, 'M/s',
                                             ['er', 'posix'],
                                             perftest('put_bw', 8, layout, False, False))
    for name, test in (('put_bw', 'put'), ('get', 'get')):
        for size in (64 * KB, MB, 4 * MB):
            tests['%s.zc.%d' % (test, size)] = Test(
                'UCT %s_zcopy %s, private' % (test, size_name(size)), False, 'MB/s', ['er', 'cma'],
                perftest(name, size, 'zcopy', False, False, private_memory))


def ucp_tests(tests):
    tests['tag.lat.8'] = Test('UCP tag 8 B latency', True, 'ns', ['er', 'sr', 'posix', 'sysv'],
                              perftest('tag_lat', 8))
    tests['tag.rate.8'] = Test('UCP tag 8 B rate', False, 'M/s', ['er', 'sr', 'posix', 'sysv'],
                               perftest('tag_bw', 8, seconds=False))
    tests['tag.lat.4096'] = Test('UCP tag 4 KB latency', True, 'ns', ['er', 'sr', 'posix'],
                                 perftest('tag_lat', 4096))
    for size in STREAM_SIZES + BULK_SIZES:
        tests['tag.bw.%d' % size] = Test(
            'UCP tag %s bandwidth' % size_name(size), False, 'MB/s',
            ['er', 'sr', 'posix', 'posix,cma'],
            perftest('tag_bw', size, seconds=False, messages=False))
    for size in PRIVATE_SIZES:
        tests['tag.private.%d' % size] = Test(
            'UCP tag %s bandwidth, private' % size_name(size), False, 'MB/s', ['er', 'posix,cma'],
            perftest('tag_bw', size, None, False, False, heap_memory))
    for name, test in (('ucp_put_bw', 'put'), ('ucp_get', 'get')):
        for size in (4 * KB, 64 * KB, MB, 4 * MB):
            tests['%s.nic.%d' % (test, size)] = Test(
                'UCP %s %s, NIC memory' % (test, size_name(size)), False, 'MB/s',
                ['er', 'posix'], perftest(name, size, None, False, False, nic_memory))
    tests['wakeup'] = Test('sleeping worker, wake-up latency', True, 'us',
                           ['er', 'sr', 'posix', 'sysv'],
                           lambda runner, column, quick: runner.wakeup(column,
                                                                       500 if quick else 2000))


def mpi_program(library, program, factor, ranks, size, count, *more, messages=True):
    def run(runner, column, quick):
        n = max(3, count // 5) if quick else count
        return runner.mpi(column, library, ranks, program, size, n, *more,
                          messages=messages) * factor
    return run


WINDOW_KINDS = ('allocate', 'create')
WINDOW_SIZES = (8, KB, 64 * KB)


def mpi_windows(tests, library, name):
    """Put and get, each with a flush, to windows. They send few messages, so no channel is checked."""
    for kind in WINDOW_KINDS:
        for op in ('put', 'get'):
            for size in WINDOW_SIZES:
                count = 10000 if size < 64 * KB else 1000
                tests['%s.win.%s.%s.%d' % (library, kind, op, size)] = Test(
                    '%s %s %s, window by %s' % (name, op, size_name(size), kind), True, 'ns',
                    ['er', 'posix,cma'],
                    mpi_program(library, 'mpi_window', 1e-6, 2, size, count, op, kind,
                                messages=False))


def mpi_others(library):
    """What users of a library have without glex: UCX's shared memory, and the library's own default."""
    return ['posix,cma', 'vader' if library == 'openmpi' else 'default']


def mpi_messages(tests, library, name):
    """Messages in memory from malloc(): bandwidth at all sizes, latency of the shorter ones."""
    columns = ['er'] + mpi_others(library)
    for size in MPI_SIZES + PRIVATE_SIZES:
        tests['%s.bw.%d' % (library, size)] = Test(
            '%s %s bandwidth' % (name, size_name(size)), False, 'MB/s', columns,
            mpi_program(library, 'mpi_bw', 1e6, 2, size, min(5000, max(4, 64 * MB // size)),
                        messages=False))
    for size in MPI_SIZES:
        tests['%s.lat.%d' % (library, size)] = Test(
            '%s %s latency' % (name, size_name(size)), True, 'ns', columns,
            mpi_program(library, 'mpi_lat', 1e-6, 2, size, 5000, messages=False))


def mpi_busy_senders(tests, library, name):
    """Long messages in memory from malloc(), whose sender computes after one look at them."""
    for size in PRIVATE_SIZES:
        tests['%s.busy.%d' % (library, size)] = Test(
            '%s %s, the sender computes' % (name, size_name(size)), True, 'us',
            ['er'] + mpi_others(library),
            mpi_program(library, 'mpi_busy', 1e-6, 2, size, min(50, max(4, 64 * MB // size)),
                        messages=False))


def mpi_tests(tests):
    for library, name in (('openmpi', 'Open MPI'), ('mpich', 'MPICH')):
        columns = ['er', 'sr'] + mpi_others(library)
        tests[library + '.lat'] = Test(name + ' 8 B latency', True, 'ns', columns,
                                       mpi_program(library, 'mpi_lat', 1e-6, 2, 8, 50000))
        tests[library + '.rate'] = Test(name + ' 8 B rate', False, 'M/s', columns,
                                        mpi_program(library, 'mpi_rate', 1e6, 2, 8, 200000))
        mpi_messages(tests, library, name)
        mpi_busy_senders(tests, library, name)
        mpi_windows(tests, library, name)
        # MPICH's ranks spin while they wait: beyond 32 on two processors that is all they do
        for ranks in (32, 64) if library == 'openmpi' else (32,):
            for size in (8, 4096):
                tests['%s.a2a.%d.%d' % (library, ranks, size)] = Test(
                    '%s %d ranks, all-to-all %s' % (name, ranks, size_name(size)), True, 'ms',
                    ['er', 'posix'],
                    mpi_program(library, 'mpi_alltoall', 1e-6, ranks, size, 10))


def all_tests():
    """All tests that run once per column, by name, in the order of measuring."""
    tests = {}
    uct_tests(tests)
    ucp_tests(tests)
    mpi_tests(tests)
    return tests


def pair(test, ours, theirs, op, bound, tests, note=''):
    title = tests[test].title + {'er': ', ER', 'sr': ', SR'}[ours] * ('sr' in tests[test].columns)
    return Row(title + note, 'ratio', [(test, ours)], [(test, name) for name in theirs], op, bound)


def brief_rows(tests):
    """Eleven rows that say what a user gains, without targets."""
    posix, cma = ['posix'], ['posix', 'posix,cma']
    chosen = [('am.lat.8', posix), ('am.rate.8', posix), ('tag.lat.8', posix),
              ('tag.bw.%d' % (64 * KB), cma), ('tag.bw.%d' % MB, cma)]
    for library in ('openmpi', 'mpich'):
        chosen += [('%s.%s' % (library, what), mpi_others(library))
                   for what in ('lat', 'rate', 'bw.%d' % MB)]
    return [Row(tests[name].title, 'ratio', [(name, 'er')], [(name, other) for other in theirs],
                None, None) for name, theirs in chosen]


def private_bound(size):
    """The target of a copy that both processes make."""
    return 1.3 if size < MB else {'near': 1.6, 'far': 1.8}


def mpi_rows(tests, library):
    others = mpi_others(library)
    rows = [pair(library + '.lat', 'er', others, '<=', 0.85, tests),
            pair(library + '.rate', 'er', others, '>=', {'near': 1.3, 'far': 2.5}, tests),
            pair(library + '.lat', 'sr', others, None, None, tests)]
    rows += [pair('%s.lat.%d' % (library, size), 'er', others, '<=', 0.77, tests)
             for size in MPI_SIZES]
    rows += [pair('%s.bw.%d' % (library, size), 'er', others, '>=', 1.3, tests)
             for size in MPI_SIZES]
    rows += [pair('%s.bw.%d' % (library, size), 'er', others, '>=', private_bound(size), tests)
             for size in PRIVATE_SIZES]
    rows += [pair('%s.busy.%d' % (library, size), 'er', others, '<=', 1.05, tests)
             for size in PRIVATE_SIZES]
    return rows + [pair(test, 'er', ['posix,cma'], '<=', 1.0, tests) for test in tests
                   if test.startswith(library + '.win.')]


def all_rows(tests):
    """The table, in its order. A row without a bound is there to be seen."""
    rows = [Row('bare immediate put + event 8 B, one way', 'ratio', [('bare', 'imm')],
                [('bare', 'handover')], '<=', 1.25),
            pair('am.lat.8', 'er', ['posix'], '<=', 0.70, tests),
            Row('  above bare GLEX', 'difference', [('am.lat.8', 'er')], [('bare', 'imm')], '<=',
                40e-9),
            pair('am.lat.8', 'sr', ['posix'], '<=', 0.85, tests),
            pair('am.rate.8', 'er', ['posix'], '>=', 2.0, tests),
            pair('am.rate.8', 'sr', ['posix'], None, None, tests),
            pair('am.lat.4096', 'er', ['posix'], None, None, tests),
            pair('am.lat.4096', 'sr', ['posix'], None, None, tests),
            pair('am.bw.4096', 'er', ['posix'], '>=', 1.4, tests),
            pair('am.bw.8192', 'er', ['posix'], '>=', 1.4, tests),
            pair('am.bw.4096', 'sr', ['posix'], '>=', 0.8, tests),
            pair('am.bw.8192', 'sr', ['posix'], None, None, tests),
            pair('put.lat.8', 'er', ['posix'], '<=', 1.0, tests),
            pair('put.rate.short', 'er', ['posix'], '>=', 0.9, tests),
            pair('put.rate.bcopy', 'er', ['posix'], '>=', 0.9, tests)]
    for test in ('put', 'get'):
        rows += [pair('%s.nic.%d' % (test, size), 'er', ['posix'], '>=', 1.0, tests)
                 for size in (4 * KB, 64 * KB, MB, 4 * MB)]
    for test in ('get', 'put'):
        rows += [pair('%s.zc.%d' % (test, size), 'er', ['cma'], '>=', 1.0, tests)
                 for size in (64 * KB, MB, 4 * MB)]
    rows += [pair('tag.lat.8', 'er', ['posix'], '<=', 0.80, tests),
             Row('  above UCT am_short, against posix', 'step',
                 [('tag.lat.8', 'er'), ('am.lat.8', 'er')],
                 [('tag.lat.8', 'posix'), ('am.lat.8', 'posix')], '<=', 0.0),
             pair('tag.lat.8', 'sr', ['posix'], None, None, tests),
             pair('tag.lat.4096', 'er', ['posix'], '<=', 1.0, tests),
             pair('tag.rate.8', 'er', ['posix'], '>=', 3.0, tests),
             pair('tag.rate.8', 'sr', ['posix'], '>=', 1.0, tests)]
    rows += [pair('tag.bw.%d' % size, 'er', ['posix', 'posix,cma'], '>=', 1.0, tests)
             for size in STREAM_SIZES + BULK_SIZES]
    rows += [pair('tag.private.%d' % size, 'er', ['posix,cma'], '>=', private_bound(size), tests)
             for size in PRIVATE_SIZES]
    rows += mpi_rows(tests, 'openmpi') + mpi_rows(tests, 'mpich')
    rows += [pair('wakeup', 'er', ['posix'], '<=', 1.0, tests),
             pair('wakeup', 'sr', ['posix'], None, None, tests)]
    rows += [pair(test, 'er', ['posix'], '<=', 1.0, tests) for test in tests if '.a2a.' in test]
    return rows
