"""Functions of every kind obey one protocol: see ``thresher.functions``."""

import copy
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from thresher.functions import (
    BeliefFunction,
    DiagonalSpread,
    Duels,
    Expansion,
    FullSpread,
    KernelSum,
    LinearFunction,
    LowRankSpread,
    MappedFunction,
    Planes,
    SupportFunction,
    Units,
)
from thresher.functions.base import bytes_of
from thresher.kernels.gram import gram
from thresher.maps import BankFeatures, FourierFeatures, LocalNystroem, Nystroem
from thresher.registry import KERNELS, MAPS

N, D = 60, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.7)
X[7] = 0.0
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
UNITS = {
    "as they are": None,
    "scaled": Units(None, RNG.uniform(0.5, 2.0, D)),
    "standardised": Units(RNG.normal(size=D), RNG.uniform(0.5, 2.0, D)),
}
SMALL = {
    "nystroem": Nystroem(12),
    "local": LocalNystroem(8, cells=3),
    "fourier": FourierFeatures(9),
    "bank": BankFeatures(2, kernels=["rbf", "linear"]),
}
GAMMA = {"rbf": 0.3, "exponential": 0.3, "polynomial": 0.2, "sigmoid": 0.2}


def numbers(*shape):
    """Some of them zero: sizes count the others."""
    values = RNG.normal(size=shape)
    return np.where(RNG.random(shape) < 0.2, 0.0, values)


def kernel_of(name):
    return KERNELS[name](**({"gamma": GAMMA[name]} if name in GAMMA else {}))


def mapped(name, units, outputs):
    made = copy.deepcopy(SMALL[name]) if name in SMALL else MAPS[name]()
    if hasattr(made, "random_state"):
        made.set_params(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a stack's members: Y is noise
        made.learn(X if units is None else units.matrix(X), Y)
    linear = LinearFunction(numbers(outputs, made.width), numbers(outputs))
    return MappedFunction.folded(made, linear, D, units)


def planes(classes):
    owners = np.sort(np.r_[np.arange(classes), RNG.integers(classes, size=4)])
    return Planes(numbers(owners.size, D), numbers(owners.size), owners, np.arange(owners.size))


def belief(spread):
    return BeliefFunction(numbers(2, D), numbers(2), spread, 0.5, None)


HALF = numbers(2, D + 1, D + 1)
SPREADS = [
    DiagonalSpread(numbers(2, D + 1) ** 2),
    FullSpread(HALF @ HALF.transpose(0, 2, 1)),
    LowRankSpread(1.0 + numbers(2, D + 1) ** 2, 0.1 * numbers(2, 3, D + 1)),
]

FUNCTIONS = {
    "linear": LinearFunction(numbers(1, D), numbers(1)),
    "linear, three outputs": LinearFunction(numbers(3, D), numbers(3)),
    "linear, sparse": LinearFunction(sparse.csr_array(numbers(3, D)), numbers(3)),
    **{f"belief, {type(s).__name__}": belief(s) for s in SPREADS},
    "belief, standardised": belief(SPREADS[1]).unscaled(UNITS["standardised"]),
    "planes, two classes": planes(2),
    "planes, four classes": planes(4),
    **{
        f"{name}, {units}, {outputs}": mapped(name, UNITS[units], outputs)
        for name in MAPS
        for units, outputs in (("as they are", 1), ("scaled", 3), ("standardised", 1))
    },
    **{
        f"{name} expansion, {units}": Expansion(
            kernel_of(name), numbers(7, D), numbers(2, 7), numbers(2), UNITS[units]
        )
        for name in KERNELS
        for units in UNITS
    },
    "support vectors": SupportFunction(
        kernel_of("rbf"), numbers(7, D), numbers(2, 7), numbers(2), UNITS["standardised"]
    ),
    "sparse support vectors": SupportFunction(
        kernel_of("polynomial"), sparse.csr_matrix(numbers(7, D)), numbers(1, 7), numbers(1)
    ),
    "several kernels": KernelSum(
        (kernel_of("rbf"), kernel_of("polynomial")), (None, (2, 0)), numbers(3, 2), numbers(7, D),
        numbers(3, 7), numbers(3), UNITS["standardised"],
    ),
    "kernels on columns, shared weights": KernelSum(
        (kernel_of("linear"), kernel_of("rbf")), ((1,), (0, 3)), numbers(1, 2),
        sparse.csr_matrix(numbers(7, D)), numbers(3, 7), numbers(3),
    ),
    "duels": Duels(
        kernel_of("rbf"), numbers(7, D), numbers(2, 7), numbers(3), np.array([0, 3, 3, 7]),
        UNITS["scaled"],
    ),
}  # fmt: skip
every = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


def dense(values):
    return values.toarray() if sparse.issparse(values) else np.asarray(values)


WITH_VECTORS = (Expansion, SupportFunction, Duels, KernelSum)


def votes_by_formula(function, rows):
    """Duels one by one: who wins, and by how much in all."""
    K, k = gram(function.kernel, rows, function.vectors), function.outputs
    owners = np.repeat(np.arange(k), np.diff(function.starts))
    won, sums = np.zeros((len(rows), k)), np.zeros((len(rows), k))
    duels = iter(function.intercept)
    for i in range(k):
        for j in range(i + 1, k):
            coef = np.where(owners == i, function.coef[j - 1], 0.0)
            coef = np.where(owners == j, function.coef[i], coef)
            value = K @ coef + next(duels)
            won[:, j] += value > 0
            won[:, i] += value <= 0
            sums[:, j] += value
            sums[:, i] -= value
    return won + sums / (3.0 * (np.abs(sums) + 1.0))


def by_formula(function, rows):
    """Scores, written without the functions' own code."""
    units = getattr(function, "units", None)
    if units is not None:
        rows = (rows - (0.0 if units.shift is None else units.shift)) * units.scale
    if isinstance(function, Planes):
        scores = rows @ function.coef.T + function.intercept
        classes = range(function.owners.max() + 1)
        best = np.column_stack([scores[:, function.owners == c].max(axis=1) for c in classes])
        return best[:, 1:] - best[:, :1] if best.shape[1] == 2 else best
    if isinstance(function, Duels):
        return votes_by_formula(function, rows)
    if isinstance(function, KernelSum):
        out = np.tile(function.intercept, (len(rows), 1))
        for q, (kernel, columns) in enumerate(
            zip(function.kernels, function.columns_of, strict=True)
        ):
            own = slice(None) if columns is None else list(columns)
            K = gram(kernel, rows[:, own], dense(function.vectors)[:, own])
            out += K @ (function.weights[:, q, None] * function.coef).T
        return out
    if isinstance(function, WITH_VECTORS):
        features = gram(function.kernel, rows, dense(function.vectors))
    elif isinstance(function, MappedFunction):
        features = dense(function.map.features(rows))
    else:
        features = rows
    return features @ dense(function.coef).T + function.intercept


@every
def test_scores(function):
    scores = function.scores(X)
    assert scores.shape == (N, function.outputs)
    assert scores.dtype == np.float64
    assert function.features == D
    np.testing.assert_allclose(scores, by_formula(function, X), rtol=1e-9, atol=1e-9)


@every
def test_a_row_is_scored_the_same_in_any_company(function):
    together = function.scores(X)
    alone = np.vstack([function.scores(X[i : i + 1]) for i in range(N)])
    np.testing.assert_allclose(alone, together, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(function.scores(X[::-1])[::-1], together, rtol=1e-12, atol=1e-12)


# Units of sparse rows have no shift.
WITHOUT_SHIFT = {
    name: function
    for name, function in FUNCTIONS.items()
    if getattr(getattr(function, "units", None), "shift", None) is None
}


@pytest.mark.parametrize("function", WITHOUT_SHIFT.values(), ids=WITHOUT_SHIFT)
@pytest.mark.parametrize("storage", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_are_scored_as_dense_ones(function, storage):
    scores = function.scores(storage(X))
    assert isinstance(scores, np.ndarray)
    np.testing.assert_allclose(scores, function.scores(X), rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------- sizes and words


def nonzero(values):
    return np.count_nonzero(dense(values))


# Of a map's arrays; what is folded into the table is not needed any more.
TAKEN = ("landmarks_", "centres_", "frequencies_", "phases_")  # not units of the columns


@every
def test_size_counts_the_numbers_that_a_score_takes(function):
    if isinstance(function, MappedFunction):
        held = [getattr(function.map, name) for name in TAKEN if hasattr(function.map, name)]
        held += list(getattr(function.map, "trees_", ()))
        parts = getattr(function.map, "functions_", ())
        expected = nonzero(function.table) + sum(map(nonzero, held)) + sum(f.size for f in parts)
        assert held or parts or function.map.by_columns
    else:
        expected = nonzero(function.coef)
        expected += nonzero(function.vectors) if isinstance(function, WITH_VECTORS) else 0
        expected += function.weights.size if isinstance(function, KernelSum) else 0
    assert function.size == expected


@every
def test_words(function):
    text = function.describe()
    assert text.strip() == text != ""
    assert any(c.isdigit() for c in text)


@every
def test_bytes_are_those_of_the_arrays(function):
    total = bytes_of(function)
    assert bytes_of((function, function)) == total  # what is there twice counts once
    for name, value in function._asdict().items():
        if isinstance(value, np.ndarray):
            other = function._replace(**{name: np.concatenate([value, value])})
            held = sum(part is value for part in function)
            assert bytes_of(other) - total == (2 if held > 1 else 1) * value.nbytes
        elif isinstance(value, Units):
            none = function._replace(units=None)
            assert total - bytes_of(none) == sum(a.nbytes for a in value if a is not None)


# ---------------------------------------------------------------- what cannot be right


def spoiled(values, bad):
    values = values.astype(np.float64, copy=True)
    stored = values.data if sparse.issparse(values) else values
    stored.flat[-1] = bad
    return values


def damaged_arrays(value):
    """What, and the damage; that of a table's columns may be a table of other features."""
    if dense(value).dtype.kind == "f":
        yield "NaN", spoiled(value, np.nan)
        yield "infinite", spoiled(value, -np.inf)
        yield "of objects", dense(value).astype(object)
        yield "whole", dense(value).astype(np.int64)
    else:
        yield "floats", value.astype(np.float64) + 0.5
    yield "too long", np.concatenate([dense(value), dense(value)[:1]])
    yield "too short", dense(value)[:-1]
    yield "flat", dense(value).ravel()[None, None]
    yield "nothing", None


def damages(function):
    for name, value in function._asdict().items():
        if isinstance(value, np.ndarray) or sparse.issparse(value):
            for how, bad in damaged_arrays(value):
                if name == "centre" and bad is None:  # rows may lie about zero
                    continue
                yield f"{name}: {how}", lambda name=name, bad=bad: function._replace(**{name: bad})
        elif name == "spread":
            yield "no spread", lambda: function._replace(spread=None)
            for field, part in value._asdict().items():
                for how, bad in damaged_arrays(part):
                    spread = value._replace(**{field: bad})
                    yield f"{field}: {how}", lambda s=spread: function._replace(spread=s)
        elif isinstance(value, Units):
            for field, part in value._asdict().items():
                bads = () if part is None else (spoiled(part, np.nan), part[:-1], part[None])
                for k, bad in enumerate(bads):
                    units = value._replace(**{field: bad})
                    yield f"units {field} {k}", lambda units=units: function._replace(units=units)
    if isinstance(function, KernelSum):
        for kernels in (("rbf", "rbf"), function.kernels[:1], list(function.kernels), None):
            yield f"{kernels}", lambda k=kernels: function._replace(kernels=k)
        for columns in ((None,), (None, (D,)), (None, (-1,)), (None, (0.0,)), (None, ()), None):
            yield f"{columns}", lambda c=columns: function._replace(columns_of=c)
    elif isinstance(function, WITH_VECTORS):
        yield "no kernel", lambda: function._replace(kernel="rbf")
    if isinstance(function, MappedFunction):
        for features in (D - 1, 0, -1, float(D), None):
            yield f"{features} features", lambda f=features: function._replace(features=f)
        for name, value in function.map.state().items():
            if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
                continue
            for how, bad in damaged_arrays(value):
                yield f"map {name}: {how}", lambda n=name, b=bad: with_state(function, n, b)


def with_state(function, name, bad):
    made = copy.copy(function.map)
    made.restore(function.map.state() | {name: bad})
    return function._replace(map=made)


@every
def test_damage_is_refused(function):
    function.check()
    missed = []
    for what, damage in damages(function):
        try:
            damage().check()
        except ValueError:
            continue
        except Exception as problem:  # as bad as none: whoever reads a file expects a ValueError
            missed.append(f"{what}: {problem!r}")
        else:
            missed.append(what)
    assert missed == []


@every
@pytest.mark.parametrize("name", ["coef", "intercept"])
def test_what_is_not_finite_is_known(function, name):
    assert function.is_finite()
    for bad in (np.nan, np.inf):
        other = function._replace(**{name: spoiled(getattr(function, name), bad)})
        assert not other.is_finite()


def test_planes_need_a_weight_of_every_class_in_order():
    function = FUNCTIONS["planes, four classes"]
    for owners in (function.owners[::-1], np.where(function.owners == 2, 3, function.owners)):
        with pytest.raises(ValueError, match="weight"):
            function._replace(owners=np.ascontiguousarray(owners)).check()
    with pytest.raises(ValueError, match="weight"):
        FUNCTIONS["planes, two classes"]._replace(owners=0 * function.owners).check()


def test_planes_without_any_weight_are_refused():
    with pytest.raises(ValueError, match="every class needs a weight"):
        Planes(*(part[:0] for part in FUNCTIONS["planes, two classes"])).check()


def test_one_output_may_be_a_vector():
    flat = LinearFunction(X[0], 0.5)
    table = LinearFunction(X[:1], np.array([0.5]))
    assert (flat.outputs, flat.features, flat.size) == (1, D, table.size)
    np.testing.assert_array_equal(flat.scores(X), table.scores(X))
    stacked = LinearFunction.stacked([flat, table])
    stacked.check()
    np.testing.assert_array_equal(stacked.scores(X), np.hstack([flat.scores(X)] * 2))


@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize(
    "function",
    [FUNCTIONS[name] for name in ("linear, three outputs", "planes, four classes")]
    + [FUNCTIONS["rbf expansion, as they are"]],
    ids=["linear", "planes", "expansion"],
)
def test_units_fold_into_a_function(function, units):
    folded = function.unscaled(units)
    folded.check()
    rows = X if units is None else units.matrix(X)
    np.testing.assert_allclose(folded.scores(X), function.scores(rows), rtol=1e-9, atol=1e-9)
