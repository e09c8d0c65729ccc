"""Start and stop the emulated network and servers for tests, and talk to them."""
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
import urllib.error
import socket

BUILD = os.environ.get("OPENGLEX_BUILD", os.path.join(os.path.dirname(__file__), "../../build"))
BIN = os.path.join(os.path.abspath(BUILD), "src/inm")
PASSWORD = "a secret of tests"


def free_port():
    """Below the ports that the kernel gives to clients: one of those might be given away again before
    the server listens."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def wait_for(what, check, seconds=60):
    """Until check() is true; returns it. Tests wait for what they test, never for a time."""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: did not happen within {seconds} s")
        time.sleep(0.05)


class Network:
    """A fabric and, by name, its servers, in a directory of their own."""

    def __init__(self, topology="small", clock="real", options=()):
        self.dir = tempfile.mkdtemp(prefix="inm-test-")
        self.socket = f"{self.dir}/fabric"
        # libglex opens its device below a directory of this test's own
        self.env = dict(os.environ, GLEX_INM=self.socket, LC_ALL="C.UTF-8")
        self.topology, self.clock, self.options = topology, clock, list(options)
        self.servers = {}
        self.start_fabric()

    def start_fabric(self):
        self.fabric = subprocess.Popen(
            [f"{BIN}/inm-fabric", "-t", self.topology, "-c", self.clock, "-S", self.socket,
             *self.options], stdout=subprocess.PIPE, env=self.env)
        line = self.fabric.stdout.readline()
        assert b"ready" in line, line

    def control(self, command):
        return subprocess.run([f"{BIN}/inm-fabric", "-S", self.socket, "--control", command],
                              check=True, capture_output=True, text=True, env=self.env).stdout.strip()

    def fault(self, spec):
        return self.control(f"fault {spec}")

    def clear(self, number="all"):
        self.control(f"clear {number}")

    def start_server(self, name="one", extra="", users=(("admin", "administrator"),), ready=True):
        port = self.servers[name]["port"] if name in self.servers else free_port()
        config = f"{self.dir}/{name}.conf"
        with open(config, "w", encoding="utf-8") as f:
            f.write(f"[server]\nname = {name}\ntopology = {self.topology}\n"
                    f"database = {self.dir}/{name}.db\n[network]\nfabric = {self.socket}\n"
                    f"[http]\nport = {port}\nsocket = {self.dir}/{name}.sock\n{extra}\n")
        if not os.path.exists(f"{self.dir}/{name}.db"):
            for user, role in users:
                subprocess.run([f"{BIN}/inmd", "-f", config, "--add-user", f"{user}={role}"],
                               input=PASSWORD + "\n", text=True, check=True, env=self.env)
        log = open(f"{self.dir}/{name}.log", "a", encoding="utf-8")
        process = subprocess.Popen([f"{BIN}/inmd", "-f", config], stderr=log, env=self.env)
        log.close()
        self.servers[name] = {"process": process, "port": port}
        if ready:
            wait_for(f"server {name} answers", lambda: self.health(name) or process.poll())
            assert process.poll() is None, self.log(name)
        return port

    def log(self, name="one"):
        with open(f"{self.dir}/{name}.log", encoding="utf-8") as f:
            return f.read()

    def health(self, name="one"):
        try:
            url = f"http://127.0.0.1:{self.servers[name]['port']}/healthz"
            return json.load(urllib.request.urlopen(url, timeout=5))
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def stop_server(self, name="one", sig=signal.SIGTERM):
        process = self.servers[name]["process"]
        process.send_signal(sig)
        return process.wait(30)

    def inm(self, *args, name="one", status=0, seconds=120):
        """Run the command line, for so long at most; returns what it printed as JSON."""
        done = subprocess.run([f"{BIN}/inm", "--json", "-s", f"unix:{self.dir}/{name}.sock", *args],
                              capture_output=True, text=True, env=self.env, timeout=seconds)
        if status is not None:
            assert done.returncode == status, (args, done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout) if done.stdout.startswith("{") else done

    def alarms(self, name="one"):
        return self.inm("alarms", name=name, status=None)["alarms"]

    def wait_alarm(self, cause, place, name="one"):
        def found():
            return [a for a in self.alarms(name) if a["cause"] == cause and place in a["place"]]
        return wait_for(f"alarm {cause} at {place}", found)[0]

    def wait_quiet(self, name="one"):
        wait_for("no alarms", lambda: not self.alarms(name))

    def close(self):
        status = 0
        for name, server in self.servers.items():
            if server["process"].poll() is None:
                status |= self.stop_server(name)
        if self.fabric.poll() is None:
            self.fabric.terminate()
            status |= self.fabric.wait(30)
        for name in self.servers:
            log = self.log(name)
            assert "ERROR: " not in log and "runtime error" not in log, log[-3000:]
        shutil.rmtree(self.dir)
        assert status == 0, f"a program ended with status {status}"

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
            return
        for name in self.servers:
            print(f"--- log of {name}\n{self.log(name)[-1500:]}")
            if self.servers[name]["process"].poll() is None:
                self.servers[name]["process"].kill()
        self.fabric.kill()
        shutil.rmtree(self.dir)


class Web:
    """A client of the HTTP interface, as a browser is one."""

    def __init__(self, port):
        self.base, self.cookie, self.csrf = f"http://127.0.0.1:{port}", None, None

    def call(self, path, body=None, csrf=True, headers=None, method=None):
        """Returns status and reply."""
        request = urllib.request.Request(self.base + path, method=method)
        if body is not None:
            request.data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if self.cookie:
            request.add_header("Cookie", self.cookie)
        if csrf and self.csrf:
            request.add_header("X-CSRF-Token", self.csrf)
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            answer = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        text = answer.read()
        if answer.headers.get("Set-Cookie"):
            self.set_cookie = answer.headers["Set-Cookie"]
            self.cookie = self.set_cookie.split(";")[0]
        self.headers = answer.headers
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode(errors="replace")

    def login(self, name="admin", password=PASSWORD):
        status, reply = self.call("/api/v1/login", {"name": name, "password": password})
        if status == 200:
            self.csrf = reply["csrf"]
        return status
