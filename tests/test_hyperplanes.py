"""Multi-hyperplane machines against the paper's algorithm in plain NumPy, and their promises."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from thresher import LinearClassifier, Status
from thresher._rows import as_rows
from thresher.estimators.hyperplanes import MultiHyperplaneClassifier
from thresher.losses import Hinge
from thresher.penalties import L2
from thresher.solvers import Chunk, Problem
from thresher.solvers.hyperplane_lanes import prune
from thresher.solvers.hyperplanes import Hyperplanes, _margins


def board(rows, columns, n, seed):
    X = np.random.default_rng(seed).uniform(-1, 1, size=(n, 2))
    cells = np.floor((X + 1) / 2 * [rows, columns]).astype(int)
    return X, cells.sum(axis=1) % 2


def blobs(n=240, d=5, classes=3, seed=0):
    """Every class in two far pieces."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(2 * classes, d)) * 1.5
    piece = rng.integers(2 * classes, size=n)
    return centres[piece] + rng.normal(size=(n, d)), (piece % classes).astype(np.int32)


def chunk_of(X, y, weight=None, order=None):
    order = np.arange(len(y)) if order is None else order
    weight = np.ones(1) if weight is None else weight
    return Chunk(as_rows(X), np.asarray(y, np.int32), weight, order.astype(np.uint32))


def orders(n, passes, seed=0):
    return [np.random.default_rng([seed, p]).permutation(n) for p in range(passes)]


def problem_of(X, y, lam=1e-3, seed=0):
    return Problem(Hinge(), L2(lam), X.shape[1], dtype=X.dtype, seed=seed, outputs=max(y) + 1)


def learn(solver, problem, X, y, passes, batch=False):
    """The driver, written out: one online pass, then, in a batch, frozen ones."""
    solver = replace(solver, average=False, alternating=batch)
    state = solver.init(problem, chunk_of(X, y))
    for p, order in enumerate(passes):
        state = solver.between(problem, state, chunk_of(X, y), p, None)
        state = solver.update(problem, state, chunk_of(X, y, order=order))
    return state


class Reference:
    """Djuric (2014), algorithms 4 and 5 on the weights themselves, with decay at every step."""

    def __init__(self, solver, lam, classes, d):
        self.solver, self.lam, self.t, self.serial = solver, lam, 0, 0
        self.W, self.owner, self.uid, self.nonzero = {}, {}, {}, {}
        self.births = self.prunes = 0
        for c in range(classes):
            self.reserve(c, d + 1)

    def reserve(self, c, d):
        lane = min(set(range(1000)) - set(self.W))
        self.W[lane], self.owner[lane], self.nonzero[lane] = np.zeros(d), c, False
        self.uid[lane] = self.serial
        self.serial += 1

    def of_class(self, c):
        return [s for s in self.W if self.owner[s] == c and self.nonzero[s]]

    def best(self, x, lanes):
        return max(sorted(lanes), key=lambda s: self.W[s] @ x)

    def step(self, x, c, wanted=None):
        """One update; returns the identity of the weight the row belongs to."""
        self.t += 1
        mine = [s for s in self.W if self.owner[s] == c]
        own = next((s for s in mine if self.uid[s] == wanted), None)
        own = self.best(x, mine) if own is None else own
        rival = self.best(x, [s for s in self.W if self.owner[s] != c])
        loss = 1.0 + self.W[rival] @ x - self.W[own] @ x
        identity = self.uid[own]
        for s in self.W:
            self.W[s] = self.W[s] * (1.0 - 1.0 / self.t)
        if loss > 0.0:
            for s, sign in ((own, 1.0), (rival, -1.0)):
                self.W[s] = self.W[s] + sign * x / (self.lam * self.t)
                if not self.nonzero[s]:
                    self.nonzero[s] = True
                    self.births += 1
                    if len(self.of_class(self.owner[s])) < self.solver.cap:
                        self.reserve(self.owner[s], x.size)
        if self.t % self.solver.every == 0:
            self.prune(x.size)
        return identity

    def prune(self, d):
        total, limit = 0.0, self.solver.threshold / (self.t * self.lam)
        for s in sorted((s for s in self.W if self.nonzero[s]), key=lambda s: self.norm(s)):
            if np.sqrt(total + self.norm(s) ** 2) > limit:
                return
            c = self.owner[s]
            if len(self.of_class(c)) == 1:
                continue
            total += self.norm(s) ** 2
            full = len(self.of_class(c)) == self.solver.cap
            for table in (self.W, self.owner, self.uid, self.nonzero):
                del table[s]
            self.prunes += 1
            if full:
                self.reserve(c, d)

    def norm(self, s):
        return np.linalg.norm(self.W[s])

    def learn(self, X, y, passes, batch):
        X = np.column_stack([X, np.full(len(X), self.solver.constant)])
        wanted = dict.fromkeys(range(len(X)))
        for p, order in enumerate(passes):
            for i in order:
                wanted[i] = self.step(X[i], y[i], wanted[i] if batch and p else None)
            if batch and 0 < p < len(passes) - 1:
                for i in range(len(X)):
                    mine = [s for s in self.W if self.owner[s] == y[i]]
                    wanted[i] = self.uid[self.best(X[i], mine)]
        return self

    def weights(self):
        lanes = sorted((s for s in self.W if self.nonzero[s]), key=lambda s: (self.owner[s], s))
        return np.array([self.W[s] for s in lanes]), [self.owner[s] for s in lanes]


SETTINGS = {
    "pegasos": (0.02, Hyperplanes(cap=1, threshold=0.0)),
    "amm": (0.005, Hyperplanes(cap=6, every=70, threshold=8.0, constant=0.7)),
    "amm at its cap": (0.005, Hyperplanes(cap=2, every=50, threshold=4.0)),
}


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_equals_the_published_algorithm(name, batch):
    (X, y), (lam, solver) = blobs(), SETTINGS[name]
    passes, problem = orders(len(y), 4), problem_of(X, y, lam)
    reference = Reference(solver, lam, 3, X.shape[1]).learn(X, y, passes, batch)
    state = learn(solver, problem, X, y, passes, batch)
    wanted, owner = reference.weights()
    got, state = solver.finish(problem, state), state.lanes
    np.testing.assert_array_equal(got.owners, owner)
    order = np.lexsort((got.intercept, got.owners)), np.lexsort((wanted[:, -1], owner))
    np.testing.assert_allclose(got.coef[order[0]], wanted[order[1], :-1], rtol=1e-8, atol=1e-9)
    intercept = wanted[order[1], -1] * solver.constant
    np.testing.assert_allclose(got.intercept[order[0]], intercept, rtol=1e-8, atol=1e-9)
    assert (state.births, state.prunes) == (reference.births, reference.prunes)
    if name != "pegasos":
        assert state.prunes > 0


def test_the_average_is_the_mean_of_the_sums_over_the_steps():
    X, y = blobs()
    lam, solver = SETTINGS["pegasos"]  # no births and prunes on the way
    (first, second), problem = orders(len(y), 2), problem_of(X, y, lam)
    state = learn(solver, problem, X, y, [first])
    state = solver.between(problem, state, None, 1, planned=2)  # the last pass is averaged
    total, steps = 0.0, 0
    for i in second[:45]:
        state = solver.update(problem, state, chunk_of(X, y, order=np.array([i])))
        last = state._replace(lanes=state.lanes._replace(averaged=0))
        plain = solver.finish(problem, last)
        unit = lam * state.step
        total, steps = total + unit * np.column_stack([plain.coef, plain.intercept]), steps + 1
    got = solver.finish(problem, state)
    mean = total / steps / (lam * (state.step - (steps - 1) / 2))
    np.testing.assert_allclose(np.column_stack([got.coef, got.intercept]), mean, rtol=1e-9)


def test_pegasos_is_amm_with_one_weight_per_class():
    X, y = blobs()
    common = {"alpha": 0.01, "random_state": 3}
    one = MultiHyperplaneClassifier("pegasos", **common).fit(X, y)
    amm = MultiHyperplaneClassifier(max_weights=1, prune_norm=0.0, **common).fit(X, y)
    np.testing.assert_array_equal(one.coef_, amm.coef_)
    np.testing.assert_array_equal(one.weight_classes_, [0, 1, 2])


def crammer_singer(W, X, y, lam, weight=None):
    scores = X @ W.T
    own = scores[np.arange(len(y)), y]
    scores[np.arange(len(y)), y] = -np.inf
    loss = np.maximum(0.0, 1.0 + scores.max(axis=1) - own)
    return 0.5 * lam * np.sum(W**2) + np.average(loss, weights=weight)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_pegasos_reaches_the_optimum_of_crammer_and_singer():
    from sklearn.svm import LinearSVC

    (X, y), lam = blobs(), 0.02
    peer = LinearSVC(
        C=1 / (lam * len(y)), multi_class="crammer_singer", fit_intercept=False, tol=1e-8,
        max_iter=100_000, random_state=0,
    ).fit(X, y)  # fmt: skip
    ours = MultiHyperplaneClassifier("pegasos", alpha=lam, bias=0.0, max_iter=300, random_state=0)
    optimum = crammer_singer(peer.coef_, X, y, lam)
    reached = crammer_singer(ours.fit(X, y).coef_, X, y, lam)
    assert optimum * (1 - 1e-6) <= reached <= optimum * 1.01
    weight = np.random.default_rng(0).integers(0, 4, size=len(y))
    repeated = ours.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).coef_
    weighted = ours.fit(X, y, sample_weight=weight).coef_
    values = [crammer_singer(W, X, y, lam, weight) for W in (repeated, weighted)]
    assert values[0] == pytest.approx(values[1], rel=0.01)


@pytest.mark.parametrize(("dtype", "scale"), [(np.float64, False), (np.float32, True)])
def test_sparse_rows_equal_dense_rows(dtype, scale):
    X, y = blobs()
    X = np.where(np.abs(X) > 0.8, X, 0).astype(dtype)
    # With a shift only dense rows are centred: compare what both can do.
    options = {"scale": scale, "random_state": 0, "max_iter": 3, "bias": 0.0 if scale else 1.0}
    dense = MultiHyperplaneClassifier(**options).fit(X, y)
    thin = MultiHyperplaneClassifier(**options).fit(sparse.csr_array(X), y)
    assert dense.coef_.dtype == thin.coef_.dtype == dtype
    tol = 1e-8 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(dense.coef_, thin.coef_, rtol=tol, atol=tol)
    np.testing.assert_allclose(
        dense.decision_function(X), thin.decision_function(sparse.csr_array(X)), rtol=tol, atol=tol
    )


STREAM = {"alpha": 1e-3, "prune_every": 60, "prune_norm": 12.0, "random_state": 0}


@pytest.mark.parametrize("algorithm", ["amm", "gamm"])
def test_a_stream_may_be_cut_anywhere_and_resumed(algorithm):
    X, y = blobs(n=700)
    whole = MultiHyperplaneClassifier(algorithm, **STREAM).partial_fit(X, y, classes=[0, 1, 2])
    parts = MultiHyperplaneClassifier(algorithm, **STREAM)
    for a in range(0, len(y), 37):
        parts.partial_fit(X[a : a + 37], y[a : a + 37], classes=[0, 1, 2])
        parts = pickle.loads(pickle.dumps(parts))
    np.testing.assert_array_equal(whole.coef_, parts.coef_)
    np.testing.assert_array_equal(whole.weight_ids_, parts.weight_ids_)
    assert whole.prunes_ == parts.prunes_ > 16
    assert (whole.clones_ > 0) == (algorithm == "gamm")


@given(
    seed=st.integers(0, 1000),
    cap=st.integers(1, 20),
    threshold=st.floats(0.0, 60.0),
    clone=st.sampled_from([0.0, 0.3]),
    batch=st.booleans(),
)
def test_books_balance(seed, cap, threshold, clone, batch):
    """Counters, caps, norms, ids and zero weights after any run, lanes grown and packed."""
    X, y = blobs(n=150, seed=seed)
    solver = Hyperplanes(cap=cap, every=40, threshold=threshold, clone=clone)
    problem = problem_of(X, y, seed=seed)
    state = learn(solver, problem, X, y, orders(150, 3, seed), batch).lanes
    live = state.hits > 0
    assert state.births + state.clones - state.prunes == live.sum() == state.sizes.sum()
    assert state.sizes.max() <= cap
    assert state.sizes.min() >= 1
    np.testing.assert_array_equal(np.bincount(state.owner[live], minlength=3), state.sizes)
    spare = (state.owner >= 0) & ~live
    np.testing.assert_array_equal(np.bincount(state.owner[spare], minlength=3), state.sizes < cap)
    assert not state.sums[:, ~live].any()
    assert not state.bias[~live].any()
    assert np.unique(state.ids[state.owner >= 0]).size == (state.owner >= 0).sum()
    norms = (state.sums**2).sum(axis=0) + state.bias**2 / solver.constant**2
    np.testing.assert_allclose(state.sqnorm, norms, rtol=1e-8, atol=1e-7)


@given(seed=st.integers(0, 1000), threshold=st.floats(0.0, 100.0))
def test_a_prune_stays_within_its_bound_and_is_greedy(seed, threshold):
    X, y = blobs(n=120, seed=seed)
    solver = Hyperplanes(every=10**6)
    state = learn(solver, problem_of(X, y), X, y, orders(120, 1, seed)).lanes
    before, owner, hits = state.sqnorm.copy(), state.owner.copy(), state.hits.copy()
    pruned, _ = prune(state, threshold, solver.cap, state.serial)
    gone = (hits > 0) & (state.hits == 0)
    assert pruned == gone.sum()
    assert np.sqrt(before[gone].sum()) <= threshold
    kept = state.hits > 0
    assert set(owner[kept]) == {0, 1, 2}
    spare = kept & (state.sizes[np.maximum(owner, 0)] > 1)
    if spare.any():  # the next one would have been too much
        assert before[gone].sum() + before[spare].min() > threshold**2


def test_rows_of_weight_zero_might_as_well_not_be_there():
    X, y = blobs()
    weight = np.where(np.arange(len(y)) % 3 == 0, 0.0, 2.0)
    options = {"order": "sequential", "random_state": 0, "alpha": 0.01, "prune_norm": 3.0}
    some = MultiHyperplaneClassifier(**options).fit(X, y, sample_weight=weight)
    few = MultiHyperplaneClassifier(**options).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(some.coef_, few.coef_, rtol=1e-9)


def test_class_weights_are_weights_of_rows():
    X, y = blobs()
    factors = {0: 1.0, 1: 3.0, 2: 0.5}
    by_class = MultiHyperplaneClassifier(class_weight=factors, random_state=0).fit(X, y)
    by_row = MultiHyperplaneClassifier(random_state=0)
    by_row.fit(X, y, sample_weight=np.array([factors[c] for c in y]))
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)


def test_checkerboards_are_learned_where_a_line_fails():
    X, y = board(3, 3, 6000, 0)
    X_test, y_test = board(3, 3, 3000, 1)
    assert LinearClassifier().fit(X, y).score(X_test, y_test) < 0.65
    gamm = MultiHyperplaneClassifier("gamm", max_iter=15, random_state=0).fit(X, y)
    assert gamm.score(X_test, y_test) > 0.97
    X, y = board(2, 2, 6000, 0)
    X_test, y_test = board(2, 2, 3000, 1)
    for variant in ("online", "batch"):
        amm = MultiHyperplaneClassifier(variant=variant, max_iter=15, random_state=0).fit(X, y)
        assert amm.score(X_test, y_test) > 0.98


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_calibrated(method, classes):
    X, y = blobs(n=1200, classes=classes)
    model = MultiHyperplaneClassifier(calibrate=method, random_state=0).fit(X[:600], y[:600])
    table = model.predict_proba(X[600:])
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    top = table.max(axis=1)
    bound = 0.15 if method == "isotonic" else 0.06  # one-vs-rest tables, normalised, are humble
    assert abs(top.mean() - np.mean(table.argmax(axis=1) == y[600:])) < bound
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X[600:])), table)
    assert not hasattr(MultiHyperplaneClassifier(), "predict_proba")


def test_progress_is_told_and_a_callback_can_stop(capsys):
    X, y = blobs()
    events = []
    model = MultiHyperplaneClassifier(
        verbose=1, callbacks=[events.append, lambda e: e.passes == 2], random_state=0
    ).fit(X, y)
    assert (model.status_, model.n_iter_, len(events)) == (Status.INTERRUPTED, 2, 2)
    assert 0.0 < events[1].residual < 1.0
    assert events[1].coef.shape[1] == 5
    assert capsys.readouterr().out.count("[thresher] pass") == 2


def test_batch_stops_once_no_row_changes_its_weight():
    X, y = board(1, 2, 400, 0)
    model = MultiHyperplaneClassifier(variant="batch", max_iter=200, random_state=0).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.n_iter_ < 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a positive number"),
        ({"alpha": float("nan")}, "alpha must be a positive number"),
        ({"prune_norm": -1.0}, "prune_norm must be a number of at least 0"),
        ({"max_weights": 0}, "max_weights must be a whole number of at least 1"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        ({"bias": -1.0}, "bias must be"),
        ({"clone_rate": 1.5}, r"clone_rate must be a number in \[0, 1\]"),
        ({"algorithm": "svm"}, "algorithm must be one of 'amm', 'gamm', 'pegasos'"),
        ({"order": "random"}, "order must be one of"),
        ({"calibrate": "platt"}, "calibrate must be"),
        ({"algorithm": "pegasos", "variant": "batch"}, "no variant='batch'"),
        ({"algorithm": "pegasos", "max_weights": 3}, "one weight per class"),
    ],
)
def test_bad_options_are_named(options, message):
    X, y = blobs(n=20)
    with pytest.raises(ValueError, match=message):
        MultiHyperplaneClassifier(**options).fit(X, y)


def test_bad_rows_are_refused():
    X, y = blobs(n=20)
    model = MultiHyperplaneClassifier()
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.zeros(20))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="too large to square"):
        model.fit((X * 1e30).astype(np.float32), y)
    model = MultiHyperplaneClassifier()
    with pytest.raises(ValueError, match="classes must be passed"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(AttributeError, match="partial_fit"):
        MultiHyperplaneClassifier(variant="batch").partial_fit(X, y, classes=[0, 1, 2])
    for bad in ({"every": 0}, {"cap": 0}, {"threshold": -1.0}, {"decay": 2.0}):
        with pytest.raises(ValueError, match="Hyperplanes"):
            Hyperplanes(**bad)


@pytest.mark.parametrize("width", [1, 6, 22, 90])  # 90: a row long enough to pass over zeros
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_margins_and_the_best_of_them(width, layout):
    rng = np.random.default_rng(width)
    X = rng.normal(size=(5, width)) * (rng.random((5, width)) < 0.3)
    sums, bias = rng.normal(size=(width, 32)), rng.normal(size=32)
    owner = rng.integers(-1, 3, size=32).astype(np.int32)
    margins = np.empty(32)
    for i in range(5):
        own, rival = _margins(as_rows(layout(X)), i, np.int32(1), sums, bias, owner, margins)
        np.testing.assert_allclose(margins, X[i] @ sums + bias, atol=1e-12)
        assert own == margins[owner == 1].max()
        assert rival == margins[(owner >= 0) & (owner != 1)].max()
