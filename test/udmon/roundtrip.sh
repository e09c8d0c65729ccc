#!/bin/bash
# Random families through all of it: textfile and scraped endpoint -> agent -> collector -> /metrics, JSON and remote write
# have what the files had, to the last bit. SEED: the number that a failed run has printed.
set -u
# shellcheck source=test/udmon/lib.sh
. "$(dirname "$0")/lib.sh"
begin
seed=${SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "# SEED=$seed"
mkdir "$dir/prom"

cat >"$dir/families.py" <<'END'
"""Random families in the text format and in OpenMetrics, and how programs read them again."""
import math, random, struct, sys
sys.path.insert(0, "/usr/lib/python3/dist-packages")
from prometheus_client.parser import text_string_to_metric_families as parse

CHARACTERS = "abcXYZ019_ ,;={}()[]'\"\\\n\t#/$%&äßéñЖ中日本語ﷺ€\u00a0\u0085\u200b\u2028\ufeff\uffff🙂🏴\U0010ffff"
FIRST, OTHER = "abcXYZ_", "abcXYZ_019"
VALUES = [0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1e16 + 2]


def text(longest):
    return "".join(random.choice(CHARACTERS) for _ in range(random.choice((0, 1, 3, 10, longest))))


def name(first, other):
    return random.choice(first) + "".join(random.choice(other) for _ in range(random.randrange(12)))


def value():
    if random.random() < .5:
        return random.choice(VALUES)
    return struct.unpack("<d", random.randbytes(8))[0]


def labels():
    names = {name(FIRST, OTHER) for _ in range(random.randrange(4))} - {"le", "quantile", "node"}
    return {n: text(60) for n in names if not n.startswith("__")}


def escaped(value, quote=True):
    value = value.replace("\\", "\\\\").replace("\n", "\\n")
    return value.replace('"', '\\"') if quote else value


def line(name, labels, value):
    inside = ",".join('%s="%s"' % (k, escaped(v)) for k, v in labels.items())
    if inside or random.random() < .1:
        name += "{%s}" % inside
    number = "NaN" if math.isnan(value) else "%+g" % value if math.isinf(value) else repr(value)
    return "%s %s\n" % (name, number.replace("inf", "Inf"))


def family(begin, openmetrics):
    kind = random.choice(("gauge", "counter", "unknown", "histogram", "summary"))
    own = begin + name(FIRST + ":", OTHER + ":") + ("_" if kind != "counter" else "")
    out = ""
    if random.random() < .8:
        help_text = " ".join(text(100).split()) # spaces around it are not kept
        out += "# HELP %s %s\n" % (own + "_total" * (kind == "counter" and not openmetrics), escaped(help_text, openmetrics))
    out += "# TYPE %s %s\n" % (own + "_total" * (kind == "counter" and not openmetrics),
                              "untyped" if kind == "unknown" and not openmetrics else kind)
    seen = set()
    for _ in range(random.randrange(1, 5)):
        l = labels()
        key = tuple(sorted((k, v) for k, v in l.items() if v))
        if key in seen:
            continue
        seen.add(key)
        if kind == "histogram":
            counts = sorted(random.randrange(1000) for _ in range(3))
            for bound, count in zip(("0.5", "2.5", "+Inf"), counts):
                out += line(own + "_bucket", {**l, "le": bound}, float(count))
            out += line(own + "_sum", l, 5.5) + line(own + "_count", l, float(counts[-1]))
        elif kind == "summary":
            out += line(own, {**l, "quantile": "0.5"}, abs(value())) + line(own + "_sum", l, 1.5) + line(own + "_count", l, 7.0)
        elif kind == "counter":
            out += line(own + "_total", l, abs(float(random.randrange(1 << 53))))
        else:
            out += line(own, l, value())
    return out


def write(path, seed, begin, openmetrics):
    random.seed("%s %s" % (seed, begin))
    with open(path, "w", newline="\n") as out:
        for i in range(40):
            out.write(family("%s%d_" % (begin, i), openmetrics))
        if openmetrics:
            out.write("# EOF\n")


def bits(value):
    return "NaN" if math.isnan(value) else struct.pack(">d", value).hex()


def samples(lines, without=(), empty=True):
    """{(name, labels): bits}, {name: (type, help)}"""
    found, described = {}, {}
    for f in parse(lines):
        for s in f.samples:
            described[s.name] = f.type, f.documentation
            l = tuple(sorted((k, v) for k, v in s.labels.items() if k not in without and (v or empty)))
            assert (s.name, l) not in found, ("twice", s)
            found[s.name, l] = bits(s.value)
    return found, described


def read(path):
    return open(path, newline="\n").read()


def compare(what, sent, shown):
    for key in sent:
        if sent[key] != shown.get(key):
            sys.exit("# %s: %s: %s, and not %s" % (what, key, shown.get(key), sent[key]))
END

# python COMMAND ARGUMENT...: with the functions of families.py
python() {
    PYTHONPATH=$dir /usr/bin/python3 -c "from families import *
$1" "${@:2}"
}

python 'write(sys.argv[1], sys.argv[3], "t", False); write(sys.argv[2], sys.argv[3], "e", True)' \
    "$dir/prom/random.prom" "$dir/endpoint.om" "$seed"
# The endpoint in OpenMetrics, and the receiver of remote write, which keeps the last value of each series
cat >"$dir/server.py" <<'END'
import ctypes, http.server, json, struct, sys
snappy = ctypes.CDLL("libsnappy.so.1")
series = {}


def unpack(body):
    size = ctypes.c_size_t()
    snappy.snappy_uncompressed_length(body, ctypes.c_size_t(len(body)), ctypes.byref(size))
    out = ctypes.create_string_buffer(size.value)
    assert snappy.snappy_uncompress(body, ctypes.c_size_t(len(body)), out, ctypes.byref(size)) == 0
    return out.raw[:size.value]


def number(data, at):
    result = shift = 0
    while True:
        result |= (data[at] & 0x7f) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return result, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = number(data, at)
        if tag & 7 == 0:
            value, at = number(data, at)
        elif tag & 7 == 1:
            value, at = data[at:at + 8], at + 8
        else:
            length, at = number(data, at)
            value, at = data[at:at + length], at + length
        yield tag >> 3, value


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.end_headers()
        self.wfile.write(open(sys.argv[2], "rb").read())

    def do_POST(self):
        for _, one in fields(unpack(self.rfile.read(int(self.headers["Content-Length"])))):
            labels, value = [], b""
            for field, content in fields(one):
                if field == 1:
                    labels.append([part.decode() for _, part in sorted(fields(content))])
                elif field == 2:
                    value = dict(fields(content)).get(1, bytes(8))
            series[json.dumps(sorted(labels))] = value[::-1].hex()
        json.dump(series, open(sys.argv[3] + ".new", "w"))
        __import__("os").rename(sys.argv[3] + ".new", sys.argv[3])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments):
        pass


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
END
launch server /usr/bin/python3 "$dir/server.py" $((port + 9)) "$dir/endpoint.om" "$dir/written"
collector 0 -r "http://127.0.0.1:$((port + 9))/write"
agent a "server = tcp://$(address 0)" <<END
[files]
type = textfile
directory = $dir/prom
interval = 0.3
to = out
[endpoint]
type = prometheus
url = http://127.0.0.1:$((port + 9))/metrics
interval = 0.3
to = out
END

# The endpoint's file with the names and escapes of the text format
python 'import re; from prometheus_client.openmetrics.parser import text_string_to_metric_families as om
from prometheus_client.samples import Sample
found, described = {}, {}
for f in om(read(sys.argv[1])):
    for s in f.samples:
        found[repr((s.name, tuple(sorted(s.labels.items()))))] = bits(s.value)
        described[s.name] = f.type, f.documentation
import json; json.dump([found, described], open(sys.argv[2], "w"))' "$dir/endpoint.om" "$dir/endpoint.json"

sent='import ast, json
sent, described = samples(read(sys.argv[1]))
found, more = json.load(open(sys.argv[2]))
sent.update((ast.literal_eval(k), v) for k, v in found.items())
described.update((k, tuple(v)) for k, v in more.items())
'
metrics() {
    get 0 /metrics >"$dir/metrics" && python "$sent"'
shown, shown_described = samples(read(sys.argv[3]), ("node",))
compare("/metrics", sent, shown)
for name, (kind, text) in described.items():
    if shown_described[name] != (kind, text or "Sample of an agent."):
        sys.exit("# %s: %s, and not %s" % (name, shown_described[name], (kind, text)))' \
        "$dir/prom/random.prom" "$dir/endpoint.json" "$dir/metrics" 2>"$dir/why"
}
names() {
    get 0 '/api/names?node=a' >"$dir/names" && python "$sent"'
shown = samples("".join(name + " 1\n" for name in json.load(open(sys.argv[3]))))[0]
compare("/api/names", {(name[:-6] if described[name][0] == "counter" else name, l): bits(1) for name, l in sent}, shown)' \
        "$dir/prom/random.prom" "$dir/endpoint.json" "$dir/names" 2>"$dir/why"
}
written() {
    python "$sent"'
shown = {}
for labels, value in json.load(open(sys.argv[3])).items():
    labels = dict(json.loads(labels))
    assert "" not in labels.values(), ("empty label", labels)
    if labels.pop("node", "") == "a":
        shown[labels.pop("__name__"), tuple(sorted(labels.items()))] = bits(struct.unpack(">d", bytes.fromhex(value))[0])
compare("remote write", {(name, tuple(p for p in l if p[1])): value for (name, l), value in sent.items()}, shown)' \
        "$dir/prom/random.prom" "$dir/endpoint.json" "$dir/written" 2>"$dir/why"
}
# The values of gauges in JSON; not finite ones are gaps
points() {
    python "$sent"'
import urllib.parse, urllib.request
checked = 0
for (name, l), value in sent.items():
    if described[name][0] not in ("gauge", "unknown") or checked == 30:
        continue
    number = struct.unpack(">d", bytes.fromhex(value))[0] if value != "NaN" else math.nan
    full = [n for n in json.load(open(sys.argv[4])) if (name, l) in samples(n + " 1\n")[0]][0]
    url = "http://%s/api/series?%s" % (sys.argv[3], urllib.parse.urlencode(dict(node="a", name=full, seconds=60, points=10000)))
    points = json.load(urllib.request.urlopen(url))["points"]
    if not math.isfinite(number):
        assert not points, (full, points[:3])
    else:
        assert points and all(v == number for _, v in points), (full, number, points[:3])
    checked += 1' \
        "$dir/prom/random.prom" "$dir/endpoint.json" "$(web 0)" "$dir/names" 2>"$dir/why"
}
explain() {
    tail -n 3 "$dir/why" "$dir"/*.log | sed 's/^/# /'
}
check "/metrics has each sample, HELP and TYPE" await metrics
check "JSON has each name" await names
check "and the values of gauges" await points
check "remote write has each sample" await written
check "no sample is refused" [ "$(get 0 /metrics | awk '/^udmon_agent_samples_refused_total/ { sum += $2 } END { print sum + 0 }')" -eq 0 ]
