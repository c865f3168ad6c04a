"""Claim: two workers on two cores train 1.7 times as fast as one single-threaded process, no slower
than our own reader with two threads, and the engine costs 2.5 s a job and 15 ms a task at most.

Logistic regression by averaged SGD, one pass after the first look, from a CSV of 28 numbers.  The
single-threaded process has one core by affinity; every training is a process of its own, as the
command line starts it, and its seconds are those of the training (imports are the same for all).
The time of two workers includes starting and ending them; workers that are there already have
been asked before.  CPU seconds are those of all processes, where they can be told.  Bytes of text
that are read twice (look and learn) over the seconds give the last column; dividing lines are
counted in a third, cheap reading by workers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import table

_FEATURES, _BLOCK_ROWS = 28, 100_000
_MEGABYTES = int(os.environ.get("THRESHER_BENCH_MB", "2000"))

_TRAIN = """
import json, os, sys, time
from contextlib import nullcontext
if sys.argv[3]:
    os.sched_setaffinity(0, {0})
from thresher import train

def learn(path, cluster):
    return train(path, target="y", passes=1, memory=1 << 28, cluster=cluster,
                 params={"loss": "logistic", "solver": "asgd"})

def main(path, who, tiny):
    from thresher.engines.dask import local_client
    there = who == "standing"
    with local_client(2) if there else nullcontext() as client:
        if there:
            learn(tiny, client)
        cpu = lambda: time.process_time() + (
            sum(client.run(time.process_time).values()) if there else 0.0)
        start, used = time.perf_counter(), cpu()
        model = learn(path, client if there else int(who) if who else None)
        told = [time.perf_counter() - start, model.training["held_out"]["error"]]
        print(json.dumps([*told, None if who == "2" else cpu() - used]))

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[4])
"""


def run() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path, tiny = Path(folder) / "large.csv", Path(folder) / "tiny.csv"
        _write(path, _MEGABYTES << 20)
        _write(tiny, 1 << 20)
        _train(tiny, "2", True)  # compiles
        lines = [
            ("one process, one core", *_train(path, "", True)),
            ("one process, two threads read", *_train(path, "", False)),
            ("two workers", *_train(path, "2", False)),
            ("two workers, there already", *_train(path, "standing", False)),
        ]
        alone, tiny_alone = lines[0][1], _train(tiny, "", False)[0]
        job = _train(tiny, "2", False)[0] - tiny_alone
        size = path.stat().st_size
    rows = [
        [name, f"{seconds:.1f}", f"{alone / seconds:.2f}", "" if cpu is None else f"{cpu:.1f}",
         f"{100 * error:.2f}", f"{2 * size / seconds / 1e6:.0f}"]
        for name, seconds, error, cpu in lines
    ]  # fmt: skip
    header = ["", "s", "times as fast", "CPU s", "error %", "MB/s"]
    told = f"{size / 1e9:.1f} GB of text.\n\n{table(header, rows)}\n\n"
    told += f"A training of 1 MB takes {job:.1f} s more with two workers than without; "
    told += f"a task that does nothing {1000 * _task():.1f} ms."
    return (__doc__ or "").strip() + "\n\n" + told


def _train(path: Path, who: str, one_core: bool) -> tuple[float, float, float | None]:
    """Seconds, held-out error and CPU seconds of a training in a process of its own."""
    script = path.parent / "training.py"
    script.write_text(_TRAIN)
    core = "1" if one_core else ""
    done = subprocess.run(
        [sys.executable, str(script), str(path), who, core, str(path.parent / "tiny.csv")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    seconds, error, cpu = json.loads(done.stdout.strip().splitlines()[-1])
    return seconds, error, cpu


def _nothing(recipe: int, shared: None) -> int:
    return recipe


def _task(tasks: int = 300) -> float:
    """Seconds of a task that does nothing."""
    from thresher.engines import engine_for, in_order

    with engine_for(2) as engine:
        in_order(engine, _nothing, range(4), None)
        start = time.perf_counter()
        in_order(engine, _nothing, range(tasks), None)
        return (time.perf_counter() - start) / tasks


def _write(path: Path, size: int) -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=_FEATURES)
    X = rng.normal(size=(_BLOCK_ROWS, _FEATURES)).round(5)
    y = (X @ w + 2.0 * rng.normal(size=_BLOCK_ROWS) > 0).astype(int)
    lines = [",".join(map(repr, row)) for row in X.tolist()]
    block = "".join(f"{line},{label}\n" for line, label in zip(lines, y, strict=True)).encode()
    with path.open("wb") as file:
        file.write((",".join([*(f"x{j}" for j in range(_FEATURES)), "y"]) + "\n").encode())
        if size < len(block):
            file.write(block[: block.rindex(b"\n", 0, size) + 1])
        for _ in range(size // len(block)):
            file.write(block)


if __name__ == "__main__":
    print(run())
