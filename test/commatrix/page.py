#!/usr/bin/env python3
"""Look at a page of commatrix in a headless browser, and use it as its reader would.

    page.py PAGE.html DIRECTORY       DIRECTORY is for the browser's profile and a copy of the page

The copy has one more script, which moves the slider, zooms, points at a cell and chooses another
count, and writes down what it then finds. Prints what is wrong; exit status 1 if something is.
"""
import base64
import json
import os
import re
import shutil
import struct
import subprocess
import sys

SCRIPT = """<pre id="found"></pre><script>
const seen = {errors: []};
window.addEventListener("error", e => seen.errors.push(e.message));
const pixel = () => [...pen.getImageData((frame.left + frame.side * 0.5 / n) * devicePixelRatio | 0,
  (frame.top + frame.side * 1.5 / n) * devicePixelRatio | 0, 1, 1).data].join();
const point = (type, x, y, more) => {
  const box = map.getBoundingClientRect();
  map.dispatchEvent(new (type === "wheel" ? WheelEvent : PointerEvent)(type, Object.assign({bubbles: true,
    cancelable: true, clientX: box.left + frame.left + x, clientY: box.top + frame.top + y}, more)));
};
seen.title = document.title;
seen.rows = byId("top").rows.length;
seen.first = byId("top").rows[0].textContent;
seen.all = byId("when").textContent;
seen.drawn = pixel();
byId("slider").value = 1;
byId("slider").dispatchEvent(new Event("input"));
seen.window = byId("when").textContent;
byId("slider").value = 0;
byId("slider").dispatchEvent(new Event("input"));
const most = largest(whole.wire, 1)[0], per = frame.side / n;
seen.most = [data.names[whole.from[most]], data.names[whole.to[most]], whole.packets[most]];
seen.cells = whole.length;
point("pointermove", (whole.to[most] + 0.5) * per, (whole.from[most] + 0.5) * per);
seen.tip = byId("tip").textContent;
byId("order").value = "cluster";
byId("order").dispatchEvent(new Event("change"));
seen.order = [...order].sort((a, b) => a - b).join() === [...identity()].join();
byId("order").value = "name";
byId("order").dispatchEvent(new Event("change"));
byId("find").value = data.names[n - 1];
byId("find").dispatchEvent(new Event("input"));
seen.row = found;
byId("diagonal").click();
seen.hidden = diagonal;
const before = performance.now();
showStep();
pen.getImageData(0, 0, 1, 1);
seen.redraw = performance.now() - before;
byId("diagonal").click();
point("wheel", 10, 10, {deltaY: -100});
seen.zoomed = view.size;
byId("reset").click();
seen.whole = view.size;
byId("count").value = "messages";
byId("count").dispatchEvent(new Event("change"));
seen.messages = human(high, count);
byId("found").textContent = JSON.stringify(seen);
</script></body>"""


def browse(page, directory, *options):
    profile = os.path.join(directory, "profile")
    run = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--user-data-dir=" + profile, "--virtual-time-budget=4000", "--window-size=1300,1000", *options,
         "file://" + os.path.abspath(page)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=100, check=True)
    shutil.rmtree(profile, ignore_errors=True)
    return run.stdout.decode()


def main():
    page, directory = sys.argv[1:3]
    with open(page) as file:
        text = file.read()
    copy = os.path.join(directory, "used.html")
    with open(copy, "w") as file:
        file.write(text.replace("</body>", SCRIPT))
    dom = browse(copy, directory, "--dump-dom")
    match = re.search(r'<pre id="found">(.*?)</pre>', dom, re.S)
    seen = json.loads(match[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    data = json.loads(re.search(r"const data = (\{.*?\});\nconst COUNTS", text, re.S)[1])
    packed = {name: base64.b64decode(field) for name, field in data["cells"].items()}
    cells = len(packed["wire"]) // 4
    wire = struct.unpack("<%df" % cells, packed["wire"])
    most = wire.index(max(wire))
    names = data["names"]
    pair = [names[struct.unpack_from("<H", packed[side], 2 * most)[0]] for side in ("from", "to")]
    packets = int(struct.unpack_from("<f", packed["packets"], 4 * most)[0])
    wrong = list(seen["errors"])
    if seen["title"] != data["title"]:
        wrong.append("title " + seen["title"])
    if seen["cells"] != cells or seen["most"] != pair + [packets]:
        wrong.append("cells: %s of %s, largest %s, not %s" % (seen["cells"], cells, seen["most"], pair + [packets]))
    if seen["rows"] != min(cells, 15) or not seen["first"].startswith("".join(pair)):
        wrong.append("top pairs: %d rows, first %s" % (seen["rows"], seen["first"]))
    if seen["all"] != "all the time" or " to " not in seen["window"]:
        wrong.append("slider: %s, %s" % (seen["all"], seen["window"]))
    if seen["tip"].split("\n")[0] != "%s \u2192 %s" % tuple(pair):
        wrong.append("pointing at the largest cell shows " + seen["tip"])
    if "{:,} packets".format(packets) not in seen["tip"]:
        wrong.append("its packets: " + seen["tip"])
    if not seen["zoomed"] < seen["whole"] == len(names):
        wrong.append("zoom: %s of %s" % (seen["zoomed"], seen["whole"]))
    if seen["drawn"] in ("0,0,0,0", "255,255,255,255"):
        wrong.append("nothing is drawn")
    if not seen["order"] or seen["row"] != len(names) - 1 or seen["hidden"]:
        wrong.append("order %s, found %s, diagonal %s" % (seen["order"], seen["row"], seen["hidden"]))
    if "http://" in text or "https://" in text:
        wrong.append("the page loads something from elsewhere")
    for line in wrong:
        print(line)
    print("%d names, %d cells, drawn in %.0f ms" % (len(names), cells, seen["redraw"]))
    sys.exit(bool(wrong))


main()
