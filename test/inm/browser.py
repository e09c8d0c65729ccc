"""The page in headless Chromium: all views, sizes and themes, a fault that appears, the past, a plan.

browser.py [TOPOLOGY]. SHOTS: keep pictures in this directory. AXE: path of axe.min.js of axe-core, which
then has to find nothing."""
import os
import shutil
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from harness import Network, PASSWORD, wait_for

SHOTS = os.environ.get("SHOTS")
AXE = os.environ.get("AXE")
SIZES = {"phone": (390, 844), "tablet": (820, 1180), "desk": (1500, 900), "wall": (3840, 2160)}
VIEWS = ("physical", "logical", "alarms", "devices", "load", "log", "plans", "inventory", "users")


def open_browser(profile):
    options = webdriver.ChromeOptions()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                 "--disable-sync", "--window-size=1500,900", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = shutil.which("chromium")
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


def set_size(driver, size):
    width, height = SIZES[size]
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"})


def set_theme(driver, theme):
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})


def shot(driver, name):
    if SHOTS:
        time.sleep(0.6)
        driver.save_screenshot(f"{SHOTS}/{name}.png")


def text(driver, selector):
    return driver.execute_script("return (document.querySelector(arguments[0]) || {}).innerText || ''", selector)


def click(driver, selector):
    """In one step: between two steps the page may make the element anew."""
    driver.execute_script("document.querySelector(arguments[0]).click()", selector)


def go(driver, view):
    driver.execute_script("app.go(arguments[0])", view)


def accessible(driver, what):
    """No violation that axe-core finds."""
    if not AXE:
        return
    with open(AXE, encoding="utf-8") as f:
        driver.execute_script(f.read())
    found = driver.execute_async_script("""
        const done = arguments[arguments.length - 1];
        axe.run(document).then((r) => done(r.violations.map((v) => [v.id, v.help, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120))])));""")
    assert not found, (what, found)


def log_in(driver, url):
    driver.get(url)
    wait_for("the login form", lambda: driver.find_element(By.ID, "login").is_displayed())
    accessible(driver, "login")
    driver.find_element(By.ID, "login-name").send_keys("admin")
    driver.find_element(By.ID, "login-password").send_keys("wrong password" + Keys.ENTER)
    wait_for("a refused login", lambda: "wrong" in text(driver, "#login-error"))
    shot(driver, "login")
    field = driver.find_element(By.ID, "login-password")
    field.clear()
    field.send_keys(PASSWORD + Keys.ENTER)
    ready(driver)


def ready(driver):
    wait_for("the page", lambda: driver.execute_script(
        "return typeof app !== 'undefined' && !document.getElementById('app').hidden && app.shown !== null"))


def pixels(driver, state):
    """How many pixels of the map have the colour of a state."""
    return driver.execute_script("""
        const c = document.getElementById('canvas');
        if (!c.width || !c.height) return 0; // shown a moment ago: its size comes with the next frame
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const [r, g, b] = app.map.colors[arguments[0]].match(/[0-9a-f]{2}/gi).map((x) => parseInt(x, 16)); let n = 0;
        for (let i = 0; i < d.length; i += 4)
            if (Math.abs(d[i] - r) + Math.abs(d[i + 1] - g) + Math.abs(d[i + 2] - b) < 24) n++;
        return n;""", state)


def check_first_view(driver, url):
    """What the first view loads, and how long it takes. The limit of bytes is held; times are printed."""
    driver.get("about:blank")
    driver.get(url)
    ready(driver)
    size, took = driver.execute_script("""
        const all = [...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')];
        const first = all.filter((e) => !e.name.includes('/stream'));
        return [first.reduce((n, e) => n + e.transferSize, 0), Math.max(...first.map((e) => e.responseEnd))];""")
    print(f"# first view: {size / 1000:.0f} kB, complete after {took / 1000:.2f} s")
    assert 0 < size < 500000, size


def check_maps(driver, network, topology):
    for view in ("physical", "logical"):
        go(driver, view)
        wait_for(f"good chips in {view}", lambda: pixels(driver, ".") > 1000)
    go(driver, "physical")
    wait_for("nothing is dead", lambda: pixels(driver, "x") == 0)
    begin = time.monotonic()
    network.fault("dead:t0b1")
    network.fault("down:r0f1n4:0")
    network.fault("hot:l0s0b0,temp=97")
    wait_for("a dead chip on the map", lambda: pixels(driver, "x") > 0)
    print(f"# on the page {time.monotonic() - begin:.2f} s after the fault")
    wait_for("the alarms beside the map", lambda: "Active alarms: 3" in text(driver, "#side"))
    assert text(driver, "#side").index("t0b1") < text(driver, "#side").index("r0f1n4"), "not the worst first"
    click(driver, "#side .alarm.critical")
    wait_for("the place of the alarm", lambda: "t0b1n" in text(driver, "#side h2"))
    # A dead chip is a place like all others: its alarm, and the neighbours that it should have.
    wait_for("the panel of a dead chip", lambda: "no link leads out" in text(driver, "#side") and
             "Neighbours by the topology" in text(driver, "#side"))
    click(driver, "#side .close")
    wait_for("the alarms again", lambda: "Active alarms: 3" in text(driver, "#side"))
    go(driver, "logical")
    wait_for("dead chips on the logical map", lambda: pixels(driver, "x") > 0)
    bundles = driver.execute_script("app.map.drawAll(app.map.context, 10, 10); app.map.redraw();"
                                    "return app.map.bundles.levels.map((b) => [b.num, b.down])")
    links = driver.execute_script("return app.map.topology.links.length / 2")
    assert sum(b[0] for b in bundles) == links and sum(b[1] for b in bundles) > 0, (bundles, links)


def views_of(topology, size, theme):
    """All views of the small network on a phone and a desk. At full size the lists are the same page with
    more rows, so once is enough; the maps are drawn otherwise in each size and theme."""
    short = os.environ.get("INM_SHORT")
    if not short and size in ("phone", "desk") and (topology == "small" or (size, theme) == ("desk", "dark")):
        return VIEWS
    return ("physical", "logical", "load") if topology == "small" else ("physical", "logical")


def check_sizes(driver, topology):
    for theme in ("light", "dark"):
        set_theme(driver, theme)
        for size in ("phone", "desk") if os.environ.get("INM_SHORT") else SIZES:
            set_size(driver, size)
            for view in views_of(topology, size, theme):
                go(driver, view)
                if view in ("physical", "logical"):
                    wait_for("the map", lambda: pixels(driver, ".") > 500)
                else:
                    wait_for(f"the list of {view}", lambda: len(text(driver, "#list")) > 10)
                wide = driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert wide <= 1, f"{view} is {wide} pixels too wide on {size}"
                shot(driver, f"{topology}-{size}-{theme}-{view}")
                if size in ("phone", "desk") and (topology == "small" or (size, theme) == ("desk", "dark")):
                    accessible(driver, f"{view} {size} {theme}")
    set_size(driver, "desk")
    go(driver, "physical")
    background = lambda: driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    dark = background()
    for wanted in ("light", "dark", "system"):
        driver.find_element(By.ID, "theme").click()
        wait_for(f"theme {wanted}", lambda w=wanted: w in text(driver, "#theme"))
        assert (background() == dark) == (wanted != "light"), wanted


def check_chip(driver, network):
    network.inm("poll")
    driver.find_element(By.ID, "search").send_keys("r0f1n4")
    wait_for("the chip beside the map", lambda: "bottom spine" in text(driver, "#side"))
    wait_for("its ports", lambda: "r0f1n0:" in text(driver, "#side"))
    assert driver.execute_script("return document.querySelectorAll('#side svg.chart').length") == 4
    wait_for("its alarm", lambda: "the link is down" in text(driver, "#side"))
    shot(driver, "chip")
    accessible(driver, "chip")
    driver.execute_script("app.close()")
    # By the keyboard alone: the next chip that is not good
    canvas = driver.find_element(By.ID, "canvas")
    canvas.send_keys("+", Keys.ARROW_LEFT, "0", Keys.ENTER)
    wait_for("a chip by the keyboard", lambda: "Back to the alarms" in text(driver, "#side"))
    canvas.send_keys(Keys.ESCAPE)
    wait_for("back", lambda: "Active alarms" in text(driver, "#side"))


def check_past(driver, network):
    """The slider shows the network before the fault."""
    go(driver, "physical")
    driver.execute_script("""const t = document.getElementById('time'); t.value = 0;
        t.dispatchEvent(new Event('input', {bubbles: true}));""")
    wait_for("the past", lambda: driver.execute_script("return document.body.classList.contains('past')"))
    wait_for("no dead chip in the past", lambda: pixels(driver, "x") == 0 and "No active alarms" in text(driver, "#side"))
    shot(driver, "past")
    driver.find_element(By.ID, "now").click()
    wait_for("now", lambda: pixels(driver, "x") > 0)


def check_lists(driver, network):
    go(driver, "log")
    wait_for("the log", lambda: "switch" in text(driver, "#list") and "/api/v1/login" in text(driver, "#list"))
    # In one step: the list is made anew when an event comes, and with it the element.
    driver.execute_script("""const s = document.querySelector('#list select'); s.value = 'critical';
        s.dispatchEvent(new Event('change', {bubbles: true}));""")
    wait_for("the filter", lambda: "/api/v1/login" not in text(driver, "#list") and "t0b1" in text(driver, "#list"))
    go(driver, "load")
    wait_for("axes", lambda: driver.execute_script("return document.querySelectorAll('#list svg.chart text').length") > 6)
    network.clear()
    go(driver, "alarms")
    wait_for("alarms cleared", lambda: "Active alarms: 0" in text(driver, "#list"))


def check_plan(driver, network, topology):
    if topology == "small":
        # A discovery after the tables were made would make them old.
        wait_for("the whole network", lambda: network.inm("show")["found"]["links"] == 160)
        network.inm("discover")
        network.inm("route", "generate", "updown")
        network.inm("route", "load")
        go(driver, "plans")
        wait_for("the form", lambda: "Make a plan" in text(driver, "#list"))
        driver.find_element(By.CSS_SELECTOR, "#list input").send_keys("t0b1")
        [b for b in driver.find_elements(By.CSS_SELECTOR, "#list button") if b.text == "Make a plan"][0].click()
        wait_for("the plan", lambda: "Routes that change" in text(driver, "#list"))
        wait_for("its picture", lambda: driver.execute_script("return document.getElementById('picture').naturalWidth") > 100)
        shot(driver, "plan")
        accessible(driver, "plan")


def check_layout(driver):
    """A cabinet is dragged, kept, and still there after a reload."""
    go(driver, "physical")
    driver.find_element(By.ID, "edit").click()
    driver.execute_script("""
        const c = app.map.canvas, b = app.map.layout.blocks[0], s = app.map.scale;
        const r = c.getBoundingClientRect(), x = r.left + b.x * s + app.map.left + 3, y = r.top + b.y * s + app.map.top + 3;
        const send = (kind, dx) => c.dispatchEvent(new PointerEvent(kind, {clientX: x + dx, clientY: y, pointerId: 1, bubbles: true}));
        c.setPointerCapture = () => 0;
        send('pointerdown', 0); send('pointermove', 60); send('pointerup', 60);""")
    moved = driver.execute_script("return app.map.moved[0]")
    assert moved, "the cabinet did not move"
    driver.find_element(By.ID, "edit").click()
    wait_for("the layout kept", lambda: "layout kept" in text(driver, "#hint"))
    driver.refresh()
    ready(driver)
    again = driver.execute_script("return app.map.moved[0]")
    assert again == moved, (again, moved)


def check_drag(driver):
    """A drag of two seconds: frames a second, printed; what a frame costs does not grow with the chips."""
    frames, cost = driver.execute_async_script("""
        const done = arguments[arguments.length - 1], c = app.map.canvas; c.setPointerCapture = () => 0;
        const send = (kind, x, y) => c.dispatchEvent(new PointerEvent(kind, {clientX: x, clientY: y, pointerId: 1, bubbles: true}));
        let n = 0, begin = performance.now(), cost = 0;
        send('pointerdown', 300, 300);
        const tick = () => {
          if (performance.now() - begin > 2000) { send('pointerup', 300, 300); done([n / 2, cost / n]); return; }
          n++; cost += app.map.drawMs; send('pointermove', 300 + 80 * Math.sin(n / 9), 300 + 60 * Math.cos(n / 9));
          requestAnimationFrame(tick);
        };
        tick();""")
    full = driver.execute_script("app.map.moving = false; app.map.draw(); return app.map.drawMs")
    print(f"# dragging: {frames:.0f} frames a second, {cost:.2f} ms each; the whole map is drawn in {full:.1f} ms")


def main():
    topology = sys.argv[1] if len(sys.argv) > 1 else "small"
    profile = tempfile.mkdtemp(prefix="inm-browser-")
    driver = open_browser(profile)
    driver.set_script_timeout(120)
    try:
        with Network(topology) as network:
            port = network.start_server(extra="[poll]\ninterval_ms = 4000\n[http]\nrate_per_second = 10000\n")
            if topology == "small":
                network.inm("route", "generate", "updown")
                network.inm("route", "load")
                network.control("traffic uniform,rate=60")
            wait_for("a snapshot", lambda: network.inm("show")["polls"] >= 3)
            log_in(driver, f"http://127.0.0.1:{port}/")
            check_first_view(driver, f"http://127.0.0.1:{port}/")
            check_maps(driver, network, topology)
            check_sizes(driver, topology)
            check_chip(driver, network)
            check_past(driver, network)
            check_drag(driver)
            check_lists(driver, network)
            check_plan(driver, network, topology)
            check_layout(driver)
            driver.find_element(By.ID, "logout").click()
            wait_for("the login form again", lambda: driver.find_element(By.ID, "login").is_displayed())
            errors = [e for e in driver.get_log("browser") if e["level"] == "SEVERE" and "401" not in e["message"]]
            assert not errors, errors
            driver.get("about:blank")
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)
    print("ok" if AXE else "ok, without axe-core")


main()
