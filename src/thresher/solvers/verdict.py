r"""Whether a model is worth having: no fit is silently useless.

A model is held against two others that anybody could have, on its own training rows: the best
constant prediction c, and the best model of a single feature, :math:`c' + t (x_j - \bar x_j)`, with
j the feature that goes best with the slopes of the loss at c,

.. math:: j = \arg\max_j \frac{(\sum_i \ell'(y_i, c)(x_{ij} - \bar x_j))^2}
                              {\sum_i (x_{ij} - \bar x_j)^2} .

Both are points that the solver could have taken, so that an optimum is at least as good as either,
whatever the strength of the penalty, which then counts for all three.  Where the model keeps less
than half of what the single feature gains over the constant, or where there is nothing to gain and
it is worse than the constant, it is called no better than a constant.  So is a model of targets
that all lie within the flat bottom of the loss, where any constant is an optimum, and a classifier
by its errors in place of losses; one that makes at most half of the errors of the most frequent
class is not, however large its loss.  And so is a model whose threshold lies beyond nearly all rows
of a rare class: another one on its own scores would spare half of the errors of the most frequent
class, or more, and it spares less than half of those itself.  Chance does that too where features
are many: what is spared must be worth more than d weights and a threshold, by the lengths of codes
(Rissanen, 1978): with k rows of n in the rare class and e errors left,
(k - e) log(n/k) > (d + 1)/2 log n.  Of a stream that has only begun nothing is said but that it is
worse than the constant itself: few rows tell no more, and it has had few steps.

Looked at are a thousand or two of many rows, with classes in equal parts and weighted back; where
these are not all, the model must be worse by two standard errors.  That takes about a millisecond.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.solvers.auto import best_constant
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.driver import penalty_value
from thresher.solvers.stream import signs

__all__ = ["is_no_better"]

_MOST_SEEN, _MOST_ROWS, _FEWEST_ROWS, _MOST_ENTRIES = 100_000, 2_000, 1_000, 4_000_000
_SUMS = 1e-9  # rounding of sums of weights
_VANISHING = 1e-140
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class _Sample(NamedTuple):
    X: Any  # array or CSR matrix, in double precision
    y: np.ndarray
    weight: np.ndarray  # sums to one
    whole: bool


class _Line(NamedTuple):
    """Predictions c + t z, from the constant (t = 0) to the best model of a feature (t = 1)."""

    y: np.ndarray
    z: np.ndarray
    constant: float
    feature: int
    weight: float  # of the feature, at t = 1


def is_no_better(
    problem: Problem, chunk: Chunk, function: Any, *,
    weights: np.ndarray | None = None, by_errors: bool = False, excused: bool = False,
    begun: bool = False,
) -> bool:  # fmt: skip
    """Whether ``function``, of the rows of ``chunk``, is no better than a constant.

    Parameters
    ----------
    problem : Problem
    chunk : Chunk
        Rows that it was learned from; several classes are class numbers.
    function : Function
        Of these rows.
    weights : array or None, default=None
        What the penalty is of, where that is known.
    by_errors : bool, default=False
        The loss of scores of classes says nothing: count errors.
    excused : bool, default=False
        The strength of the penalty was asked for: it may be what keeps a model near a constant.
    begun : bool, default=False
        It has seen few rows, of those that are to come.
    """
    if not chunk.order.size or problem.has_tasks:
        return False
    sample = _sampled(problem, chunk)
    classes = problem.outputs > 1 or bool(np.all(np.abs(sample.y) == 1.0))
    with np.errstate(all="ignore"):
        scores = np.asarray(function.scores(sample.X), dtype=np.float64)
        if not np.ptp(sample.y) > 0.0:
            return not classes and _misses_equal_targets(problem, sample, scores[:, 0])
        if classes and _errors(sample, scores) <= 0.5 * _usual_errors(sample):
            return False
        if begun and (classes or excused):
            return not excused and _errors(sample, scores) >= _usual_errors(sample) - _SUMS
        raised = _raised(sample.X)
        if raised is not None:
            if excused:  # the penalty is of other units
                return False
            sample = sample._replace(X=raised)
        lines = [_best_line(problem, sample, y) for y in _targets(problem, sample)]
        if begun:
            lines = [line._replace(z=np.zeros(line.z.size)) for line in lines]
        if classes and by_errors:
            return _errs_too_often(sample, scores, lines, True)
        if classes and not excused and _errs_too_often(sample, scores, lines, False):
            return True
        if problem.outputs == 1 and classes and not excused and _hides_a_class(
            sample, scores[:, 0], problem.n_features, chunk.order.size
        ):  # fmt: skip
            return True
        return _costs_too_much(problem, sample, scores, lines, weights, excused)


def _misses_equal_targets(problem: Problem, sample: _Sample, p: np.ndarray) -> bool:
    """Whether predictions are off by more than a hundredth: the constant is all there is to say."""
    y, loss = sample.y, problem.loss
    near = np.maximum(_values(y, 0.99 * y, loss), _values(y, 1.01 * y, loss))
    allowed = np.maximum(near, 1e-4 * _values(y, np.zeros(y.size), loss))
    return not bool(sample.weight @ _values(y, np.ascontiguousarray(p), loss) <= allowed[0])


def _errs_too_often(
    sample: _Sample, scores: np.ndarray, lines: list[_Line], must_gain: bool
) -> bool:
    """Also where no single feature helps, if it ``must_gain``: rare classes are told by losses."""
    usual, wrong = _usual_errors(sample), _errors(sample, scores)
    single = _errors(sample, np.stack([k.constant + k.z for k in lines], axis=1))
    chance = 3.0 * math.sqrt(usual / sample.y.size)
    gain = usual - single if usual - single > chance else 0.0
    return wrong >= usual - 0.5 * gain - _SUMS and (must_gain or gain > 0.0)


def _hides_a_class(sample: _Sample, p: np.ndarray, features: int, rows: int) -> bool:
    """Whether it hardly errs less than the most frequent class, though its scores tell them."""
    usual = _usual_errors(sample)
    if usual <= _SUMS or not np.all(np.isfinite(p)):
        return False
    positive = sample.y > 0.0
    order = np.argsort(p, kind="stable")
    changes = np.where(positive, sample.weight, -sample.weight)[order]
    # Errors of the threshold below all rows, and then above each of them.
    wrong = np.concatenate([[0.0], np.cumsum(changes)]) + sample.weight[~positive].sum()
    between = np.concatenate([[True], np.diff(p[order]) > 0.0, [True]])
    spared = 1.0 - wrong[between].min() / usual
    rare = min(np.count_nonzero(positive), np.count_nonzero(~positive))
    gain = spared * rare * -math.log(usual)
    own = 1.0 - _errors(sample, p[:, None]) / usual
    return spared >= 0.5 and own < 0.5 * spared and gain > 0.5 * (features + 1) * math.log(rows)


def _costs_too_much(
    problem: Problem, sample: _Sample, scores: np.ndarray, lines: list[_Line], weights: Any,
    excused: bool,
) -> bool:  # fmt: skip
    constant, single, excess = 0.0, 0.0, np.zeros(sample.y.size)
    for line, p in zip(lines, scores.T, strict=True):
        at_constant = _values(line.y, np.full(p.size, line.constant), problem.loss)
        constant += float(sample.weight @ at_constant)
        single += _along(*line[:3], sample.weight, problem.loss, 1.0)
        excess += _values(line.y, np.ascontiguousarray(p), problem.loss) - at_constant
    if constant == 0.0:  # of a loss with a flat bottom that all targets lie in
        return True
    more = float(sample.weight @ excess)  # what the model costs beyond the constant
    more -= 0.0 if sample.whole else 2.0 * _standard_error(excess, sample.weight)
    rounding = max(1e-6, problem.tol or 0.0) * constant
    # What the best of so many features gains by chance is nothing to be gained.
    chance = min((2.0 * math.log(sample.X.shape[1]) + 10.0) / sample.y.size, 0.25) * constant
    gain = constant - single if constant - single > chance else 0.0
    if more <= rounding - 0.5 * gain:
        return False
    if not excused:
        return True
    if weights is None:
        return not more <= rounding
    gain = constant - sum(_penalised(problem, sample, line) for line in lines)
    return not more + penalty_value(problem, weights) <= rounding - 0.5 * max(gain, 0.0)


# ---------------------------------------------------------------- rows


def _sampled(problem: Problem, chunk: Chunk) -> _Sample:
    rows, y, weight, order = chunk
    count = order.size
    order = order[:: math.ceil(count / _MOST_SEEN)]
    per_row = max(rows.stored // max(rows.shape[0], 1), 1)
    most = min(_MOST_ROWS, max(_FEWEST_ROWS, order.size // 100))
    most = max(min(most, _MOST_ENTRIES // per_row), 100)
    factor = np.ones(order.size)
    if order.size > most:
        places, factor = _strata(y[order], problem.outputs, most)
        order = order[places]
    mass = weight[order] * factor
    whole = order.size == count
    return _Sample(rows.taken(order), y[order].astype(np.float64), mass / mass.sum(), whole)


def _strided(size: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    places = np.arange(0, size, math.ceil(size / most))
    return places, np.full(places.size, size / places.size)


def _strata(y: np.ndarray, outputs: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of as many rows of each class, and how many rows each of them stands for.

    One output has two strata, the signs: numbers may be taken by them as well.
    """
    masks = [y == c for c in range(outputs)] if outputs > 1 else [y > 0.0, y <= 0.0]
    places, factors = [], []
    for mask in masks:
        members = np.flatnonzero(mask)
        if members.size:
            taken, factor = _strided(members.size, max(most // len(masks), 10))
            places.append(members[taken])
            factors.append(factor)
    return np.concatenate(places), np.concatenate(factors)


def _raised(X: Any) -> Any:
    """Rows whose squares would vanish, in units of the largest number; None: none of these."""
    values = X.data if hasattr(X, "indptr") else X
    largest = float(np.max(np.abs(values), initial=0.0))
    if not 0.0 < largest < _VANISHING:
        return None
    if not hasattr(X, "indptr"):
        return X / largest
    X = X.copy()
    X.data = X.data / largest
    return X


def _targets(problem: Problem, sample: _Sample) -> list[np.ndarray]:
    """Those of each output."""
    if problem.outputs == 1:
        return [sample.y]
    return [signs(sample.y, c) for c in range(problem.outputs)]


def _errors(sample: _Sample, scores: np.ndarray) -> float:
    """Share of the rows that scores misclassify."""
    if scores.shape[1] == 1:
        told = np.where(scores[:, 0] > 0.0, sample.y.max(), sample.y.min())
    else:
        told = np.argmax(scores, axis=1).astype(np.float64)
    return float(sample.weight @ (told != sample.y))


def _usual_errors(sample: _Sample) -> float:
    """The same of the most frequent class."""
    _, codes = np.unique(sample.y, return_inverse=True)
    return 1.0 - float(np.bincount(codes, sample.weight).max())


def _standard_error(values: np.ndarray, weight: np.ndarray) -> float:
    mean = weight @ values
    return math.sqrt(float(np.sum((weight * (values - mean)) ** 2)))


# ---------------------------------------------------------------- the constant and the feature


def _best_line(problem: Problem, sample: _Sample, y: np.ndarray) -> _Line:
    loss, weight, constant = problem.loss, sample.weight, 0.0
    if problem.fit_intercept:
        constant = sum(best_constant(loss, y, weight)) / 2.0
    slopes = weight * _slopes(y, np.full(y.size, constant), loss)
    means = sample.X.T @ weight if problem.fit_intercept else np.zeros(sample.X.shape[1])
    if hasattr(sample.X, "indptr"):
        along = sample.X.T @ slopes - means * slopes.sum()
        squares, rounding = sample.X.multiply(sample.X).T @ weight - means**2, 1e-14
    else:
        around = sample.X - means
        along, squares, rounding = around.T @ slopes, np.square(around).T @ weight, 1e-28
    usable = squares > rounding * means**2
    gains = np.where(usable, along**2 / np.where(usable, squares, 1.0), 0.0)
    j = int(np.argmax(np.nan_to_num(gains)))
    unit = 1.0 / math.sqrt(squares[j]) if usable[j] else 1.0
    column = sample.X[:, [j]]
    column = column.toarray() if hasattr(column, "toarray") else column
    z = unit * (column[:, 0] - means[j])
    shift, t = 0.0, 0.0
    if gains[j] > 0.0:
        t = _least(y, z, weight, constant, loss)
        if problem.fit_intercept:
            shift, t = _least_of_both(y, z, weight, constant, loss, t)
    return _Line(y, shift + t * z, constant, j, t * unit)


def _penalised(problem: Problem, sample: _Sample, line: _Line) -> float:
    """The least loss and penalty along the feature, by golden sections of the line."""

    def cost(t: float) -> float:
        weights = np.zeros(problem.n_features)
        weights[line.feature] = t * line.weight
        value = _along(*line[:3], sample.weight, problem.loss, t)
        return value + penalty_value(problem, weights)

    low, high, least = 0.0, 1.0, cost(0.0)
    for _ in range(40):
        a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_a, at_b = cost(a), cost(b)
        least = min(least, at_a, at_b)
        low, high = (low, b) if at_a <= at_b else (a, high)
    return least


@njit(cache=True, nogil=True)
def _values(y, p, loss):
    out = np.empty(y.size)
    for i in range(y.size):
        out[i] = loss.value(y[i], p[i])
    return out


@njit(cache=True, nogil=True)
def _slopes(y, p, loss):
    out = np.empty(y.size)
    for i in range(y.size):
        out[i] = loss.deriv(y[i], p[i])
    return out


@njit(cache=True, nogil=True)
def _along(y, z, constant, weight, loss, t):
    """Mean loss of the predictions c + t z."""
    total = 0.0
    for i in range(y.size):
        total += weight[i] * loss.value(y[i], constant + t * z[i])
    return total


@njit(cache=True, nogil=True)
def _slope_along(y, z, constant, weight, loss, t):
    total = 0.0
    for i in range(y.size):
        total += weight[i] * loss.deriv(y[i], constant + t * z[i]) * z[i]
    return total


@njit(cache=True, nogil=True)
def _least(y, z, weight, constant, loss):
    """The t of the least mean loss: where its slope, which rises with t, changes its sign."""
    side = 1.0 if _slope_along(y, z, constant, weight, loss, 0.0) < 0.0 else -1.0
    inner, outer = 0.0, 1e-3
    while side * _slope_along(y, z, constant, weight, loss, side * outer) < 0.0 and outer < 1e30:
        inner, outer = outer, 8.0 * outer
    for _ in range(14):
        middle = 0.5 * (inner + outer)
        if side * _slope_along(y, z, constant, weight, loss, side * middle) < 0.0:
            inner = middle
        else:
            outer = middle
    return side * inner


@njit(cache=True, nogil=True)
def _least_of_both(y, z, weight, constant, loss, t):
    """Shift and t of the least mean loss of constant + shift + t z, from the best t without shift.

    By the ellipsoid method, which a kink of the loss does not stop, as it stops going along one of
    the two at a time.  The ellipse has the matrix [[a, b], [b, d]], at first a circle of radius 2t.
    """
    shift, best_shift, best_t = 0.0, 0.0, t
    least = _along(y, z, constant, weight, loss, t)
    a, b, d = 4.0 * t * t, 0.0, 4.0 * t * t
    for _ in range(60):
        value, g, h = 0.0, 0.0, 0.0
        for i in range(y.size):
            p = constant + shift + t * z[i]
            slope = weight[i] * loss.deriv(y[i], p)
            value += weight[i] * loss.value(y[i], p)
            g += slope
            h += slope * z[i]
        if value < least:
            least, best_shift, best_t = value, shift, t
        u, v = a * g + b * h, b * g + d * h
        length = math.sqrt(max(g * u + h * v, 0.0))
        if not length > 0.0:
            break
        u, v = u / length, v / length
        shift, t = shift - u / 3.0, t - v / 3.0
        a = 4.0 / 3.0 * (a - 2.0 / 3.0 * u * u)
        b = 4.0 / 3.0 * (b - 2.0 / 3.0 * u * v)
        d = 4.0 / 3.0 * (d - 2.0 / 3.0 * v * v)
    return best_shift, best_t
