"""Distributed confidence-weighted learning (Djuric 2014, chapter 6): shards, and one reducer.

S1 is the waveform generator (Breiman et al., 1984): classes 1 and 2 against 3, 50,000 rows in M
shards of equal size, an AROW of each with all covariances and r = 5, merged at once.  S2, a log of
ad impressions, is not public; a stream of its shape stands in for it: 21 fields with the printed
cardinalities (those that are withheld are ours), hashed to 2^16 features with a variance each, a
label that depends on a few fields and pairs of them.  Shards are simulated one after the other on
one machine; *map* is the mean time of one of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score

from reproduction.protocol import Settings
from reproduction.report import Absent, table
from thresher._rows import as_rows
from thresher.losses import SquaredHinge
from thresher.penalties import L2
from thresher.solvers import Problem
from thresher.solvers._gaussian_merge import Gaussian, GaussianSums
from thresher.solvers.base import Chunk
from thresher.solvers.confidence import COMBINATIONS, Confidence
from thresher.solvers.confidence_diagonal import DiagonalConfidence
from thresher.solvers.confidence_full import FullConfidence
from thresher.solvers.confidence_rules import AROW

ROWS, TEST_ROWS, R, REPETITIONS = 50_000, 5_000, 5.0, 10
SHARDS = (2, 5, 10, 20, 40, 70, 100)
LOG_ROWS, LOG_TEST_ROWS, LOG_BLOCK = 10_000_000, 100_000, 100_000
LOG_SHARDS = (1, 10, 100, 1_000, 10_000)
BITS, LOG_R = 16, 0.3

#: values of each field; zero: a number.  Those that the thesis withholds are guesses.
FIELDS = {
    "device": 15, "os": 22, "browser": 100, "connection": 10, "state": 50, "city": 574,
    "isp": 2_000, "distance": 0, "account": 5_000, "creative": 20_000, "dimensions": 33,
    "kilobytes": 0, "region": 200, "space": 1_000, "position": 28, "hostname": 3_000,
    "network": 50, "serve_type": 10, "colo": 20, "hour": 24, "weekday": 7,
}  # fmt: skip

TEXT = """\
Figures 6.3 and 6.4: accuracy and time on the waveform data against the number of shards. *Total*
is one AROW over all rows, *single* one shard's, the others merge all shards: by symmetrised
divergence (AROW-MR with the corrected Riccati solution), by the product of what the shards have
added to the prior, and by averaging. Mean accuracy in percent over {runs} repetitions; the
deviation is that of AROW-MR. Times are of one repetition: *map* a shard's, *reduce* the merge by
divergence."""
REMARKS = """\
Published: single falls with M; AROW-MR rises above total, peaks near M = 40 and is back at total
for M = 100; about ten times faster. With the rule of the AROW paper, which acts on every margin
below one and not on mistakes only, we find the fall of single, and a gain of AROW-MR over total of
less than a tenth of a point for M from 5 to 100, with no return to total; repetitions differ by
four tenths. Averaging is as good, and the product goes on rising. The reducer's time
passes that of a mapper at M = 20."""
LOG_TEXT = """\
Table 6.2 in kind: {rows:,} rows of a generated log (the thesis has 997 million), AROW with a
variance for each of 2^16 hashed features, r = 0.3 in units of the prior. AUC on {test:,} rows, in
percent, after merging M shards in each way; *map* is the time of a shard, *reduce* that of merging
by divergence, for which shards send five sums of the length of the features."""
LOG_REMARKS = """\
Published (AROW-MR): AUC .8442 for one mapper, .8552, .8577, .8662 and .8621 for 100, 500, 1,000
and 10,000 mappers; map time falls from 408 hours to 2 minutes, reduce time rises from a minute to
an hour. The pattern of the times is the same: map falls as 1 / M, reduce rises as M, and between
them lies the best M. The pattern of the AUC is not: with as many rows to a shard as in the thesis
(a million, M = 10) merging neither gains nor loses on rows that are drawn alike, and short shards
lose what few rows say of rare values. That is where the product, which the thesis does not have,
keeps most of it. A cluster would add reading, the start of the mappers (tens of seconds) and the
way of the sums to the reducer: {megabytes:.1f} MB for each shard, unless mappers send only the
features that they have met; with a tree of reducers the last step costs log M additions instead
of M."""
ABSENT: Sequence[Absent] = (
    Absent("times and AUC of AROW-MR", "table 6.2", "a proprietary log on a cluster"),
    Absent("VW, logistic regression by AllReduce", "table 6.2", "a proprietary log on a cluster"),
)


_NOTHING = csr_array((0, 1 << BITS)), np.zeros(0)


class Shards(NamedTuple):
    states: list[Any]
    seconds: float  # of a shard, on average


def run(settings: Settings) -> str:
    few = min(settings.runs, REPETITIONS)
    return "\n\n".join([_waveform(few, settings.seed), log(LOG_ROWS, settings.seed)])


# ---------------------------------------------------------------- S1


def waveform(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 21 features; +1 for the first two classes, -1 for the third."""
    places = np.arange(1, 22)
    waves = np.stack([np.maximum(6 - np.abs(places - c), 0) for c in (11, 15, 7)]).astype(float)
    kind = rng.integers(3, size=n)
    first, second = np.array([[0, 1], [0, 2], [1, 2]])[kind].T
    share = rng.uniform(size=(n, 1))
    X = share * waves[first] + (1.0 - share) * waves[second] + rng.normal(size=(n, 21))
    return X, np.where(kind < 2, 1.0, -1.0)


def _waveform(runs: int, seed: int) -> str:
    problem = Problem(SquaredHinge(), L2(1.0), 21)
    solvers = {how: FullConfidence(AROW(R), combine=how) for how in COMBINATIONS}
    solver = solvers["product"]
    found: dict[int, list[list[float]]] = {m: [] for m in SHARDS}
    times: dict[int, tuple[float, float]] = {}
    for number in range(runs + 1):  # the first one compiles, and is left out
        rng = np.random.default_rng([seed, number])
        X, y = waveform(ROWS, rng)
        X_test, y_test = waveform(TEST_ROWS, rng)

        def accuracy(state: Any, X_test: Any = X_test, y_test: Any = y_test) -> float:
            scores = solver.finish(problem, state).scores(X_test)[:, 0]
            return 100.0 * float(np.mean(np.sign(scores) == y_test))

        total = accuracy(_shards(solver, problem, X, y, 1).states[0])
        for m in SHARDS if number else SHARDS[:1]:
            shards = _shards(solver, problem, X, y, m)
            merged = [accuracy(_merged(s, problem, shards)[0]) for s in solvers.values()]
            reduce = _merged(solvers["divergence"], problem, shards)[1]
            times[m] = shards.seconds, reduce
            if number:
                found[m].append([total, accuracy(shards.states[0]), *merged])
    lines = []
    for m in SHARDS:
        mean, deviation = np.mean(found[m], axis=0), np.std(found[m], axis=0)
        by_name = dict(zip(("total", "single", *COMBINATIONS), mean, strict=True))
        spread = deviation[2 + COMBINATIONS.index("divergence")]
        lines.append([
            m, f"{by_name['total']:.2f}", f"{by_name['single']:.2f}",
            f"**{by_name['divergence']:.2f}** ({spread:.2f})", f"{by_name['product']:.2f}",
            f"{by_name['average']:.2f}", f"{1e3 * times[m][0]:.1f}", f"{1e3 * times[m][1]:.1f}",
        ])  # fmt: skip
    header = ["M", "total", "single", "AROW-MR", "product", "average", "map ms", "reduce ms"]
    return f"{TEXT.format(runs=runs)}\n\n{table(header, lines)}\n\n{REMARKS}"


# ---------------------------------------------------------------- S2


def impressions(n: int, rng: np.random.Generator) -> tuple[csr_array, np.ndarray]:
    """Hashed rows of a log, one non-zero for each field, and whether the ad was late (+1)."""
    width = 1 << BITS
    columns, values = np.empty((n, len(FIELDS)), dtype=np.int32), np.ones((n, len(FIELDS)))
    logit = np.full(n, -1.0)
    drawn: dict[str, np.ndarray] = {}
    for k, (name, size) in enumerate(FIELDS.items()):
        law = np.random.default_rng(k)  # of the field, the same in every sample
        if not size:
            values[:, k] = rng.gamma(2.0, 0.5, size=n)
            columns[:, k] = law.integers(width)
            logit += 0.4 * (values[:, k] - 1.0)
            continue
        # Frequencies fall as one over the rank, as those of sites and accounts do.
        codes = np.minimum((size ** rng.uniform(size=n)).astype(np.int64) - 1, size - 1)
        drawn[name] = codes
        columns[:, k] = law.integers(width, size=size)[codes]
        logit += 0.35 * law.normal(size=size)[codes]
    pair = np.random.default_rng(99).normal(size=(FIELDS["connection"], FIELDS["dimensions"]))
    logit += 0.8 * pair[drawn["connection"], drawn["dimensions"]]
    y = np.where(rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-logit)), 1.0, -1.0)
    starts = np.arange(0, columns.size + 1, len(FIELDS), dtype=np.int32)
    X = csr_array((values.ravel(), columns.ravel(), starts), shape=(n, width))
    X.sum_duplicates()
    return X, y


def log(rows: int, seed: int, shards: Sequence[int] = LOG_SHARDS) -> str:
    """All numbers of shards in one go over the rows, which are made as they are needed."""
    problem = Problem(SquaredHinge(), L2(float(len(FIELDS))), 1 << BITS)
    jobs = {m: MapReduce(DiagonalConfidence(AROW(LOG_R)), problem, rows // m) for m in shards}
    block = min(LOG_BLOCK, rows)
    for number in range(rows // block):
        X, y = impressions(block, np.random.default_rng([seed, number]))
        for job in jobs.values():
            job.take(X, y)
    X_test, y_test = impressions(LOG_TEST_ROWS, np.random.default_rng([seed, 10**6]))
    lines = []
    for m, job in jobs.items():
        auc = {
            how: 100.0 * roc_auc_score(y_test, X_test @ belief.mean[:-1])
            for how, belief in job.merged().items()
        }
        lines.append([
            f"{m:,}", f"**{auc['divergence']:.2f}**", f"{auc['product']:.2f}",
            f"{auc['average']:.2f}", f"{job.map_seconds / m:.4f}", f"{job.reduce_seconds:.2f}",
        ])  # fmt: skip
    header = ["M", "AROW-MR", "product", "average", "map s", "reduce s"]
    text = LOG_TEXT.format(rows=rows, test=LOG_TEST_ROWS)
    remarks = LOG_REMARKS.format(megabytes=5 * 8 * (1 << BITS) / 1e6)
    return f"{text}\n\n{table(header, lines)}\n\n{remarks}"


class MapReduce:
    """Shards one after the other, and sums of what they send: one belief in memory, not M."""

    def __init__(self, solver: Confidence, problem: Problem, shard_rows: int):
        self.solver, self.problem, self.shard_rows = solver, problem, shard_rows
        self.prior = solver.gaussian(solver.init(problem), 0)
        self.state, self.missing = solver.init(problem), shard_rows
        self.sums: Any = None
        self.precision = 1.0 / self.prior.covariance
        self.natural, self.average = (np.zeros_like(self.prior.mean) for _ in range(2))
        self.map_seconds = self.reduce_seconds = 0.0
        self.solver.update(problem, solver.init(problem), _chunk(*_NOTHING, 0, 0))  # compile

    def take(self, X: csr_array, y: np.ndarray) -> None:
        at = 0
        while at < y.size:
            stop = min(at + self.missing, y.size)
            chunk = _chunk(X, y, at, stop)
            started = time.perf_counter()
            self.state = self.solver.update(self.problem, self.state, chunk)
            self.map_seconds += time.perf_counter() - started
            self.missing -= stop - at
            at = stop
            if not self.missing:
                self._send()
                self.state, self.missing = self.solver.init(self.problem), self.shard_rows

    def _send(self) -> None:
        """All shards have as many rows, and therefore the same weight."""
        belief = self.solver.gaussian(self.state, 0)
        started = time.perf_counter()
        sent = GaussianSums.of(belief, 1.0, self.prior.mean)
        self.map_seconds += time.perf_counter() - started
        started = time.perf_counter()
        self.sums = sent if self.sums is None else self.sums.plus(sent)
        self.reduce_seconds += time.perf_counter() - started
        self.precision += 1.0 / belief.covariance - 1.0 / self.prior.covariance
        self.natural += belief.mean / belief.covariance
        self.average += belief.mean

    def merged(self) -> dict[str, Gaussian]:
        started = time.perf_counter()
        centre = self.sums.centre()
        self.reduce_seconds += time.perf_counter() - started
        shared = 1.0 / self.precision
        return {
            "divergence": centre,
            "product": Gaussian(shared * self.natural, shared),
            "average": Gaussian(self.average / self.sums.weight, shared),
        }


# ---------------------------------------------------------------- shards


def _shards(solver: Confidence, problem: Problem, X: Any, y: np.ndarray, m: int) -> Shards:
    """One state for each of ``m`` shards of neighbouring rows, from the same prior."""
    states, seconds = [], 0.0
    for part in np.array_split(np.arange(y.size), m):
        state, chunk = solver.init(problem), _chunk(X, y, part[0], part[-1] + 1)
        started = time.perf_counter()
        states.append(solver.update(problem, state, chunk))
        seconds += time.perf_counter() - started
    return Shards(states, seconds / m)


def _chunk(X: Any, y: np.ndarray, start: int, stop: int) -> Chunk:
    order = np.arange(stop - start, dtype=np.uint32)
    return Chunk(as_rows(X[start:stop]), y[start:stop], np.ones(stop - start), order)


def _merged(solver: Confidence, problem: Problem, shards: Shards) -> tuple[Any, float]:
    base, weights = solver.init(problem), [s.mass for s in shards.states]
    started = time.perf_counter()
    state = solver.merge(problem, shards.states, base, weights)
    return state, time.perf_counter() - started
