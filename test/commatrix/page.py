#!/usr/bin/env python3
"""Look at a page of commatrix in a headless browser, and use it as its reader would.

    page.py PAGE.html DIRECTORY       DIRECTORY is for the browser's profile and a copy of the page

The copy has one more script, which moves the slider, zooms, points at a cell and chooses another
count, and writes down what it then finds. Prints what is wrong; exit status 1 if something is.
"""
import json
import os
import re
import shutil
import subprocess
import sys

SCRIPT = """<pre id="found"></pre><script>
const found = {errors: []};
window.addEventListener("error", e => found.errors.push(e.message));
const pixel = () => [...pen.getImageData((frame.left + frame.side * 0.5 / n) * devicePixelRatio | 0,
  (frame.top + frame.side * 1.5 / n) * devicePixelRatio | 0, 1, 1).data].join();
const point = (type, x, y, more) => {
  const box = map.getBoundingClientRect();
  map.dispatchEvent(new (type === "wheel" ? WheelEvent : PointerEvent)(type, Object.assign({bubbles: true,
    cancelable: true, clientX: box.left + frame.left + x, clientY: box.top + frame.top + y}, more)));
};
found.title = document.title;
found.rows = byId("top").rows.length;
found.first = byId("top").rows[0].textContent;
found.all = byId("when").textContent;
found.drawn = pixel();
byId("slider").value = 1;
byId("slider").dispatchEvent(new Event("input"));
found.window = byId("when").textContent;
byId("slider").value = 0;
byId("slider").dispatchEvent(new Event("input"));
const most = [...data.cells].sort((a, b) => b[2] - a[2])[0], per = frame.side / n;
point("pointermove", (most[1] + 0.5) * per, (most[0] + 0.5) * per);
found.tip = byId("tip").textContent;
point("wheel", 10, 10, {deltaY: -100});
found.zoomed = view.size;
byId("reset").click();
found.whole = view.size;
byId("count").value = "messages";
byId("count").dispatchEvent(new Event("change"));
found.messages = human(max, count);
byId("found").textContent = JSON.stringify(found);
</script></body>"""


def browse(page, directory, *options):
    profile = os.path.join(directory, "profile")
    run = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--user-data-dir=" + profile, "--virtual-time-budget=4000", "--window-size=1300,1000", *options,
         "file://" + os.path.abspath(page)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=200, check=True)
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
    found = json.loads(match[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    data = json.loads(re.search(r"const data = (\{.*?\});\nconst FIELDS", text, re.S)[1])
    most = max(data["cells"], key=lambda cell: cell[2])
    names = data["names"]
    wrong = list(found["errors"])
    if found["title"] != data["title"]:
        wrong.append("title " + found["title"])
    if found["rows"] != min(len(data["cells"]), 15) or not found["first"].startswith(names[most[0]] + names[most[1]]):
        wrong.append("top pairs: %d rows, first %s" % (found["rows"], found["first"]))
    if found["all"] != "all the time" or " to " not in found["window"]:
        wrong.append("slider: %s, %s" % (found["all"], found["window"]))
    if found["tip"].split("\n")[0] != "%s \u2192 %s" % (names[most[0]], names[most[1]]):
        wrong.append("pointing at the largest cell shows " + found["tip"])
    if "{:,} packets".format(most[4]) not in found["tip"]:
        wrong.append("its packets: " + found["tip"])
    if not found["zoomed"] < found["whole"] == len(names):
        wrong.append("zoom: %s of %s" % (found["zoomed"], found["whole"]))
    if found["drawn"] in ("0,0,0,0", "255,255,255,255"):
        wrong.append("nothing is drawn")
    if "http://" in text or "https://" in text:
        wrong.append("the page loads something from elsewhere")
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


main()
