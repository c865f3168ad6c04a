"""Checks of ``merge``: states of shards become one, and what they share is counted once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from thresher.solvers import Chunk, Problem, Solver, driver
from thresher.testing._require import require, require_close

#: Of what training gains over the zero model, the part that merging may lose against one stream.
#: Averaged iterates of K shards are as old as the steps of one of them, so that with steps of
#: 1/sqrt(t) they trail a stream that took K times as many: by up to a fifth on so few rows.
LOSS_BY_MERGING = 0.25
_ROUNDS = 8


class Case(NamedTuple):
    """A prepared solver, its problem and the rows to learn from."""

    solver: Solver
    problem: Problem
    chunk: Chunk
    exact: float  # what rounding may change
    X: np.ndarray  # the rows as they are

    @property
    def name(self) -> str:
        return type(self.solver).__name__

    def model(self, state: Any) -> np.ndarray:
        """Coefficients and intercept as one vector; scores of functions that are not linear."""
        found = self.solver.finish(self.problem, state)
        if not self.solver.linear:
            return found.scores(self.X).ravel()
        return np.append(np.asarray(found.coef, dtype=np.float64), found.intercept)

    def learn(self, state: Any, order: np.ndarray, shard: int = 0) -> Any:
        """The state after these rows, the given one left alone.  Shards draw numbers of their own:
        equal counters would draw equal ones."""
        problem = replace(self.problem, seed=self.problem.seed + shard)
        part = self.chunk._replace(order=order)
        return self.solver.update(problem, self.solver.copy(state), part)

    def merge(self, states: list[Any], base: Any, weights: list[float]) -> Any:
        return self.solver.merge(self.problem, states, base, weights)

    def objective(self, state: Any, factor: float = 1.0) -> float:
        """Of the model of a state, times a factor: with 0 that of the zero model."""
        found = self.solver.finish(self.problem, state)
        if not self.solver.linear:
            return self._loss(factor * found.scores(self.X).ravel())
        coef, intercept = factor * found.coef, factor * found.intercept
        return driver.objective(self.problem, self.chunk, coef, intercept)

    def _loss(self, scores: np.ndarray) -> float:
        """The mean loss of a function that is not linear, of one output."""
        value = np.vectorize(self.problem.loss.value)
        return float(np.mean(value(self.chunk.y, scores)))


def check_copy(case: Case, state: Any) -> None:
    """A copy equals its state and shares no memory with it."""
    copy = case.solver.copy(state)
    require(type(copy) is type(state), f"{case.name}: copy is a {type(copy).__name__}")
    for got, wanted in zip(_leaves(copy), _leaves(state), strict=True):
        require(np.array_equal(got, wanted), f"{case.name}: copy changed the state")
    require(not shares_memory(copy, state), f"{case.name}: copy shares memory with the state")


def check_merging(case: Case, seed: int) -> None:
    """One, two and three shards, from a new state and from one that has seen half of the rows."""
    order = np.random.default_rng([seed, 9]).permutation(case.chunk.order)
    half = order.size // 2
    fresh = case.solver.init(case.problem, case.chunk)
    for base, rest in ((fresh, order), (case.learn(fresh, order[:half]), order[half:])):
        orders = _shards(rest, 3)
        states = [case.learn(base, part, k) for k, part in enumerate(orders)]
        masses = [float(np.sum(case.chunk.weight[part])) for part in orders]
        _check_arguments(case, states, base, masses)
        _check_one(case, states[0], base, orders[1])
        _check_copies(case, states[1], base)
        _check_counters(case, states, base, masses)
        _check_weights(case, states, base, masses)
        _check_order(case, states, base, masses)
        for k in (2, 3):
            _check_rounds(case, base, rest, k)


def _shards(order: np.ndarray, k: int) -> list[np.ndarray]:
    """Parts of different sizes."""
    marks = {2: [0.6], 3: [0.5, 0.8]}[k]
    return np.split(order, [int(mark * order.size) for mark in marks])


def _check_arguments(case: Case, states: list[Any], base: Any, masses: list[float]) -> None:
    before = pickle.dumps((states, base))
    merged = case.merge(states, base, masses)
    require(pickle.dumps((states, base)) == before, f"{case.name}: merge changed its arguments")
    shared = any(shares_memory(merged, state) for state in (*states, base))
    require(not shared, f"{case.name}: the merged state shares memory with its parts")
    nothing = case.merge(states, base, [0.0] * len(states))
    _same(case, "merging shards of no mass", nothing, base)


def _check_one(case: Case, state: Any, base: Any, more: np.ndarray) -> None:
    """Nothing changes, neither in the model nor in what further rows make of it."""
    merged = case.merge([state], base, [3.0])
    _same(case, "merging one state", merged, state)
    _same(case, "merging, then more rows,", case.learn(merged, more), case.learn(state, more))


def _check_copies(case: Case, state: Any, base: Any) -> None:
    """Of k equal states a sum is base + k (state - base), an average of iterates is the state."""
    for k in (2, 3):
        merged = case.merge([state] * k, base, [2.0] * k)
        for field in case.solver.sum_fields:
            start, value = (np.asarray(getattr(s, field), np.float64) for s in (base, state))
            require_close(
                np.asarray(getattr(merged, field)), start + k * (value - start), case.exact,
                f"{case.name}: merging {k} equal states must add {field} to the base's",
            )  # fmt: skip
        if "step" not in case.solver.sum_fields:
            _same(case, f"merging {k} equal states", merged, state)


def _check_counters(case: Case, states: list[Any], base: Any, masses: list[float]) -> None:
    """A clock ends between the shards' own and the sum of their steps; accounts add up."""
    merged = case.merge(states, base, masses)
    steps = [int(s.step) for s in states]
    most = base.step + sum(step - base.step for step in steps)
    require(
        min(steps) <= merged.step <= most,
        f"{case.name}: {merged.step} steps after merging shards of {steps} from {base.step}",
    )
    for field in case.solver.sum_fields:
        start = np.asarray(getattr(base, field), np.float64)
        added = sum(np.asarray(getattr(s, field), np.float64) - start for s in states)
        require_close(
            np.asarray(getattr(merged, field)), start + added, case.exact,
            f"{case.name}: merging must add up {field} and count the base once",
        )  # fmt: skip


def _check_weights(case: Case, states: list[Any], base: Any, masses: list[float]) -> None:
    for k in range(len(states)):
        others = [j for j in range(len(states)) if j != k]
        none = [0.0 if j == k else mass for j, mass in enumerate(masses)]
        absent = case.merge([states[j] for j in others], base, [masses[j] for j in others])
        _same(case, f"weight zero of shard {k}", case.merge(states, base, none), absent)
    if "step" not in case.solver.sum_fields:
        a, b = states[:2]
        twice = case.merge([a, b, b], base, [1.0] * 3)
        _same(case, "weight two of a shard", case.merge([a, b], base, [1.0, 2.0]), twice)


def _check_order(case: Case, states: list[Any], base: Any, masses: list[float]) -> None:
    turned = case.merge(states[1:] + states[:1], base, masses[1:] + masses[:1])
    _same(case, "another order of the shards", turned, case.merge(states, base, masses))


def _check_rounds(case: Case, base: Any, rows: np.ndarray, k: int) -> None:
    """Shards that are merged after each of a few rounds learn what one stream learns."""
    merged = one = base
    for orders in _rounds(rows, k):
        states = [case.learn(merged, order, shard) for shard, order in enumerate(orders)]
        masses = [float(np.sum(case.chunk.weight[order])) for order in orders]
        merged = case.merge(states, merged, masses)
        one = case.learn(one, np.concatenate(orders))
    if case.solver.merges_exactly:
        _same(case, f"{k} shards against one stream", merged, one, 100.0)
    start = case.objective(one, 0.0)
    reached, wanted = case.objective(merged), case.objective(one)
    allowed = wanted + LOSS_BY_MERGING * max(start - wanted, 0.0)
    require(
        reached <= allowed,
        f"{case.name}: {k} shards reach the objective {reached}, one stream {wanted} (allowed: "
        f"{allowed}, of {start} for the zero model)",
    )


def _rounds(rows: np.ndarray, k: int) -> Iterator[list[np.ndarray]]:
    """Each shard keeps its rows and visits them in another order each round."""
    rng = np.random.default_rng(k)
    for _ in range(_ROUNDS):
        yield [rng.permutation(part) for part in _shards(rows, k)]


def _same(case: Case, what: str, got: Any, wanted: Any, more: float = 1.0) -> None:
    a, b = case.model(got), case.model(wanted)
    error = float(np.max(np.abs(a - b))) / max(1.0, float(np.max(np.abs(b))))
    allowed = more * case.exact
    require(
        error <= allowed,
        f"{case.name}: {what} changes the model by {error:.3g} (allowed {allowed:.3g})",
    )


def shares_memory(a: Any, b: Any) -> bool:
    return any(np.shares_memory(x, y) for x in _leaves(a) for y in _leaves(b))


def _leaves(value: Any) -> Iterator[np.ndarray]:
    """All arrays and numbers of a state."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield np.asarray(value)
