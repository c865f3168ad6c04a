"""Shared by the tests: formulas written independently of the package, and small problems."""

import math
import os
import sys
import time

import numpy as np
import pytest
from hypothesis import settings
from scipy import sparse

from thresher import penalties, schedules
from thresher._rows import as_rows
from thresher.solvers import (
    ASSET,
    FOBOS,
    LPS,
    MCPA,
    OCAS,
    RDA,
    SGD,
    AdaptiveRDA,
    AveragedSGD,
    CuttingPlane,
    DirectLeastSquares,
    DropoutPegasos,
    DualDescent,
    Newton,
    Pegasos,
    ProximalNewton,
    QuasiNewton,
    RDAPlus,
    ReweightedL1,
    ReweightedL2,
    SmoothedNewton,
    SummedNewton,
    TruncatedGradient,
    WeightedPegasos,
    driver,
)
from thresher.training.checkpoint import checkpoint_path

# Examples of a property are drawn the same way every time, and compiling is not its fault.
settings.register_profile("thresher", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("thresher")


@pytest.fixture(autouse=True)
def the_same_draws_every_time():
    """Estimators without a `random_state` draw from NumPy's global generator, as scikit-learn's."""
    np.random.seed(0)  # noqa: NPY002


JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "1"


def hinge(m):
    return np.maximum(0.0, 1.0 - m)


# loss(y, p) as published: margins m = y p, residuals r = p - y
FORMULAS = {
    "hinge": lambda y, p: hinge(y * p),
    "squared_hinge": lambda y, p: hinge(y * p) ** 2,
    "logistic": lambda y, p: np.logaddexp(0.0, -y * p),
    "least_squares": lambda y, p: (p - y) ** 2 / 2,
    "modified_huber": lambda y, p: np.where(y * p < -1, -4 * y * p, hinge(y * p) ** 2),
    "pinball": lambda y, p, tau=0.5: np.where(y * p <= 1, 1 - y * p, tau * (y * p - 1)),
    "huber": lambda y, p, d=1.35: np.where(
        abs(p - y) <= d, (p - y) ** 2 / 2, d * (abs(p - y) - d / 2)
    ),
    "epsilon_insensitive": lambda y, p, e=0.1: np.maximum(0.0, abs(p - y) - e),
    "squared_epsilon_insensitive": lambda y, p, e=0.1: np.maximum(0.0, abs(p - y) - e) ** 2,
}
SMOOTH = (
    "squared_hinge",
    "logistic",
    "least_squares",
    "modified_huber",
    "huber",
    "squared_epsilon_insensitive",
)


def xlogx(s):
    return np.where(s > 0, s * np.log(np.maximum(s, 1e-300)), 0.0)


# Convex conjugates in a, on their domains; used to certify optima by the duality gap.
CONJUGATES = {
    "hinge": lambda y, a: a * y,
    "squared_hinge": lambda y, a: a * y + a * a / 4,
    "logistic": lambda y, a: xlogx(-a * y) + xlogx(1 + a * y),
    "least_squares": lambda y, a: a * y + a * a / 2,
    "modified_huber": lambda y, a: a * y + a * a / 4,
    "pinball": lambda y, a: a * y,
    "huber": lambda y, a: a * y + a * a / 2,
    "epsilon_insensitive": lambda y, a: a * y + 0.1 * abs(a),
    "squared_epsilon_insensitive": lambda y, a: a * y + 0.1 * abs(a) + a * a / 4,
}


def logistic_slope(y, p):
    return -y / (1.0 + np.exp(y * p))


def soft(a, k):
    return np.sign(a) * np.maximum(np.abs(a) - k, 0.0)


def batches(order, size):
    """(t, rows) of each update."""
    return enumerate((order[k : k + size] for k in range(0, order.size, size)), start=1)


def reference(X, y, order, batch, move, slope=logistic_slope):
    """w and b after ``move(t, w, g) -> (w, step of the bias)`` for each mini-batch gradient g."""
    w, b = np.zeros(X.shape[1]), 0.0
    for t, A in batches(order, batch):
        s = slope(y[A], X[A] @ w + b) / A.size
        w, bias_step = move(t, w, X[A].T @ s)
        b -= min(bias_step, 1 / math.sqrt(t)) * s.sum()
    return w, b


def rda_reference(X, y, order, batch, weight):
    """Dual averaging: weight(mean gradient, sum of squares, t), for the bias as well."""
    d = X.shape[1]
    w, b, g, squares = np.zeros(d), 0.0, np.zeros(d + 1), np.zeros(d + 1)
    for t, A in batches(order, batch):
        s = logistic_slope(y[A], X[A] @ w + b) / A.size
        step = np.append(X[A].T @ s, s.sum())
        g, squares = g + (step - g) / t, squares + step**2
        w, b = weight(g[:-1], squares[:-1], t, True), weight(g[-1], squares[-1], t, False)
    return w, b


def pinball_slope(y, p, tau=0.3):
    return np.where(y * p < 1, -y, np.where(y * p > 1, tau * y, 0.0))


def asgd_reference(X, y, order, lam, eta0, every, memory, horizon=math.inf, window=1):
    """``window``: rows of which only the first is predicted with the newest weights."""
    w, b, mean, snapshots = np.zeros(X.shape[1]), 0.0, np.zeros(X.shape[1] + 1), 0
    before = w
    for t, i in enumerate(order):
        from_t = t - t % 16
        rate = eta0 * (1 + lam * eta0 * from_t) ** -0.75 * max(1 - from_t / horizon, 0.02)
        s = logistic_slope(y[i], X[i] @ (before if t % window else w) + b)
        before = (1 - rate * lam) * w
        w, b = (1 - rate * lam) * w - rate * s * X[i], b - rate * s
        if (t + 1) % every == 0:
            snapshots += 1
            share = (1 + memory) / (snapshots + memory)
            mean = mean + share * (np.append(w, b) - mean)
    return mean[:-1], mean[-1]


def after_checkpoint(start, model):
    """The process that ``start`` gives, once it has written a checkpoint or come to its end."""
    path = checkpoint_path(model)

    def written():
        return path.stat().st_mtime_ns if path.exists() else None

    before = written()
    process = start()
    while process.poll() is None and written() in (None, before):
        time.sleep(0.01)
    return process


def make_data(n=200, d=12, density=0.5, seed=0, regression=False):
    """Rows with zeros, a sparse truth and noise; dense and CSR chunks are made from it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.uniform(size=(n, d)) < density)
    p = X @ (rng.normal(size=d) * (np.arange(d) % 2)) + 0.3 + 0.3 * rng.normal(size=n)
    return X, (p if regression else np.where(p > 0, 1.0, -1.0))


def chunk_of(X, y, layout="dense", dtype=np.float64, weight=None):
    """Unit weights are given explicitly: one specialisation of a solver serves all tests."""
    X = np.asarray(X, dtype=dtype)
    rows = as_rows(X if layout == "dense" else sparse.csr_array(X))
    return driver.whole(rows, y, np.ones(len(y)) if weight is None else weight)


def feed(solver, problem, chunk, *orders, state=None):
    """The model after visiting the rows in the given orders, one update call for each."""
    state = solver.init(problem, chunk) if state is None else state
    for order in orders:
        state = solver.update(problem, state, chunk._replace(order=order))
    return solver.finish(problem, state)


def visits(n, passes=3, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(n) for _ in range(passes)]).astype(np.uint32)


def make_penalty(name, d, strength=0.01):
    """A penalty of the registry for d features."""
    cls = {
        "l2": penalties.L2,
        "l1": penalties.L1,
        "elastic_net": penalties.ElasticNet,
        "weighted_l2": penalties.WeightedL2,
        "weighted_l1": penalties.WeightedL1,
        "box": penalties.Box,
        "group": penalties.GroupL2,
        "sparse_group": penalties.SparseGroupL2,
    }[name]
    if "group" in name:
        return cls(np.arange(d) % max(d // 2, 1), strength)
    if name.startswith("weighted"):
        return cls(np.linspace(0.5, 2.0, d), strength)
    return cls(-0.7, 0.4) if name == "box" else cls(strength)


def penalty_examples(name, cls):
    """Objects of a registered penalty class with telling parameter values, for 4 features."""
    if name.startswith("weighted"):
        return [cls(np.array([0.5, 1.0, 0.0, 2.0]), 0.7)]
    if name == "elastic_net":
        return [cls(0.7, 0.3), cls(0.7, 0.0), cls(0.7, 1.0)]
    if "group" in name:
        return [
            cls(np.array([1, 0, 1, 1]), 0.7), cls(np.arange(4), 0.3), cls(["b", "a", "b"], 1.0),
            cls([0, 1, 0], 0.7, weights=[2.0, 0.5]), cls([0, 1, 0], 0.7, elastic=0.3),
            cls([[0, 1], [1, 2, 3]], 0.7),
        ]  # fmt: skip
    if name == "box":
        return [cls(), cls(-0.7, 0.4), cls(0.0, math.inf)]
    return [cls(), cls(0.3)]


@pytest.fixture
def thresher(monkeypatch, capsys):
    """Run a command in this process: (exit code, standard output, standard error)."""

    def run(*words):
        from thresher.cli import main

        monkeypatch.setattr(sys, "argv", ["thresher", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


@pytest.fixture(scope="session")
def sparse_problem():
    """High-dimensional sparse rows, where lazy updates skip most coordinates."""
    X, y = make_data(n=120, d=150, density=0.04, seed=1)
    return X, y, chunk_of(X, y, "csr"), visits(120)


ROOT = schedules.InverseRoot(0.4)
# Hyper-parameters given, so that nothing is tuned and one compiled kernel serves all tests.
READY = {
    "asgd": AveragedSGD(eta0=0.2, every=16),
    "dcd": DualDescent(),
    "newton": Newton(),
    "smoothed_newton": SmoothedNewton(),
    "summed_newton": SummedNewton(),
    "proximal_newton": ProximalNewton(),
    "quasi_newton": QuasiNewton(),
    "pegasos": Pegasos(batch=3),
    "weighted_pegasos": WeightedPegasos(precisions=np.linspace(0.5, 2.0, 12)),
    "dropout_pegasos": DropoutPegasos(batch=3),
    "sgd": SGD(ROOT, batch=3),
    "truncated_gradient": TruncatedGradient(ROOT, every=3, batch=2),
    "fobos": FOBOS(ROOT, batch=3),
    "rda": RDA(gamma=2.0, batch=3),
    "adaptive_rda": AdaptiveRDA(gamma=2.0, batch=3),
    "rda_plus": RDAPlus(gamma=2.0, batch=3, least_rows=0),
    "lps": LPS(),
    "rw_l1_rda": ReweightedL1(gamma=2.0, batch=3),
    "rw_l2_rda": ReweightedL2(batch=3),
    "asset": ASSET(theta=0.1, box=3.0),
    "least_squares": DirectLeastSquares(),
    "cutting_plane": CuttingPlane(),
    "ocas": OCAS(),
    "mcpa": MCPA(partitions=3),
}


def close(got, wanted, tol=1e-9):
    np.testing.assert_allclose(got[0], wanted[0], rtol=tol, atol=tol)
    np.testing.assert_array_equal(np.asarray(got[0]) == 0.0, np.asarray(wanted[0]) == 0.0)
    assert got[1] == pytest.approx(wanted[1], rel=tol, abs=tol)
