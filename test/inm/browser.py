"""The page in headless Chromium: all views, login, a fault that appears. SHOTS: keep pictures there."""
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


def open_browser(profile):
    options = webdriver.ChromeOptions()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update",
                 "--disable-sync", "--window-size=1500,900", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = shutil.which("chromium")
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)


def shot(driver, name):
    if SHOTS:
        time.sleep(0.5)
        driver.save_screenshot(f"{SHOTS}/{name}.png")


def text(driver, selector):
    return driver.execute_script("return document.querySelector(arguments[0]).innerText", selector)


def log_in(driver, url):
    driver.get(url)
    wait_for("the login form", lambda: driver.find_element(By.ID, "login").is_displayed())
    driver.find_element(By.ID, "login-name").send_keys("admin")
    driver.find_element(By.ID, "login-password").send_keys("wrong password" + Keys.ENTER)
    wait_for("a refused login", lambda: "wrong" in text(driver, "#login-error"))
    shot(driver, "login")
    field = driver.find_element(By.ID, "login-password")
    field.clear()
    field.send_keys(PASSWORD + Keys.ENTER)
    wait_for("the page", lambda: driver.execute_script(
        "return !document.getElementById('app').hidden && app.state !== null"))


def pixels(driver, color):
    """How many pixels of the map have a colour."""
    return driver.execute_script("""
        const c = document.getElementById('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const [r, g, b] = arguments[0]; let n = 0;
        for (let i = 0; i < d.length; i += 4)
            if (Math.abs(d[i] - r) + Math.abs(d[i + 1] - g) + Math.abs(d[i + 2] - b) < 24) n++;
        return n;""", color)


RED, GREEN = (239, 67, 82), (47, 158, 110)


def check_maps(driver, network, topology):
    for view in ("physical", "logical"):
        driver.find_element(By.ID, f"tab-{view}").click()
        wait_for(f"green chips in {view}", lambda: pixels(driver, GREEN) > 1000)
        shot(driver, f"{topology}-{view}")
    driver.find_element(By.ID, "tab-physical").click()
    wait_for("nothing red", lambda: pixels(driver, RED) == 0)
    begin = time.monotonic()
    network.fault("dead:t0b1")
    wait_for("red on the map", lambda: pixels(driver, RED) > 0)
    print(f"# on the page {time.monotonic() - begin:.2f} s after the fault")
    shot(driver, f"{topology}-physical-fault")
    driver.find_element(By.ID, "tab-logical").click()
    wait_for("red on the logical map", lambda: pixels(driver, RED) > 0)
    shot(driver, f"{topology}-logical-fault")
    driver.find_element(By.ID, "tab-alarms").click()
    wait_for("the alarm in the list", lambda: "switch_dead" in text(driver, "#list"))
    shot(driver, f"{topology}-alarms")


def check_chip(driver):
    field = driver.find_element(By.ID, "search")
    field.send_keys("r0f1n4")
    wait_for("the chip beside the map", lambda: "bottom spine" in text(driver, "#side"))
    wait_for("its ports", lambda: "r0f1n0:" in text(driver, "#side"))
    time.sleep(0.5)
    shot(driver, "chip")
    driver.execute_script("app.close()")


def check_lists(driver, network):
    driver.find_element(By.ID, "tab-devices").click()
    wait_for("devices", lambda: "root spine" in text(driver, "#list"))
    shot(driver, "devices")
    driver.find_element(By.ID, "tab-traffic").click()
    wait_for("traffic", lambda: "Link retries by level" in text(driver, "#list"))
    shot(driver, "traffic")
    driver.find_element(By.ID, "tab-log").click()
    wait_for("events and audit", lambda: "link_down" in text(driver, "#list") and
             "/api/v1/login" in text(driver, "#list"))
    shot(driver, "log")
    driver.find_element(By.ID, "tab-users").click()
    wait_for("users", lambda: "administrator" in text(driver, "#list"))
    network.clear()
    driver.find_element(By.ID, "tab-alarms").click()
    wait_for("alarms cleared", lambda: "Active alarms: 0" in text(driver, "#list"))


def check_layout(driver):
    """A cabinet is dragged, kept, and still there after a reload."""
    driver.find_element(By.ID, "tab-physical").click()
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
    wait_for("the page again", lambda: driver.execute_script(
        "return typeof app !== 'undefined' && app.state !== null"))
    again = driver.execute_script("return app.map.moved[0]")
    assert again == moved, (again, moved)


def main():
    topology = sys.argv[1] if len(sys.argv) > 1 else "small"
    profile = tempfile.mkdtemp(prefix="inm-browser-")
    driver = open_browser(profile)
    try:
        with Network(topology) as network:
            port = network.start_server()
            log_in(driver, f"http://127.0.0.1:{port}/")
            check_maps(driver, network, topology)
            check_chip(driver)
            check_lists(driver, network)
            check_layout(driver)
            print(f"# the map is drawn in {driver.execute_script('app.map.draw(); return app.map.drawMs'):.1f} ms")
            driver.find_element(By.ID, "logout").click()
            wait_for("the login form again", lambda: driver.find_element(By.ID, "login").is_displayed())
            errors = [e for e in driver.get_log("browser") if e["level"] == "SEVERE" and "401" not in e["message"]]
            assert not errors, errors
            driver.get("about:blank")
    finally:
        driver.quit()
        shutil.rmtree(profile, ignore_errors=True)
    print("ok")


main()
