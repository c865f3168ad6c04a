import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import penalty_examples, soft
from thresher import penalties
from thresher.penalties import Penalty, strengthened
from thresher.registry import PENALTIES
from thresher.testing import check_penalty

EXAMPLES = [p for name, cls in PENALTIES.items() for p in penalty_examples(name, cls)]
NUMBERS = st.floats(-100, 100)


@pytest.mark.parametrize("penalty", EXAMPLES, ids=repr)
def test_penalty_agrees_with_its_own_definition(penalty):
    check_penalty(penalty)


@given(w=NUMBERS, step=st.floats(0.0, 10.0))
def test_closed_forms_of_the_proximal_maps(w, step):
    weights = np.array([0.5, 2.0])
    wanted = {
        penalties.L2(0.7): w / (1 + 0.7 * step),
        penalties.L1(0.7): soft(w, 0.7 * step),
        penalties.ElasticNet(0.7, 0.4): soft(w, 0.28 * step) / (1 + 0.42 * step),
        penalties.WeightedL2(weights, 0.7): w / (1 + 1.4 * step),
        penalties.WeightedL1(weights, 0.7): soft(w, 1.4 * step),
        penalties.Box(-0.5, 2.0): np.clip(w, -0.5, 2.0),
    }
    for penalty, value in wanted.items():
        assert penalty.prox(w, step, 1) == pytest.approx(float(value), rel=1e-9, abs=1e-9)


def test_values_worked_by_hand():
    assert penalties.L2(3.0).value(-2.0, 0) == 6.0
    assert penalties.L1(3.0).value(-2.0, 0) == 6.0
    assert penalties.ElasticNet(2.0, 0.25).value(-2.0, 0) == pytest.approx(2 * (0.5 + 0.375 * 4))
    assert penalties.WeightedL2(np.array([1.0, 4.0]), 0.5).value(3.0, 1) == 9.0
    assert penalties.WeightedL1(np.array([1.0, 4.0]), 0.5).value(-3.0, 1) == 6.0
    assert penalties.Box(-1.0, 1.0).value(1.5, 0) == math.inf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: penalties.L1(-1.0), "strength"),
        (lambda: penalties.L2(math.inf), "strength"),
        (lambda: penalties.L2(math.nan), "strength"),
        (lambda: penalties.ElasticNet(1.0, 1.5), "l1_ratio"),
        (lambda: penalties.WeightedL1(np.array([1.0, -1.0])), "weights"),
        (lambda: penalties.WeightedL2(np.array([1.0, np.nan])), "weights"),
        (lambda: penalties.WeightedL2(np.ones((2, 2))), "weights"),
        (lambda: penalties.Box(0.5, 1.0), "low <= 0 <= high"),
    ],
)
def test_impossible_parameters_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_strengthened_multiplies_the_strength():
    assert strengthened(penalties.L1(0.5), 0.1) == penalties.L1(0.05)
    with pytest.raises(ValueError, match="'strength'"):
        strengthened(penalties.Box(), 0.1)


# ------------------------------------------------ deliberately wrong penalties must not pass


def mutant(of=penalties.ElasticNet, traits=frozenset({"lazy"}), **changed):
    """An elastic net of strength 1, ratio 1/2, with some members replaced by wrong ones."""
    right = {
        "value": lambda self, w, j: 0.5 * abs(w) + 0.25 * w * w,
        "prox": lambda self, w, step, j: (
            math.copysign(max(abs(w) - 0.5 * step, 0.0), w) / (1.0 + 0.5 * step)
        ),
        "rest": lambda self, w, step, j: math.copysign(max(abs(w) - 0.5 * step, 0.0), w),
        "ridge": property(lambda self: 0.5),
        "subgrad": lambda self, w, j: math.copysign(0.5, w) + 0.5 * w,
        "traits": traits,
    }
    return dataclass(frozen=True)(type("Mutant", (Penalty,), {**right, **changed}))()


def test_check_penalty_accepts_the_unchanged_one():
    check_penalty(mutant())


MUTANTS = {
    "prox": ({"prox": lambda s, w, step, j: w / (1.0 + step)}, "not the minimiser"),
    "prox ignores step": (
        {"prox": lambda s, w, step, j: math.copysign(max(abs(w) - 0.5, 0.0), w) / 1.5},
        "not the minimiser"),
    "prox moves zero": ({"prox": lambda s, w, step, j: w + 1.0}, "moves zero"),
    "rest does not add up": (
        {"rest": lambda s, w, step, j: math.copysign(max(abs(w) - 0.5 * step**2, 0.0), w)},
        "add up|division by"),
    "ridge": ({"ridge": property(lambda self: 0.25)}, "division by"),
    "subgradient": ({"subgrad": lambda s, w, j: 0.5 * w}, "subgradient"),
    "quadratic": ({"traits": frozenset({"quadratic"}), "precision": lambda s, j: 1.0},
                  "precision"),
    "not convex": ({"value": lambda s, w, j: abs(w) ** 0.5}, "convex"),
    "not smallest at zero": ({"value": lambda s, w, j: (w - 1.0) ** 2}, "smallest"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_check_penalty_rejects(name):
    changed, message = MUTANTS[name]
    with pytest.raises(AssertionError, match=message):
        check_penalty(mutant(**changed))


def test_check_penalty_rejects_a_rest_that_is_not_homogeneous():
    """Clipping adds up, but with a ridge the scale it is applied at matters."""
    clip = {
        "value": lambda s, w, j: 0.25 * w * w if abs(w) <= 1.0 else math.inf,
        "rest": lambda s, w, step, j: min(max(w, -1.0 - 0.5 * step), 1.0 + 0.5 * step),
        "prox": lambda s, w, step, j: min(max(w / (1.0 + 0.5 * step), -1.0), 1.0),
        "subgrad": None,
    }
    with pytest.raises(AssertionError, match=r"add up|homogeneous"):
        check_penalty(mutant(**clip))
