"""Kernels as terms: formulas, promises, and kernels of one's own."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from thresher.kernels import RBF, Exponential, Kernel, Polynomial, Sigmoid
from thresher.registry import KERNELS
from thresher.testing._kernels import check_kernel

X, Z = np.random.default_rng(0).normal(size=(2, 4))
DISTANCE = float(((X - Z) ** 2).sum())
# k(X, Z), written out
VALUES = {
    "rbf": math.exp(-DISTANCE),
    "exponential": math.exp(-math.sqrt(DISTANCE)),
    "polynomial": (X @ Z + 1.0) ** 2,
    "linear": X @ Z,
    "sigmoid": math.tanh(X @ Z),
    "cosine": X @ Z / np.linalg.norm(X) / np.linalg.norm(Z),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_keeps_its_promises(name):
    check_kernel(KERNELS[name]())


@pytest.mark.parametrize("name", VALUES)
def test_formula(name):
    assert KERNELS[name]().of(X @ Z, X @ X, Z @ Z) == pytest.approx(VALUES[name], rel=1e-12)


def test_parameters():
    assert RBF.from_sigma(2.0) == RBF(0.125)
    assert RBF(0.3).of(0.0, 1.0, 1.0) == pytest.approx(math.exp(-0.6))
    assert Exponential(0.3).of(0.0, 2.0, 2.0) == pytest.approx(math.exp(-0.6))
    assert Polynomial(3, 0.5, 2.0).of(2.0, 9.0, 9.0) == pytest.approx(27.0)
    assert Sigmoid(0.5, 1.0).of(2.0, 9.0, 9.0) == pytest.approx(math.tanh(2.0))


@dataclass(frozen=True)
class Cauchy(Kernel):
    gamma: float = 1.0
    traits = frozenset({"radial", "positive"})

    def of(self, inner, sq_x, sq_z):
        return 1.0 / (1.0 + self.gamma * max(sq_x + sq_z - 2.0 * inner, 0.0))


@dataclass(frozen=True)
class Lopsided(Kernel):
    def of(self, inner, sq_x, sq_z):
        return inner + sq_x


@dataclass(frozen=True)
class NotRadial(Kernel):
    traits = frozenset({"radial"})

    def of(self, inner, sq_x, sq_z):
        return inner


@dataclass(frozen=True)
class NotPositive(Kernel):
    traits = frozenset({"positive"})

    def of(self, inner, sq_x, sq_z):
        return -inner


@dataclass(frozen=True)
class Unguarded(Kernel):
    traits = frozenset({"radial"})

    def of(self, inner, sq_x, sq_z):
        return math.sqrt(sq_x + sq_z - 2.0 * inner)


def test_own_kernel_passes():
    check_kernel(Cauchy(0.5))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Lopsided(), "differs from"),
        (NotRadial(), "shifted"),
        (NotPositive(), "eigenvalue"),
        (Unguarded(), "not finite|below zero"),
    ],
)
def test_wrong_kernel_is_found(kernel, message):
    with pytest.raises(AssertionError, match=message):
        check_kernel(kernel)
