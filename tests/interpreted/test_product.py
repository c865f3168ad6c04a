"""All solvers x losses x penalties x layouts that go together, run as plain Python.

Compiling the product would take an hour; interpreted it takes a minute and covers every line.
"""

import math

import numpy as np
import pytest

from conftest import JIT_DISABLED, chunk_of, feed, make_data, make_penalty, visits
from thresher import schedules
from thresher.registry import LOSSES, PENALTIES, SOLVERS
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
    Problem,
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
from thresher.solvers.base import check_compatible

pytestmark = pytest.mark.skipif(not JIT_DISABLED, reason="runs with NUMBA_DISABLE_JIT=1")

N, D = 30, 6
ROOT = schedules.InverseRoot(0.15)
READY = {
    "asgd": AveragedSGD(eta0=0.05, every=4),
    "dcd": DualDescent(),
    "newton": Newton(),
    "smoothed_newton": SmoothedNewton(),
    "summed_newton": SummedNewton(),
    "proximal_newton": ProximalNewton(),
    "quasi_newton": QuasiNewton(),
    "pegasos": Pegasos(batch=4),
    "weighted_pegasos": WeightedPegasos(precisions=np.linspace(0.5, 2.0, D), batch=4),
    "dropout_pegasos": DropoutPegasos(batch=4),
    "sgd": SGD(ROOT, batch=2),
    "truncated_gradient": TruncatedGradient(ROOT, every=3),
    "fobos": FOBOS(ROOT, batch=2),
    "rda": RDA(gamma=4.0),
    "adaptive_rda": AdaptiveRDA(gamma=4.0, batch=2),
    "rda_plus": RDAPlus(gamma=4.0, batch=2),
    "lps": LPS(),
    "rw_l1_rda": ReweightedL1(gamma=4.0, batch=2),
    "rw_l2_rda": ReweightedL2(variant="ridge", gamma=1.0, batch=2),
    "asset": ASSET(theta=0.1, box=3.0),
    "least_squares": DirectLeastSquares(),
    "cutting_plane": CuttingPlane(),
    "ocas": OCAS(),
    "mcpa": MCPA(partitions=3),
}


def compatible(solver, loss, penalty):
    try:
        check_compatible(READY[solver], Problem(LOSSES[loss](), make_penalty(penalty, D), D))
    except ValueError:
        return False
    return True


PRODUCT = [(s, l, p) for s in SOLVERS for l in LOSSES for p in PENALTIES if compatible(s, l, p)]


def test_the_product_covers_every_term_and_solver():
    solvers, losses, penalties = (set(names) for names in zip(*PRODUCT, strict=True))
    assert (solvers, losses, penalties) == (set(SOLVERS), set(LOSSES), set(PENALTIES))
    assert len(PRODUCT) > 300


@pytest.mark.parametrize(("solver_name", "loss_name", "penalty_name"), PRODUCT)
def test_combination(solver_name, loss_name, penalty_name):
    X, y = make_data(N, D, regression="epsilon" in loss_name)
    X[:, D - 1] = 0.0  # a feature that never occurs keeps its exact zero
    # the steps of the Pegasos family are 1 / (strength t): so short a run needs a large strength
    strength = 1.0 if "pegasos" in solver_name else 0.01
    if solver_name == "dropout_pegasos":  # hardly shrinks small weights, so pays more penalty
        strength = 0.1
    penalty = make_penalty(penalty_name, D, strength)
    problem = Problem(LOSSES[loss_name](), penalty, D)
    dense, thin = chunk_of(X, y), chunk_of(X, y, "csr")
    solver, problem = READY[solver_name].prepare(problem, dense)
    orders = [visits(N, 6)] if solver.streaming else [dense.order] * 3
    coef, bias = feed(solver, problem, dense, *orders)
    assert np.all(np.isfinite(coef))
    assert math.isfinite(bias)
    other = feed(solver, problem, thin, *orders)
    np.testing.assert_allclose(other[0], coef, rtol=1e-9, atol=1e-9)
    assert other[1] == pytest.approx(bias, rel=1e-9, abs=1e-9)
    assert coef[D - 1] == 0.0
    if penalty_name == "box":
        # the map is applied to the weights themselves, so the box holds exactly
        assert np.all((coef >= -0.7) & (coef <= 0.4))
    zero = driver.objective(problem, dense, np.zeros(D), 0.0)
    assert driver.objective(problem, dense, coef, bias) < zero


THRESHOLDING = ("truncated_gradient", "fobos", "rda", "adaptive_rda", "rw_l1_rda")


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("penalty_name", ["l1", "elastic_net", "weighted_l1"])
@pytest.mark.parametrize("solver_name", THRESHOLDING)
def test_thresholding_solvers_give_exact_zeros(solver_name, penalty_name, layout):
    """Strong enough a penalty leaves some weights and makes others exactly zero."""
    if not compatible(solver_name, "logistic", penalty_name):
        pytest.skip("the reweighted solvers bring their own weights")
    X, y = make_data(60, D, seed=4)
    strength = 0.02 if solver_name == "rw_l1_rda" else 0.16
    problem = Problem(LOSSES["logistic"](), make_penalty(penalty_name, D, strength), D)
    coef, _ = feed(READY[solver_name], problem, chunk_of(X, y, layout), visits(60, 3))
    assert 0 < np.count_nonzero(coef) < D
