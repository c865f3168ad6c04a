r"""Phase two of RDA+ in a stream: Newton on the manifold by sums over rows that come in parts.

A pass adds up the loss, the gradient of all features and the Hessian of those on the manifold only.
After it delta is known over all features; units that the manifold missed join it, and the next
point is the minimum of the quadratic model plus the penalty on the manifold.  A step that did not
keep its promise is halved, which costs a pass too.  Sums of different rows are added.

Of many tasks points and gradients are tables (features and intercept, tasks), and each task has a
Hessian of its own (``_task_sums.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.penalties import evaluate
from thresher.solvers._block_descent import descend_blocks
from thresher.solvers._block_visits import norms_of
from thresher.solvers._manifold import Units, distance, strongest, tempted
from thresher.solvers._system import whole_hessian
from thresher.solvers._task_sums import added_of_tasks, target_of_tasks
from thresher.solvers._views import View, copied_columns, predicted
from thresher.solvers._working_set import descend_matrix
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.newton import derivatives
from thresher.solvers.summed_newton import reduced_model

__all__ = ["ManifoldSums", "added", "added_up", "delta_of", "ended_at", "opened", "stepped"]


class ManifoldSums(NamedTuple):
    """Sums of the rows seen in this pass at ``point``, and the last point that was kept."""

    point: np.ndarray  # weights and intercept at which the sums are taken
    inside: np.ndarray  # 1 for coordinates of the manifold
    value: float
    sums: np.ndarray  # of the gradient, all coordinates and the intercept
    hessian: np.ndarray  # of the features of the manifold and the intercept
    mass: float
    kept: np.ndarray
    best: float  # the objective there; no objective is negative, so that -1 is none
    direction: np.ndarray
    slope: float
    length: float  # share of the direction that leads to the point

    @classmethod
    def empty(cls, problem: Problem) -> ManifoldSums:
        """What there is before phase two."""
        features, tasks = problem.n_features, (problem.outputs,) if problem.has_tasks else ()
        point, sums, kept, direction = (np.zeros((features + 1, *tasks)) for _ in range(4))
        inside, hessian = np.zeros(features, np.int8), np.zeros((*tasks, 0, 0))
        return cls(point, inside, 0.0, sums, hessian, 0.0, kept, -1.0, direction, 0.0, 1.0)

    @property
    def coordinates(self) -> np.ndarray:
        """Those of the manifold."""
        return np.flatnonzero(self.inside)

    def features(self, units: Units) -> np.ndarray:
        """Those of the manifold, which may have several coordinates each."""
        mine = self.coordinates
        return mine if units.members is None else np.unique(units.members[mine])


def opened(
    problem: Problem, units: Units, inside: np.ndarray, w: np.ndarray, bias: Any
) -> ManifoldSums:
    """Ready for the first pass of phase two, from this point and on these units."""
    return _emptied(units, ended_at(problem, units, inside, w, bias))


def ended_at(
    problem: Problem, units: Units, inside: np.ndarray, w: np.ndarray, bias: Any
) -> ManifoldSums:
    """A point that no sums are to come for: the Hessian is empty, however large the manifold."""
    empty, point = ManifoldSums.empty(problem), np.concatenate([w, np.asarray(bias)[None]])
    return empty._replace(point=point, inside=_mask(problem, units, inside))


def added(problem: Problem, units: Units, s: ManifoldSums, chunk: Chunk) -> ManifoldSums:
    """With the sums of some more rows."""
    if problem.has_tasks:
        return s._replace(**added_of_tasks(problem, s, chunk))
    whole, (weight, order) = View.whole(chunk, units.members), (chunk.weight, chunk.order)
    p = predicted(whole, s.point[:-1], s.point[-1])
    gradient = np.zeros(chunk.rows.shape[1] + 1)
    value = derivatives(*chunk, problem.loss, p, gradient, np.zeros((0, 0)), False)
    if units.members is not None:
        gradient = np.append(gradient[units.members], gradient[-1])
    few = copied_columns(whole, s.coordinates).chunk
    width = few.rows.shape[1]
    part, hessian = np.zeros(width + 1), np.zeros((width + 1, width + 1))
    blocked = few.rows.stored > 0.25 * few.rows.shape[0] * max(width, 1)
    derivatives(*few, problem.loss, p, part, hessian, blocked)
    return s._replace(
        value=s.value + float(value), sums=s.sums + gradient, hessian=s.hessian + hessian,
        mass=s.mass + float(np.sum(weight[order])),
    )  # fmt: skip


def delta_of(problem: Problem, s: ManifoldSums) -> float:
    """delta at the point where the sums were taken."""
    slope = s.sums[-1] / s.mass if problem.fit_intercept else np.zeros_like(s.sums[-1])
    return distance(problem.penalty, s.point[:-1], s.sums[:-1] / s.mass, slope)


def stepped(problem: Problem, units: Units, s: ManifoldSums, most: int) -> ManifoldSums:
    """Keep the point if it kept what was promised, and go on from it; else half the way back.

    The manifold grows to ``most`` units at most.
    """
    value = s.value / s.mass + evaluate(problem.penalty, s.point[:-1].T)
    promised = s.best + 1e-3 * s.length * s.slope + 1e-14 * abs(s.best)
    if s.best >= 0.0 and not value <= promised and s.length > 1e-12:
        half = 0.5 * s.length
        return _emptied(units, s._replace(point=s.kept + half * s.direction, length=half))
    gradient = s.sums / s.mass
    if not problem.fit_intercept:
        gradient[-1] = 0.0
    if problem.has_tasks:
        target = target_of_tasks(problem, s, gradient)
    else:
        target = _target(problem, units, s, gradient)
    direction = target - s.point
    before, after = (evaluate(problem.penalty, at[:-1].T) for at in (s.point, target))
    slope = float(np.sum(gradient * direction)) + after - before
    # Units that the manifold missed join it for the next Hessian.
    known = units.with_any(s.inside > 0)
    missed = tempted(problem.penalty, units, s.point[:-1], gradient[:-1]) & ~known
    room = most - int(np.count_nonzero(known))
    joining = strongest(problem.penalty, units, gradient[:-1], np.flatnonzero(missed), room)
    known[joining] = True
    inside = _mask(problem, units, known)
    return _emptied(units, s._replace(
        point=target, inside=inside, kept=s.point.copy(), best=value, direction=direction,
        slope=slope, length=1.0,
    ))  # fmt: skip


def _target(problem: Problem, units: Units, s: ManifoldSums, gradient: np.ndarray) -> np.ndarray:
    """Where the quadratic model plus the penalty is smallest on the manifold."""
    chosen = np.flatnonzero(units.with_any(s.inside > 0))
    # The units' coordinates lie side by side for the blocks, and their features in order for sums.
    mine = units.coordinates(chosen) if units.grouped else s.coordinates
    features = s.features(units)
    at = np.searchsorted(features, mine if units.members is None else units.members[mine])
    own = np.zeros(features.size + 1)
    own[at], own[-1] = gradient[mine], gradient[-1]
    S, g, mixed, level = reduced_model(
        whole_hessian(s.hessian / s.mass), own, problem.fit_intercept
    )
    w = s.point[mine]
    if units.grouped:
        norms = norms_of(problem.penalty, chosen)
        target = descend_blocks(S, g, chosen, units.starts(chosen), at, problem.penalty, norms, w)
    else:
        target = w.copy()
        descend_matrix(S, g, w, mine, problem.penalty, target)
    out = s.point.copy()
    out[mine] = target
    if level > 0.0:
        moves = np.bincount(at, target - w, features.size)
        out[-1] -= (gradient[-1] + float(mixed @ moves)) / level
    return out


def _mask(problem: Problem, units: Units, chosen: np.ndarray) -> np.ndarray:
    mask = np.zeros(problem.n_features, np.int8)
    mask[units.coordinates(np.flatnonzero(chosen))] = 1
    return mask


def _emptied(units: Units, s: ManifoldSums) -> ManifoldSums:
    """For the sums of the next pass."""
    size = s.features(units).size + 1
    return s._replace(
        value=0.0,
        sums=np.zeros_like(s.sums),
        mass=0.0,
        hessian=np.zeros((*s.hessian.shape[:-2], size, size)),
    )


def added_up(parts: list[Any], base: ManifoldSums) -> ManifoldSums:
    """Of several shards': what each has added to the base's sums."""
    value, mass = base.value, base.mass
    sums, hessian = base.sums.copy(), base.hessian.copy()
    for part in parts:
        value += part.value - base.value
        mass += part.mass - base.mass
        sums += part.sums - base.sums
        hessian += part.hessian - base.hessian
    return base._replace(value=value, mass=mass, sums=sums, hessian=hessian)
