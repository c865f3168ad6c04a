"""The explorer's page in a real browser, where there is one: Chromium, by its own protocol."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from thresher.views.explorer.page import write_page
from thresher.views.explorer.server import Server
from thresher.views.explorer.session import Session

websocket = pytest.importorskip("tornado.websocket")
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PROGRAM = next((found for found in map(shutil.which, NAMES) if found), None)
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")


class Page:
    """One page of a browser; what it logs as errors is kept."""

    def __init__(self, socket):
        self.socket, self.number, self.errors = socket, 0, []

    async def do(self, method, **params):
        self.number += 1
        wanted = self.number
        await self.socket.write_message(
            json.dumps({"id": wanted, "method": method, "params": params})
        )
        while True:
            message = json.loads(await asyncio.wait_for(self.socket.read_message(), 20))
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(message["params"]["exceptionDetails"])
            if message.get("method") == "Log.entryAdded":
                entry = message["params"]["entry"]
                self.errors += [entry] if entry["level"] == "error" else []
            if message.get("id") == wanted:
                assert "error" not in message, message
                return message["result"]

    async def value(self, script):
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        return (await self.do("Runtime.evaluate", **asked))["result"].get("value")

    async def until(self, script):
        for _ in range(100):
            if await self.value(script):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"never: {script}")

    async def mouse(self, kind, x, y, **more):
        await self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    async def open(self, url):
        for domain in ("Runtime", "Log", "Page"):
            await self.do(f"{domain}.enable")
        await self.do("Page.navigate", url=url)

    async def picture(self):
        await self.until("!!document.body?.dataset.pictures")
        await asyncio.sleep(0.4)
        return await self.value("document.getElementById('map').toDataURL()")


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
        assert await page.picture() != whole
        await page.value("document.getElementById('whole').click()")
        assert await page.picture() == whole
        await page.mouse("mouseMoved", 500, 300)
        await page.until("document.getElementById('says').textContent.startsWith('row ')")
        await selects(page, session)
        await page.value("document.getElementById('map').focus()")
        before = await page.picture()
        await page.do("Input.dispatchKeyEvent", type="keyDown", key="+", text="+")
        assert await page.picture() != before
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


def test_a_wrong_token_gets_nothing(browser, session):
    server = Server(session)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()

    async def steps(page):
        await page.open(f"http://127.0.0.1:{server.port}/?token=wrong")
        await page.until("document.body?.textContent === 'not allowed'")
        page.errors.clear()  # the browser logs the refusal

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
        await asyncio.sleep(0.5)
        assert await page.picture() != whole
        await page.mouse("mouseMoved", 500, 300)
        await page.until("document.getElementById('says').textContent.startsWith('around place')")

    on_a_page(browser, steps)
