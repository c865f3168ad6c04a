"""All peers on the same problem: L2-regularised logistic regression at C=1, warm calls.

Test error and CPU seconds; scikit-learn's SGDClassifier and Vowpal Wabbit get as many passes as our
default uses (their own defaults would be five and one), Vowpal Wabbit its own text format, written
and cached outside the timing, and its defaults otherwise (adaptive updates, no penalty).
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import data, peers
from benchmarks.measure import seconds, table, timed
from thresher import LinearClassifier

SETS = ("a9a", "covtype", "20news_binary")


def run(names: list[str] | None = None) -> str:
    lines: list[list[Any]] = []
    for name in names or SETS:
        if not data.available(name):
            lines.append([name, "not at hand"] + [""] * 4)
            continue
        split = data.load(name)
        base = None
        for title, fit in _contestants(split).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                time = timed(fit, repeats=3 if split.X.shape[0] < 100_000 else 1)
            error = 100 * np.mean(np.asarray(time.result(split.X_test)) != split.y_test)
            base = base or time.warm
            lines.append([name, title, f"{error:.2f}", seconds(time.warm),
                          f"{time.warm / base:.2f}", seconds(time.first)])  # fmt: skip
            print("  ".join(str(cell) for cell in lines[-1]), flush=True)
    header = ["set", "learner", "test error %", "CPU", "times Thresher", "first call"]
    return (__doc__ or "").strip() + "\n\n" + table(header, lines)


def _contestants(split: data.Split) -> dict[str, Callable[[], Any]]:
    """Each fits and returns a function that predicts."""
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.svm import LinearSVC

    X, y, n = split.X, split.y, split.y.size
    ours = LinearClassifier("logistic", alpha=1 / n, random_state=0)
    sgd = SGDClassifier("log_loss", alpha=1 / n, max_iter=2, tol=None, average=True, random_state=0)
    lbfgs, svc = LogisticRegression(max_iter=1000), LinearSVC()
    liblinear = peers.trainer(X, y, 0)
    contestants: dict[str, Callable[[], Any]] = {
        "Thresher, logistic": lambda: ours.fit(X, y).predict,
        "LIBLINEAR, logistic": lambda: liblinear().predict,
        "LogisticRegression (lbfgs)": lambda: lbfgs.fit(X, y).predict,
        "LinearSVC (squared hinge)": lambda: svc.fit(X, y).predict,
        "SGDClassifier, averaged": lambda: sgd.fit(X, y).predict,
    }
    try:
        import vowpalwabbit  # noqa: F401
    except ImportError:
        return contestants
    return contestants | {"Vowpal Wabbit": _vowpal(split)}


def _vowpal(split: data.Split) -> Callable[[], Any]:
    from vowpalwabbit import Workspace

    folder = Path(tempfile.mkdtemp())
    _write(folder / "train", split.X, split.y)
    _write(folder / "test", split.X_test, split.y_test)
    options = "--loss_function logistic -b 18 --passes 2 --holdout_off --quiet"
    # The first call writes the binary cache that later calls read.
    files = f"-d {folder / 'train'} --cache_file {folder / 'cache'} -f {folder / 'model'}"

    def fit() -> Any:
        Workspace(f"{options} {files}").finish()
        return predict

    def predict(_: Any) -> np.ndarray:
        command = f"-t -i {folder / 'model'} -d {folder / 'test'} -p {folder / 'scores'} --quiet"
        Workspace(command).finish()
        scores = np.loadtxt(folder / "scores")
        low, high = np.unique(split.y)
        return np.where(scores > 0, high, low)

    return fit


def _write(path: Path, X: Any, y: np.ndarray) -> None:
    rows = sp.csr_matrix(X)
    high = np.max(y)
    # Vowpal Wabbit learns in the order of the file, and text often comes sorted by class.
    order = np.random.default_rng(0).permutation(rows.shape[0]) if path.name == "train" else None
    with path.open("w") as out:
        for i in range(rows.shape[0]) if order is None else order:
            part = slice(rows.indptr[i], rows.indptr[i + 1])
            items = zip(rows.indices[part], rows.data[part], strict=True)
            features = " ".join(f"{j}:{v:.6g}" for j, v in items)
            out.write(f"{1 if y[i] == high else -1} | {features}\n")


if __name__ == "__main__":
    import sys

    print(run(sys.argv[1:]))
