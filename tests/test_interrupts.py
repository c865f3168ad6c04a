"""Ctrl-C: a clean end with its exit code, or a usable model; never a dead process."""

from __future__ import annotations

import contextlib
import importlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from numba.core import types
from numba.core.dispatcher import Dispatcher
from sklearn.base import BaseEstimator

import test_compiled_results as compiled
from conftest import JIT_DISABLED, make_data
from thresher import (
    BudgetedClassifier,
    ConfidenceClassifier,
    KernelClassifier,
    LinearClassifier,
    MultiHyperplaneClassifier,
    MultipleKernelClassifier,
    SemiparametricRegressor,
    SemiSupervisedClassifier,
    SupportVectorClassifier,
    UniversumClassifier,
    cli,
    load_model,
)
from thresher._interrupts import clean_interrupts
from thresher._threads import lingering
from thresher.cli import predict as predict_command
from thresher.cli import show
from thresher.race.race import Race
from thresher.solvers import driver

INTERRUPTED = 130
LEARNERS = [
    "linear", "joint", "kernel", "forest", "budgeted", "svm", "hyperplanes", "confidence",
    "semiparametric", "mkl", "universum", "few_labels",
]  # fmt: skip


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).round(3)
    path = tmp_path / "d.csv"
    rows = [f"{a},{b},{c},{int(a > 0)}" for a, b, c in X.tolist()]
    path.write_text("a,b,c,y\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(autouse=True)
def no_fits_are_left():
    """Fits that nobody waits for end before the next test: filters of warnings are not theirs."""
    yield
    Endless.released.set()
    while lingering():
        time.sleep(0.02)
    Endless.released.clear()


def interrupting(monkeypatch, when):
    """Ctrl-C at the first progress of which ``when`` is true."""
    sent = []

    def progress(self, event):
        if not sent and when(event):
            sent.append(event)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(show.Live, "progress", progress)
    return sent


# ---------------------------------------------------------------- the command line


def test_before_there_is_a_model(thresher, table, tmp_path, monkeypatch):
    sent = interrupting(monkeypatch, lambda event: event.stage == "reading")
    code, _, err = thresher("train", table, "-t", "y", "-m", tmp_path / "m")
    assert sent
    assert (code, "interrupted" in err) == (INTERRUPTED, True)
    assert not (tmp_path / "m").exists()


def test_an_interrupted_prediction(thresher, table, tmp_path, monkeypatch):
    assert thresher("train", table, "-t", "y", "-m", tmp_path / "m", "-q")[0] == 0

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(predict_command, "predict", interrupted)
    assert thresher("predict", tmp_path / "m", table)[0] == INTERRUPTED


def test_codes_that_are_returned(thresher):
    assert thresher("--version")[0] == 0
    assert thresher("train", "--help")[0] == 0
    assert thresher("nothing")[0] == 2


def test_a_race_ends_with_the_best_so_far(thresher, table, tmp_path, monkeypatch):
    """And not with its budget, of an hour."""
    trials = []

    def third(event):
        trials.append(event)
        return event.stage.startswith("racing") and len(trials) > 3

    interrupting(monkeypatch, third)
    monkeypatch.setattr(cli, "lingering", lambda: False)  # this process goes on
    path = tmp_path / "m.thresher"
    code, _, err = thresher("train", table, "-t", "y", "--budget", "1h", "-m", path)
    assert code == INTERRUPTED, err
    model = load_model(path)
    assert model.training["status"] == "INTERRUPTED"
    assert "the race was stopped" in model.training["reason"]
    assert model.evaluate(table)["error"] < 0.2


# ---------------------------------------------------------------- a race whose fits do not end


class Endless(BaseEstimator):
    """Its fit ends when the test does."""

    begun, released = threading.Event(), threading.Event()

    def fit(self, X, y, sample_weight=None):
        self.begun.set()
        self.released.wait(60.0)
        return self


class Quick(BaseEstimator):
    """The constant 1."""

    def fit(self, X, y, sample_weight=None):
        return self

    def predict(self, X):
        return np.ones(X.shape[0])


def test_nobody_waits_for_fits_that_do_not_end():
    X, y, done = np.zeros((100, 1)), np.arange(100) % 2, []
    race = Race(
        {"quick": Quick(), "endless": Endless()}, X, y, None, "classification", 1e9, 0,
        done.append, jobs=2, stop=lambda: bool(done) and Endless.begun.is_set(),
    )  # fmt: skip
    outcome = race.run()
    assert lingering()
    assert (outcome.name, outcome.stopped) == ("quick", True)


def test_a_race_that_is_stopped_before_its_first_fit():
    X, y = np.zeros((100, 1)), np.arange(100) % 2
    with pytest.raises(KeyboardInterrupt):
        Race({"endless": Endless()}, X, y, None, "classification", 1e9, 0, stop=lambda: True).run()


# ---------------------------------------------------------------- compiled functions


def one_of(learner):
    return {
        "linear": LinearClassifier(solver="asgd", max_iter=3),
        "joint": LinearClassifier("logistic", solver="dcd", max_iter=3, n_jobs=2),
        "kernel": KernelClassifier(n_components=20, random_state=0),
        "forest": KernelClassifier(map="forest", n_components=5, random_state=0),
        "budgeted": BudgetedClassifier(budget=10, max_iter=2, random_state=0),
        "svm": SupportVectorClassifier(random_state=0),
        "hyperplanes": MultiHyperplaneClassifier(max_iter=2, random_state=0),
        "confidence": ConfidenceClassifier(max_iter=2, random_state=0),
        "mkl": MultipleKernelClassifier(kernels=["rbf", "linear"], columns="all"),
        "semiparametric": SemiparametricRegressor("linear", algorithm="pdsg", random_state=0),
        "universum": UniversumClassifier(algorithm="linear", random_state=0),
        "few_labels": SemiSupervisedClassifier("lap_svm", n_components=50, random_state=0),
    }[learner]


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled with NUMBA_DISABLE_JIT=1")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_no_compiled_function_that_python_calls_returns_a_named_tuple():
    """By what Numba found, of all that fitting and predicting compile."""
    X, _ = make_data(n=300, d=4)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    for learner in LEARNERS:
        one_of(learner).fit(X, y).predict(X)
    checked = 0
    for name in compiled.MODULES:
        for function in vars(importlib.import_module(name)).values():
            if isinstance(function, Dispatcher) and function.__module__ == name:
                if f"{name}.{function.__name__}" in compiled.WITHIN:
                    continue
                for signature in function.nopython_signatures:
                    checked += 1
                    kind = signature.return_type
                    parts = kind.types if isinstance(kind, types.BaseTuple) else (kind,)
                    for part in (kind, *parts):
                        assert not isinstance(part, types.BaseNamedTuple), function
    assert checked > 20


def test_an_interrupt_that_numba_has_met_first():
    """Python says that a function returned a result with an exception set."""

    def met(cause):
        try:
            raise cause
        except BaseException as error:
            raise SystemError("returned a result with an exception set") from error

    with pytest.raises(KeyboardInterrupt), clean_interrupts():
        met(KeyboardInterrupt())
    with pytest.raises(SystemError), clean_interrupts():
        met(ValueError())


def test_an_interrupt_that_the_compiler_has_dropped(capsys):
    """Something else fails then, and the command line says what it was."""
    from thresher.cli import INTERRUPTED, _guarded

    def compiles(standalone_mode):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise RuntimeError("no compiled object yet")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert _guarded(compiles) == INTERRUPTED
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "interrupted\n"


PROGRAM = """
    import os, random, signal, sys, threading, time, warnings
    sys.path.insert(0, "tests")
    warnings.simplefilter("ignore")
    import numpy as np
    from conftest import make_data
    from test_interrupts import one_of

    X, _ = make_data(n=2000, d=6)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    times, chance, usable = int(sys.argv[1]), random.Random(0), 0
    for learner in sys.argv[2:]:
        one_of(learner).fit(X, y)
        begun = time.perf_counter()
        one_of(learner).fit(X, y)
        longest = 1.2 * (time.perf_counter() - begun)  # some come after the fit
        for k in range(times):
            after = chance.uniform(0.0, longest)
            timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
            timer.daemon = True
            try:
                timer.start()
                model = one_of(learner).fit(X, y)
                assert model.predict(X[:5]).shape == (5,)
                usable += 1
                timer.join()
                time.sleep(1.0)  # it comes here, if it has not come yet
            except KeyboardInterrupt:
                pass
    print("alive", usable)
"""


def check_interrupts(times, *learners):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(times), *learners],
        capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout[:5]) == (0, "alive"), done.stderr[-2000:]


posix = pytest.mark.skipif(JIT_DISABLED or sys.platform == "win32", reason="compiled functions")


@posix
def test_interrupts_at_random_moments():
    check_interrupts(3, *LEARNERS)


@posix
@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
def test_many_interrupts_at_random_moments(learner):
    check_interrupts(100, learner)


# ---------------------------------------------------------------- passes in pieces


@pytest.mark.parametrize("solver", ["asgd", "pegasos", "rda", "fobos", "asset"])
def test_a_pass_in_pieces_leaves_no_trace(solver, monkeypatch):
    """Ctrl-C waits for compiled code: passes are cut by the clock, and the model must not know."""
    X, y = make_data(5000, 8)
    sizes = []

    def fit(moment):
        monkeypatch.setattr(driver, "_MOMENT", moment)
        model = LinearClassifier("hinge", solver=solver, alpha=1e-3, max_iter=2, random_state=0)
        return model.fit(X, y)

    update = driver.Stream.update

    def counted(self, chunk):
        sizes.append(chunk.order.size)
        update(self, chunk)

    monkeypatch.setattr(driver.Stream, "update", counted)
    short = fit(0.0)
    assert max(sizes) == 1024
    assert sum(sizes) == 10_000
    sizes.clear()
    assert np.array_equal(fit(1e9).coef_, short.coef_)
    assert max(sizes) > 1024
