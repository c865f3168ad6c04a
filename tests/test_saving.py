"""Values and estimators survive the way to a file and back exactly; nothing foreign is believed."""

import dataclasses
import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError

from conftest import READY, chunk_of, make_data, make_penalty
from thresher import LinearClassifier, LinearRegressor, losses, penalties, schedules, solvers
from thresher.artifacts.container import VERSION, BadFile, read, write
from thresher.artifacts.encoding import UnknownTerm, decode, encode
from thresher.estimators.saving import from_document, to_document
from thresher.registry import LOSSES, PENALTIES, register
from thresher.solvers import Problem, Status
from thresher.solvers.base import Record

# Of a pass or two over sixty rows little comes, and the models say so.
FEW_STEPS = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def there_and_back(value, classes=()):
    arrays = {}
    text = json.dumps(encode(value, arrays), allow_nan=False)
    return decode(json.loads(text), {k: a.copy() for k, a in arrays.items()}, classes)


def same(a, b):
    """Equal in type and in every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        layout = a.flags.c_contiguous == b.flags.c_contiguous
        return layout and a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()
    if dataclasses.is_dataclass(a):
        return same(vars_of(a), vars_of(b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


def vars_of(term):
    return {f.name: getattr(term, f.name) for f in dataclasses.fields(term)}


@dataclass(frozen=True)
class Cubic(losses.Loss):
    """A user's loss."""

    power: float = 3.0

    def value(self, y, p):
        return max(0.0, 1.0 - y * p) ** self.power

    def deriv(self, y, p):
        return -y * self.power * max(0.0, 1.0 - y * p) ** (self.power - 1.0)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, -(2**80), 0.1, -0.0, 5e-324, math.inf, -math.inf, math.nan, "text", "",
        "\ud800", [1, [2.0, "a"]], (1, (2,)), (), {"a": 1}, {"$a": 1}, {1: 2.0, "b": (3,)}, {},
        np.float32(0.1), np.float64(0.1), np.float16(1.5), np.int8(-3), np.uint64(2**64 - 1),
        np.bool_(True), np.float32("inf"), np.dtype(np.float32), np.dtype(bool), np.float64,
        np.int32, np.ones((2, 3), np.float32), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(5), np.empty((0, 2)), np.array([True]), np.array(["a", "bcd"]),
        np.array(["a"], dtype="U10"), np.array(["x", "longer"], object), Status.ALL_ZERO,
        Record(1, 2, 0.5, 0.25, math.nan, 3, 1.0), schedules.Constant(0.3),
        penalties.WeightedL1(np.array([1.0, 0.0]), 0.5), penalties.Box(0.0, math.inf),
        solvers.Pegasos(schedule=schedules.InverseRoot(2)), solvers.AveragedSGD(),
        solvers.WeightedPegasos(precisions=np.ones(3)),
        Problem(losses.Pinball(0.2), penalties.L2(), 4, dtype=np.dtype(np.float32), tol=1e-3),
        Problem(losses.Logistic(), penalties.ElasticNet(0.1), 4),
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_values_round_trip_exactly(value):
    assert same(there_and_back(value), value)


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.floats(allow_nan=False), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON_LIKE)
def test_any_nesting_round_trips(value):
    assert same(there_and_back(value), value)


@pytest.mark.parametrize("name", [*LOSSES, *PENALTIES])
def test_every_registered_term(name):
    term = LOSSES[name]() if name in LOSSES else make_penalty(name, 3)
    assert same(there_and_back(term), term)


@pytest.mark.parametrize("solver", READY.values(), ids=READY)
def test_solver_states_round_trip_and_go_on(solver):
    """The state read back continues as the original would have."""
    X, y = make_data(n=60, d=12)
    chunk = chunk_of(X, y)
    penalty = make_penalty(solver.default_penalty, 12)
    loss = losses.Hinge() if "smoothed" in solver.loss_needs else losses.Logistic()
    loss = losses.LeastSquares() if "square" in solver.loss_needs else loss
    solver, problem = solver.prepare(Problem(loss, penalty, 12, seed=3), chunk)
    state = solver.update(problem, solver.init(problem, chunk), chunk)
    kept_solver, kept_problem, kept = there_and_back((solver, problem, state))
    assert same((kept_solver, kept_problem, kept), (solver, problem, state))
    again = kept_solver.update(kept_problem, kept, chunk)
    assert same(again, solver.update(problem, state, chunk))


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"bytes", 1j, np.ones(2, complex), np.array([None]), len, print,
              np.float128(1) if hasattr(np, "float128") else 1j, losses.Hinge, {"a": [object()]}],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_cannot_be_encoded_is_named(value):
    with pytest.raises(TypeError, match="my thing"):
        encode(value, {}, "my thing")


def an_object(name="thresher.losses.Pinball", role="loss", **fields):
    return {"$object": {"class": name, "role": role, "fields": fields}}


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ({"$unknown": 1}, "unknown kind"),
        ({"$float": "nan", "more": 1}, "unknown kind"),
        ({"$float": 3}, "damaged"),
        ({"$float": "3"}, "special number"),
        ({"$tuple": {}}, "damaged"),
        ({"$dict": [[1]]}, "2 parts"),
        ({"$dict": [[[1], 2]]}, "no key"),
        ({"$dict": [[1, 2], [1, 3]]}, "repeated"),
        ({"$scalar": ["<f8", "x"]}, "no number"),
        ({"$scalar": ["<f8", True]}, "no number"),
        ({"$scalar": ["|i1", 300]}, "does not fit"),
        ({"$scalar": ["<f2", 1e300]}, "does not fit"),
        ({"$scalar": ["|O", 1]}, "number type"),
        ({"$scalar": [["<f8"], 1.0]}, "number type"),
        ({"$array": ["missing", "C"]}, "missing"),
        ({"$array": [["a"], "C"]}, "missing"),
        ({"$strings": {"shape": [2], "width": 1, "values": ["a"]}}, "has 1 values"),
        ({"$strings": {"shape": [1], "width": 10**9, "values": ["a"]}}, "too big"),
        ({"$strings": {"shape": [1], "width": 1, "values": ["ab"]}}, "longer"),
        ({"$strings": {"shape": [1], "width": 1, "values": [3]}}, "values"),
        ({"$strings": {"shape": [-1], "width": 1, "values": []}}, "damaged"),
        ({"$strings": {"shape": 40 * [1], "width": 1, "values": ["a"]}}, "too big"),
        ({"$strings": {"values": []}}, "damaged"),
        ({"$dtype": "|O"}, "number type"),
        ({"$type": "builtins.eval"}, "number type"),
        ({"$enum": ["thresher.solvers.base.Status", "NONE"]}, "no member"),
        ({"$enum": ["thresher.solvers.base.Status", []]}, "no member"),
        ({"$enum": ["os.open", "x"]}, "no member"),
        ({"$enum": [["x"], ["y"]]}, "no member"),
        ({"$object": {"class": "x"}}, "damaged"),
        (an_object(), "needs 'tau'.*another version"),
        (an_object(tau=0.5, rho=1.0), "no parameter 'rho'.*another version"),
        (an_object(tau="0.5"), "tau must be float"),
        (an_object(tau=[0.5]), "tau must be float"),
        (an_object(tau=7.0), "refuses its parameters"),
        (an_object("thresher.solvers.base.Status"), "no class of fields"),
        (an_object("thresher.penalties.WeightedL2", weights=1.0, strength=1.0), "np.ndarray"),
    ],
)  # fmt: skip
def test_damaged_values_are_refused(value, match):
    with pytest.raises(BadFile, match=match):
        decode(value, {"a": np.ones(2)})


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "subprocess.Popen", "x", ""])
def test_names_in_a_file_are_never_imported(name):
    with pytest.raises(UnknownTerm, match="not part of Thresher"):
        decode(an_object(name, role="../../evil"), {})


# ---------------------------------------------------------------- a user's classes


def test_user_terms_are_asked_for():
    message = r"the loss 'Cubic' \(module test_saving\).*load_model\(path, terms=\[Cubic\]\)"
    with pytest.raises(UnknownTerm, match=message):
        there_and_back(Cubic(2.5))
    assert there_and_back(Cubic(2.5), [Cubic]) == Cubic(2.5)


def test_user_terms_may_have_moved():
    encoded = encode(Cubic(2.5), {})
    encoded["$object"]["class"] = "__main__.<locals>.Cubic"
    assert decode(encoded, {}, [Cubic]) == Cubic(2.5)
    other = dataclasses.make_dataclass("Cubic", [("power", float)])
    with pytest.raises(UnknownTerm):
        decode(encoded, {}, [Cubic, other])  # which of the two?


def test_registered_terms_are_known():
    register("cubic", Cubic)
    try:
        assert there_and_back(Cubic(2.5)) == Cubic(2.5)
    finally:
        LOSSES.remove("cubic")


# ---------------------------------------------------------------- estimators


def reloaded(model, path, terms=()):
    write(path, *to_document(model), "model")
    document, arrays = read(path, "model")
    return from_document(document, arrays, VERSION, terms)


def labels_of(kind, y):
    names = {"int": [3, 7], "float": [1.0, 2.0], "bool": [False, True], "str": ["no", "yes"]}
    if kind == "object":
        return np.array(["no", "yes"], object)[(y > 0).astype(int)]
    if kind == "three":
        return np.array(["a", "b", "c"])[np.digitize(np.arange(y.size) % 7 + y, [2, 5])]
    return np.array(names[kind])[(y > 0).astype(int)]


def check_same_predictions(model, loaded, X):
    assert same(loaded.predict(X), model.predict(X))
    if hasattr(model, "decision_function"):
        assert same(loaded.decision_function(X), model.decision_function(X))
    if hasattr(model, "predict_proba"):
        assert same(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("kind", ["int", "float", "bool", "str", "object", "three"])
@pytest.mark.parametrize("calibrate", [None, "sigmoid", "isotonic"])
def test_classifiers(tmp_path, kind, calibrate):
    X, y = make_data(n=90, d=6)
    model = LinearClassifier("logistic", calibrate=calibrate, solver="newton", random_state=5)
    model.fit(X, labels_of(kind, y))
    loaded = reloaded(model, tmp_path / "m")
    check_same_predictions(model, loaded, X)
    assert same(loaded.classes_, model.classes_)
    assert same(loaded.coef_, model.coef_)
    assert loaded.get_params() == model.get_params()
    for name in ("n_iter_", "status_", "density_", "solver_", "penalty_", "n_features_in_"):
        assert same(getattr(loaded, name), getattr(model, name))


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, False), (np.float64, True)])
def test_regressors(tmp_path, dtype, scale):
    X, y = make_data(regression=True)
    X = X.astype(dtype)
    model = LinearRegressor(scale=scale, alpha=0.01, solver="newton").fit(X, y)
    loaded = reloaded(model, tmp_path / "m")
    check_same_predictions(model, loaded, X)
    check_same_predictions(model, loaded, sparse.csr_array(X))
    assert same(loaded.coef_, model.coef_)


def test_sparse_models(tmp_path):
    X, y = make_data(n=100, d=8)
    model = LinearClassifier("logistic", penalty="l1", random_state=0).fit(X, y).sparsify()
    loaded = reloaded(model, tmp_path / "m")
    assert sparse.issparse(loaded.coef_)
    check_same_predictions(model, loaded, X)
    check_same_predictions(model, loaded, sparse.csr_array(X))
    assert same(loaded.densify().coef_, model.densify().coef_)


def test_order_in_memory_is_kept(tmp_path):
    """A transposed product may round differently."""
    X, y = make_data(n=100, d=8)
    model = LinearClassifier("logistic", solver="newton").fit(X, labels_of("three", y))
    model.coef_ = np.asfortranarray(model.coef_)
    loaded = reloaded(model, tmp_path / "m")
    assert loaded.coef_.flags.f_contiguous
    check_same_predictions(model, loaded, X)


@FEW_STEPS
def test_parameters(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = make_data(n=60, d=3)
    frame = pandas.DataFrame(X, columns=["a", "b", "ü"])
    model = LinearClassifier(
        losses.Pinball(0.3), penalty=penalties.L2(0.5), solver=solvers.Pegasos(batch=2),
        class_weight={-1.0: 1.0, 1.0: 2.0}, random_state=np.random.RandomState(0), max_iter=2,
        callbacks=[lambda event: None], trace=True, alpha=np.float32(0.1),
    ).fit(frame, y)  # fmt: skip
    loaded = reloaded(model, tmp_path / "m")
    assert loaded.loss == losses.Pinball(0.3)
    assert loaded.solver == solvers.Pegasos(batch=2)
    assert loaded.class_weight == {-1.0: 1.0, 1.0: 2.0}
    assert loaded.callbacks is None
    assert loaded.random_state is None
    assert same(loaded.trace_, model.trace_)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "ü"]
    check_same_predictions(model, loaded, frame)
    model.set_params(random_state=np.int64(4))
    assert reloaded(model, tmp_path / "m").random_state == 4


def test_loaded_models_can_be_fitted_again(tmp_path):
    X, y = make_data()
    model = LinearClassifier("logistic", solver=READY["asgd"], random_state=0).fit(X, y)
    again = reloaded(model, tmp_path / "m").fit(X, y)
    assert same(again.coef_, model.coef_)
    assert reloaded(model, tmp_path / "m").partial_fit(X, y).coef_.shape == model.coef_.shape


@FEW_STEPS
def test_models_with_user_terms(tmp_path):
    X, y = make_data(n=60, d=4)
    model = LinearClassifier(Cubic(2.0), solver="sgd", max_iter=1, random_state=0).fit(X, y)
    with pytest.raises(UnknownTerm, match="'Cubic'"):
        reloaded(model, tmp_path / "m")
    loaded = reloaded(model, tmp_path / "m", [Cubic])
    assert loaded.loss == Cubic(2.0)
    check_same_predictions(model, loaded, X)


@FEW_STEPS
def test_registered_names_must_be_registered_here(tmp_path, monkeypatch):
    X, y = make_data(n=60, d=4)
    register("cubic_for_test", Cubic)
    try:
        named = LinearClassifier("cubic_for_test", solver="sgd", max_iter=1, random_state=0)
        model = named.fit(X, y)
        check_same_predictions(model, reloaded(model, tmp_path / "m"), X)
    finally:
        LOSSES.remove("cubic_for_test")
    with pytest.raises(UnknownTerm, match=r"the loss named 'cubic_for_test'.*register"):
        reloaded(model, tmp_path / "m")


def test_what_cannot_be_saved():
    class Mine(LinearClassifier):
        pass

    with pytest.raises(TypeError, match="Mine cannot be saved"):
        to_document(Mine())
    with pytest.raises(NotFittedError):
        to_document(LinearRegressor())
    X, y = make_data(n=40, d=3)
    model = LinearClassifier().fit(X, y)
    model.coef_ = model.coef_ * np.nan
    with pytest.raises(ValueError, match="coef_ holds NaN"):
        to_document(model)


# ---------------------------------------------------------------- hostile documents


@pytest.fixture(scope="module")
def saved():
    X, y = make_data(n=60, d=3)
    model = LinearClassifier("logistic", calibrate="isotonic", solver="newton").fit(X, y)
    document, arrays = to_document(model.sparsify())
    model.densify()
    document["dense"] = encode(model.coef_, arrays)
    return json.dumps(document), arrays


def kept(document, name, value):
    document["record"][name] = value


def field(document, name, value):
    document["function"]["$object"]["fields"][name] = value


def calibrator(document, kind, **fields):
    name = f"thresher.functions.calibration.{kind}"
    kept(document, "calibrator_", {"$object": {"class": name, "role": "term", "fields": fields}})


def csr(document, **parts):
    document["function"]["$object"]["fields"]["coef"]["$csr"].update(parts)


def encoded_array(values, arrays):
    return encode(np.asarray(values), arrays)


CHANGES = {
    "estimator": (lambda d, a: d.update(estimator="os.system"), "unknown estimator"),
    "estimator list": (lambda d, a: d.update(estimator=["x"]), "unknown estimator"),
    "no parameters": (lambda d, a: d.pop("parameters"), "no parameters"),
    "odd parameter": (lambda d, a: d["parameters"].update(evil=1), "has no 'evil'"),
    "callbacks": (lambda d, a: d["parameters"].update(callbacks=[]), "has no 'callbacks'"),
    "odd record": (lambda d, a: kept(d, "predict", 1), "has no 'predict'"),
    "no function": (lambda d, a: d.pop("function"), "no function"),
    "other function": (lambda d, a: d.update(function=d["record"]["solver_"]), "no function"),
    "missing coef": (lambda d, a: d["function"]["$object"]["fields"].pop("coef"), "needs 'coef'"),
    "missing status": (lambda d, a: d["record"].pop("status_"), "does not give the 'status_'"),
    "coef text": (lambda d, a: field(d, "coef", "x"), "two dimensions"),
    "coef integers": (
        lambda d, a: field(d, "coef", encoded_array([[1, 2, 3]], a)), "array of floats"),
    "coef NaN": (lambda d, a: field(d, "coef", encoded_array([[1.0, np.nan, 0.0]], a)), "NaN"),
    "coef flat": (
        lambda d, a: field(d, "coef", encoded_array([1.0, 2.0, 3.0], a)), "two dimensions"),
    "coef wide": (
        lambda d, a: field(d, "coef", encoded_array(np.ones((1, 4)), a)), "4.*not for 3"),
    "coef tall": (
        lambda d, a: field(d, "coef", encoded_array(np.ones((2, 3)), a)), "intercept_ must be"),
    "intercept inf": (
        lambda d, a: field(d, "intercept", encoded_array([np.inf], a)), "intercept_ holds"),
    "intercept long": (
        lambda d, a: field(d, "intercept", encoded_array([1.0, 2.0], a)), "intercept_ must be"),
    "classes three": (
        lambda d, a: kept(d, "classes_", encoded_array([1, 2, 3], a)), "3 classes need 3"),
    "classes one": (lambda d, a: kept(d, "classes_", encoded_array([1], a)), "at least two"),
    "classes unsorted": (lambda d, a: kept(d, "classes_", encoded_array([2, 1], a)), "sorted"),
    "classes NaN": (lambda d, a: kept(d, "classes_", encoded_array([1.0, np.nan], a)), "sorted"),
    "classes list": (lambda d, a: kept(d, "classes_", [1, 2]), "numbers or strings"),
    "features": (lambda d, a: kept(d, "n_features_in_", 2**40), "not for"),
    "features text": (lambda d, a: kept(d, "n_features_in_", "3"), "not for"),
    "names": (
        lambda d, a: kept(d, "feature_names_in_", encode(np.array(["a"]), a)), "3 strings"),
    "iterations": (lambda d, a: kept(d, "n_iter_", -1), "count"),
    "status": (lambda d, a: kept(d, "status_", "fine"), "Status"),
    "solver": (lambda d, a: kept(d, "solver_", None), "Solver"),
    "penalty": (lambda d, a: kept(d, "penalty_", None), "Penalty"),
    "trace": (lambda d, a: kept(d, "trace_", 1), "list"),
    "calibrator": (lambda d, a: kept(d, "calibrator_", 1), "calibrator_ does not fit"),
    "no such calibrator": (lambda d, a: calibrator(d, "Evil"), ""),
    "no slope": (lambda d, a: calibrator(d, "Softmax"), "needs 'slope'"),
    "softmax for two": (lambda d, a: calibrator(d, "Softmax", slope=1.0), "several outputs"),
    "slope": (lambda d, a: calibrator(d, "Softmax", slope="x"), "must be float"),
    "no steps": (lambda d, a: calibrator(d, "Isotonic", steps=[]), "1 outputs"),
    "odd steps": (lambda d, a: calibrator(d, "Isotonic", steps=3), "damaged"),
    "falling steps": (
        lambda d, a: calibrator(d, "Isotonic", steps=encode(
            [(np.array([1.0, 0.0]), np.array([0.0, 1.0]))], a)),
        "must rise"),
    "steps of text": (
        lambda d, a: calibrator(d, "Isotonic", steps=encode([("x", np.array([0.0, 1.0]))], a)),
        "finite numbers"),
    "csr columns": (lambda d, a: csr(d, indices=encoded_array([0, 1, 7], a)), "columns"),
    "csr negative": (lambda d, a: csr(d, indices=encoded_array([0, 1, -1], a)), "columns"),
    "csr pointers": (lambda d, a: csr(d, indptr=encoded_array([0, 9], a)), "pointers"),
    "csr hidden pointers": (
        lambda d, a: csr(d, shape=[2, 3], indptr=encoded_array([0, 9, 3], a)), "pointers"),
    "csr rows": (lambda d, a: csr(d, shape=[10**9, 3]), "row pointers"),
    "csr huge": (lambda d, a: csr(d, shape=[1, 10**30]), "damaged"),
    "csr shape": (lambda d, a: csr(d, shape="x"), "damaged"),
    "csr data": (lambda d, a: csr(d, data=[1.0]), "damaged"),
    "csr NaN": (lambda d, a: csr(d, data=encoded_array(3 * [np.nan], a)), "NaN"),
    "loss null": (lambda d, a: d["parameters"].update(loss=None), "loss of the file"),
    "loss number": (lambda d, a: d["parameters"].update(loss=1), "loss of the file"),
    "loss auto": (lambda d, a: d["parameters"].update(loss="auto"), "not registered"),
    "penalty list": (lambda d, a: d["parameters"].update(penalty=[]), "penalty of the file"),
    "solver of dtype": (
        lambda d, a: d["parameters"].update(solver={"$dtype": "<f8"}), "solver of the file"),
    "calibrator null": (lambda d, a: kept(d, "calibrator_", None), "calibrator_ does not fit"),
    "half precision": (
        lambda d, a: field(d, "coef", encoded_array(np.ones((1, 3), np.float16), a)), "precision"),
    "weights that overflow": (
        lambda d, a: field(d, "coef", encoded_array([[1e308, 1.0, 1.0]], a)), "beyond 1e"),
    "key in a tuple": (
        lambda d, a: kept(d, "trace_", {"$dict": [[{"$tuple": [{"$tuple": [[]]}]}, 1]]}), "key"),
    "wide strings": (
        lambda d, a: kept(d, "trace_", {"$strings": {"shape": [0], "width": 10**12, "values": []}}),
        "too big"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_documents_that_cannot_be_right(saved, name):
    document, arrays = json.loads(saved[0]), dict(saved[1])
    change, match = CHANGES[name]
    change(document, arrays)
    with pytest.raises((BadFile, UnknownTerm), match=match or None):
        from_document(document, arrays, VERSION)


PARTS = ["$array", "$object", "$csr", "coef", "steps", "class", "fields", "shape", "parameters"]
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.sampled_from(PARTS),
    st.lists(st.integers(), max_size=2), st.just({}), st.just({"$array": ["a0", "C"]}),
)  # fmt: skip


@given(place=st.integers(0, 10_000), junk=JUNK)
def test_any_part_replaced_gives_a_model_or_bad_file(saved, place, junk):
    """Junk anywhere in the document: refused, or of no consequence for predictions."""
    document, arrays = json.loads(saved[0]), dict(saved[1])
    spots = []

    def walk(value):
        keys = value.keys() if isinstance(value, dict) else range(len(value))
        for key in keys:
            spots.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(document)
    holder, key = spots[place % len(spots)]
    holder[key] = junk
    try:
        model = from_document(document, arrays, VERSION)
    except (BadFile, UnknownTerm):
        return
    assert model.decision_function(np.ones((2, 3))).shape == (2,)
