"""The collector's page in headless Chromium. SHOTS: keep pictures there."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

SHOTS = os.environ.get("SHOTS")
failed = []


def check(what, condition):
    print("ok" if condition else "not ok", what, flush=True)
    if not condition:
        failed.append(what)


class Server:
    """page_server of so many nodes."""

    def __init__(self, program, nodes, directory):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % free.getsockname()[1]
        self.process = subprocess.Popen([program, self.address, f"{directory}/{nodes}.db", str(nodes)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n", command

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Page:
    def __init__(self, profile):
        options = webdriver.ChromeOptions()
        for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync",
                     "--window-size=1300,950", f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        options.binary_location = shutil.which("chromium")
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)

    def js(self, script, *arguments):
        return self.driver.execute_script("return " + script, *arguments)

    def until(self, script, *arguments, wanted=None):
        """Wait until an expression is true, or has the wanted value; what it is at last."""
        value = None
        for _ in range(300):
            value = self.js(script, *arguments)
            if value == wanted if wanted is not None else value:
                break
            time.sleep(0.1)
        return value

    def element(self, name):
        return self.driver.find_element(By.ID, name)

    def write(self, name, text, end=""):
        element = self.element(name)
        element.clear()
        element.send_keys(text + end)

    def shot(self, name):
        if SHOTS:
            time.sleep(1)
            self.driver.save_screenshot(f"{SHOTS}/{name}.png")

    def charts_drawn(self):
        return self.until("Object.keys(charts).length > 3 && $('span').textContent != ''")

    def emulate(self, command, **parameters):
        self.driver.execute_cdp_cmd("Emulation." + command, parameters)


# The colour of the middle of a node's cell, as [red, green, blue].
COLOUR = """(() => { const c = $('map'), s = devicePixelRatio, at = cells.at.indexOf(map.names.indexOf(arguments[0]));
    const x = (at % cells.columns + .5) * cells.size, y = (Math.floor(at / cells.columns) + .15) * cells.height;
    return [...c.getContext('2d').getImageData(x * s, y * s, 1, 1).data].slice(0, 3); })()"""
# x and y of all points of a line of a chart
POINTS = """charts[arguments[0]].chart.data.datasets.find(d => d.label == arguments[1])
    .data.map(p => [p.x, isNaN(p.y) ? null : p.y])"""


# The colours of the scale, of eleven equal steps
SCALE = """(() => { const d = document.createElement('canvas').getContext('2d');
    return [...Array(11).keys()].map(i => { d.fillStyle = heat(i / 10); d.fillRect(0, 0, 1, 1);
        return [...d.getImageData(0, 0, 1, 1).data].slice(0, 3); }); })()"""


def luminance(colour):
    """As WCAG defines it: 0 of black, 1 of white."""
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def is_red(colour):
    return colour[0] > 2 * max(colour[1:]) and colour[0] > 150


def scale(page, mode):
    colours = page.js(SCALE)
    light = [luminance(c) for c in colours]
    check(f"{mode}: the scale goes one way in lightness, in visible steps",
          light in (sorted(light), sorted(light, reverse=True)) and
          all(abs(a - b) > 0.005 for a, b in zip(light, light[1:])))
    check(f"{mode}: red is no colour of the scale", all(c[0] <= c[2] for c in colours))


def overview(page, server):
    page.driver.get(f"http://{server.address}/")
    check("the map has a cell for each node", page.until("cells.at && cells.at.length", wanted=40) == 40)
    check("it says how many are up", page.until("$('summary').textContent") == "36 of 40 nodes up")
    check("and how many are down", page.js("$('down')?.textContent") == "4 down")
    cold, hot = page.js(COLOUR, "cn1"), page.js(COLOUR, "cn39")
    check("an idle node is pale, a busy one dark", luminance(cold) > 4 * luminance(hot))
    check("a node that is down is red", is_red(page.js(COLOUR, "cn10")))
    check("nodes stand in the order of their numbers", page.js("map.names.slice(0, 3)") == ["cn1", "cn2", "cn3"])
    check("a node that is down has no value", page.js("map.values[9]") is False)
    page.charts_drawn()
    page.shot("overview")

    page.until("$('metrics').children.length")
    check("any family of series can be chosen", page.js(
        "[...$('metrics').children].some(o => o.value == 'node_hwmon_temp_celsius')"))
    page.write("metric", "node_hwmon_temp_celsius", Keys.ENTER)
    check("its values are sums over a node's series", page.until("map.values[0]", wanted=59) == 59)
    page.js("$('function').value = 'max', $('function').onchange()")
    check("or the greatest of them", page.until("map.values[0]", wanted=30) == 30)
    check("the scale ends with the greatest", page.until("$('high').textContent", wanted="68") == "68")
    server.tell('set cn2 node_hwmon_temp_celsius{chip="coretemp.1",sensor="temp1"} 99')
    server.tell("down cn3")
    check("what changes is seen without loading the page anew", page.until("map.values[1]", wanted=99) == 99)
    check("and who goes", page.until("map.values[2] === false"))
    check("the hottest node is the darkest now", luminance(page.js(COLOUR, "cn2")) < 0.05)
    page.element("down").click()
    check("a click on their number leads to the nodes that are down", page.until(
        "[...$('nodes').rows].slice(0, 5).map(r => r.cells[1].textContent).join()",
        wanted="down,down,down,down,down") == "down,down,down,down,down")
    page.driver.find_element(By.CSS_SELECTOR, "th[data-column=name]").click()
    server.tell("up cn3")
    check("a node that returns is not counted there", page.until("$('down').textContent", wanted="4 down") == "4 down")

    page.write("search", "cn1")
    check("a search leaves the nodes that match in the map", page.until("cells.at.length", wanted=11) == 11)
    check("and in the table", page.until("$('nodes').rows.length", wanted=11) == 11)
    page.write("search", " ", Keys.BACKSPACE)
    page.until("$('nodes').rows.length", wanted=40)
    heading = page.driver.find_element(By.CSS_SELECTOR, "th[data-column=load]")
    heading.click()
    check("a click on a heading sorts by it, the greatest first",
          page.until("$('nodes').rows[0].cells[0].textContent", wanted="cn40") == "cn40")
    box, at = page.element("map"), page.js("[cells.size * 4.5, cells.height * .5, $('map').clientWidth, $('map').clientHeight]")
    ActionChains(page.driver).move_to_element_with_offset(box, at[0] - at[2] / 2, at[1] - at[3] / 2).perform()
    check("what is under the pointer is told", page.until("$('hover').textContent").startswith("cn5: "))
    ActionChains(page.driver).click().perform()
    check("a click on a cell chooses the node", page.until("$('node').textContent", wanted="cn5") == "cn5")


def node(page, server):
    page.driver.get("about:blank") # else a new address behind # loads nothing
    page.driver.get(f"http://{server.address}/#node=cn1&span=7200")
    page.charts_drawn()
    check("the address says which node and range", page.js("$('node').textContent") == "cn1")
    load = page.until(POINTS, "Load", "load1")
    check("a gauge is shown", load and max(y for _, y in load if y is not None) > 1000)
    gap = [i for i, (_, y) in enumerate(load) if y is None]
    check("there is no line over a time without samples",
          len(gap) == 1 and load[gap[0] + 1][0] - load[gap[0] - 1][0] >= 590e3)
    check("the axis of time has the whole range", page.js(
        "charts.Load.chart.scales.x.max - charts.Load.chart.scales.x.min") == 7200e3)
    check("its marks are whole minutes, hours or days", page.js(
        "charts.Load.chart.scales.x.ticks.every(t => t.value % 300000 == 0 && /^[0-9/:]+$/.test(t.label))"))
    check("the other axis has units", page.js(
        "charts['Network, out below 0'].chart.scales.y.ticks.map(t => t.label).join(';')").endswith("B/s"))
    check("CPU is stacked, without what is idle", page.js(
        "charts.CPU.chart.options.scales.y.stacked && charts.CPU.chart.data.datasets.map(d => d.label).join()")
        == "system,user")
    check("a rounded value has the right unit", page.js("[999, 999.4, 999.6, -999999, 1e15].map(si).join()")
          == "999,999,1 k,-1 M,1 P")
    out = page.js(POINTS, "Network, out below 0", "transmit eth0")
    coming = page.js(POINTS, "Network, out below 0", "receive eth0")
    check("network: what goes out is below 0, what comes in above",
          abs(out[10][1] + 6) < 1e-6 and abs(coming[10][1] - 5) < 1e-6)
    page.js("$('charts').scrollIntoView()")
    page.shot("node")

    canvas = page.js("charts.Load.figure.querySelector('canvas')")
    area = page.js("(({left, right}) => [left, right])(charts.Load.chart.chartArea)")
    before, width = page.js("shownRange()"), page.js("arguments[0].clientWidth", canvas)
    ActionChains(page.driver).move_to_element_with_offset(canvas, area[1] - 60 - width / 2, 0).click_and_hold() \
        .move_by_offset(40, 0).release().perform()
    page.until("view.from != ''")
    zoomed = page.js("shownRange()")
    wide = 7200e3 * 40 / (area[1] - area[0])
    check("dragging over a chart zooms to that time", abs((zoomed[1] - zoomed[0]) - wide) < wide / 10 and
          before[0] < zoomed[0] < zoomed[1] < before[1])
    check("all charts zoom", page.until("Object.values(charts).every(c => c.chart.scales.x.min == +view.from &&"
                                        " c.chart.scales.x.max == +view.until)"))
    fine = page.until("(p => p[p.length - 1][0] <= +view.until + 2000 && p)(" + POINTS + ")", "Load", "load1")
    steps = [b[0] - a[0] for a, b in zip(fine, fine[1:])]
    check("the samples come from the history in their own detail",
          zoomed[0] - 2000 <= fine[0][0] and sorted(steps)[len(steps) // 2] < 2000 and len(fine) > 60)
    page.shot("zoom")
    page.element("earlier").click()
    check("a button goes back by half of it", abs(page.until("shownRange()")[0] - (zoomed[0] - wide / 2)) < wide / 10)
    ActionChains(page.driver).move_to_element(canvas).double_click().perform()
    wider = page.until("(r => r[1] - r[0] > arguments[0] && r)(shownRange())", 2 * wide)
    check("a double click zooms out", wider and abs((wider[1] - wider[0]) / (zoomed[1] - zoomed[0]) - 3) < 0.1)
    page.driver.back()
    page.driver.back()
    page.driver.back()
    check("the browser's button leads back", page.until("view.from == '' && view.span", wanted="7200") == "7200")
    page.js("zoom(Date.now() - 86400e3 * 20, Date.now() - 86400e3 * 19)")
    check("a time of which nothing is known is said", page.until("$('span').textContent.includes('nothing is known')"))
    check("and shows no charts of another time", page.js("Object.keys(charts).length") == 0)
    page.element("now").click()
    page.charts_drawn()
    page.write("filter", "load1")
    check("any other series can be shown", page.until("'node_load1' in charts"))


# The colour of the heat map at a node and a part of its width, as [red, green, blue]
OVER = """(() => { const c = $('over'), s = devicePixelRatio, row = over.rows.findIndex(r => r.name == arguments[0]);
    const x = overBox.left + arguments[1] * (overBox.width - overBox.left), y = (row + .15) * overBox.height;
    return [...c.getContext('2d').getImageData(Math.round(x * s), y * s, 1, 1).data].slice(0, 3); })()"""


def heatmap(page, server):
    """Nodes over time. Samples are 10 s apart, and columns 4 s."""
    page.driver.get("about:blank")
    page.driver.get(f"http://{server.address}/#node=cn1")
    page.until("cells.at && cells.at.length", wanted=40)
    page.element("over-time").click()
    check("over time: a row for each node", page.until("over && over.rows.length", wanted=40) == 40)
    check("over time: the values of a node", page.js(
        "(v => v.length > 20 && v.every(x => Math.abs(x - .5) < .01))(over.rows[20].values.filter(v => v !== null))"))
    check("over time: idle is pale, busy is dark",
          luminance(page.js(OVER, "cn2", .7)) > 4 * luminance(page.js(OVER, "cn39", .7)))
    check("over time: no gap between two samples", page.js(
        "(s => s.every((p, i) => !i || p[0] == s[i - 1][1]))(stretches(over.rows[20].values))"))
    check("over time: a gap if some samples are missing", page.js(
        "stretches([1, null, 1, null, 1, ...Array(20).fill(null), 1, null, 1]).map(p => p[1]).join()") == "2,4,6,27,28")
    check("over time: red from the last value of a node that is down",
          any(is_red(page.js(OVER, "cn10", .7 + x / 500)) for x in range(4)) and # between the hatches
          not any(is_red(page.js(OVER, "cn10", .3 + x / 500)) for x in range(4)))
    server.tell("down cn5")
    page.until("map.values[4] === false")
    check("over time: who goes is red at the end", page.until("(c => c[0] > 150 && c[0] > 2 * c[1])(" + OVER + ")", "cn5", .9985))
    server.tell("up cn5")
    page.until("map.values[4] !== false")
    at = page.js("[overBox.left + 300, 4.5 * overBox.height, $('over').clientWidth, $('over').clientHeight]")
    pointer = ActionChains(page.driver)
    pointer.move_to_element_with_offset(page.element("over"), at[0] - at[2] / 2, at[1] - at[3] / 2).perform()
    said = page.until("$('hover').textContent")
    check("over time: node, time and value under the pointer", said.startswith("cn5, ") and said.endswith(": 10 %"))
    check("over time: the same time in the charts", page.js("pointed > over.from && pointed < over.until"))
    page.charts_drawn()
    page.shot("heatmap")
    pointer.click().perform()
    check("over time: a click leads to the node", page.until("$('node').textContent", wanted="cn5") == "cn5")
    page.js("zoom(Date.now() - 240e3, Date.now() - 120e3)")
    check("over time: the range is that of the charts", page.until("Math.round(over.from)", wanted=page.js("+view.from")) and
          page.js("over.rows[20].values.filter(v => v !== null).length") < 20)
    page.element("now").click()
    page.write("metric", "load", Keys.ENTER)
    check("over time: another metric", page.until(
        "over.rows[20].values.filter(v => v !== null)[0]", wanted=20) == 20)
    page.write("search", "cn1")
    check("over time: a search", page.until("over.rows.length", wanted=11) == 11)
    page.write("search", " ", Keys.BACKSPACE)
    page.element("over-time").click()
    check("over time: back to the map", page.until("$('over').hidden && !$('map').hidden && !view.over"))


def thousand(page, server):
    page.driver.get(f"http://{server.address}/#node=cn1&over=1")
    check("1,000 nodes over time: a row for each", page.until("over && over.rows.length", wanted=1000) == 1000)
    check("1,000 nodes over time: each row is seen", page.js("overBox.height >= 1 && $('over').clientHeight >= 1000"))
    check("1,000 nodes over time: rows keep the order of the map", page.js(
        "over.rows.every((r, i) => r.name == map.names[i])"))
    part = page.js("fetch('/api/heatmap?metric=load&offset=990&limit=4').then(a => a.json())")
    check("a part of the rows", [r["name"] for r in part["rows"]] == ["cn991", "cn992", "cn993", "cn994"] and
          part["next"] == 994)
    page.shot("heatmap-many")


# The text of the file that a button saves
SAVED = """(async () => { const make = URL.createObjectURL; let saved;
    URL.createObjectURL = blob => { saved = blob; return make(blob); };
    $(arguments[0]).click(); URL.createObjectURL = make; return await saved.text(); })()"""


def job(page, server):
    """A job; what the page says of one that nobody knows; charts as a table, one time in all charts."""
    page.driver.get(f"http://{server.address}/?job#node=cn1&span=7200&job=4711")
    check("a job: user and partition", page.until("$('job-title').textContent") == "job 4711 of ann in gpu")
    check("a job: its processors", page.until("$('job-summary').textContent").startswith("1 node, 7.0 processors busy of 10"))
    check("a job: its nodes", page.js("$('job-nodes').rows[0].cells[0].textContent") == "cn1")
    check("a job: charts", page.until("'Job: busy of a node' in charts && 'Job: memory of a node' in charts"))
    page.shot("job")
    page.charts_drawn()
    saved = page.js(SAVED, "job-csv").split("\n")
    check("a job as CSV", saved[0].startswith("time,Job: busy of a node: greatest,") and
          len(saved) > 100 and saved[5].split(",")[1].startswith("7"))
    saved = page.js(SAVED, "csv").split("\n")
    out = saved[0].split(",").index('"Network') if '"Network' in saved[0].split(",") else -1
    check("the charts of a node as CSV", out > 0 and '"Network, out below 0: transmit eth0"' in saved[0] and
          saved[1][:2] == "20" and "-" not in saved[1][25:])
    page.js("charts.Load.figure.querySelector('div').dispatchEvent(new PointerEvent('pointermove', {bubbles: true,"
            " clientX: charts.Load.figure.querySelector('canvas').getBoundingClientRect().left + 200}))")
    line = """(({chart}) => { const x = chart.scales.x.getPixelForValue(pointed), s = devicePixelRatio;
        const row = chart.ctx.getImageData(0, Math.round((chart.chartArea.top + 1) * s), chart.width * s, 1).data;
        return x > 0 && row[4 * Math.round(x * s) + 3] > 0; })(charts[arguments[0]])"""
    check("a line at the pointer's time in the chart", page.js(line, "Load"))
    check("and in the others", page.js(line, "CPU"))
    page.shot("crosshair")
    page.element("job-close").click()
    check("a job is closed", page.until("$('job-view').hidden && !('Job: busy of a node' in charts) && !view.job"))
    page.write("job", "5", Keys.ENTER)
    check("a job that nobody knows", page.until("$('job-span').textContent", wanted="no node knows this job\n") ==
          "no node knows this job\n")
    complaints = [entry["message"] for entry in page.driver.get_log("browser")]
    check("the browser complains of this only", all("/api/job?job=5&" in message for message in complaints))
    check("the values of most nodes", page.until("/^median [0-9]+ %, p95 [0-9]+ %, p99 [0-9]+ %$/.test($('percentiles').textContent)"))


# The marks of the axis of time over a range, as the page writes them; from and until in UTC, as [month, day, hour]
MARKS = """((from, until) => { const s = {width: 600, min: Date.UTC(2026, ...from), max: Date.UTC(2026, ...until)};
    timeTicks(s); return s.ticks.map(t => timeText(t.value, s.step)).join(' '); })(arguments[0], arguments[1])"""


def clocks(page, server):
    """The clock is set back on 25 October 2026 and forward on 29 March, in Lebanon at midnight."""
    page.driver.get(f"http://{server.address}/#node=cn1")
    page.until("$('node').textContent", wanted="cn1")
    page.emulate("setTimezoneOverride", timezoneId="Europe/Berlin")
    page.until("new Date(0).getTimezoneOffset()", wanted=-60)
    check("the clock is set back: each day has one mark",
          page.js(MARKS, [9, 22, 12], [9, 28, 12]) == "10/23 10/24 10/25 10/26 10/27 10/28")
    check("the clock is set back: marks stay whole steps of hours",
          page.js(MARKS, [9, 24, 21], [9, 25, 21]) == "10/25 03:00 06:00 09:00 12:00 15:00 18:00 21:00")
    check("the clock is set forward: each day has one mark",
          page.js(MARKS, [2, 26, 12], [3, 1, 12]) == "3/27 3/28 3/29 3/30 3/31 4/1")
    page.emulate("setTimezoneOverride", timezoneId="Asia/Beirut")
    page.until("new Date(0).getTimezoneOffset()", wanted=-120)
    check("a midnight that does not exist: the day has its mark",
          page.js(MARKS, [2, 26, 12], [3, 1, 12]) == "3/27 3/28 3/29 3/30 3/31 4/1")
    page.emulate("setTimezoneOverride", timezoneId="")


def looks(page, server):
    page.driver.get(f"http://{server.address}/#node=cn1&span=7200")
    page.charts_drawn()
    scale(page, "light")
    light = page.js("getComputedStyle(document.body).backgroundColor")
    page.emulate("setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    check("dark mode: the ground", page.until("getComputedStyle(document.body).backgroundColor != arguments[0]", light))
    page.charts_drawn()
    check("dark mode: the charts' writing", page.until(
        "charts.Load && charts.Load.chart.options.scales.x.ticks.color == getComputedStyle(document.body).color"))
    scale(page, "dark mode")
    check("dark mode: a node that is down is red", page.until(
        "(c => c[0] > 150 && c[0] > 2 * Math.max(c[1], c[2]))(" + COLOUR + ")", "cn10"))
    page.shot("dark")
    page.emulate("setEmulatedMedia", features=[])
    page.emulate("setDeviceMetricsOverride", width=1920, height=1080, deviceScaleFactor=1, mobile=False)
    check("a wide screen is used", page.until("$('map').clientWidth > 1850"))
    page.shot("wide")
    page.emulate("setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=2, mobile=True)
    page.driver.get(f"http://{server.address}/?phone#node=cn1&span=7200")
    page.charts_drawn()
    check("a phone's width is enough", page.js("document.documentElement.scrollWidth") <= 390)
    check("the table shows a value there", page.js(
        "(c => c.textContent.endsWith('%') && c.getBoundingClientRect().right <= 390)($('nodes').rows[0].cells[2])"))
    check("a chart takes all of it", page.js("charts.Load.figure.clientWidth") > 330)
    page.shot("phone")
    page.js("$('charts').scrollIntoView()")
    page.shot("phone-charts")
    page.driver.get(f"http://{server.address}/?over#node=cn1&over=1")
    check("a phone's width is enough for nodes over time", page.until("over && over.rows.length", wanted=40) and
          page.js("document.documentElement.scrollWidth") <= 390 and page.js("overBox.width > 330"))
    page.shot("phone-heatmap")
    page.emulate("clearDeviceMetricsOverride")


def many(page, server):
    """10,000 nodes: what is sent and what the document holds does not grow with them."""
    page.driver.get(f"http://{server.address}/")
    check("10,000 nodes: all are in the map", page.until("cells.at && cells.at.length", wanted=10000) == 10000)
    page.charts_drawn()
    check("10,000 nodes: the table has a page of them", page.js("$('nodes').rows.length") == 100)
    check("10,000 nodes: the document is small", page.js("document.querySelectorAll('*').length") < 3000)
    answer = """fetch('/api/map?metric=cpu&generation=' + map.generation + '&version=' + arguments[0])
        .then(a => a.text()).then(t => t.length)"""
    whole, changes = page.js(answer, 0), page.js(answer, page.js("map.version"))
    check(f"10,000 nodes: only what has changed is sent ({changes} bytes, not {whole})",
          whole > 30000 and changes < 200)
    took = page.js("(() => { const t = performance.now(); drawMap(); return performance.now() - t; })()")
    print(f"# 10,000 nodes: the map is drawn in {took:.0f} ms")
    page.shot("many")
    page.write("search", "cn9999")
    check("10,000 nodes: a search finds one", page.until("$('nodes').rows.length", wanted=1) == 1)


def empty(page, server):
    page.driver.get(f"http://{server.address}/")
    check("without nodes the page says what to do", page.until("$('summary').textContent.includes('udmon-agent')"))


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as directory:
        page = Page(f"{directory}/profile")
        try:
            for nodes, parts in ((40, (heatmap, overview, node, job, clocks, looks)), (1000, (thousand,)), (10000, (many,)), (0, (empty,))):
                server = Server(program, nodes, directory)
                for part in parts:
                    part(page, server)
                    for entry in page.driver.get_log("browser"):
                        if server.address in entry["message"]:
                            check("no complaint of the browser: " + entry["message"], False)
                server.end()
        finally:
            page.driver.quit()
    return 1 if failed else 0


sys.exit(main())
