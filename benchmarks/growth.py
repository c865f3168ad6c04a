"""Claim: the cost of the nonlinear learners grows linearly with the rows, and the memory of a
stream does not grow at all.

Rows of ten normal features whose class is the sign of x1 x2 + x3 / 2 (2 % of the labels turned);
five passes for all; CPU seconds of one thread.  The exponent is the slope of log time over log rows
from 10,000 rows on: 1 is linear.  SVC is shown as far as it is practical.  The stream is generated
in parts of 50,000 rows, each learned from once by ``partial_fit``; its memory is the peak of a
process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks.measure import seconds, table
from thresher import BudgetedClassifier, KernelClassifier, LocalNystroem, MultiHyperplaneClassifier

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
MOST_FOR_SVC = 30_000
STREAMED = (200_000, 2_000_000)
PART = 50_000


def models() -> dict[str, Any]:
    common = {"max_iter": 5, "random_state": 0}
    return {
        "KernelClassifier, 200 landmarks": KernelClassifier(
            n_components=200, solver="asgd", **common
        ),
        "KernelClassifier, local, 50 cells of 100": KernelClassifier(
            map=LocalNystroem(100, cells=50, random_state=0), solver="asgd", **common
        ),
        "BudgetedClassifier, 100 vectors": BudgetedClassifier(budget=100, **common),
        "MultiHyperplaneClassifier": MultiHyperplaneClassifier(**common),
        "SVC": SVC(),
    }


def run(names: list[str] | None = None) -> str:
    made = {k: v for k, v in models().items() if not names or any(n in k for n in names)}
    X_test, y_test = rows(20_000, seed=1)
    lines = []
    for title, model in made.items():
        sizes = [n for n in SIZES if title != "SVC" or n <= MOST_FOR_SVC]
        model.fit(*rows(2000))  # compiled before the clock runs
        times = []
        for n in sizes:
            X, y = rows(n)
            start = time.process_time()
            model.fit(X, y)
            times.append(time.process_time() - start)
        slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        error = 100 * (1 - model.score(X_test, y_test))
        cells = [seconds(t) for t in times] + [""] * (len(SIZES) - len(times))
        lines.append([title, *cells, f"{slope:.2f}", f"{error:.1f}"])
        print("  ".join(str(cell) for cell in lines[-1]), flush=True)
    header = ["model", *(f"{n:,}" for n in SIZES), "exponent", "error % of the last"]
    streams = [[name, *(f"{_peak(name, n):.0f} MB" for n in STREAMED)]
               for name in made if name != "SVC"]  # fmt: skip
    return "\n\n".join([
        (__doc__ or "").strip(), table(header, lines),
        "Peak memory of a process that learns from a stream:",
        table(["model", *(f"{n:,} rows" for n in STREAMED)], streams),
    ])  # fmt: skip


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 10), dtype=np.float32)
    turned = rng.random(n) < 0.02
    return X, ((X[:, 0] * X[:, 1] + 0.5 * X[:, 2] > 0) ^ turned).astype(int)


def _peak(name: str, n: int) -> float:
    command = [sys.executable, "-m", "benchmarks.growth", "stream", name, str(n)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(told.split()[-1])


def _stream(name: str, n: int) -> None:
    model = models()[name]
    for seed in range(n // PART):
        model.partial_fit(*rows(PART, seed), classes=[0, 1])
    # Of this program alone: the resource usage of a process begins with its parent's.
    status = Path("/proc/self/status").read_text()
    print(int(status.split("VmHWM:")[1].split()[0]) / 1e3)


if __name__ == "__main__":
    if sys.argv[1:2] == ["stream"]:
        _stream(sys.argv[2], int(sys.argv[3]))
    else:
        print(run(sys.argv[1:]))
