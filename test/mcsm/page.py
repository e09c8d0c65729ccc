#!/usr/bin/env python3
"""page.py PAGE DUMP [PATH...]: judges a page of mcsm-ctl page beside a dump of mcsm-ctl dump fabric and
answers of mcsm-ctl --json path. The page is well-formed and loads nothing, it has all nodes, links and
border ports of the dump and its tables, and each route is the one of the answer. If there is chromium,
a browser opens the page with the pair of each PATH, shows the same route, finds no credit loop, and says
how many links have errors.
Prints what is wrong; the exit code is 1 then."""
import base64
import html.parser
import json
import re
import shutil
import subprocess
import sys
import tempfile

bad = []


def check(good, words):
    if not good:
        bad.append(words)


class Page(html.parser.HTMLParser):
    """Counts open elements, and keeps the text of the JSON."""
    VOID = {"meta", "input", "link", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.json, self.texts = [], "", {}
        self.route, self.results, self.trouble = [], [], ""
        self.feed(text)
        check(not self.open, f"not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        check("src" not in attrs and "href" not in attrs, f"<{tag}> loads {attrs}")
        if tag not in self.VOID:
            self.open.append((tag, attrs))

    def handle_endtag(self, tag):
        check(self.open and self.open[-1][0] == tag, f"</{tag}> closes {self.open[-1:]}")
        self.open.pop()

    def handle_data(self, data):
        tag, attrs = self.open[-1] if self.open else ("", {})
        ids = [a.get("id") for _, a in self.open]
        if attrs.get("type") == "application/json":
            self.json += data
        elif tag == "li" and "route" in ids:
            self.route.append(data)
        elif attrs.get("id") == "trouble":
            self.trouble += data
        elif tag == "td" and "proof" in ids and attrs.get("class") in ("good", "bad"):
            self.results.append(data)


def read_dump(path):
    """Words of the lines by their first word; the tables as {guid: {lid: port}}."""
    lines, tables = {}, {}
    with open(path, encoding="ascii") as dump:
        for line in dump:
            words = line.split()
            lines.setdefault(words[0], []).append(words[1:])
            if words[0] == "lft":
                table = tables.setdefault(words[1], {})
                for run in words[2:]:
                    first, last, port = map(int, re.split("[-:]", run))
                    table.update((lid, port) for lid in range(first, last + 1))
    return lines, tables


def check_data(data, lines, tables):
    guids = [s["guid"] for s in data["switches"]]
    check(set(guids) == {n[1] for n in lines["node"] if n[0] == "switch"}, "other switches")
    hosts = {(h[1], h[2]) for h in data["hosts"]}
    cas = {n[1] for n in lines["node"] if n[0] == "ca"}
    check(hosts == {(l[2], int(l[3])) for l in lines["lid"] if l[0] in cas}, "other hosts")
    # The dump leaves out links that are not in use.
    links = {frozenset([(guids[l[0]], l[1]), (guids[l[2]], l[3])]) for l in data["links"] if l[8] in ("up", "kept")}
    wanted = {frozenset([(l[0], int(l[1])), (l[2], int(l[3]))]) for l in lines["link"]
              if l[0] not in cas and l[2] not in cas}
    check(links == wanted, f"links: {links ^ wanted}")
    borders = {(guids[b[0]], b[1], b[2]) for b in data["borders"]}
    check(borders == {(b[0], int(b[1]), b[2]) for b in lines.get("border", [])}, "other border ports")
    for switch in data["switches"]:
        table = base64.b64decode(switch["lft"])
        found = {lid: port for lid, port in enumerate(table) if port != 255 and lid > 0}
        check(found == tables[switch["guid"]], f"other table of {switch['name']}")


def browser_page(page, pair):
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--virtual-time-budget=20000", f"--user-data-dir={profile}", "--dump-dom", f"file://{page}#{pair}"],
            capture_output=True, text=True, timeout=120, check=False)
    return Page(done.stdout)


def faulty(data):
    """How many links, of hosts and to other clusters too, have errors or flaps, or are not up."""
    ends = [l[6:9] for kind in ("links", "hosts", "borders") for l in data[kind]]
    return sum(errors > 0 or flaps > 0 or state != "up" for errors, flaps, state in ends)


def main():
    with open(sys.argv[1], encoding="utf-8") as page:
        data = json.loads(Page(page.read()).json)
    lines, tables = read_dump(sys.argv[2])
    check_data(data, lines, tables)
    for path in sys.argv[3:]:
        with open(path, encoding="utf-8") as answer:
            answer = json.load(answer)
        route = [f"{hop['description']}/{hop['out_port']}" for hop in answer["path"][1:]]
        check(route, f"{path} has no route")
        if shutil.which("chromium"):
            shown = browser_page(sys.argv[1], f"{answer['from_lid']},{answer['to_lid']}")
            check(shown.route == route, f"the browser shows {shown.route}, not {route}")
            check(shown.trouble.startswith(f"{faulty(data)} link") if faulty(data) else not shown.trouble,
                  f"{faulty(data)} links with errors: \"{shown.trouble}\"")
            check(shown.results and set(shown.results) == {"no loop"}, f"credit loops: {shown.results}")
    for words in bad[:10]:
        print(words)
    sys.exit(1 if bad else 0)


main()
