"""The explorer's page in a real browser, where there is one: Chromium, by its own protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from contextlib import suppress
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pytest

from thresher.views.explorer.page import framed_page, write_page
from thresher.views.explorer.server import Server
from thresher.views.explorer.session import Session
from thresher.views.explorer.widget import reply

websocket = pytest.importorskip("tornado.websocket")
MAP = "document.getElementById('map').toDataURL()"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PROGRAM = next((found for found in map(shutil.which, NAMES) if found), None)
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")


class Page:
    """One page of a browser; what it logs as errors is kept."""

    def __init__(self, socket):
        self.socket, self.number, self.errors = socket, 0, []
        self.refusals = ()  # what the server is meant to answer: its log may come at any time

    async def do(self, method, **params):
        self.number += 1
        wanted = self.number
        await self.socket.write_message(
            json.dumps({"id": wanted, "method": method, "params": params})
        )
        while True:
            message = json.loads(await asyncio.wait_for(self.socket.read_message(), 60))
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(message["params"]["exceptionDetails"])
            if message.get("method") == "Log.entryAdded":
                entry = message["params"]["entry"]
                meant = any(f"status of {code} " in entry["text"] for code in self.refusals)
                self.errors += [entry] if entry["level"] == "error" and not meant else []
            if message.get("id") == wanted:
                assert "error" not in message, message
                return message["result"]

    async def value(self, script):
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        return (await self.do("Runtime.evaluate", **asked))["result"].get("value")

    async def until(self, script):
        for _ in range(300):
            if await self.value(script):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"never: {script}")

    async def becomes(self, script, is_it):
        """The value of ``script`` once ``is_it`` says so, and it no longer changes."""
        before = None
        for _ in range(75):
            now = await self.value(script)
            if now == before and is_it(now):
                return now
            before = now
            await asyncio.sleep(0.4)
        raise AssertionError(f"never as it should be: {script}")

    async def mouse(self, kind, x, y, **more):
        await self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    async def open(self, url):
        for domain in ("Runtime", "Log", "Page"):
            await self.do(f"{domain}.enable")
        await self.do("Page.navigate", url=url)

    async def picture(self, *others):
        """What the map shows when it has become another picture than these."""
        await self.until("!!document.body?.dataset.pictures")
        return await self.becomes(MAP, lambda shown: shown not in others)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    home = tmp_path_factory.mktemp("browser")
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [PROGRAM, "--headless", "--disable-gpu", "--remote-debugging-port=0", *root,
               f"--user-data-dir={home}", "--window-size=1280,800", "about:blank"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    port = home / "DevToolsActivePort"
    for _ in range(200):
        if port.exists() and port.read_text().count("\n"):
            break
        time.sleep(0.1)
    else:
        process.kill()
        pytest.skip("Chromium does not start here")
    yield f"http://127.0.0.1:{port.read_text().split()[0]}"
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    process.kill()
    process.wait()


def on_a_page(browser, steps):
    async def run():
        request = urllib.request.Request(f"{browser}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request) as answer:
            target = json.load(answer)
        address = target["webSocketDebuggerUrl"]
        socket = await websocket.websocket_connect(address, max_message_size=1 << 26)
        page = Page(socket)
        try:
            await steps(page)
        finally:
            await page.do("Page.close")
            while await socket.read_message() is not None:  # the browser closes the connection
                pass
            socket.close()
            await asyncio.sleep(0.1)
        assert page.errors == []

    asyncio.run(run())


@pytest.fixture(scope="module")
def session():
    rng = np.random.default_rng(0)
    t = rng.random(20_000)
    gaps = np.where(rng.random(t.size) < 0.3, np.nan, t)
    columns = {f"v{k}": np.cos(k * t) for k in range(1, 6)}
    table = pa.table({**columns, "gap": gaps, "word": rng.choice(["u", "v"], t.size),
                      "label": np.where(t > 0.5, "p", "q")})  # fmt: skip
    return Session(table, "label", scores=t)


@pytest.fixture
def server(session):
    server = Server(session)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield server
    thread.join(15)
    assert not thread.is_alive(), "the server outlives its page"


def test_zooming_and_selecting(browser, server, session):
    async def steps(page):
        await page.open(server.url)
        whole = await page.picture()
        assert await page.value("document.body.dataset.level") != "0"
        for _ in range(14):
            await page.mouse("mouseWheel", 400, 400, deltaX=0, deltaY=-200)
        await page.until("document.body.dataset.level === '0'")
        await page.picture(whole)
        await page.value("document.getElementById('whole').click()")
        await page.until(f"{MAP} === {json.dumps(whole)}")
        await page.mouse("mouseMoved", 500, 300)
        await page.until("document.getElementById('says').textContent.startsWith('row ')")
        await selects(page, session)
        await page.value("document.getElementById('map').focus()")
        before = await page.picture()
        await page.do("Input.dispatchKeyEvent", type="keyDown", key="+", text="+")
        await page.picture(before)
        await page.value(
            "document.getElementById('order').value = 'file';"
            "document.getElementById('order').dispatchEvent(new Event('change'))"
        )
        await page.until("document.getElementById('says').textContent.includes('20,000 rows')")

    async def selects(page, session):
        # What a click on "CSV" downloads is caught instead of being written somewhere.
        await page.value(
            "URL.createObjectURL = (blob) => (window.saved = blob.text(), 'data:,');"
            "document.getElementById('select').click()"
        )
        await page.mouse("mousePressed", 500, 300, button="left", clickCount=1)
        await page.mouse("mouseMoved", 520, 420, button="left", buttons=1)
        await page.mouse("mouseReleased", 520, 420, button="left", clickCount=1)
        await page.until("document.getElementById('differs').rows.length > 3")
        await page.value("HTMLAnchorElement.prototype.click = () => {}")
        await page.value("document.getElementById('csv').click()")
        await page.until("!!window.saved")
        exported = await page.value("window.saved")
        box = json.loads(await page.value(
            "JSON.stringify(document.getElementById('map').getBoundingClientRect())"
        ))  # fmt: skip
        rows = session.order.size
        lines = session.export("csv", [[0, rows]]).decode().splitlines()[1:]
        got = exported.splitlines()[1:]
        start = lines.index(got[0])
        assert got == lines[start : start + len(got)]
        pixel = rows / box["height"]  # browsers round where the mouse is
        assert abs(start - (300 - box["top"]) * pixel) < 2 * pixel
        assert abs(len(got) - 120 * pixel) < 2 * pixel

    on_a_page(browser, steps)


def click(name):
    return f"document.getElementById('{name}').click()"


def put(name, value, event="change"):
    return (
        f"document.getElementById('{name}').value = {json.dumps(value)};"
        f"document.getElementById('{name}').dispatchEvent(new Event('{event}'))"
    )


def text(name):
    return f"document.getElementById('{name}').textContent"


CATCH = (  # what a click downloads is caught instead of being written somewhere
    "HTMLAnchorElement.prototype.click = () => {};"
    "URL.createObjectURL = (blob) => (window.saved = blob.text(), 'data:,')"
)


async def downloaded(page, button):
    await page.value(f"delete window.saved; {click(button)}")
    await page.until("!!window.saved")
    return await page.value("window.saved")


async def finger(page, kind, *points):
    touches = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(points)]
    await page.do("Input.dispatchTouchEvent", type=kind, touchPoints=touches)


def test_fingers_zoom_and_move(browser, server):
    async def steps(page):
        await page.do("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
        await page.open(server.url)
        whole = await page.picture()
        await finger(page, "touchStart", (400, 380), (400, 420))
        for apart in range(40, 301, 20):
            await finger(page, "touchMove", (400, 400 - apart // 2), (400, 400 + apart // 2))
        await finger(page, "touchEnd")
        zoomed = await page.picture(whole)
        await finger(page, "touchStart", (400, 300))
        for y in range(300, 501, 20):
            await finger(page, "touchMove", (400, y))
        await finger(page, "touchEnd")
        await page.picture(whole, zoomed)

    on_a_page(browser, steps)


def test_every_button_does_what_it_says(browser, server, session):
    session.show("similar")

    async def steps(page):
        await page.open(server.url)
        await page.picture()
        await page.value(CATCH)
        await clusters(page)
        await selection(page)
        await looking(page)
        await columns(page)

    async def clusters(page):
        plain = await page.picture()
        await page.value(put("count", "3") + ";" + click("cut"))
        cut = await page.picture(plain)
        at = session.cuts(3)[0] / session.order.size
        box = json.loads(await page.value(
            "JSON.stringify(document.getElementById('map').getBoundingClientRect())"
        ))  # fmt: skip
        y = box["top"] + at * box["height"]
        await page.mouse("mousePressed", 500, y, button="left", clickCount=1)
        await page.mouse("mouseMoved", 500, y + 40, button="left", buttons=1)
        await page.mouse("mouseReleased", 500, y + 40, button="left", clickCount=1)
        await page.picture(plain, cut)
        await page.value(click("adopt"))
        await page.until(f"{text('kept')} === 'kept: cluster 1, cluster 2, cluster 3'")
        lines = (await downloaded(page, "labels")).splitlines()
        assert lines[0] == '"row","label"'
        assert len(lines) == session.order.size + 1
        moved = sum('"cluster 1"' in line for line in lines)
        assert abs(moved - (at + 40 / box["height"]) * session.order.size) < 100

    async def selection(page):
        await page.value(click("select"))
        await page.mouse("mousePressed", 500, 300, button="left", clickCount=1)
        await page.mouse("mouseReleased", 500, 330, button="left", clickCount=1)
        await page.until("document.getElementById('differs').rows.length > 3")
        await page.value(click("select"))
        await page.value(put("name", "mine") + ";" + click("keep"))
        await page.until(f"{text('kept')}.endsWith(', mine')")
        assert (await downloaded(page, "parquet")).startswith("PAR1")
        dots = "document.getElementById('points').toDataURL()"
        before = await page.value(dots)
        await page.value(put("x", "word"))
        await page.becomes(dots, lambda shown: shown != before)
        await page.value(click("clear"))
        await page.until(f"{text('size')} === 'Nothing is selected.'")
        page.refusals = (400,)
        await page.value(put("name", "") + ";" + click("keep"))
        await page.until(f"{text('says')} === 'a selection needs a name'")

    async def looking(page):
        typical = await page.picture()
        await page.value(put("layer", "extremes"))
        await page.picture(typical)
        await page.value(put("layer", "means"))
        await page.value("document.getElementById('text').value = '#77';"
                         "document.getElementById('finder').requestSubmit()")  # fmt: skip
        await page.until(f"{text('says')}.startsWith('row 77, ')")
        await page.value("document.getElementById('text').value = 'nowhere';"
                         "document.getElementById('finder').requestSubmit()")  # fmt: skip
        await page.until(f"{text('says')} === 'not found'")
        await page.value("document.getElementById('map').focus()")
        for key in ("s", "ArrowDown", "s"):
            await page.do("Input.dispatchKeyEvent", type="keyDown", key=key)
        await page.until("document.getElementById('differs').rows.length > 3")
        for key in ("Escape", "0", "]", "PageDown", "End", "Home", "["):
            await page.do("Input.dispatchKeyEvent", type="keyDown", key=key)
        await page.until(f"{text('size')} === 'Nothing is selected.'")

    async def columns(page):
        await page.mouse("mousePressed", 400, 100, button="left", clickCount=1)
        await page.mouse("mouseReleased", 400, 100, button="left", clickCount=1)
        await page.until("document.getElementById('order').value.startsWith('column ')")
        await page.until("document.getElementById('says').textContent.includes('20,000 rows')")

    on_a_page(browser, steps)


def test_the_widget_carries_questions_to_the_kernel(browser, session, tmp_path):
    script = files("thresher.views.explorer").joinpath("widget.js").read_text()
    html = tmp_path / "notebook.html"
    html.write_text(f"""<!doctype html><body><div id="cell"></div><script type="module">
        {script.replace("export default", "window.widget =")}
        window.outbox = [];
        const heard = [];
        const model = {{ get: (name) => ({{ page: window.page, height: 600 }})[name],
          send: (message) => window.outbox.push(message),
          on: (_, f) => heard.push(f), off() {{}} }};
        const view = (text) =>
          new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
        window.answer = (message, text) =>
          heard.forEach((f) => f(message, text === null ? [] : [view(text)]));
        window.start = () => widget.render({{ model, el: document.getElementById("cell") }});
        </script>""")

    async def steps(page):
        await page.open(html.as_uri())
        await page.until("!!window.start")
        await page.value(f"window.page = {json.dumps(framed_page())}; window.start(); 1")
        asked = []
        for _ in range(100):
            for message in json.loads(await page.value("JSON.stringify(outbox.splice(0))")):
                asked.append(message["path"])
                told, parts = reply(session, message)
                packed = base64.b64encode(parts[0]).decode() if parts else None
                await page.value(f"answer({json.dumps(told)}, {json.dumps(packed)})")
            if {"/describe", "/window", "/side", "/points"} <= set(asked):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"the page asked for {asked} only")

    on_a_page(browser, steps)


def test_a_wrong_token_gets_nothing(browser, session):
    server = Server(session)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()

    async def steps(page):
        page.refusals = (403,)
        await page.open(f"http://127.0.0.1:{server.port}/?token=wrong")
        await page.until("document.body?.textContent === 'not allowed'")

    on_a_page(browser, steps)
    server.close()
    thread.join(5)


def test_a_page_without_a_server(browser, session, tmp_path):
    write_page(session, tmp_path / "page.html", most_bytes=50_000)

    async def steps(page):
        await page.open((tmp_path / "page.html").as_uri())
        whole = await page.picture()
        for _ in range(5):
            await page.mouse("mouseWheel", 400, 400, deltaX=0, deltaY=-200)
        await page.picture(whole)
        await page.mouse("mouseMoved", 500, 300)
        await page.until("document.getElementById('says').textContent.startsWith('around place')")

    on_a_page(browser, steps)


def test_a_page_without_a_server_has_selections(browser, session, tmp_path):
    session.show("similar")
    assert write_page(session, tmp_path / "page.html") == 1

    async def steps(page):
        await page.open((tmp_path / "page.html").as_uri())
        await page.picture()
        await page.value(CATCH + ";" + click("select"))
        await page.mouse("mousePressed", 500, 300, button="left", clickCount=1)
        await page.mouse("mouseReleased", 500, 420, button="left", clickCount=1)
        await page.until("document.getElementById('differs').rows.length > 3")
        await page.value(put("name", 'my "rows"') + ";" + click("keep"))
        lines = (await downloaded(page, "labels")).splitlines()
        rows = [int(line.split(",")[0]) - 1 for line in lines[1:]]
        places = np.flatnonzero(np.isin(session.order, rows))
        assert places.size == len(rows) == places[-1] - places[0] + 1
        assert lines[1].endswith(',"my ""rows"""')
        told = session.summary([[int(places[0]), int(places[-1]) + 1]])["columns"]
        expected = {c["name"]: [f"{c['effect']:.2f}", c["here"], c["rest"]] for c in told}
        shown = await page.value(
            "[...document.getElementById('differs').rows].slice(1)"
            ".map((r) => [...r.cells].map((c) => c.textContent))"
        )
        names = [c.name for c in session.columns]
        assert sorted(line[0] for line in shown) == sorted(names)  # sides are not in the page
        for name, effect, here, rest in shown:
            assert [effect.replace("-0.00", "0.00"), here, rest] == [
                expected[name][0].replace("-0.00", "0.00"), *expected[name][1:]
            ], name  # fmt: skip
        await page.value(put("count", "3") + ";" + click("cut") + ";" + click("adopt"))
        await page.until(f"{text('kept')}.includes('cluster')")

    on_a_page(browser, steps)
