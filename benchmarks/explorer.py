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
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import busy, table, verdict
from thresher import RowOrdering
from thresher.views.explorer.explore import open_session
from thresher.views.explorer.server import Server
from thresher.views.explorer.session import Session
from thresher.views.explorer.window import Window

_HEIGHT = 800  # pixels of the map


def run(rows: int = 1_000_000, columns: int = 100) -> str:
    """Each part in a process of its own, whose peak memory is that of the explorer."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(_random_table(rows, columns), path)
        whole = _alone(f"whole({str(path)!r})")
    found = _alone(f"pictures({rows}, {columns})")
    lines = [
        ["reading a Parquet file, order of rows and columns, first picture",
         f"{whole['seconds']:.1f} s, {whole['cpu']:.1f} CPU s", ""],
        ["codes and first picture, after the order",
         f"{found['first']:.2f} s, {found['first_cpu']:.2f} CPU s of two threads",
         verdict(min(found["first"], found["first_cpu"] / 2) < 5.0)],
        ["slowest zoom step after that, over HTTP",
         f"{1e3 * found['step']:.1f} ms, {1e3 * found['step_cpu']:.1f} ms of CPU",
         verdict(min(found["step"], found["step_cpu"]) < 0.1)],
        ["peak memory / the table, while it is read", f"{whole['reading']:.2f}",
         verdict(whole["reading"] < 2.0)],
        ["from then on: codes, order, pictures", f"{whole['ordering']:.2f}",
         verdict(whole["ordering"] < 2.0)],
    ]  # fmt: skip
    note = f"{rows:,} rows x {columns} columns of noise in double precision; zooming in a random " \
           "order, which is the slowest to gather."  # fmt: skip
    parts = [
        (__doc__ or "").strip(), busy(), note, table(["what", "measured", ""], lines), _wide(),
    ]  # fmt: skip
    return "\n\n".join(parts)


def _alone(call: str) -> dict[str, float]:
    """What a function of this module prints in a process of its own."""
    script = f"from benchmarks import explorer; explorer.{call}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


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


def whole(path: str) -> None:
    """From the file to the page, in the order that is found; peaks beside what was held before."""
    warm = Session(_random_table(200, 20))  # compiles
    del warm
    before, peaks = _new_high_water(), []

    def phase(line: str) -> None:
        peaks.append(_high_water() - before)
        _new_high_water()

    started, begun = time.perf_counter(), time.process_time()
    session = open_session(path, say=phase)
    seconds, cpu = time.perf_counter() - started, time.process_time() - begun
    peaks.append(_high_water() - before)
    size = session.table.nbytes
    found = {"seconds": seconds, "cpu": cpu, "reading": max(peaks[:-1]) / size,
             "ordering": peaks[-1] / size}  # fmt: skip
    print(json.dumps(found))


def pictures(rows: int, columns: int) -> None:
    """Codes, the first picture, and steps in a random order."""
    Session(_random_table(200, 1))  # compiles
    data, ordering = _random_table(rows, columns), RowOrdering()
    ordering.order_ = np.random.default_rng(1).permutation(rows)
    ordering.weights_ = np.ones(columns)
    started, begun = time.perf_counter(), time.process_time()
    server = Server(Session(data, ordering=ordering, threads=2))
    threading.Thread(target=server.run, daemon=True).start()
    depth = server.session.pyramid.depth
    steps = [_fetched(server, level, columns) for level in reversed(range(depth))]
    walls, cpus = zip(*steps, strict=True)
    found = {
        "first": time.perf_counter() - started - sum(walls[1:]),
        "first_cpu": time.process_time() - begun - sum(cpus[1:]),
        "step": max(walls[1:]), "step_cpu": max(cpus[1:]),
    }  # fmt: skip
    print(json.dumps(found))


def _random_table(rows: int, columns: int) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({f"x{j}": rng.standard_normal(rows) for j in range(columns)})


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
