#!/usr/bin/python3
"""crowd.py PROGRAM N: N hosts that all talk to each other, on the first of them (contrib/hosts).

Every pair talks; one host is cut off, and comes back with a new process; a process is stopped for
longer than GLEX_NET_TIMEOUT; a process has another key; strangers flood a port. Prints a line per
step.
"""
import os
import select
import signal
import subprocess
import sys
import time

HOSTS = os.environ['OPENGLEX_HOSTS']
AGENT = HOSTS + '/contrib/hosts-agent'
TIMEOUT = int(os.environ['GLEX_NET_TIMEOUT'])
MOST_KIB = 200  # per connection: docs/hosts.md says 65 at the side that connects

STRANGERS = '''
import socket, time
lines = []
for i in range(1000):
    lines.append(socket.create_connection(("10.77.0.1", 20100), 20))
    if i % 2:
        lines[-1].sendall(bytes(73))
print("there", flush=True)
time.sleep(1000)
'''


class Failed(Exception):
    pass


class Process:
    """A command on a host, of which lines are read."""

    def __init__(self, host, *command, **env):
        self.host = host
        words = ['env'] + ['%s=%s' % item for item in env.items()] + list(command)
        quoted = ["'" + word + "'" for word in words]
        self.process = subprocess.Popen([AGENT, 'host%d' % host] + quoted, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, bufsize=0)
        self.rest = b''

    def line(self, seconds=120):
        end = time.monotonic() + seconds
        while b'\n' not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise Failed('the process on host %d has ended' % self.host)
            self.rest += data
        line, self.rest = self.rest.split(b'\n', 1)
        return line.decode()

    def say(self, text):
        self.process.stdin.write(text.encode() + b'\n')

    def end(self):
        self.process.kill()
        self.process.wait()


class Member(Process):
    def __init__(self, host, program, **env):
        super().__init__(host, program, **env)
        line = self.line()
        if line is None:
            raise Failed('host %d does not begin' % host)
        self.address, self.pid = line.split()[1], int(line.split()[2])


def talk(some, others, seconds=120):
    """Each of some talks to all of others at the same time. Returns what failed, by member."""
    for member in some:
        member.say('talk ' + ' '.join(other.address for other in others if other is not member))
    failed = {}
    for member in some:
        line = member.line(seconds)
        if line is None:
            raise Failed('host %d has no answer after %d s' % (member.host, seconds))
        for word in line.split()[1:]:
            failed.setdefault(member.host, []).append(word.split('=')[1])
    return failed


def expect(condition, text):
    if not condition:
        raise Failed(text)


def every_pair(crowd):
    expect(talk(crowd, crowd) == {}, 'some requests failed')
    expect(talk(crowd, crowd) == {}, 'some requests of the second round failed')


def memory(crowd, before):
    crowd[0].say('size')
    connections, kib = (int(word) for word in crowd[0].line().split()[1:])
    each = (kib - before) / max(connections, 1)
    print('# %d connections take %d KiB, %.0f KiB each' % (connections, kib - before, each))
    expect(connections >= len(crowd) - 1, 'only %d connections' % connections)
    expect(each <= MOST_KIB, '%.0f KiB for each connection' % each)


def between(*command):
    subprocess.run(['nsenter', '-t', '1', '--net'] + list(command), check=True)


def cut_off(crowd):
    lost, rest = crowd[4], crowd[:4] + crowd[5:]
    between('ip', 'link', 'set', 'port%d' % lost.host, 'down')
    expect(talk(rest, rest) == {}, 'the other hosts do not talk')
    failed = talk(rest, [lost])
    expect(failed == {member.host: ['silent'] for member in rest},
           'requests to the host ended with %s' % failed)


def come_back(crowd, program):
    host = crowd[4].host
    os.kill(crowd[4].pid, signal.SIGKILL)
    crowd[4].end()
    between('ip', 'link', 'set', 'port%d' % host, 'up')
    crowd[4] = Member(host, program)
    # A connection of the old process may still be there when the first request is posted.
    for _ in range(3):
        failed = talk(crowd, crowd)
        if not failed:
            return
    raise Failed('requests fail: %s' % failed)


def stopped(crowd):
    still, rest = crowd[6], crowd[:6] + crowd[7:]
    os.kill(still.pid, signal.SIGSTOP)
    crowd[0].say('talk ' + still.address)
    others = rest[1:]
    end = time.monotonic() + 2 * TIMEOUT
    while time.monotonic() < end:
        expect(talk(others, others) == {}, 'the other hosts do not talk')
        time.sleep(0.5)
    early = crowd[0].line(0.1)
    os.kill(still.pid, signal.SIGCONT)
    expect(early is None, 'a request to the process ended while it was stopped: %s' % early)
    expect(crowd[0].line() == 'talked', 'a request to the process failed')


def other_key(crowd, program):
    gone = crowd.pop() # the other process takes its port
    os.kill(gone.pid, signal.SIGKILL)
    gone.end()
    stranger = Member(gone.host, program, GLEX_NET_KEY='ab' * 16, GLEX_FABRIC='stranger')
    failed = talk([stranger], crowd)
    expect(failed == {gone.host: ['denied'] * len(crowd)}, 'not denied: %s' % failed)
    stranger.end()
    every_pair(crowd)


def strangers(crowd):
    flood = Process(3, 'python3', '-c', STRANGERS)
    expect(flood.line() == 'there', 'the flood does not begin')
    every_pair(crowd)
    flood.end()


def main():
    program, num = sys.argv[1], int(sys.argv[2])
    crowd = [Member(host, program) for host in range(1, num + 1)]
    crowd[0].say('size')
    before = int(crowd[0].line().split()[2])
    steps = [('every pair talks', lambda: every_pair(crowd)),
             ('memory of a connection', lambda: memory(crowd, before)),
             ('a host is cut off', lambda: cut_off(crowd)),
             ('it comes back with a new process', lambda: come_back(crowd, program)),
             ('a process is stopped', lambda: stopped(crowd)),
             ('a process with another key', lambda: other_key(crowd, program)),
             ('a flood of strangers', lambda: strangers(crowd))]
    for name, step in steps:
        try:
            step()
        except Failed as failed:
            print('not ok %s: %s' % (name, failed), flush=True)
            return 1
        print('ok %s' % name, flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
