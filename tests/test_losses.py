import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit

from conftest import FORMULAS, SMOOTH
from thresher import losses
from thresher._terms import capabilities
from thresher.losses import Loss
from thresher.registry import LOSSES
from thresher.testing import check_loss

# The registry with its defaults, and parameter values at or near the ends of their ranges.
EXAMPLES = [cls() for cls in LOSSES.values()] + [
    losses.Pinball(0.0),
    losses.Pinball(0.7),
    losses.Pinball(1.0),
    losses.Huber(0.2),
    losses.EpsilonInsensitive(0.0),
    losses.SquaredEpsilonInsensitive(0.7),
]


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_loss_agrees_with_its_own_definition(loss):
    check_loss(loss)


@pytest.mark.parametrize("name", LOSSES)
def test_every_registered_loss_has_an_independent_formula(name):
    assert name in FORMULAS


@pytest.mark.parametrize("name", FORMULAS)
@given(y=st.sampled_from([-1.0, 1.0]), p=st.floats(-50, 50))
def test_value_is_the_published_formula(name, y, p):
    assert LOSSES[name]().value(y, p) == pytest.approx(float(FORMULAS[name](y, p)), abs=1e-12)


@pytest.mark.parametrize(
    ("loss", "y", "p", "value", "slope"),
    [
        (losses.Hinge(), 1.0, 0.25, 0.75, -1.0),
        (losses.Hinge(), -1.0, 0.25, 1.25, 1.0),
        (losses.Hinge(), -1.0, -2.0, 0.0, 0.0),
        (losses.Pinball(0.1), 1.0, 3.0, 0.2, 0.1),
        (losses.Pinball(0.1), -1.0, 3.0, 4.0, 1.0),
        (losses.SquaredHinge(), 1.0, -1.0, 4.0, -4.0),
        (losses.Logistic(), 1.0, 0.0, math.log(2.0), -0.5),
        (losses.LeastSquares(), 3.0, 1.0, 2.0, -2.0),
        (losses.ModifiedHuber(), 1.0, -2.0, 8.0, -4.0),
        (losses.ModifiedHuber(), -1.0, 0.5, 2.25, 3.0),
        (losses.Huber(1.0), 0.0, 3.0, 2.5, 1.0),
        (losses.EpsilonInsensitive(0.5), 1.0, 0.0, 0.5, -1.0),
        (losses.SquaredEpsilonInsensitive(0.5), 1.0, 0.0, 0.25, -1.0),
    ],
)
def test_value_and_slope_worked_by_hand(loss, y, p, value, slope):
    assert loss.value(y, p) == pytest.approx(value)
    assert loss.deriv(y, p) == pytest.approx(slope)


@pytest.mark.parametrize("loss", [x for x in EXAMPLES if "classification" in x.tasks], ids=repr)
@given(p=st.floats(-1e6, 1e6))
def test_classification_losses_treat_both_classes_alike(loss, p):
    assert loss.value(1.0, p) == loss.value(-1.0, -p)
    assert loss.deriv(1.0, p) == -loss.deriv(-1.0, -p)


@pytest.mark.parametrize("loss", [losses.Pinball(0.7), losses.Huber(), losses.Huber(0.3)], ids=repr)
@given(c=st.floats(1e-6, 1e3))
def test_a_dual_variable_at_its_bound_has_a_finite_conjugate(loss, c):
    """The bound is c * slope, and c * slope / c need not be slope: the duality gap must survive."""
    for p in (-1e3, 1e3):
        b = loss.dual_step(1.0, p, 0.0, 1e-3, c)
        assert math.isfinite(loss.conjugate(1.0, -b / c))


@given(
    y=st.sampled_from([-1.0, 1.0]), p=st.floats(-40, 40), share=st.floats(0.0, 1.0),
    q=st.floats(1e-4, 1e4), c=st.floats(1e-4, 1e4),
)  # fmt: skip
@example(y=1.0, p=-10.0, share=0.0, q=2.0, c=42.0)  # Newton steps alone jump from end to end
def test_the_logistic_dual_step_is_the_root_wherever_it_starts(y, p, share, q, c):
    """Of z - c / (1 + exp(m)), the slope of the dual; for large c q it is a steep step."""

    def slope(z):
        return z - c * expit(-(y * p + q * (z - share * c)))

    z = y * losses.Logistic().dual_step(y, p, y * share * c, q, c)
    ends = [end for end in (0.0, c) if slope(end) == 0.0]  # in floating point
    root = ends[0] if ends else brentq(slope, 0.0, c, xtol=1e-14, rtol=1e-12)
    assert abs(z - root) <= 1e-3 * min(root, c - root) + 1e-9 * c


@pytest.mark.parametrize("name", LOSSES)
def test_smooth_losses_and_only_they_have_a_curvature(name):
    cls = LOSSES[name]
    assert ("curvature" in capabilities(cls())) == (name in SMOOTH)
    assert math.isfinite(cls.smoothness) == (name in SMOOTH)


@pytest.mark.parametrize("name", SMOOTH)
def test_smoothness_is_the_smallest_valid_constant(name):
    """A larger constant would be valid too, and every step derived from it too short."""
    p = np.linspace(-4.0, 4.0, 4001)
    slopes = np.array([LOSSES[name]().deriv(1.0, v) for v in p])
    assert np.max(np.diff(slopes) / np.diff(p)) == pytest.approx(LOSSES[name].smoothness, rel=1e-3)


def test_pinball_without_tau_is_the_hinge():
    for p in (-3.0, 0.2, 1.0, 5.0):
        assert losses.Pinball(0.0).value(1.0, p) == losses.Hinge().value(1.0, p)
        assert losses.Pinball(0.0).deriv(1.0, p) == losses.Hinge().deriv(1.0, p)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: losses.Pinball(-0.1), "tau"),
        (lambda: losses.Pinball(1.1), "tau"),
        (lambda: losses.Pinball(math.nan), "tau"),
        (lambda: losses.Huber(0.0), "delta"),
        (lambda: losses.EpsilonInsensitive(-1.0), "epsilon"),
        (lambda: losses.SquaredEpsilonInsensitive(math.nan), "epsilon"),
    ],
)
def test_impossible_parameters_are_refused_by_name(make, field):
    with pytest.raises(ValueError, match=field):
        make()


# ------------------------------------------------ deliberately wrong losses must not pass


def right_value(self, y, p):
    return max(0.0, 1.0 - y * p) ** 2


def right_deriv(self, y, p):
    return -2.0 * y * max(0.0, 1.0 - y * p)


def mutant(smooth=2.0, **changed):
    """The squared hinge with some methods replaced by wrong ones."""
    methods = {"value": right_value, "deriv": right_deriv, "smoothness": smooth, **changed}
    return dataclass(frozen=True)(type("Mutant", (Loss,), methods))()


def concave_value(self, y, p):
    return min(1.0, max(0.0, 1.0 - y * p))


def concave_deriv(self, y, p):
    return -y if 0.0 < y * p < 1.0 else 0.0


def overflowing(self, y, p):
    return math.log(1.0 + math.exp(-y * p))


MUTANTS = {
    "wrong sign": ({"deriv": lambda self, y, p: 2.0 * y * max(0.0, 1.0 - y * p)}, "deriv"),
    "lost factor": ({"deriv": lambda self, y, p: -y * max(0.0, 1.0 - y * p)}, "deriv"),
    "one percent": ({"deriv": lambda self, y, p: -2.02 * y * max(0.0, 1 - y * p)}, "deriv"),
    "lost label": ({"deriv": lambda self, y, p: -2.0 * max(0.0, 1.0 - y * p)}, "deriv"),
    "arguments swapped": (
        {"value": lambda self, y, p: 0.5 * (p - y) ** 2, "deriv": lambda self, y, p: y - p},
        "deriv",
    ),
    "not convex": ({"value": concave_value, "deriv": concave_deriv, "smooth": math.inf}, "convex"),
    "not finite": ({"value": lambda self, y, p: p * p if p < 1e7 else math.nan}, "deriv|finite"),
    "overflow": ({"value": overflowing, "deriv": lambda s, y, p: -y / (1 + math.exp(y * p))},
                 "Overflow"),
    "smoothness too small": ({"smooth": 1.0}, "smoothness"),
    "smoothness of a kink": (
        {"value": lambda s, y, p: max(0.0, 1 - y * p),
         "deriv": lambda s, y, p: -y if y * p < 1.0 else 0.0}, "smoothness"),
    "curvature": ({"curvature": lambda self, y, p: 1.0 if y * p < 1.0 else 0.0}, "curvature"),
    "conjugate": ({"conjugate": lambda self, y, a: a * y + 0.5 * a * a}, "Fenchel-Young"),
    "conjugate's domain": (
        {"conjugate": lambda self, y, a: a * y + 0.25 * a * a}, "must be infinite"),
    "link": ({"link": lambda self, p: 0.5 * p}, "link"),
    "link falls": ({"link": lambda self, p: 0.5 - 0.4 * math.tanh(p)}, "link"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_check_loss_rejects(name):
    changed, message = MUTANTS[name]
    with pytest.raises(AssertionError, match=message):
        check_loss(mutant(**changed))


def test_check_loss_rejects_a_dual_step_that_stops_short():
    right = losses.SquaredHinge

    def short(self, y, p, b, q, c):
        z = y * b
        return y * max(0.0, z + 0.9 * (1.0 - y * p - 0.5 * z / c) / (q + 0.5 / c))

    with pytest.raises(AssertionError, match="not the minimiser"):
        check_loss(mutant(conjugate=right.conjugate, dual_step=short))


def test_check_loss_rejects_a_dual_step_that_leaves_the_optimum():
    """A root finder that takes the ends of its bracket for outside jumps away from the root."""
    right = losses.SquaredHinge

    def jumpy(self, y, p, b, q, c):
        z = y * b
        step = max(0.0, z + (1.0 - y * p - 0.5 * z / c) / (q + 0.5 / c))
        return y * (step + 0.1 * c if abs(step - z) < 1e-12 else step)

    with pytest.raises(AssertionError, match="moves an optimal variable"):
        check_loss(mutant(conjugate=right.conjugate, dual_step=jumpy))


def test_check_loss_rejects_a_dual_step_out_of_the_domain():
    right = losses.SquaredHinge

    def unclipped(self, y, p, b, q, c):
        z = y * b
        return y * (z + (1.0 - y * p - 0.5 * z / c) / (q + 0.5 / c))

    with pytest.raises(AssertionError, match="outside the conjugate's domain"):
        check_loss(mutant(conjugate=right.conjugate, dual_step=unclipped))


def test_check_loss_rejects_what_is_no_frozen_dataclass():
    class Loose(Loss):
        value, deriv = right_value, right_deriv

    with pytest.raises(AssertionError, match="frozen"):
        check_loss(Loose())
