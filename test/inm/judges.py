"""Longer tests of network management: the emulator, servers and command line together.

judges.py NAME runs one; without a name it lists them. No figure of real time decides a test."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import random

from harness import BIN, Network, PASSWORD, Web, wait_for

FAST = "[poll]\ninterval_ms = 500\n"


def near(value, wanted, part):
    assert abs(value - wanted) <= wanted * part, f"{value} is not within {part:.0%} of {wanted}"


def figures():
    """The modelled figures of the paper, at full size."""
    with Network("th2", "model") as n:
        n.start_server(extra="[poll]\nmode = single\n")
        one = n.inm("discover", "window=1")
        assert (one["nrc"], one["nic"], one["links"]) == (5856, 18304, 66688), one
        assert one["requests"] == 6 * 5856 + 1, one
        near(one["modelled_seconds"], 0.472822, 0.05)
        many = n.inm("discover")
        assert many["modelled_seconds"] < 0.050, many
        again = n.inm("discover")
        assert again["modelled_seconds"] == many["modelled_seconds"], "not deterministic"
        scan = n.inm("scan")
        assert scan["requests"] == 120 * 5856 and scan["failed"] == 0, scan
        assert scan["modelled_seconds"] < 1, scan
        near(scan["bits"] / 2**30, 1.0367, 0.01)
        near(scan["formula_seconds"], 9.38, 0.05)
        near(scan["link_share_percent"], 0.0493, 0.05)


def busy():
    with Network("th2", "model", ["--busy"]) as n:
        n.start_server(extra="[poll]\nmode = single\n")
        near(n.inm("discover", "window=1")["modelled_seconds"], 0.490885, 0.05)


def scan_in_turn():
    """One request at a time: the paper's 9.38 s, by the modelled clock."""
    with Network("th2", "model") as n:
        n.start_server(extra="[poll]\nmode = single\n")
        # 700,000 times from the server to the emulator and back: minutes on a machine that is busy.
        near(n.inm("scan", "window=1", seconds=540)["modelled_seconds"], 9.38, 0.05)
        # A server that is told to stop does not scan to the end: the end of this test waits for the server.
        before = n.inm("show")["requests"]
        with subprocess.Popen([f"{BIN}/inm", "-s", f"unix:{n.dir}/one.sock", "scan", "window=1"], env=n.env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as scan:
            wait_for("the scan has begun", lambda: n.inm("show")["requests"] > before + 1000)
            n.stop_server()
            assert "the server stops" in scan.stderr.read()


def day():
    """A day in the life, at full size: each fault is found, shown, and cleared."""
    with Network("th2") as n:
        n.fault("swap:r10f0n4:2,with=r10f1n4:5")  # wired wrongly before the first start
        port = n.start_server(extra=FAST)
        swapped = n.wait_alarm("fibres_swapped", "r10f0n4:2")
        for part in ("rack 10, frame 0, chip 4", "rack 10, frame 1, chip 4", "r10f1n4:5", "l1s0b2:4"):
            assert part in swapped["text"], swapped
        n.clear()
        n.wait_quiet()
        n.fault("down:r5f2n4:3")
        down = n.wait_alarm("link_down", "r5f2n4:3")
        assert down["severity"] == "major" and "rack 5, frame 2, chip 4, port 3" in down["text"], down
        ports = n.inm("ports", "r5f2n4")["ports"]
        assert not ports[3]["up"] and ports[2]["up"], ports[3]
        n.inm("alarms", "ack", str(down["id"]))
        assert n.wait_alarm("link_down", "r5f2n4:3")["acknowledged"], "not acknowledged"
        n.clear()
        n.wait_quiet()
        n.fault("hot:l3s1b4,temp=96")
        n.wait_alarm("hot", "l3s1b4")
        assert n.inm("show", "l3s1b4")["temperature"] == 96
        n.clear()
        n.wait_quiet()
        # One dead root switch: one alarm, not one for each of its 48 links.
        n.fault("dead:t3b17")
        n.wait_alarm("switch_dead", "t3b17")
        wait_for("its chips are missed", lambda: n.inm("show")["found"]["nrc"] == 5850)
        alarms = n.alarms()
        assert len(alarms) == 1 and alarms[0]["folded"] == 48, alarms
        # The server dies, hard. The network changes meanwhile; nothing is forgotten.
        n.stop_server(sig=signal.SIGKILL)
        n.clear()
        n.fault("down:r7f0n5:1")
        assert n.start_server(extra=FAST) == port
        n.wait_alarm("link_down", "r7f0n5:1")
        assert not [a for a in n.alarms() if a["cause"] == "switch_dead"]
        kept = n.inm("alarms", "all")["alarms"]
        assert {a["cause"] for a in kept} >= {"fibres_swapped", "link_down", "hot", "switch_dead"}, kept
        assert all(a["cleared"] for a in kept if a["cause"] != "link_down" or "r5f2" in a["place"]), kept
        n.clear()
        n.wait_quiet()


def faults():
    """Every fault of the emulator, on a small network."""
    with Network() as n:
        n.start_server(extra=FAST + "[limits]\nretries = 10\n")
        for spec, cause, place in (("down:r0f1n0:0", "link_down", "r0f1n0:0"),
                                   ("flap:r0f0n4:1,period=100", "flapping", "r0f0n4:1"),
                                   ("retry:r1f0n4:1,rate=1000", "retries", "r1f0n4:1"),
                                   ("lanes:r1f1n4:1,lanes=4", "narrow_link", "r1f1n4:1"),
                                   ("unplug:l0s0b1:2", "link_down", "l0s0b1:2"),
                                   ("dead:r1f1n0", "chip_dead", "r1f1n0"),
                                   ("dead:t0b3", "switch_dead", "t0b3"),
                                   ("dead:r1", "cabinet_dead", "r1"),
                                   ("mute:t0b2n0", "no_answer", "t0b2n0"),
                                   ("hot:r1f0n0,temp=90", "hot", "r1f0n0")):
            n.fault(spec)
            n.wait_alarm(cause, place)
            n.clear()
            if cause not in ("flapping", "retries"):  # over after half a minute: wait_quiet() waits for that
                wait_for(f"{cause} is cleared", lambda c=cause: c not in [a["cause"] for a in n.alarms()])
        n.wait_quiet()
        n.fault("lose,ppm=20000")
        n.fault("corrupt,ppm=2000")
        for _ in range(5):
            assert n.inm("discover")["nrc"] == 64
        assert n.inm("show")["retries"] > 0
        n.clear()
        n.wait_quiet()


def starts():
    """The server starts whatever the network next to it lacks, says what is wrong, and recovers."""
    broken = {"dead:r0f0n0": "nic_no_link", "down:r0f0h0:0": "nic_no_link", "unplug:r0f0n0:0": "nic_no_link",
              "mute:r0f0n0": "no_answer", "dead:r0f0n4": "chip_dead", "dead:r0f0n5": "chip_dead",
              "mute:r0f0n4": "no_answer", "dead:r0": "nic_no_link"}
    with Network() as n:
        n.start_server(extra="[poll]\ninterval_ms = 200\n")
        ports = n.inm("ports", "r0f0n0")["ports"]
        for p in ports[1:]:
            if p["peer"] and "h" not in p["peer"]:
                broken[f"down:r0f0n0:{p['port']}"] = "link_down"
        assert len(broken) >= 10, broken
        for spec, cause in broken.items():
            n.wait_quiet()
            n.stop_server()
            n.fault(spec)
            n.start_server(extra="[poll]\ninterval_ms = 200\n")
            wait_for(f"{cause} after {spec}", lambda c=cause: c in [a["cause"] for a in n.alarms()])
            assert Web(n.servers["one"]["port"]).login() == 200, spec
            assert n.health()["network"] == (cause != "nic_no_link"), spec
            n.inm("differences")
            n.clear()
            wait_for(f"the whole network after {spec}", lambda: n.inm("show")["found"]["nrc"] == 64)
        # Alarms of the last run stay while nothing is known.
        n.wait_quiet()
        n.fault("down:r1f0n4:1")
        kept = n.wait_alarm("link_down", "r1f0n4:1")
        n.fabric.terminate()
        n.fabric.wait()
        n.wait_alarm("network_gone", "network")
        n.stop_server()
        n.start_server()
        assert {a["cause"] for a in n.alarms()} == {"network_gone", "link_down"}, n.alarms()
        assert n.wait_alarm("link_down", "r1f0n4:1")["id"] == kept["id"]
        n.inm("discover", status=1)
        n.start_fabric()
        n.wait_quiet()
        # Another network than the topology's
        n.stop_server()
        n.topology = "th2"
        n.start_server()
        n.wait_alarm("wrong_topology", "network")
        assert n.inm("differences")["missing"] > 60000


def move_end_of_run(n, chip):
    """The first entry of a run gets the ports of the run before it: the number of runs stays."""
    def entry(nic):
        n.inm("reg", "write", chip, "0x20", str(nic | 1 << 16))
        return n.inm("reg", "read", chip, "0x21")["value"]

    ports = [entry(0), entry(1)]
    while True:
        ports.append(entry(len(ports)))
        first = len(ports) - 2
        if ports[first - 1] != ports[first] and ports[first] == ports[first + 1]:
            break
    n.inm("reg", "write", chip, "0x20", str(first | 1 << 16))
    n.inm("reg", "write", chip, "0x21", str(ports[first - 1]))


def routes():
    """Tables: generated, loaded, verified, kept, found wrong, loaded by a chip at power-on."""
    with Network() as n:
        n.start_server(extra="[poll]\nmode = single\n")
        n.inm("route", "load", status=1)
        loads = {}
        for kind in ("shortest", "balanced", "updown"):
            made = n.inm("route", "generate", kind)
            assert made["deadlock_free"] and made["unreachable"] == 0, made
            loads[kind] = made["max_load"] - made["min_load"]
            assert n.inm("route", "load")["failed"] == 0
            assert n.inm("route", "verify")["differ"] == 0
            for to in ("r0f0h1", "r0f1h7", "r1f1h7"):
                hops = n.inm("trace", "r0f0h0", to)["hops"]
                assert hops[0]["chip"] == "r0f0h0" and hops[-1]["chip"] == to, hops
                assert all(h["up"] for h in hops), hops
                assert len(hops) == {"r0f0h1": 3, "r0f1h7": 7, "r1f1h7": 11}[to], hops
        assert loads["balanced"] <= loads["shortest"], loads
        n.inm("reg", "write", "l0s0b0", "0x20", str(3 | 1 << 16))
        n.inm("reg", "write", "l0s0b0", "0x21", "2")
        assert n.inm("route", "verify")["differ"] == 1
        assert n.inm("route", "load")["failed"] == 0 and n.inm("route", "verify")["differ"] == 0
        move_end_of_run(n, "l0s0b0")
        assert n.inm("route", "verify")["differ"] == 1
        assert n.inm("route", "load")["failed"] == 0 and n.inm("route", "verify")["differ"] == 0
        assert n.inm("route", "keep", "l0s0b0")["failed"] == 0
        runs = n.inm("reg", "read", "l0s0b0", "0x22")["value"]
        n.fault("dead:l0s0b0")
        wait_for("the chip is missed", lambda: n.inm("show")["found"]["nrc"] == 63)
        n.clear()
        wait_for("the chip is back", lambda: n.inm("show")["found"]["nrc"] == 64)
        assert n.inm("reg", "read", "l0s0b0", "0x22")["value"] == runs, "not loaded from EEPROM"
        # Around a broken link
        n.fault("down:l0s0b0:2")
        wait_for("the link is missed", lambda: n.inm("show")["found"]["links"] == 159)
        made = n.inm("route", "generate", "updown")
        assert made["deadlock_free"] and made["unreachable"] == 0, made


def bist():
    with Network() as n:
        n.start_server(extra="[poll]\nmode = single\n")
        n.fault("ber:r0f0n4:1,rate=2000")
        done = n.inm("bist", "all", "us=20000")
        assert done["links"] == 160 and done["tested"] == 159, done  # all but the server's own
        assert done["bad"] == 1 and done["errors"] > 0 and done["rounds"] >= 2, done
        n.wait_alarm("bist_errors", "r0f0n4:1")
        n.clear()
        assert n.inm("bist", "r0f0n4:1")["bad"] == 0
        n.wait_quiet()
        assert n.inm("discover")["nrc"] == 64


def regions():
    """Two servers; one dies, the other takes its region over, with its reports."""
    with Network() as n:
        extra = FAST + "[region]\nfirst_cabinet = {}\nlast_cabinet = {}\nrank = {}\nheartbeat_ms = 100\n"
        peer = "[peer {}]\nurl = unix:{}\nfirst_cabinet = {}\nlast_cabinet = {}\nrank = {}\n"
        n.start_server("east", extra.format(0, 0, 1) + peer.format("west", f"{n.dir}/west.sock", 1, 99, 2))
        n.start_server("west", extra.format(1, 99, 2).replace("[region]", "[network]\nnic = 16\n[region]") +
                       peer.format("east", f"{n.dir}/east.sock", 0, 0, 1))
        n.wait_quiet("east")
        n.fault("down:r1f0n1:0")
        n.wait_alarm("link_down", "r1f0n1:0", "west")  # reported to the west only
        n.clear()
        n.wait_quiet("west")
        before = n.inm("show", name="east")["reports"]
        n.stop_server("west", signal.SIGKILL)
        n.wait_alarm("server_dead", "west", "east")
        wait_for("the takeover", lambda: "has taken" in n.wait_alarm("server_dead", "west", "east")["text"])
        wait_for("chips of the west report to the east",
                 lambda: n.fault("flap:r1f0n1:0,period=400,for=1") and n.inm("show", name="east")["reports"] > before)
        n.clear()
        n.start_server("west", extra.format(1, 99, 2).replace("[region]", "[network]\nnic = 16\n[region]") +
                       peer.format("east", f"{n.dir}/east.sock", 0, 0, 1))
        wait_for("the west is back", lambda: "server_dead" not in [a["cause"] for a in n.alarms("east")])


def security():
    """Nobody gets in where they don't belong."""
    with Network() as n:
        port = n.start_server(users=(("admin", "administrator"), ("op", "operator"), ("eye", "viewer")),
                              extra="[http]\nlogin_tries = 4\nrate_per_second = 300\n")
        guest = Web(port)
        for path in ("summary", "topology", "state", "alarms", "events", "chip?chip=nrc0", "reg?chip=nrc0&addr=0", "log",
                     "eeprom?chip=nrc0&addr=0&num=1", "layout", "users", "stream", "session", "config"):
            assert guest.call(f"/api/v1/{path}")[0] in (401, 404), path
        assert guest.call("/api/v1/stream")[0] == 401
        for path in ("discover", "reg", "routes", "users", "bist", "config", "logout"):
            assert guest.call(f"/api/v1/{path}", {})[0] == 401, path
        viewer, operator, admin = Web(port), Web(port), Web(port)
        assert viewer.login("eye") == 200 and operator.login("op") == 200 and admin.login() == 200
        assert "HttpOnly" in admin.set_cookie and "SameSite=Strict" in admin.set_cookie
        assert viewer.call("/api/v1/summary")[0] == 200 and "default-src 'none'" in viewer.headers["Content-Security-Policy"]
        for path in ("discover", "scan", "reg", "alarms/ack", "bist"):
            assert viewer.call(f"/api/v1/{path}", {})[0] == 403, path
        for path in ("reg", "eeprom", "routes", "users", "users/delete", "config"):
            assert operator.call(f"/api/v1/{path}", {"name": "eye"})[0] == 403, path
        assert operator.call("/api/v1/discover", {})[0] == 200
        assert operator.call("/api/v1/users")[0] == 403 and admin.call("/api/v1/users")[0] == 200
        changes = "/api/v1/log?kind=change"
        assert operator.call(changes)[1]["log"] == [] and admin.call(changes)[1]["log"] != []
        write = {"chip": "nrc0", "addr": 0x30, "value": "7"}
        assert admin.call("/api/v1/reg", write, csrf=False)[0] == 403
        assert admin.call("/api/v1/reg", write, csrf=False, headers={"X-CSRF-Token": operator.csrf})[0] == 403
        assert admin.call("/api/v1/reg", write)[0] == 200
        assert admin.call("/api/v1/reg?chip=nrc0&addr=0x30")[1]["value"].endswith("7")
        assert guest.call("/api/v1/reg", write, headers={"Cookie": "inm_session="})[0] == 401
        for path in ("/../../etc/passwd", "/app.js/..", "/%2e%2e/inmd.conf", "/api/v1/nothing"):
            assert guest.call(path)[0] in (404, 400), path
        assert admin.call("/api/v1/users", {"name": "op", "role": "viewer", "password": PASSWORD})[0] == 200
        assert operator.call("/api/v1/summary")[0] == 401, "a session outlived its role"
        assert admin.call("/api/v1/logout", {})[0] == 200 and admin.call("/api/v1/summary")[0] == 401
        tries = [Web(port).login("admin", f"guess {i} guess") for i in range(6)]
        assert tries[:4] == [401] * 4 and tries[4:] == [429] * 2, tries
        n.stop_server()
        n.start_server(extra="[http]\nrate_per_second = 1\n")
        answers = set()
        wait_for("the rate is limited, and only limited",
                 lambda: answers.add(guest.call("/healthz")[0]) or answers >= {200, 429}, 60)
        log = json.dumps(n.inm("alarms", "all")) + n.log()
        assert PASSWORD not in log
        with open(f"{n.dir}/one.db", "rb") as f:
            text = f.read()
        assert PASSWORD.encode() not in text and os.stat(f"{n.dir}/one.db").st_mode & 0o77 == 0


def fuzz():
    """Rubbish over HTTP and over the emulator's sockets: nothing crashes, work goes on."""
    rng = random.Random(22)
    with Network() as n:
        port = n.start_server(extra="[http]\nrate_per_second = 100000\n")
        admin = Web(port)
        assert admin.login() == 200
        values = ["", "x" * 5000, "r0f0n0", "nrc0", "nrc99999999999", "-1", "0x", "9" * 40, "\u00e9", "%00", "null", "r0f0n0:0"]
        for _ in range(1500):
            path = rng.choice(["chip", "ports", "reg", "eeprom", "trace", "events", "search", "samples", "alarms"])
            query = "&".join(f"{k}={urllib_quote(rng.choice(values))}" for k in
                             rng.sample(["chip", "addr", "num", "from", "to", "since", "limit", "q", "all"], 4))
            assert admin.call(f"/api/v1/{path}?{query}")[0] in (200, 400, 404, 422, 502, 504), (path, query)
        for _ in range(1500):
            path = rng.choice(["reg", "eeprom", "bist", "layout", "alarms/ack", "users", "users/delete", "poll"])
            body = {k: rng.choice(values + [1, -1, 2**63 - 1, None, [], {}, 1.5, True]) for k in
                    rng.sample(["chip", "addr", "value", "bytes", "target", "id", "name", "role", "mode"], 4)}
            text = json.dumps(body).encode()
            if rng.random() < 0.3:
                text = bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
            assert admin.call(f"/api/v1/{path}", text)[0] in (200, 400, 404, 409, 422, 504), (path, body)
        assert admin.call("/api/v1/layout", b"[" * 100000)[0] == 400
        assert admin.call("/api/v1/layout", b"x" * 3000000)[0] == 413
        for _ in range(100):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
                s.sendall(bytes(rng.randrange(256) for _ in range(300)))
        for suffix in ("", ".ctl"):
            for size in (0, 1, 31, 32, 33, 71, 72, 73, 4608, 4609, 100000):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                    s.connect(n.socket + suffix)
                    s.send(rng.randbytes(size))
                    hello = (0x4b4e494c4d4e49).to_bytes(8, "little") + bytes([1, 0, 0, 0]) + b"\xff" * 4 + bytes(16)
                    try:
                        s.send(hello)
                        for _ in range(20):
                            s.send(rng.randbytes(72 * rng.randrange(1, 64)))
                    except OSError:
                        pass  # refused, as it should be
        assert n.inm("discover")["nrc"] == 64
        assert admin.call("/api/v1/summary")[0] == 200


def slow_clients():
    """1,000 half-open connections from one address: another client of that address is served at once."""
    import time
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with Network() as n:
        port = n.start_server()
        admin = Web(port)
        assert admin.login() == 200
        held = []
        for i in range(1000):
            s = socket.create_connection(("127.0.0.1", port), timeout=20)
            s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: " if i % 2 else
                      b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            held.append(s)
            if i % 250 == 249:
                begin = time.monotonic()
                assert admin.call("/api/v1/summary")[0] == 200 and Web(port).call("/healthz")[0] == 200
                print(f"# behind {i + 1} half-open connections: {time.monotonic() - begin:.3f} s")
        # The server closes all of them: the oldest to make room, the rest after 10 s.
        begin = time.monotonic()
        for s in held:
            s.settimeout(60)
            try:
                while s.recv(4096):
                    pass
            except ConnectionError:
                pass
            s.close()
        print(f"# all closed by the server after {time.monotonic() - begin:.1f} s")
        # A client that sends a byte a second does not keep its connection either.
        with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
            s.sendall(b"GET / HTTP/1.1\r\nX: ")
            sent = 0
            try:
                while not select_readable(s, 0.5):
                    s.sendall(b"x")
                    sent += 1
                    assert sent < 200, "kept"
            except ConnectionError:
                pass
        # A slow reader is not among those that are served first, and streams are limited by user.
        streams = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(40)]
        answers = []
        for s in streams:
            s.sendall(f"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nCookie: {admin.cookie}\r\n\r\n".encode())
            answers.append(s.recv(12).decode())
        assert answers.count("HTTP/1.1 200") == 32 and answers.count("HTTP/1.1 429") == 8, answers
        for s in streams:
            s.close()
        assert admin.call("/api/v1/summary")[0] == 200


def select_readable(s, seconds):
    import select
    return select.select([s], [], [], seconds)[0]


def proxy():
    """Names of this server, trusted proxies, single sign-on."""
    with Network() as n:
        extra = ("[http]\nhost_names = inm.example, other.example\ntrusted_proxies = 127.0.0.1 192.0.2.7\n"
                 "user_header = X-Remote-User\nlogin_tries = 3\nrate_per_second = 100000\n")
        port = n.start_server(extra=extra, users=(("admin", "administrator"), ("op", "operator")))
        guest = Web(port)
        for host, status in (("localhost", 200), ("127.0.0.1:99", 200), ("[::1]:80", 200), ("inm.example:443", 200),
                             ("OTHER.example", 200), ("evil.example", 421), ("inm.example.evil.example", 421), ("", 421)):
            assert guest.call("/healthz", headers={"Host": host})[0] == status, host
        # Each client of the proxy has limits of its own; what a client writes into the header does not count.
        def tries(forwarded):
            return Web(port).call("/api/v1/login", {"name": "admin", "password": "guess"},
                                  headers={"X-Forwarded-For": forwarded})[0]
        assert [tries(f"10.9.9.{i}, 198.51.100.1, 192.0.2.7") for i in range(4)] == [401, 401, 401, 429]
        assert tries("198.51.100.2") == 401
        assert [tries("rubbish") for _ in range(4)] == [401, 401, 401, 429]
        # The header of a trusted proxy is a login; the role is that of the user, or viewer.
        for user, role in (("op", "operator"), ("ann@example.org", "viewer")):
            web = Web(port)
            status, session = web.call("/api/v1/session", headers={"X-Remote-User": user})
            assert status == 200 and session["user"] == user and session["role"] == role, session
        header = {"X-Remote-User": "op"}
        assert guest.call("/api/v1/discover", {}, headers=header)[0] == 403  # no CSRF token
        assert guest.call("/api/v1/discover", {}, headers={**header, "X-CSRF-Token": session["csrf"]})[0] == 403
        own = guest.call("/api/v1/session", headers=header)[1]["csrf"]
        assert guest.call("/api/v1/discover", {}, headers={**header, "X-CSRF-Token": own})[0] == 200
        assert guest.call("/api/v1/session", headers={"X-Remote-User": "a b<script>"})[0] == 401
        n.stop_server()
        n.start_server(extra=extra.replace("127.0.0.1 ", ""))
        assert guest.call("/api/v1/session", headers=header)[0] == 401, "an untrusted address logged in"
        n.stop_server()
        n.start_server(extra=extra + "user_role = none\n")
        assert guest.call("/api/v1/session", headers={"X-Remote-User": "ann@example.org"})[0] == 401
        assert guest.call("/api/v1/session", headers=header)[0] == 200


def fragile_hosts(topology, down, drained):
    """Hosts that one more dead router or link would cut off, by trying each: the slow and certain way."""
    nrc, links = topology["nrc"], topology["links"]
    chip = [p // 24 if p < nrc * 24 else nrc + p - nrc * 24 for p in links]
    wires = [(chip[i], chip[i + 1]) for i in range(0, len(links), 2)
             if frozenset(links[i:i + 2]) not in down and not {chip[i], chip[i + 1]} & drained]
    homes = {max(a, b): min(a, b) for a, b in wires if max(a, b) >= nrc}
    trunks = [w for w in wires if max(w) < nrc]

    def parts(without_chip, without_wire):
        near = {}
        for i, (a, b) in enumerate(trunks):
            if i != without_wire and without_chip not in (a, b):
                near.setdefault(a, []).append(b)
                near.setdefault(b, []).append(a)
        best, seen = set(), set()
        for start in near:
            if start not in seen:
                part, queue = {start}, [start]
                while queue:
                    for other in near[queue.pop()]:
                        if other not in part:
                            part.add(other)
                            queue.append(other)
                seen |= part
                best = max(best, part, key=len)
        return best

    main = parts(-1, -1)
    bad = set()
    for failure in [(c, -1) for c in main] + [(-1, i) for i in range(len(trunks))]:
        bad |= main - parts(*failure) - {failure[0]}
    return {host for host, home in homes.items() if home in bad}


def plans():
    """Plans: the prediction equals what happens in the emulated network, ten times; undone, all is as before."""
    with Network() as n:
        port = n.start_server(extra=FAST)
        web = Web(port)
        web.login()
        topology = web.call("/api/v1/topology")[1]
        number = {name: i for i, name in enumerate(
            web.call("/api/v1/search?q=r")[1]["chips"])}  # only to see that names are known
        assert number

        def ids(names):
            found = set()
            for name in names:
                chip = n.inm("show", name)
                found.add(chip["id"] + (topology["nrc"] if chip["type"] == "NIC" else 0))
            return found

        assert "inm route generate" in n.inm("plan", "drain", "t0b1", status=1).stderr
        n.inm("route", "generate", "updown")
        n.inm("route", "load")
        whole = json.loads(n.control("paths"))
        assert whole["unreached"] == 0
        for wrong in (("drain", "nowhere"), ("cut", "r0f0n0:23"), ("cut", "r0f0n0"), ("cut", "r0f0n0:0"),
                      ("add", "r0f0n4:0", "r0f0n4:0"), ("add", "r0f0n4:0", "r0f0n5:0")):
            n.inm("plan", *wrong, status=1)

        done = 0
        before_fragile = fragile_hosts(topology, set(), set())
        def predict_and_do(args, drained_names=(), cut=None):
            nonlocal done
            now = json.loads(n.control("paths"))
            plan = n.inm("plan", *args)
            assert abs(plan["worst_load_before"] - now["worst_load"]) < 1e-6, (plan, now)
            n.inm("apply", str(plan["id"]))
            if args[0] == "cut":
                wait_for("the link is off", lambda: not n.inm("ports", args[1].split(":")[0])["ports"][
                    int(args[1].split(":")[1])]["up"])
            then = json.loads(n.control("paths"))
            assert abs(plan["worst_load_after"] - then["worst_load"]) < 1e-6, (plan, then)
            assert then["table_writes"] - now["table_writes"] == plan["writes"], (plan, now, then)
            drained = ids(drained_names)
            down = {frozenset(cut)} if cut else set()
            fragile = {h for h in fragile_hosts(topology, down, drained) - before_fragile}
            assert plan["hosts_without_redundancy"] == len(fragile - ids(plan["lost"])), (plan, fragile)
            # A drained host keeps its own cable; no table leads to it any more.
            assert plan["hosts_lost"] == then["unreached"] - now["unreached"], (plan, then)
            assert ids(plan["without_redundancy"]) == fragile - ids(plan["lost"])
            assert n.inm("plans")["applied"][-1]["target"] == args[1]
            done += 1
            return plan

        def undone(state):
            n.inm("undo")
            wait_for("the network is whole", lambda: n.inm("show")["found"]["links"] == 160)
            assert json.loads(n.control("paths"))["worst_load"] == state["worst_load"]
            assert n.inm("route", "verify")["differ"] == 0

        board = [f"t0b1n{i}" for i in range(8)]
        board = [name for name in board if n.inm("show", name, status=None).__class__ is dict]
        for args, drained in ((("drain", "t0b1"), board), (("drain", "l0s0b1"), ["l0s0b1"]),
                              (("drain", "r0f1n4"), ["r0f1n4"]), (("drain", "r1f0n0"), ["r1f0n0"]),
                              (("drain", "r1f0h3"), ["r1f0h3"]), (("drain", "t0b2n0"), ["t0b2n0"])):
            plan = predict_and_do(args, drained)
            undone(whole)
        assert plan["chips_drained"] == 1
        for name in ("r1f1n0:2", "l0s1b0:2", "r0f1n5:4"):
            peer = n.inm("ports", name.split(":")[0])["ports"][int(name.split(":")[1])]["peer"]
            if peer is None:
                continue
            def number_of(port_name):
                chip, index = port_name.split(":")
                return n.inm("show", chip)["id"] * 24 + int(index)
            predict_and_do(("cut", name), cut=(number_of(name), number_of(peer)))
            assert not n.alarms(), "a link in maintenance raised an alarm"
            undone(whole)
        # A broken link is mended: before it can be used, the plan says what it brings.
        n.fault("unplug:l0s0b0:2")
        wait_for("the link is missed", lambda: n.inm("show")["found"]["links"] == 159)
        peer = n.inm("ports", "l0s0b0")["ports"][2]["expected"]
        stale = n.inm("plan", "drain", "t0b1", status=1)
        assert "inm route generate" in stale.stderr
        n.inm("route", "generate", "updown")
        n.inm("route", "load")
        plan = n.inm("plan", "add", "l0s0b0:2", peer)
        assert "plug it in" in n.inm("apply", str(plan["id"]), status=1).stderr
        other = n.inm("plan", "drain", "t0b1")
        n.clear()
        wait_for("the link is there", lambda: n.inm("show")["found"]["links"] == 160)
        assert "has changed" in n.inm("apply", str(other["id"]), status=1).stderr
        n.inm("apply", str(plan["id"]))
        then = json.loads(n.control("paths"))
        assert abs(plan["worst_load_after"] - then["worst_load"]) < 1e-6 and then["worst_load"] == whole["worst_load"]
        done += 1
        assert "plugged in" in n.inm("undo", status=1).stderr
        # Applied plans survive a restart, and new tables leave drained parts out.
        n.inm("apply", str(n.inm("plan", "drain", "t0b1")["id"]))
        drained = json.loads(n.control("paths"))["worst_load"]
        n.stop_server(sig=signal.SIGKILL)
        n.start_server(extra=FAST)
        assert n.inm("plans")["applied"][-1]["target"] == "t0b1"
        n.inm("route", "generate", "updown")
        n.inm("route", "load")
        assert json.loads(n.control("paths"))["worst_load"] == drained
        undone(whole)
        # Text and picture
        out = subprocess.run([f"{BIN}/inm", "-s", f"unix:{n.dir}/one.sock", "plan", "drain", "t0b1",
                              f"picture={n.dir}/plan.svg"], check=True, capture_output=True, text=True, env=n.env).stdout
        assert "most loaded link" in out, out
        import xml.dom.minidom
        assert "drain t0b1" in xml.dom.minidom.parse(f"{n.dir}/plan.svg").documentElement.toxml()
        if os.environ.get("SHOTS"):
            import shutil
            shutil.copy(f"{n.dir}/plan.svg", os.environ["SHOTS"])
        assert done >= 10, done
        print(f"# {done} plans, all as predicted")


def load():
    """Traffic patterns of the emulated network, as the server measures them from flit counters."""
    with Network() as n:
        n.start_server(extra="[poll]\nmode = single\n")
        n.inm("route", "generate", "updown")
        n.inm("route", "load")
        assert n.inm("load")["seconds"] == 0 and n.inm("load")["top"] == []
        n.inm("job", "set", "small", "r0f0h0-r0f0h3,r0f1h0")
        n.inm("job", "set", "other", "r1f0h0-r1f1h7")
        n.inm("job", "set", "bad", "r0f0n0", status=1)

        def measure(pattern):
            n.control(f"traffic {pattern}")
            n.inm("poll")
            begin = n.inm("load")["time"]
            wait_for("time passes", lambda: __import__("time").time() > begin + 1)
            n.inm("poll")
            measured = n.inm("load")
            levels = {(v["level"], v["direction"]): v for v in measured["levels"]}
            return measured, levels, {j["name"]: j for j in measured["jobs"]}

        measured, levels, jobs = measure("uniform,rate=40")
        # A host sends and gets 40 %; the mean over the links of a level follows from their number.
        assert abs(jobs["small"]["mean"] - 0.40) < 0.02 and jobs["small"]["number"] == 5, jobs
        for up, down in ((("bottom edge", "up"), ("bottom spine", "down")), (("bottom spine", "up"), ("leaf", "down"))):
            assert abs(levels[up]["mean"] - levels[down]["mean"]) < 0.02, levels
        paths = json.loads(n.control("paths"))
        wanted = 0.40 * paths["worst_load"] / 31  # pairs of hosts on the worst link, each with 1/31 of 40 %
        assert abs(measured["top"][0]["use"] - wanted) < 0.02, (measured["top"][0], wanted)
        assert len(measured["top"]) == 10 and levels["leaf", "up"]["wait"] == 0
        measured, levels, jobs = measure("job:r1f0h0-r1f1h7,rate=60")
        assert abs(jobs["other"]["mean"] - 0.60) < 0.02 and jobs["small"]["mean"] < 0.001, jobs
        assert levels["root edge", "up"]["most"] < 0.001, levels
        measured, levels, jobs = measure("hotspot:r0f0h1,rate=50")
        assert measured["top"][0]["use"] > 0.98 and levels["bottom spine", "down"]["wait"] > 0.5, measured
        measured, levels, jobs = measure("neighbour,rate=30")
        assert levels["bottom edge", "down"]["most"] < 0.32 and abs(jobs["other"]["mean"] - 0.30) < 0.02, levels
        # A dead switch: the same traffic over fewer links.
        use = Web(n.servers["one"]["port"])
        use.login()
        assert len(use.call("/api/v1/load/links")[1]["use"]) == 64 * 24
        measured, levels, jobs = measure("off")
        assert measured["top"] == [] or measured["top"][0]["use"] < 0.001
        n.inm("job", "delete", "small")
        n.inm("job", "delete", "small", status=1)
        n.stop_server()
        n.start_server(extra="[poll]\nmode = single\n")
        assert [j["name"] for j in n.inm("load")["jobs"]] == ["other"]


def past():
    """The network of the past: states, links, alarms, and the history of a chip."""
    import time
    with Network() as n:
        port = n.start_server(extra=FAST)
        web = Web(port)
        web.login()
        def snapshots():
            import sqlite3
            with sqlite3.connect(f"{n.dir}/one.db") as db:
                return db.execute("SELECT count(*) FROM snapshots").fetchone()[0]
        wait_for("a snapshot", lambda: snapshots() >= 1)
        whole = time.time()
        n.fault("dead:t0b1")
        n.fault("hot:r0f0n4,temp=97")
        n.wait_alarm("switch_dead", "t0b1")
        n.wait_alarm("hot", "r0f0n4")
        known = snapshots()
        wait_for("the next snapshot", lambda: snapshots() > known, 60)
        bad = time.time()
        n.clear()
        n.wait_quiet()
        then = web.call(f"/api/v1/past?time={whole}")[1]
        assert set(then["chips"]) == {"."} and then["down"] == [] and then["alarms"] == [], then["alarms"]
        then = web.call(f"/api/v1/past?time={bad}")[1]
        assert then["chips"].count("x") == 4 and then["down"] and then["first"] < then["last"] < bad
        assert {a["cause"] for a in then["alarms"]} >= {"switch_dead", "hot"}, then["alarms"]
        history = web.call("/api/v1/chip/history?chip=r0f0n4")[1]
        assert max(history["temperature"]) == 97 and min(history["temperature"]) < 60, history
        assert len({len(v) for v in history.values()}) == 1


def inventory():
    """Serial numbers and firmware; a part that is replaced is logged."""
    import csv
    with Network() as n:
        n.start_server(extra="[poll]\nmode = single\n")
        n.inm("inventory", "read")
        parts = n.inm("inventory")["parts"]
        assert len(parts) == 96 and len({p["serial"] for p in parts}) == 96, parts[:3]
        n.fault("replace:l0s0b1")
        wait_for("the chip is back", lambda: n.inm("inventory", "read")["failed"] == 0)
        now = {p["chip"]: p for p in n.inm("inventory")["parts"]}
        before = {p["chip"]: p for p in parts}
        changed = [chip for chip in now if now[chip]["serial"] != before[chip]["serial"]]
        assert changed == ["l0s0b1"] and now["l0s0b1"]["firmware"] == "2.2.1", changed
        entry = n.inm("log", "kind=part", "place=l0s0b1")["log"][0]
        assert str(before["l0s0b1"]["serial"]) in entry["text"] and "another part" in entry["text"], entry
        assert len(n.inm("inventory", "all")["parts"]) == 97
        rows = list(csv.DictReader(n.inm("inventory", "netbox").stdout.splitlines()))
        assert len(rows) == 96 and set(rows[0]) >= {"name", "role", "device_type", "serial", "status"}, rows[0]
        assert len(list(csv.DictReader(n.inm("inventory", "csv").stdout.splitlines()))) == 96


def alerts():
    """Alerts reach a webhook and a command, once, after their time; silences hold them back."""
    import http.server
    got = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            code = 500 if not got and not hasattr(Receiver, "refused") else 200
            Receiver.refused = True
            if code == 200:
                got.append(body)
            self.send_response(code)
            self.end_headers()

        def log_message(self, *args):
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    with Network() as n:
        mail = f"{n.dir}/mail"
        extra = (FAST + f"[alert hook]\nseverity = critical\nurl = http://127.0.0.1:{receiver.server_port}/\n"
                 f"[alert mail]\nseverity = warning\nplace = r1\nafter_s = 2\ncommand = cat >> {mail}\n")
        n.start_server(extra=extra)
        n.fault("dead:t0b3")
        n.wait_alarm("switch_dead", "t0b3")
        wait_for("the webhook, after a refusal", lambda: got)
        assert got[0]["version"] == "4" and got[0]["status"] == "firing", got
        alert = got[0]["alerts"][0]
        assert alert["labels"]["alertname"] == "switch_dead" and alert["labels"]["place"] == "t0b3", alert
        assert alert["startsAt"].endswith("Z") and "t0b3" in alert["annotations"]["summary"], alert
        n.fault("down:r0f1n0:0")  # of another place: no mail
        n.inm("silence", "r1f1", "10", "a new cable")
        n.fault("down:r1f1n0:0")
        n.fault("down:r1f0n0:0")
        wait_for("the mail", lambda: os.path.exists(mail) and "r1f0n0:0" in open(mail, encoding="utf-8").read())
        text = open(mail, encoding="utf-8").read()
        assert "r1f1n0" not in text and "r0f1n0" not in text, text
        silenced = [a["place"] for a in n.alarms() if a["silenced"]]
        assert len(silenced) == 1 and "r1f1n0:0" in silenced[0], silenced
        # A restart does not send again.
        n.stop_server()
        n.start_server(extra=extra)
        n.inm("silence", "end", str(n.inm("silence")["silences"][0]["id"]))
        wait_for("the mail that was held back", lambda: "r1f1n0:0" in open(mail, encoding="utf-8").read())
        assert open(mail, encoding="utf-8").read().count("r1f0n0:0") == 1
        n.clear()
        wait_for("the end", lambda: len(got) > 1)
        assert got[-1]["status"] == "resolved" and len(got) == 2, got
        wait_for("the end by mail", lambda: "over" in open(mail, encoding="utf-8").read())
    receiver.shutdown()


def monitoring():
    """The rules for Prometheus and the dashboard for Grafana use metrics that the server has."""
    import shutil
    here = os.path.dirname(os.path.abspath(__file__))
    source = os.path.join(here, "../../src/inm")
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing (package prometheus)"
    subprocess.run([promtool, "check", "rules", f"{source}/inm-alerts.yml"], check=True, capture_output=True)
    with Network() as n:
        with open(f"{here}/alerts_test.yml", encoding="utf-8") as f:
            text = f.read().replace("RULES", os.path.abspath(f"{source}/inm-alerts.yml"))
        # Labels and annotations of a rule are expected whole.
        import yaml
        test, rules = yaml.safe_load(text), {}
        with open(f"{source}/inm-alerts.yml", encoding="utf-8") as f:
            for rule in yaml.safe_load(f)["groups"][0]["rules"]:
                rules[rule["alert"]] = rule
        for check in test["tests"][0]["alert_rule_test"]:
            for alert in check["exp_alerts"]:
                summary = rules[check["alertname"]]["annotations"]["summary"]
                value = {"InmCriticalAlarm": "2", "InmLinksWait": "0.5", "InmLinkRetries": "200"}.get(check["alertname"], "")
                summary = summary.replace("{{ $value }}", value)
                for label, text in alert["exp_labels"].items():
                    summary = summary.replace("{{ $labels.%s }}" % label, text)
                alert["exp_annotations"] = {"summary": summary}
        with open(f"{n.dir}/test.yml", "w", encoding="utf-8") as f:
            yaml.safe_dump(test, f)
        done = subprocess.run([promtool, "test", "rules", f"{n.dir}/test.yml"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        port = n.start_server(extra="[poll]\nmode = single\n")
        n.inm("poll")
        n.inm("poll")
        there = set(re.findall(r"^(inm_\w+)", Web(port).call("/metrics")[1], re.M))
        for name in ("inm-alerts.yml", "inm-grafana.json"):
            with open(f"{source}/{name}", encoding="utf-8") as f:
                used = set(re.findall(r"\binm_\w+", f.read()))
            assert used <= there and len(used) >= 5, (name, used - there)


def urllib_quote(text):
    import urllib.parse
    return urllib.parse.quote(text)


def cli():
    """The command line: tables, JSON, exit statuses, help."""
    with Network() as n:
        n.start_server()
        for name in ("inm", "inmd", "inm-fabric"):
            text = subprocess.run([f"{BIN}/{name}", "--help"], check=True, capture_output=True, text=True).stdout
            assert "Usage:" in text and "Exit status" in text, name
            assert re.match(rf"{name} \d", subprocess.run([f"{BIN}/{name}", "--version"], check=True,
                                                          capture_output=True, text=True).stdout)
        assert n.inm("reg", "read", "r0f0n0", "0x0")["value"] == "0x0000000040000000"
        n.inm("reg", "write", "r0f0n0", "0x31", "0xfedcba9876543210")
        assert n.inm("reg", "read", "r0f0n0", "0x31")["value"] == "0xfedcba9876543210"
        n.inm("eeprom", "write", "r0f0h3", "1000", "00112233445566778899")
        assert n.inm("eeprom", "read", "r0f0h3", "1000", "10")["bytes"] == "00112233445566778899"
        n.inm("reg", "write", "r0f0n0", "0", "1", status=1)
        n.inm("reg", "read", "r0f0n0", "0x7fff", status=1)
        n.inm("show", "nowhere", status=1)
        n.inm("nonsense", status=2)
        n.inm("trace", "r0f0h0", status=2)
        n.inm("show", name="nobody", status=3)
        n.fault("down:r0f1n0:0")
        n.wait_alarm("link_down", "r0f1n0:0")
        n.inm("alarms", status=4)
        table = subprocess.run([f"{BIN}/inm", "-s", f"unix:{n.dir}/one.sock", "alarms"], env=n.env,
                               capture_output=True, text=True).stdout
        assert table.startswith("id") and "r0f1n0:0" in table, table
        n.clear()
        n.wait_quiet()
        assert n.inm("config", "hot_limit=80")["differ"] == 0
        assert n.inm("reg", "read", "r1f0n2", "0x0f")["value"] == f"0x{80000:016x}"

        def differs():
            """The server discovers the network after the fault has ended, and then writes the configuration."""
            n.inm("reg", "write", "r1f0n2", "0x0f", "1000")
            return n.inm("config")["differ"] == 1
        wait_for("a chip that differs is found", differs)
        assert n.inm("config", "hot_limit=85")["differ"] == 0
        web = dict(n.env, INM_USER="admin", INM_PASSWORD=PASSWORD)
        done = subprocess.run([f"{BIN}/inm", "--json", "-s", f"http://127.0.0.1:{n.servers['one']['port']}", "discover"],
                              env=web, capture_output=True, text=True)
        assert json.loads(done.stdout)["nrc"] == 64, done


def metrics():
    """OpenMetrics that a parser accepts, and that tell the truth."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
    with Network() as n:
        port = n.start_server()
        n.fault("down:r0f1n0:0")
        n.wait_alarm("link_down", "r0f1n0:0")
        families = {f.name: f for f in text_string_to_metric_families(Web(port).call("/metrics")[1])}
        assert families["inm_chips_nrc"].samples[0].value == 64
        assert {s.labels["severity"]: s.value for s in families["inm_alarms"].samples}["major"] == 1
        n.clear()
        n.wait_quiet()


def description():
    import yaml
    top = os.path.dirname(os.path.abspath(__file__)) + "/../.."
    with open(f"{top}/docs/inm-openapi.yaml", encoding="utf-8") as f:
        text = f.read()
    return text, yaml.safe_load(text)["paths"]


def openapi():
    """The document is what the server checks calls against."""
    there = subprocess.run([f"{BIN}/inmd", "--openapi"], check=True, capture_output=True, text=True).stdout
    assert description()[0] == there, "docs/inm-openapi.yaml: print it again with inmd --openapi"


def good_and_wrong(schema):
    """A value that fits a schema, and values that do not."""
    kind = schema["type"]
    if kind == "object":
        return {}, ["x", 1, [], None]
    if "enum" in schema:
        return schema["enum"][0], ["", "x", schema["enum"][0] + "x", "9" * 5000, "1|2"]
    if kind in ("integer", "number"):
        low, high = schema["minimum"], schema["maximum"]
        whole = [f"{low}.5"] if kind == "integer" else []
        return low, ["", "abc", str(low - 1), str(high * 10 + 7), "9" * 40, "-" + "9" * 40, "1x", " 1", "nan", "inf",
                     "1e999", "0x", "--1", "9" * 5000, *whole]
    if "pattern" in schema:
        return "00", ["", "x", "0g", "0" * 9001, "-1", "\u00e9"]
    wrong = ["x" * (schema["maxLength"] + 1), "x" * 5000]
    return "x" * max(1, schema["minLength"]), wrong + [""] * (schema["minLength"] > 0)


def arguments():
    """Every argument of every call: what does not fit its schema is refused with a reason."""
    tried = 0
    with Network() as n:
        port = n.start_server(extra="[http]\nrate_per_second = 1000000\nlogin_tries = 1000\n")
        admin = Web(port)
        assert admin.login() == 200

        def refused(path, query, body):
            nonlocal tried
            status, reply = admin.call(path + query, body)
            assert status == 400 and len(reply["error"]) > 10, (path, query[:100], str(body)[:100], status, reply)
            tried += 1

        for path, methods in description()[1].items():
            for method, call in methods.items():
                if method == "get":
                    params = {p["name"]: (p["schema"], p["required"]) for p in call.get("parameters", [])}
                else:
                    schema = call["requestBody"]["content"]["application/json"]["schema"] if "requestBody" in call else {}
                    params = {name: (s, name in schema.get("required", []))
                              for name, s in schema.get("properties", {}).items()}
                good = {name: good_and_wrong(s)[0] for name, (s, needed) in params.items() if needed}
                if method == "get":
                    refused(path, "?nonsense=1", None)
                    for name, (schema, needed) in params.items():
                        for wrong in good_and_wrong(schema)[1]:
                            query = {**good, name: wrong}
                            refused(path, "?" + "&".join(f"{k}={urllib_quote(str(v))}" for k, v in query.items()), None)
                        if needed:
                            refused(path, "?" + "&".join(f"{k}={v}" for k, v in good.items() if k != name), None)
                    continue
                refused(path, "", {**good, "nonsense": 1})
                for name, (schema, needed) in params.items():
                    wrongs = good_and_wrong(schema)[1] + [None, [], True]
                    if schema["type"] != "object":
                        wrongs.append({})
                    if schema["type"] in ("integer", "number"):
                        wrongs += [schema["minimum"] - 1, schema["maximum"] * 2 + 1, 2**63, -2**63, 1e308]
                    else:
                        wrongs += [1, -1.5]
                    for wrong in wrongs:
                        refused(path, "", {**good, name: wrong})
                    if needed:
                        refused(path, "", {k: v for k, v in good.items() if k != name})
        assert tried > 500, tried
        print(f"# {tried} wrong calls were refused")
        # The reviewers' four
        for query in ("events?limit=-5", "events?limit=1e9", "samples?from=abc", "state?since=99999999999999999999"):
            refused(f"/api/v1/{query}", "", None)


def log():
    """The log: alarms, starts, stops, discoveries, changes; filters and exports."""
    import csv
    with Network() as n:
        n.start_server(extra=FAST)
        n.fault("down:r1f0n4:1")
        alarm = n.wait_alarm("link_down", "r1f0n4:1")
        n.inm("alarms", "ack", str(alarm["id"]), "a fitter is on the way")
        n.clear()
        n.wait_quiet()
        n.stop_server()
        n.start_server(extra=FAST)
        n.stop_server(sig=signal.SIGKILL)
        n.start_server(extra=FAST)
        everything = n.inm("log", "limit=1000")["log"]
        kinds = [e["kind"] for e in everything]
        assert kinds.count("start") == 3 and kinds.count("stop") == 1, kinds
        assert "did not end in order" in next(e["text"] for e in everything if e["kind"] == "start")
        for kind in ("raised", "acknowledged", "cleared", "discovery", "change"):
            assert kind in kinds, kind
        ack = n.inm("log", "kind=acknowledged")["log"][0]
        assert "a fitter is on the way" in ack["text"] and ack["user"].startswith("uid"), ack
        raised = n.inm("log", "severity=major", "place=r1f0n4", "kind=raised")["log"]
        assert [e["severity"] for e in raised] == ["major"] and "r1f0n4:1" in raised[0]["place"], raised
        assert n.inm("log", "place=r1f0", "kind=raised")["log"] == raised
        assert n.inm("log", "place=r0", "kind=raised")["log"] == []
        assert n.inm("log", f"from={raised[0]['time'] - 0.001}", f"to={raised[0]['time'] + 0.001}", "kind=raised")["log"]
        assert n.inm("log", "from=2001-01-01", "to=2001-01-02 10:00")["log"] == []
        assert len(n.inm("log", "user=" + ack["user"])["log"]) >= 2
        assert n.inm("log", f"before={everything[3]['id']}", "limit=1")["log"] == [everything[4]]
        text = n.inm("log", "limit=1000", "csv").stdout
        rows = list(csv.DictReader(text.splitlines()))
        assert [r["text"] for r in rows][-len(everything):] == [e["text"] for e in everything], rows[:3]
        n.inm("log", "severity=bad", status=1)
        n.inm("log", "nonsense=1", status=2)


def small_things():
    """HEAD, names instead of numbers and keys, tables that are not loaded."""
    import http.client
    with Network() as n:
        port = n.start_server()
        admin = Web(port)
        admin.login()
        for path in ("/", "/healthz", "/metrics", "/api/v1/summary", "/api/v1/stream"):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("HEAD", path, headers={"Cookie": admin.cookie})
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read() == b"", path
            connection.close()
        n.fault("dead:t0b3")
        n.wait_alarm("switch_dead", "t0b3")
        assert "critical" in [a["severity"] for a in n.inm("alarms", "all")["alarms"]]
        shown = subprocess.run([f"{BIN}/inm", "-s", f"unix:{n.dir}/one.sock", "show"], env=n.env, check=True,
                               capture_output=True, text=True).stdout
        assert "routers (NRC)" in shown and "_" not in shown.replace(n.dir, ""), shown
        trace = n.inm("trace", "r0f0h0", "r1f1h4", status=1)
        assert "no tables are loaded" in trace.stderr and "inm route load" in trace.stderr, trace
        assert "addr is a whole number" in n.inm("reg", "read", "r0f0n0", "xyz", status=1).stderr


def storm():
    """Ten thousand reports a second for a while: none is lost."""
    seconds = int(os.environ.get("STORM_SECONDS", "5"))
    with Network("th2") as n:
        port = n.start_server(extra="[limits]\nretries = 0\n")
        before = json.loads(n.control("stats"))["reports"]
        n.fault(f"storm,rate=10000,for={seconds}")
        wait_for("the storm is over", lambda: "storm" not in n.control("list"), seconds + 60)
        sent = json.loads(n.control("stats"))
        assert sent["reports"] - before >= 9000 * seconds and sent["overflows"] == 0, sent
        wait_for("all reports arrive", lambda: n.inm("show")["reports"] == sent["reports"])
        assert n.inm("show")["reports_missing"] == 0
        web = Web(port)
        web.login()
        assert len(web.call("/api/v1/alarms")[1]["alarms"]) < 100, "not folded"
        import sqlite3
        db = sqlite3.connect(f"{n.dir}/one.db")
        wait_for("all are in the history", lambda: db.execute("SELECT count(*) FROM events").fetchone()[0] >=
                 sent["reports"] - before)
        db.close()


def config_errors():
    for text, wanted in (("[server]\nnme = x\n", ":2: [server] has no option"), ("[http]\nport = 99999\n", ":2: port:")):
        path = "/tmp/inm-config-test-%d" % os.getpid()
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        done = subprocess.run([f"{BIN}/inmd", "--check", "-f", path], capture_output=True, text=True)
        os.unlink(path)
        assert done.returncode == 2 and wanted in done.stderr, done
    example = os.path.dirname(os.path.abspath(__file__)) + "/../../src/inm/inmd.conf.example"
    subprocess.run([f"{BIN}/inmd", "--check", "-f", example], check=True)


TESTS = [figures, busy, scan_in_turn, day, faults, starts, routes, plans, load, past, inventory, alerts, monitoring, bist, regions, security, slow_clients, proxy, fuzz, cli, metrics, openapi, arguments, log, small_things,
         storm, config_errors]

if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("\n".join(t.__name__ for t in TESTS))
    else:
        next(t for t in TESTS if t.__name__ == sys.argv[1])()
