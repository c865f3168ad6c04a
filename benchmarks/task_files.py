"""Claim: a CSV file of a million rows, 20 numbers and 10,000 tasks is learned as a stream at no
less than a third of the rows a second of a single-task linear stream, in memory that does not grow
with the rows.

``train(file, target="y")`` beside ``train(file, target="y", task_column="task")``, whole: the look
for the names of the tasks, the scan, the choice of steps, one pass, the measure on held-out rows.
Rows a CPU second (of all threads) of a process that has compiled everything on another file, and
its largest resident memory beyond what it had before; rows in random order.  R^2 is that of the
rows held out: the best that can be reached is 0.86, for all tasks together 0.69.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import busy, table

ROWS, TASKS, FEATURES, TIMES = 1_000_000, 10_000, 20, 2
KINDS: dict[str, dict[str, Any]] = {
    "one task, averaged SGD": {"ignore": ["task"]},
    "one task, dual averaging, l1": {"ignore": ["task"], "params": {"solver": "rda"}},
    "10,000 tasks, group": {"task_column": "task"},
    "10,000 tasks, sparse_group": {"task_column": "task", "params": {"penalty": "sparse_group"}},
    "10,000 tasks, group, no scan": {"task_column": "task", "scan": False},
}


def run(names: list[str] | None = None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("small.csv", "rows.csv", "more.csv")]
        for path, rows in zip(paths, (20_000, ROWS, TIMES * ROWS), strict=True):
            write_rows(path, rows)
        lines, base = [], 0.0
        for kind in KINDS:
            found, more = (_trained(kind, paths[0], path) for path in paths[1:])
            base = base or found["pace"]
            ratio = base / found["pace"]
            met = "" if ratio == 1.0 else "yes" if ratio <= 3.0 else "**no**"
            lines.append([
                kind, f"{found['pace']:,.0f}", f"{ratio:.2f}", met, f"{found['megabytes']:.0f}",
                f"{more['megabytes']:.0f}", f"{found['r2']:.3f}",
            ])  # fmt: skip
            print("  ".join(lines[-1]), flush=True)
    head = ["stream", "rows a CPU second", "times slower (at most 3)", "met", "MB beyond the base",
            f"MB, {TIMES} times the rows", "R^2"]  # fmt: skip
    return "\n\n".join([(__doc__ or "").strip(), busy(), table(head, lines)])


def write_rows(path: Path, rows: int) -> None:
    """Five features that matter to all tasks, each with weights of its own."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    W = np.zeros((FEATURES, TASKS))
    W[:5] = 1.0 + 0.5 * rng.normal(size=(5, TASKS))
    names = np.array([f"school {k:05d}" for k in range(TASKS)])
    columns = ["task", *(f"x{j}" for j in range(FEATURES)), "y"]
    types = [pa.string(), *[pa.float64()] * (FEATURES + 1)]
    schema = pa.schema(list(zip(columns, types, strict=True)))
    with csv.CSVWriter(path, schema) as file:
        for start in range(0, rows, 100_000):
            n = min(100_000, rows - start)
            X, task = rng.normal(size=(n, FEATURES)).round(4), rng.integers(TASKS, size=n)
            y = np.einsum("ij,ji->i", X, W[:, task]) + rng.normal(size=n)
            file.write(pa.table([names[task], *X.T, y.round(4)], schema=schema))


def _trained(kind: str, small: Path, path: Path) -> dict[str, float]:
    """In a process of its own."""
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.task_files", kind, str(small), str(path)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return json.loads(told.splitlines()[-1])


def _child(kind: str, small: str, path: str) -> dict[str, float]:
    from thresher import train

    about = {"target": "y", "memory": 1 << 20, "passes": 1, **KINDS[kind]}
    if "task_column" in about:  # tasks of the small file may have one row
        params = {**about.get("params", {}), "least_rows": 1}
        train(small, **{**about, "params": params})
    else:
        train(small, **about)
    base, watch = _resident(), _Watch()
    began = time.process_time()
    model = train(path, **about)
    spent = time.process_time() - began
    rows = model.training["rows"] + model.training["held_out_rows"]
    return {
        "pace": rows / spent, "megabytes": (watch.largest() - base) / 2**20,
        "r2": model.training["held_out"]["r2"],
    }  # fmt: skip


class _Watch:
    """The largest resident memory from now on."""

    def __init__(self) -> None:
        self.most, self.over = 0, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self) -> None:
        while not self.over.wait(0.02):
            self.most = max(self.most, _resident())

    def largest(self) -> int:
        self.over.set()
        self.thread.join()
        return max(self.most, _resident())


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


if __name__ == "__main__":
    print(json.dumps(_child(*sys.argv[1:])))
