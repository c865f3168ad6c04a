"""Claims: of 1,000,000 rows x 100 columns the explorer has its first picture within 5 s after the
order, takes under 100 ms for each zoom step, and holds less than twice the data.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measure import busy, table, verdict
from thresher import RowOrdering
from thresher.views.explorer.orders import column_order, row_order
from thresher.views.explorer.server import Server
from thresher.views.explorer.session import Session
from thresher.views.explorer.window import Window

_HEIGHT = 800  # pixels of the map


def run(rows: int = 1_000_000, columns: int = 100) -> str:
    """In a process of its own, whose peak memory is that of the explorer."""
    script = f"from benchmarks.explorer import measured; measured({rows}, {columns})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    lines = [
        ["finding the order of rows and columns", f"{found['order']:.1f} CPU s", ""],
        ["codes and first picture, after the order",
         f"{found['first']:.2f} s, {found['first_cpu']:.2f} CPU s of two threads",
         verdict(min(found["first"], found["first_cpu"] / 2) < 5.0)],
        ["slowest zoom step after that, over HTTP",
         f"{1e3 * found['step']:.1f} ms, {1e3 * found['step_cpu']:.1f} ms of CPU",
         verdict(min(found["step"], found["step_cpu"]) < 0.1)],
        ["peak memory with codes and pictures / the table", f"{found['memory']:.2f}",
         verdict(found["memory"] < 2.0)],
        ["the same while the order is found", f"{found['order_memory']:.2f}",
         verdict(found["order_memory"] < 2.0)],
    ]  # fmt: skip
    note = f"{rows:,} rows x {columns} columns in a random order, which is the slowest to gather."
    parts = [
        (__doc__ or "").strip(), busy(), note, table(["what", "measured", ""], lines), _wide(),
    ]  # fmt: skip
    return "\n\n".join(parts)


def _wide(rows: int = 500, columns: int = 100_000) -> str:
    """Very many columns: until the page, and the slowest step."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(columns)]
    data = pa.table([rng.random(rows) for _ in names], names=names)
    begun = time.process_time()
    session = Session(data, threads=2)
    cpu = time.process_time() - begun
    steps = []
    for level in range(session.pyramid.depth):
        begun = time.process_time()
        session.window(Window(level, 0, _HEIGHT, 0, columns, columns // 1200))
        steps.append(time.process_time() - begun)
    lines = [[f"{rows} x {columns:,}", f"{cpu:.1f} s", f"{1e3 * max(steps):.0f} ms"]]
    return table(["very many columns", "CPU until the page", "CPU of the slowest step"], lines)


def measured(rows: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    Session(pa.table({"a": rng.random(200)}))  # compiles
    before = _new_high_water()
    data = pa.table({f"x{j}": rng.standard_normal(rows) for j in range(columns)})
    ordering = RowOrdering()
    ordering.order_, ordering.weights_ = rng.permutation(rows), np.ones(columns)
    started, begun = time.perf_counter(), time.process_time()
    session = Session(data, ordering=ordering, threads=2)
    server = Server(session)
    threading.Thread(target=server.run, daemon=True).start()
    steps = [_fetched(server, level, columns) for level in reversed(range(session.pyramid.depth))]
    walls, cpus = zip(*steps, strict=True)
    first = time.perf_counter() - started - sum(walls[1:])
    first_cpu = time.process_time() - begun - sum(cpus[1:])
    peak = _high_water() - before
    del session.pyramid
    held, begun = _new_high_water(), time.process_time()
    row_order(session.columns, RowOrdering(random_state=0, n_jobs=2))
    column_order(session.columns, 0)
    found = {
        "first": first, "first_cpu": first_cpu, "step": max(walls[1:]), "step_cpu": max(cpus[1:]),
        "memory": peak / data.nbytes,
        "order": time.process_time() - begun,
        "order_memory": (_high_water() - held + data.nbytes) / data.nbytes,
    }  # fmt: skip
    print(json.dumps(found))


def _new_high_water() -> int:
    """What is held now, from which peaks are counted; a process inherits its parent's peak."""
    Path("/proc/self/clear_refs").write_text("5")
    return _high_water()


def _high_water() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def _fetched(server: Server, level: int, columns: int) -> tuple[float, float]:
    """Wall and CPU seconds for one picture, of the server and of whoever asks."""
    asked = {"level": level, "start": 0, "stop": _HEIGHT, "first": 0, "last": columns, "step": 1,
             "layer": "means"}  # fmt: skip
    started, begun = time.perf_counter(), time.process_time()
    connection = HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/window", json.dumps(asked), {"X-Token": server.token})
    connection.getresponse().read()
    connection.close()
    return time.perf_counter() - started, time.process_time() - begun


if __name__ == "__main__":
    print(run())
