#!/usr/bin/python3
"""access.py DIRECTORY: strangers at an endpoint of a network.

Starts DIRECTORY/access_server on a loopback address, and an honest peer, DIRECTORY/access_peer, which
must be served throughout; does to the server's port what somebody without the job's key can do, and
with the key what makes no sense. Prints a line per attack: nothing of it may arrive as a message, the
server must live, and its descriptors must not grow without bound.
"""
import hashlib
import hmac
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time

KEY = bytes(range(32))
SERVER, PORT = '127.0.0.1', 20100
CLIENT = '127.0.0.3'
CLIENT_ADDRESS = 3 << 32 | 55       # as if of endpoint 55 on NIC 3
UNPROVEN = 256                      # what the server keeps at most without proof
DROPPED = 16                        # so often a peer that was dropped connects again
AFTER_PAUSE = 0.01                  # s; NET_PAUSE_NS of src/glex/net, and more
HELLO, WELCOME = 32, 120            # bytes; docs/hosts.md
FABRIC = slice(24, 88)


def environment(address, fabric):
    return dict(os.environ, GLEX_NET='tcp/' + address, GLEX_FABRIC=fabric,
                GLEX_NET_KEY=KEY.hex(), GLEX_LOG='error')


class Program:
    """A program of which lines are read."""

    def __init__(self, command, env):
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, bufsize=0)
        self.rest = b''

    def line(self, seconds):
        end = time.monotonic() + seconds
        while b'\n' not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            data = os.read(self.process.stdout.fileno(), 4096)
            if not data:
                return None
            self.rest += data
        line, self.rest = self.rest.split(b'\n', 1)
        return line.decode()

    def say(self, text):
        self.process.stdin.write(text.encode() + b'\n')

    def descriptors(self):
        return len(os.listdir('/proc/%d/fd' % self.process.pid))


class Attack:
    def __init__(self, directory):
        name = os.environ.get('GLEX_FABRIC', 'access')
        self.server = Program([directory + '/access_server'], environment(SERVER, name + '-a'))
        line = self.server.line(30)
        if line is None:
            sys.exit('not ok the server starts')
        self.address = int(line.split()[1])
        self.peer = Program([directory + '/access_peer', str(self.address)],
                            environment('127.0.0.2', name + '-b'))
        self.number = 0

    def is_served(self):
        """Whether the honest peer's next message is the next thing that arrives."""
        self.number += 1
        text = 'honest %d' % self.number
        self.peer.say(text)
        said = self.peer.line(30)
        if said != 'sent':
            return 'the honest peer cannot send: %s' % said
        arrived = self.server.line(30)
        if arrived != 'message ' + text:
            return 'arrived: %s, wanted: %s, its sender: %s' % (arrived, text, self.peer.line(1))
        return None

    def run(self, name, function):
        before = self.server.descriptors()
        random.seed(1)
        why = function()
        why = why or self.is_served()
        if why is None and self.server.process.poll() is not None:
            why = 'the server has ended'
        if why is None and self.server.descriptors() > before + UNPROVEN + 50:
            why = 'descriptors: %d, then %d' % (before, self.server.descriptors())
        print(('not ok %s: %s' % (name, why)) if why else 'ok %s' % name, flush=True)
        return why is None


def connect(source=CLIENT):
    sock = socket.create_connection((SERVER, PORT), 20, (source, 0))
    sock.settimeout(20)
    return sock


def read(sock, size):
    data = b''
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            break
        data += part
    return data


def proof(nonce_listen, nonce, to, key=KEY):
    body = struct.pack('<QQQQ', CLIENT_ADDRESS, to, 77, 1) + nonce
    return body + hmac.new(key, b'C' + nonce_listen + nonce + body, hashlib.sha256).digest()


def is_closed(sock):
    """Whether the server closes, and says nothing before."""
    try:
        return sock.recv(1) == b''
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def handshake(to, key=KEY, source=CLIENT):
    """Answer the hello. Returns the socket, what was sent, and what came back."""
    sock = connect(source)
    hello = read(sock, HELLO)
    sent = proof(hello[16:32], os.urandom(16), to, key)
    sock.sendall(sent)
    return sock, sent


def no_key(attack):
    sock, _ = handshake(attack.address, b'')
    return None if is_closed(sock) else 'a proof without a key was taken'


def wrong_key(attack):
    for bit in range(0, 256, 37):
        key = bytearray(KEY)
        key[bit // 8] ^= 1 << bit % 8
        sock, _ = handshake(attack.address, bytes(key))
        if not is_closed(sock):
            return 'bit %d of the key does not matter' % bit
    return None


def other_endpoint(attack):
    sock, _ = handshake(attack.address + 1)
    return None if is_closed(sock) else 'a proof for another endpoint was taken'


def replay(attack):
    sock, sent = handshake(attack.address)
    if len(read(sock, WELCOME)) != WELCOME:
        return 'a right proof was not taken: this test is wrong'
    again = connect()
    read(again, HELLO)
    again.sendall(sent)
    closed = is_closed(again)
    sock.close()
    return None if closed else 'a recorded proof was taken'


def other_address(attack):
    """A peer that has the key, and comes from another address than its NIC id says, as by NAT."""
    sock, _ = handshake(attack.address, KEY, '127.0.0.77')
    return None if is_closed(sock) else 'a proof from another address was taken'


def garbage(_attack):
    socks = []
    for i in range(2000):
        sock = connect()
        try:
            sock.sendall(random.randbytes(random.choice([1, 7, 72, 73, 79, 80, 81, 1000, 70000])))
        except OSError:
            pass
        socks.append(sock)
        if i % 3 == 0:
            socks.pop(random.randrange(len(socks))).close()
        if len(socks) > 400:
            socks.pop(0).close()
    for sock in socks:
        sock.close()
    return None


def half_open(attack):
    socks = []
    for i in range(3000):
        socks.append(connect())
        if i % 500 == 499:
            why = attack.is_served()
            if why:
                return 'while %d are open: %s' % (len(socks), why)
        if len(socks) > 700:
            socks.pop(0).close()
    held = attack.server.descriptors()
    for sock in socks:
        sock.close()
    return None if held < UNPROVEN + 100 else '%d descriptors' % held


def dripping(_attack):
    socks = [connect() for _ in range(50)]
    for _ in range(40):
        for sock in socks:
            sock.sendall(b'x')
        time.sleep(0.01)
    for sock in socks:
        sock.close()
    return None


def port_scan(_attack):
    for _ in range(3000):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        sock.connect((SERVER, PORT))
        sock.close()
    return None


def after_proof(attack):
    """One who has the key, and then sends what nobody sends there."""
    sock, _ = handshake(attack.address)
    read(sock, WELCOME)
    sock.sendall(os.urandom(5000))
    return None if is_closed(sock) else 'it stays open'


def no_receiver(attack):
    """One who is about to prove the key when the endpoint's receiver goes."""
    sock = connect()
    read(sock, HELLO)
    attack.server.process.send_signal(signal.SIGUSR1)
    if attack.server.line(30) != 'no receiver':
        return 'the server did not let go of its receiver'
    why = None if is_closed(sock) else 'it stays open'
    attack.server.process.send_signal(signal.SIGUSR1)
    if attack.server.line(30) != 'a receiver':
        return 'the receiver does not come back'
    time.sleep(AFTER_PAUSE)
    return why


def no_receiver_asleep(attack):
    """The honest peer makes no call meanwhile. Its next message must not go to the connection that
    the server has ended."""
    attack.peer.process.send_signal(signal.SIGSTOP)
    why = no_receiver(attack)
    attack.peer.process.send_signal(signal.SIGCONT)
    return why


def fabric_port(attack):
    """libfabric's own port, which strangers find by a scan only."""
    sock, _ = handshake(attack.address)
    address = read(sock, WELCOME)[FABRIC]
    port = struct.unpack('>H', address[2:4])[0]
    for size in (1, 8, 24, 100, 5000) * 20:
        other = socket.create_connection((SERVER, port), 20)
        try:
            other.sendall(random.randbytes(size))
        except OSError:
            pass
        other.close()
    sock.close()
    return None


class Honest:
    """One of many peers that one process has: each gets its turn after all others."""

    def __init__(self, attack):
        self.attack, self.dropped, self.proven = attack, -1, False
        self.connect()

    def connect(self):
        self.sock, self.wanted = connect(), HELLO
        self.sock.setblocking(False)
        self.dropped += 1

    def is_closed(self):
        try:
            return self.sock.recv(1, socket.MSG_PEEK) == b''
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True

    def turn(self):
        hello = b''
        if select.select([self.sock], [], [], 0)[0] and not self.is_closed():
            data = self.sock.recv(self.wanted)
            self.proven = len(data) == WELCOME
            hello = data if len(data) == HELLO else b''
        if self.is_closed():
            self.sock.close()
            self.connect()
        elif hello:
            self.wanted = WELCOME
            try:
                self.sock.sendall(proof(hello[16:32], os.urandom(16), self.attack.address))
            except (ConnectionResetError, BrokenPipeError):
                pass  # seen at the next turn


def one_storm(attack):
    peers = [Honest(attack) for _ in range(3 * UNPROVEN)]
    end = time.monotonic() + 60
    while time.monotonic() < end and not all(peer.proven for peer in peers):
        for peer in peers:
            if not peer.proven:
                peer.turn()
            if peer.dropped > DROPPED:
                return 'a peer was dropped %d times' % peer.dropped
    for peer in peers:
        peer.sock.close()
    waiting = sum(not peer.proven for peer in peers)
    return '%d peers wait' % waiting if waiting else None


def storm(attack):
    """More peers at once than the server keeps without proof: each connects again where it is
    dropped, but the server must not drop them so fast that none gets to prove the key."""
    before, end = attack.server.descriptors(), time.monotonic() + 60
    why = None
    for _ in range(5):
        why = why or one_storm(attack)
    while time.monotonic() < end and attack.server.descriptors() > before + UNPROVEN:
        time.sleep(0.01)
    return why


def main():
    attack = Attack(sys.argv[1])
    attacks = [('an honest peer is served', lambda _attack: None),
               ('no key', no_key), ('a wrong key', wrong_key),
               ('a proof for another endpoint', other_endpoint),
               ('a proof from another address', other_address), ('a replayed handshake', replay),
               ('garbage', garbage), ('half-open connections', half_open),
               ('honest peers in a storm', storm), ('dripping connections', dripping),
               ('a port scanner', port_scan),
               ('an endpoint that lost its receiver while its peer slept', no_receiver_asleep),
               ('a proof to an endpoint that lost its receiver', no_receiver),
               ('noise behind a proof', after_proof), ("noise at libfabric's port", fabric_port)]
    good = True
    for name, function in attacks:
        good &= attack.run(name, lambda function=function: function(attack))
    attack.peer.process.stdin.close()
    attack.server.process.stdin.close()
    if attack.peer.process.wait(60) != 0 or attack.server.process.wait(60) != 0:
        print('not ok both end as they should')
        good = False
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
