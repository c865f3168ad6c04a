"""Question: how far does a fixed-size kernel machine get on covtype, and what does it cost?

Class 2 against the rest, 100,000 rows to learn from, 50,000 others to test on, gamma = 1 and C = 10
for all (gamma = 0.2 for landmarks without cells, which suits them better).  Few landmarks cannot
follow the fine structure of this set wherever they are put; landmarks in cells of their own
(``LocalNystroem``) can, the better where features are weighed by relevance (``scale="relevance"``,
in standard units, gamma = 0.3, without cells 0.05).  SVC is run on up to 20,000 rows; its time on
all of them is extrapolated by its own exponent from 10,000 to 20,000, and can be measured with
``python -m benchmarks.local_landmarks exact`` (more than half an hour).  CPU seconds of one thread.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks import data
from benchmarks.measure import seconds, table
from thresher import BudgetedClassifier, KernelClassifier, LocalNystroem, MultiHyperplaneClassifier

ROWS, TEST = 100_000, 50_000
GAMMA, C = 1.0, 10.0
GLOBAL = (500, 1000, 2000, 4000)
LOCAL = ((64, 100), (64, 300), (128, 500), (64, 1000), (64, 2000))  # cells, landmarks in each
WEIGHED = ((128, 100), (128, 200), (256, 200), (128, 500))
WEIGHED_GAMMA = 0.3


def run(names: list[str] | None = None) -> str:
    if not data.available("covtype"):
        return "covtype is not at hand"
    split = data.load("covtype")
    split = data.Split(split.X[:ROWS], split.y[:ROWS], split.X_test[:TEST], split.y_test[:TEST])
    small = split._replace(X=split.X[:2000], y=split.y[:2000])
    lines = []
    for title, model in _models().items():
        _fit(model, small)  # compiled before the clock runs
        lines.append(_line(title, ROWS, model, split))
    lines += _exact(split, (ROWS,) if names == ["exact"] else (10_000, 20_000))
    header = ["model", "rows", "fit", "prediction of 50,000 rows", "error %"]
    return (__doc__ or "").strip() + "\n\n" + table(header, lines)


def _models() -> dict[str, Any]:
    common = {"loss": "squared_hinge", "alpha": 1.0 / (C * ROWS), "random_state": 0}
    made: dict[str, Any] = {
        f"{m} landmarks": KernelClassifier(n_components=m, gamma=GAMMA / 5.0, **common)
        for m in GLOBAL
    }
    for cells, m in LOCAL:
        local = LocalNystroem(m, cells=cells, gamma=GAMMA, random_state=0)
        made[f"{cells} cells of {m}"] = KernelClassifier(map=local, solver="asgd", **common)
    weighed = {"scale": "relevance", **common}
    made["2000 landmarks, relevance"] = KernelClassifier(
        n_components=2000, gamma=WEIGHED_GAMMA / 6.0, **weighed
    )
    for cells, m in WEIGHED:
        local = LocalNystroem(m, cells=cells, gamma=WEIGHED_GAMMA, random_state=0)
        made[f"{cells} cells of {m}, relevance"] = KernelClassifier(
            map=local, solver="asgd", **weighed
        )
    made["local, relevance, otherwise untuned"] = KernelClassifier(
        map="local", scale="relevance", random_state=0
    )
    made["budgeted, 1000 vectors"] = BudgetedClassifier(
        budget=1000, gamma=GAMMA, alpha=1.0 / (C * ROWS), random_state=0
    )
    made["hyperplanes"] = MultiHyperplaneClassifier(random_state=0)
    return made


def _exact(split: data.Split, sizes: tuple[int, ...]) -> list[list[Any]]:
    lines, times = [], []
    for n in sizes:
        part = split._replace(X=split.X[:n], y=split.y[:n])
        lines.append(_line("SVC", n, SVC(C=C, gamma=GAMMA, cache_size=2000), part, times))
    if len(times) == 2:
        exponent = math.log(times[1] / times[0]) / math.log(sizes[1] / sizes[0])
        foreseen = times[1] * (ROWS / sizes[1]) ** exponent
        lines.append([f"SVC, extrapolated with exponent {exponent:.2f}", ROWS,
                      seconds(foreseen), "", ""])  # fmt: skip
    return lines


def _line(
    title: str, rows: int, model: Any, split: data.Split, times: list[float] | None = None
) -> list[Any]:
    took = _fit(model, split)
    start = time.process_time()
    wrong = np.mean(model.predict(split.X_test) != split.y_test)
    asked = time.process_time() - start
    if times is not None:
        times.append(took)
    line = [title, rows, seconds(took), seconds(asked), f"{100 * wrong:.2f}"]
    print("  ".join(str(cell) for cell in line), flush=True)
    return line


def _fit(model: Any, split: data.Split) -> float:
    start = time.process_time()
    model.fit(split.X, split.y)
    return time.process_time() - start


if __name__ == "__main__":
    import sys

    print(run(sys.argv[1:]))
