"""Question: what do weights that are learned for all leaves together add to a forest's votes?

``KernelClassifier(map=ForestFeatures(trees))`` grows extremely randomised trees, as scikit-learn's
ExtraTreesClassifier does (its own settings, every leaf pure), and learns the weights of all leaves
by dual descent; the peers' leaves vote.  HistGradientBoostingClassifier, as scikit-learn ships it,
is beside them.  Nothing is tuned.  covtype: class 2 against the rest, 100,000 rows to learn from,
50,000 others to test on; letter: its usual split.  Wall seconds with two threads for all, compiled
before the clock runs.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

from benchmarks import data
from benchmarks.measure import seconds, table
from thresher import ForestFeatures, KernelClassifier

SETS = ("covtype", "letter")
TREES = (10, 30, 100)
ROWS, TEST = 100_000, 50_000


def run(names: list[str] | None = None) -> str:
    lines: list[list[Any]] = []
    for name in names or SETS:
        if not data.available(name):
            lines.append([name, "not at hand", "", "", ""])
            continue
        lines += _on(name)
    header = ["set", "model", "fit", "prediction of the test rows", "error %"]
    return (__doc__ or "").strip() + "\n\n" + table(header, lines)


def _on(name: str) -> list[list[Any]]:
    split = data.load(name)
    X, y = split.X[:ROWS], split.y[:ROWS]
    X_test, y_test = split.X_test[:TEST], split.y_test[:TEST]
    lines = []
    for title, model in _models().items():
        model.fit(X[:2000], y[:2000])
        start = time.perf_counter()
        model.fit(X, y)
        took = time.perf_counter() - start
        start = time.perf_counter()
        wrong = np.mean(model.predict(X_test) != y_test)
        asked = time.perf_counter() - start
        lines.append([name, title, seconds(took), seconds(asked), f"{100 * wrong:.2f}"])
        print("  ".join(lines[-1]), flush=True)
    return lines


def _models() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for trees in TREES:
        forest = ForestFeatures(trees, n_jobs=2, random_state=0)
        made[f"Thresher, {trees} trees"] = KernelClassifier(map=forest, n_jobs=2, random_state=0)
        made[f"ExtraTreesClassifier, {trees}"] = ExtraTreesClassifier(
            trees, n_jobs=2, random_state=0
        )
    made["RandomForestClassifier, 100"] = RandomForestClassifier(100, n_jobs=2, random_state=0)
    made["HistGradientBoostingClassifier"] = HistGradientBoostingClassifier(random_state=0)
    return made


if __name__ == "__main__":
    import sys

    print(run(sys.argv[1:]))
