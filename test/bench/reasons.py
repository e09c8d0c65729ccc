"""What bounds a row that misses its target: one sentence for each kind of test.

docs/performance.md, "Row by row", has the measurements behind the sentences.
"""

import fnmatch

KERNEL_COPY = ('process_vm_readv and process_vm_writev copy page by page: 1.3 us for the first page and 0.27 us for '
               'each further page, over glex as over cma')
ONE_COPY = 'both transports make one copy with memcpy, which takes nearly all of the time'
BOTH_COPY = ('two processes copy, so the memory bandwidth and the core that both share bound the sum; a helper that '
             'the host preempts delays the copy by its piece')

# The first pattern that matches the name of the test counts.
REASONS = [
    ('bare', 'an immediate put takes a compare-and-swap and 190 instructions beside the cache line'),
    ('am.rate.8', 'the receiver executes 91 instructions for each message, and the sender waits for the cache lines '
                  'that the receiver has read'),
    ('am.lat.*', 'one cache line goes from the sender to the receiver; the transport adds 174 instructions'),
    ('am.bw.*', 'the sender makes one copy, as over posix; 1.4 times the bandwidth of posix exceeds memcpy at 8 KB'),
    ('put.lat.8', 'glex checks the key, its range and its validity (33 instructions), and posix checks nothing'),
    ('put.rate.*', 'glex checks the key, its range and its validity (33 instructions), and posix checks nothing'),
    ('get.nic.4096', 'UCP takes zero copy for every get over glex, which costs UCP more instructions than a get by '
                     'copy over posix'),
    ('*.nic.*', ONE_COPY),
    ('*.zc.*', KERNEL_COPY),
    ('tag.lat.*', 'UCP executes more instructions than the transport, the same for both transports'),
    ('tag.rate.8', 'UCP and the receiver execute 570 instructions for each message over glex, 662 over posix'),
    ('tag.bw.*', 'UCP copies between the program and the FIFO at both ends, as over posix; the time depends on the '
                 'places of the buffers (see "Zen 4")'),
    ('tag.private.*', BOTH_COPY),
    ('*.win.create.*', 'the memory of the window is private to the target, so each put and get is a call of the '
                       'kernel; over posix,cma the polling target copies'),
    ('*.win.*', 'MPI executes most of the instructions, the same for both transports'),
    ('*.busy.*', 'the sender copies one piece before it computes, and the receiver waits for that piece'),
    ('*.a2a.*', 'more ranks than processors: the scheduler decides when the rank runs that is waited for'),
    ('wakeup', 'two system calls and the scheduler take the time, over glex as over posix'),
    ('openmpi.rate', 'Open MPI and UCP execute most of the 570 instructions of each message; vader goes without UCP'),
    ('mpich.rate', 'MPICH and UCP execute most of the 570 instructions of each message'),
    ('openmpi.lat*', 'Open MPI and UCP execute most of the instructions; from 8 KB on the message takes a rendezvous'),
    ('mpich.lat*', 'MPICH and UCP execute most of the instructions; from 8 KB on the message takes a rendezvous'),
    ('openmpi.bw.*', BOTH_COPY),
    ('mpich.bw.*', BOTH_COPY),
]


def of(test):
    """The sentence for a test. Every test with a target has a sentence."""
    return next(sentence for pattern, sentence in REASONS if fnmatch.fnmatch(test, pattern))
