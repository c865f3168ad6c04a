"""Claims: a million points are in order in under 20 s and 600 MB beyond the data (two threads), in
the square within 5 % of 0.7124 sqrt(n A) (3.5 % in 60 s with more effort); 5,000 points within 2 %
of fast-tsp in a tenth of its time; 3,000 rows on a shorter path than SciPy's optimal leaf order, in
0.02 of its time.

Wall and CPU seconds of both threads; where the machine is busy, half of the latter are held against
the limit, or CPU seconds against a peer's.  Paths are of columns that all weigh the same
(``max_iter=1, scale=False``).  Waveform: 21 columns.  fast-tsp (an optional peer) gets a table of
rounded distances and five seconds, or more where it must share the machine, and is held to the CPU
seconds that it got; its tour is cut at the longest edge.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from reproduction.orderings import waveform
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import cdist, pdist

from benchmarks.measure import busy, crowding, seconds, table, verdict
from thresher import RowOrdering
from thresher.orderings import path_length

MANY, CITIES, LEAVES = 1_000_000, 5_000, 3_000
THREADS = 2
TSP_SECONDS = 5.0
CONSTANT = 0.7124


def run(many: int = MANY) -> str:
    cases = (("square", "auto"), ("square", 2.0), ("cube", "auto"), ("waveform", "auto"))
    note = busy()
    rows = [_large(many, name, effort) for name, effort in cases]
    header = ["rows", "effort", "seconds", "CPU", "MB beyond the data", "length", "claim holds"]
    parts = [(__doc__ or "").strip(), note, table(header, rows), _against_tsp(), _against_leaves()]
    return "\n\n".join(parts)


def _points(name: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if name == "waveform":
        return waveform(n, rng).X.astype(np.float32)
    return rng.random((n, 2 if name == "square" else 3), dtype=np.float32)


def _path(X: np.ndarray, effort: float | str = "auto") -> np.ndarray:
    ordering = RowOrdering(
        max_iter=1, scale=False, effort=effort, n_jobs=THREADS, random_state=0
    )  # fmt: skip
    return ordering.fit(X).order_


def _large(n: int, name: str, effort: float | str) -> list[str]:
    """In a process of its own, whose peak of memory is nobody else's."""
    command = [sys.executable, "-m", "benchmarks.orderings", "large", name, str(n), str(effort)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    used, cpu, megabytes, length = (float(word) for word in told[-4:])
    limit, share = (60.0, 1.035) if effort != "auto" else (20.0, 1.05)
    good = min(used, cpu / THREADS) < limit and megabytes < 600.0
    shown = f"{length:.0f}"
    if name == "square":
        ratio = length / (CONSTANT * np.sqrt(n))
        good, shown = good and ratio < share, f"{ratio:.4f} x {CONSTANT} sqrt(n A)"
    return [f"{name}, {n:,}", str(effort), seconds(used), seconds(cpu), f"{megabytes:.0f}", shown,
            verdict(good)]  # fmt: skip


def _measure_large(name: str, n: int, effort: float | str) -> None:
    _path(_points(name, 20_000), effort)  # compiled before the clock runs
    X = _points(name, n)
    Path("/proc/self/clear_refs").write_text("5")  # a new high-water mark
    before = _peak()
    start, begun = time.perf_counter(), time.process_time()
    order = _path(X, effort)
    used, cpu = time.perf_counter() - start, time.process_time() - begun
    print(used, cpu, _peak() - before, path_length(X, order))


def _peak() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


def _against_tsp() -> str:
    if importlib.util.find_spec("fast_tsp") is None:
        return "*fast-tsp is not installed: no comparison with it.*"
    import fast_tsp

    lines = []
    for n, d in ((2000, 2), (CITIES, 2), (2000, 3)):
        X = np.random.default_rng(1).random((n, d))
        D = np.rint(cdist(X, X) * 3.7e4).astype(np.int64)  # it takes numbers up to 65,535
        begin = time.process_time()
        tour = np.array(fast_tsp.find_tour(D, duration_seconds=TSP_SECONDS * crowding()))
        theirs_used = time.process_time() - begin
        start = int(np.argmax(np.linalg.norm(X[np.roll(tour, -1)] - X[tour], axis=1))) + 1
        theirs = path_length(X, np.roll(tour, -start))
        _path(X[:500], 1.0)
        begin = time.process_time()
        ours = path_length(X, _path(X, 1.0))
        used = time.process_time() - begin
        good = ours < 1.02 * theirs and used < 0.1 * theirs_used
        lines.append([f"{n:,} x {d}", seconds(used), f"{used / theirs_used:.3f}",
                      f"{100 * (ours / theirs - 1):+.2f} %", verdict(good)])  # fmt: skip
    header = [
        "points (effort 1)",
        "CPU seconds",
        "of fast-tsp's time",
        "longer than it",
        "claim holds",
    ]
    return table(header, lines)


def _against_leaves() -> str:
    X = _points("waveform", LEAVES)
    _path(X[:500])
    begin = time.process_time()
    distances = pdist(X)
    leaves = leaves_list(optimal_leaf_ordering(linkage(distances, "average"), distances))
    theirs = time.process_time() - begin
    lines = []
    for effort in (0.0, 1.0, "auto"):
        begin = time.process_time()
        order = _path(X, effort)
        ours = time.process_time() - begin
        ratio = path_length(X, order) / path_length(X, leaves)
        good = ratio < 1.0 and ours < 0.02 * theirs
        lines.append([str(effort), seconds(ours), f"{ours / theirs:.4f}", f"{ratio:.3f}",
                      verdict(good)])  # fmt: skip
    header = [
        "effort",
        "CPU seconds",
        "of optimal leaf ordering's time",
        "of its length",
        "claim holds",
    ]
    return f"Waveform, {LEAVES:,} rows:\n\n{table(header, lines)}"


if __name__ == "__main__":
    if sys.argv[1:2] == ["large"]:
        word = sys.argv[4]
        _measure_large(sys.argv[2], int(sys.argv[3]), word if word == "auto" else float(word))
    else:
        print(run(*map(int, sys.argv[1:2])))
