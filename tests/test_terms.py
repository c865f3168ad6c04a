import dataclasses
import math
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass

import cloudpickle
import numpy as np
import pytest
from numba import njit

from conftest import READY, chunk_of, close, feed, make_data, visits
from thresher import losses, penalties
from thresher._terms import Term, capabilities
from thresher.losses import Logistic, Loss
from thresher.penalties import L1, L2, ElasticNet, Penalty, WeightedL2
from thresher.solvers import (
    FOBOS,
    RDA,
    SGD,
    AveragedSGD,
    DualDescent,
    Newton,
    Pegasos,
    Problem,
    ReweightedL1,
    TruncatedGradient,
    driver,
)
from thresher.solvers.base import check_compatible
from thresher.testing import check_loss, check_penalty, check_solver

# A user's script: a loss of its own in __main__, a helper behind a global, a closed-over value.
SCRIPT = """
import sys
from dataclasses import dataclass
import numpy as np
from numba import njit
from thresher import penalties
from thresher._rows import as_rows
from thresher.losses import Loss
from thresher.solvers import Pegasos, Problem, _scaled_steps, driver

@njit
def inner(v):
    return {helper} * v

@njit
def helper(v):
    return inner(v)

def make(closed):
    @dataclass(frozen=True)
    class Mine(Loss):
        slope: float = 1.0
        def value(self, y, p):
            return helper(max(0.0, {method} - y * p)) * self.slope * closed
        def deriv(self, y, p):
            return -y * helper(1.0) * self.slope * closed if y * p < {method} else 0.0
    return Mine

X = np.random.default_rng(0).normal(size=(50, 3))
chunk = driver.whole(as_rows(X), np.where(X[:, 0] > 0, 1.0, -1.0))
problem = Problem(make({closed})({slope}), penalties.L2(0.1), 3)
result = driver.learn(Pegasos(), problem, chunk, driver.Plan(passes=2))
misses = sum(_scaled_steps.scaled_sgd.stats.cache_misses.values())
print(misses, repr(float(np.sum(result.coef))))
"""


def run_script(cache, source):
    path = cache / "script.py"
    path.write_text(source)
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache / "numba")}
    env.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_disk_cache_follows_the_code_and_not_the_parameters(tmp_path):
    """Each run is a new process: (misses of the solver, sum of the weights)."""
    original = {"helper": "1.0", "method": "1.0", "closed": "1.0", "slope": "1.0"}

    def misses(**changed):
        count, total = run_script(tmp_path, SCRIPT.format(**{**original, **changed})).split()
        return int(count), float(total)

    first = misses()
    assert first[0] == 1
    assert misses() == (0, first[1])
    # a parameter has the same machine code, but another result
    other = misses(slope="0.5")
    assert other[0] == 0
    assert other[1] != first[1]
    assert misses(slope="1") == (0, first[1])  # an int where a float is declared
    # edits are noticed and effective, whatever they are behind
    for edit in ({"method": "0.5"}, {"helper": "0.5"}, {"closed": "0.5"}):
        count, total = misses(**edit)
        assert count == 1, f"stale machine code after editing {edit}"
        assert total != first[1]
        assert misses(**edit) == (0, total)
    assert misses() == (0, first[1])  # an undone edit finds its old code


WORKER = """
import pickle, sys
solver, problem, X, y = pickle.load(open(sys.argv[1], "rb"))
import numpy as np
from thresher._rows import as_rows
from thresher.solvers import driver
chunk = driver.whole(as_rows(X), y, np.ones(y.size))
result = driver.learn(solver, problem, chunk, driver.Plan(passes=2))
pickle.dump((result.coef, result.intercept), open(sys.argv[2], "wb"))
"""


def test_a_class_of_main_travels_to_a_bare_worker_and_trains_there(tmp_path):
    @dataclass(frozen=True)
    class Steep(Loss):
        slope: float = 2.0

        def value(self, y, p):
            return self.slope * max(0.0, 1.0 - y * p)

        def deriv(self, y, p):
            return -self.slope * y if y * p < 1.0 else 0.0

    Steep.__module__ = "__main__"  # as if typed at the prompt: cloudpickle sends it by value
    X, y = make_data(n=60)
    problem = Problem(Steep(1.5), penalties.L2(0.1), X.shape[1])
    # once used here, the object holds a type of this process that must stay behind
    here = driver.learn(Pegasos(), problem, chunk_of(X, y), driver.Plan(passes=2))
    job, answer = tmp_path / "job", tmp_path / "answer"
    job.write_bytes(cloudpickle.dumps((Pegasos(), problem, X, y)))
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(job), str(answer)],
        env=env, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    coef, intercept = pickle.loads(answer.read_bytes())
    np.testing.assert_array_equal(coef, here.coef)
    assert intercept == here.intercept


# ------------------------------------------------ what a field may be


@dataclass(frozen=True, eq=False)
class Table(Term):
    values: np.ndarray
    factor: float = 1.0

    def look(self, j):
        return self.factor * self.values[j]


@dataclass(frozen=True, eq=False)
class Sum(Term):
    """A term of terms, with every kind of scalar."""

    left: Table
    right: Table
    offset: int = 0
    twice: bool = False

    def look(self, j):
        total = self.left.look(j) + self.right.look(j + self.offset)
        return 2.0 * total if self.twice else total


@njit
def looked(term, n):
    total = 0.0
    for j in range(n):
        total += term.look(j)
    return total


def test_arrays_scalars_and_nested_terms_as_fields():
    left, right = Table(np.arange(5.0)), Table(np.ones(5), 3.0)
    for term in (Sum(left, right), Sum(left, right, 1, True), Sum(right, left, offset=1)):
        assert looked(term, 4) == sum(term.look(j) for j in range(4))


def test_read_only_and_strided_arrays_as_fields():
    frozen = np.arange(5.0)
    frozen.setflags(write=False)
    assert looked(Table(frozen), 5) == 10.0
    assert looked(Table(np.arange(10.0)[::2]), 5) == 20.0
    assert looked(Table(np.arange(5, dtype=np.float32)), 5) == 10.0


def test_a_value_is_read_at_each_call_not_frozen_into_the_code():
    values = np.arange(5.0)
    term = Table(values)
    before = looked(term, 5)
    values[0] = 100.0
    assert looked(term, 5) == before + 100.0
    specialisations = len(getattr(looked, "signatures", ()))
    assert looked(Table(values, 2), 5) == 2.0 * (before + 100.0)
    assert len(getattr(looked, "signatures", ())) == specialisations


def test_a_wrong_field_is_a_python_error_not_a_crash():
    with pytest.raises((TypeError, AttributeError)):
        looked(Table(np.arange(5.0), "three"), 5)


def test_terms_are_frozen_comparable_and_picklable_after_use():
    loss = losses.Pinball(0.25)
    fresh = pickle.dumps(loss)
    assert loss._numba_type_ == losses.Pinball(0.75)._numba_type_  # numba's name for it
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert pickle.dumps(loss) == fresh  # what was compiled stays here
    assert loss.get_params() == {"tau": 0.25}
    with pytest.raises(dataclasses.FrozenInstanceError):
        loss.tau = 0.5


def test_replacing_a_field_of_a_used_term_takes_effect():
    term = Table(np.arange(5.0))
    looked(term, 5)
    assert looked(dataclasses.replace(term, values=np.arange(5)), 5) == 10.0  # another dtype


# ------------------------------------------------ fingerprints and capabilities


def type_of(deriv, **members):
    cls = type("Named", (Loss,), {"value": lambda self, y, p: 0.0, "deriv": deriv, **members})
    cls.__module__ = cls.__qualname__ = "same"
    return dataclass(frozen=True)(cls)()._numba_type_


def test_the_type_is_named_after_what_the_methods_compile_to():
    table = np.arange(3.0)

    def closing_over(values):
        return lambda self, y, p: values[0] * p

    one = type_of(lambda self, y, p: p + 1.0)
    assert one == type_of(lambda self, y, p: p + 1.0)
    assert one != type_of(lambda self, y, p: p + 2.0)
    assert one != type_of(lambda self, y, p: p - 1.0)
    assert one != type_of(lambda self, y, p: p + 1.0, curvature=lambda self, y, p: 0.0)
    assert type_of(closing_over(table)) == type_of(closing_over(table.copy()))
    assert type_of(closing_over(table)) != type_of(closing_over(table + 1.0))


def test_capabilities_are_the_methods_defined_and_the_traits_declared():
    assert capabilities(losses.Hinge()) == {
        "value",
        "deriv",
        "conjugate",
        "dual_step",
        "kinks",
        "smoothed",
    }
    logistic = {"value", "deriv", "curvature", "conjugate", "dual_step", "link", "link_to_onnx"}
    assert capabilities(losses.Logistic()) == logistic
    assert capabilities(penalties.Box()) == {"value", "prox", "rest", "pattern", "lazy"}
    l2 = {"value", "prox", "rest", "precision", "subgrad", "quadratic", "uniform", "lazy"}
    l2.add("pattern")  # which every penalty has
    assert capabilities(penalties.L2()) == l2


# ------------------------------------------------ terms of a user's own


@dataclass(frozen=True)
class MyLoss(Loss):
    """The squared hinge, halved and with another margin."""

    margin: float = 0.5
    smoothness = 1.0

    def value(self, y, p):
        v = max(0.0, self.margin - y * p)
        return 0.5 * v * v

    def deriv(self, y, p):
        return -y * max(0.0, self.margin - y * p)

    def curvature(self, y, p):
        return 1.0 if y * p < self.margin else 0.0

    def conjugate(self, y, a):
        return self.margin * a * y + 0.5 * a * a if a * y <= 0.0 else math.inf

    def dual_step(self, y, p, b, q, c):
        z = y * b
        return y * max(0.0, z + (self.margin - y * p - z / c) / (q + 1.0 / c))


@dataclass(frozen=True)
class MyRidge(Penalty):
    """Half the squared norm over a variance: quadratic and uniform, with no field 'strength'."""

    variance: float = 50.0
    traits = frozenset({"quadratic", "uniform", "lazy"})

    @property
    def ridge(self):
        return 1.0 / self.variance

    def value(self, w, j):
        return 0.5 * w * w / self.variance

    def prox(self, w, step, j):
        return w / (1.0 + step / self.variance)

    def rest(self, w, step, j):
        return w

    def precision(self, j):
        return 1.0 / self.variance

    def subgrad(self, w, j):
        return w / self.variance


def test_the_terms_of_the_next_test_are_right():
    check_loss(MyLoss(0.7))
    check_penalty(MyRidge(3.0))


@pytest.mark.parametrize(
    "name", sorted(set(READY) - {"rw_l1_rda", "rw_l2_rda", "smoothed_newton", "least_squares"})
)
def test_terms_of_a_user_in_every_solver(name):
    """They give what built-in terms of the same mathematics give."""
    X, y = make_data(n=80)
    chunk = chunk_of(X, y)
    models = []
    loss = losses.Hinge() if "kinks" in READY[name].loss_needs else MyLoss()
    for penalty in (MyRidge(50.0), L2(0.02)):
        problem = Problem(loss, penalty, 12)
        check_compatible(READY[name], problem)
        solver, problem = READY[name].prepare(problem, chunk)
        orders = [visits(80)] if solver.streaming else [chunk.order] * 5
        models.append(feed(solver, problem, chunk, *orders))
    close(*models)
    assert np.any(models[0][0])


@pytest.mark.parametrize("name", ["rw_l1_rda", "rw_l2_rda"])
def test_a_loss_of_a_user_in_the_reweighted_solvers(name):
    """These two bring their own penalty, so only the loss is the user's."""
    check_solver(READY[name], loss=MyLoss())


@pytest.mark.parametrize(
    ("solver", "loss", "penalty", "missing"),
    [
        (Newton(), losses.Hinge(), L2(), "curvature"),
        (Newton(), Logistic(), L1(), "quadratic"),
        (DualDescent(), Logistic(), L1(), "quadratic, uniform"),
        (DualDescent(), Logistic(), WeightedL2(np.ones(12)), "uniform"),
        (Pegasos(), Logistic(), ElasticNet(), "quadratic"),
        (AveragedSGD(), Logistic(), L1(), "quadratic, uniform"),
        (TruncatedGradient(), Logistic(), WeightedL2(np.ones(12)), "lazy, rest"),
        (SGD(), Logistic(), penalties.Box(), "subgrad"),
        (FOBOS(), Logistic(), WeightedL2(np.ones(3)), "3 weights"),
        (ReweightedL1(), Logistic(), penalties.Box(), "strength"),
        (DualDescent(), Logistic(), L2(0.0), "alpha"),
        (Pegasos(batch=0), Logistic(), L2(), "batch"),
        (RDA(gamma=-1.0), Logistic(), L1(), "gamma"),
    ],
    ids=lambda v: type(v).__name__ if not isinstance(v, str) else v,
)
def test_impossible_combinations_name_what_is_missing(solver, loss, penalty, missing):
    with pytest.raises(ValueError, match=missing):
        check_compatible(solver, Problem(loss, penalty, 12))
