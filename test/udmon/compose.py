"""Runs the services of packaging/compose by hand, as the file says: docker-compose.yml, SRCDIR of it, BUILD.

There is no Docker in a test. Each service's command is started with the files that its volumes name
in place of the container's paths, so that the configuration and the options are what is tested; the
images and their building are not. Ports and paths are others, so that tests do not meet."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import yaml

here, build = sys.argv[1:3]
failed = []


def check(what, condition):
    print("ok" if condition else "not ok", what, flush=True)
    if not condition:
        failed.append(what)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


PORTS = {port: free_port() for port in ("4999", "9499", "9090")}


def with_ports(text):
    for port, other in PORTS.items():
        text = text.replace(":" + port, ":" + other)
    return text


def volume(source, directory):
    """A file beside the compose file, with other ports; or a named volume, as a directory."""
    if source.startswith("./"):
        copy = os.path.join(directory, source[2:])
        with open(os.path.join(here, source)) as file, open(copy, "w") as out:
            out.write(with_ports(file.read()))
        return copy
    path = os.path.join(directory, source)
    os.makedirs(path, exist_ok=True)
    return path


def command(service, directory):
    words = list(service["command"])
    for mount in service.get("volumes", []):
        source, target = mount.split(":")[:2]
        here_instead = volume(source, directory)
        words = [re.sub(f"(^|=){re.escape(target)}(?=$|/)", lambda m: m[1] + here_instead, w) for w in words]
    if service["image"].startswith("prom/prometheus"):
        words = ["prometheus"] + words # the image's entry point
    else:
        words[0] = os.path.join(build, "src/udmon", words[0])
    return [with_ports(w) for w in words]


def query(expression):
    url = f"http://127.0.0.1:{PORTS['9090']}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]["result"]
    except OSError:
        return []


def wait_for(expression):
    for _ in range(300):
        result = query(expression)
        if result:
            return result
        time.sleep(0.2)
    return []


def in_order(services):
    names = []
    while len(names) < len(services):
        names += [n for n, s in services.items() if n not in names and set(s.get("depends_on", [])) <= set(names)]
    return names


def main():
    with open(os.path.join(here, "docker-compose.yml")) as file:
        compose = yaml.safe_load(file)
    services, running = compose["services"], []
    named = {m.split(":")[0] for s in services.values() for m in s.get("volumes", []) if not m.startswith("./")}
    check("every named volume is declared", named <= set(compose["volumes"]))
    check("the image is built from a file that is there", all(os.path.exists(os.path.join(
        here, s["build"]["context"], s["build"]["dockerfile"])) for s in services.values() if "build" in s))
    with tempfile.TemporaryDirectory() as directory:
        try:
            for name in in_order(services):
                log = open(os.path.join(directory, name + ".log"), "w")
                running.append(subprocess.Popen(command(services[name], directory), stdout=log, stderr=log))
            check("Prometheus reads the collector", bool(wait_for('up{job="udmon"} == 1')))
            node = wait_for("udmon_node_up == 1")
            check("the agent is connected", bool(node))
            check("Prometheus has the agent's series", bool(node) and bool(wait_for(
                'rate(node_cpu_seconds_total{node="%s"}[1m])' % node[0]["metric"]["node"])))
            for family in ("node_memory_available_bytes", "node_load1", "node_network_receive_bytes_total"):
                check("and " + family, bool(wait_for(family)))
            check("all go on", all(p.poll() is None for p in running))
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait()
            if failed:
                for name in services:
                    with open(os.path.join(directory, name + ".log")) as log:
                        print("#", name, *log.readlines()[-5:], sep="\n# ")


if not shutil.which("prometheus"):
    print("skip compose: prometheus is not installed")
    sys.exit(77)
main()
sys.exit(1 if failed else 0)
