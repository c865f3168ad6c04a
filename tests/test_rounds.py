"""Training on shards: the same model whoever does the work, and one stream's where it should be."""

import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from thresher import DataError, LinearClassifier, TunedClassifier, open_data, train
from thresher._clock import ending
from thresher.data.rows_file import write_rows
from thresher.engines import EngineError, Serial, in_order
from thresher.solvers.weighted_pca import WeightedPCA
from thresher.training.holdout import HoldOut
from thresher.training.inspection import inspected
from thresher.training.intake import take_in
from thresher.training.survey import survey

RNG = np.random.default_rng(0)
ROWS = 3000
X = RNG.normal(size=(ROWS, 4)).round(3)
CLASSES = np.array(["a", "b", "c"])[np.digitize(X @ [1.0, -1.0, 0.5, 0.0], [-0.7, 0.7])]
WEIGHT = RNG.integers(0, 3, ROWS)


class Careless:
    """Runs every task twice, in any order, and answers in another."""

    width = 3

    def __init__(self, seed=0):
        self.random = random.Random(seed)

    def run(self, task, recipes, shared):
        twice = [k for k in range(len(recipes)) for _ in range(2)]
        self.random.shuffle(twice)
        answers = {k: task(recipes[k], shared) for k in twice}
        yield from self.random.sample(sorted(answers.items()), len(answers))

    def prepare(self, task, recipe, shared):
        task(recipe, shared)

    def describe(self):
        return "a careless engine"


class Failing(Serial):
    """Dies in the middle of a given call."""

    def __init__(self, after, error):
        self.calls, self.after, self.error = 0, after, error

    def run(self, task, recipes, shared):
        for k, answer in super().run(task, recipes, shared):
            self.calls += 1
            if self.calls > self.after:
                raise self.error
            yield k, answer


@pytest.fixture
def path(tmp_path):
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(y=CLASSES, w=WEIGHT)
    frame.to_csv(tmp_path / "data.csv", index=False)
    return str(tmp_path / "data.csv")


def same(one, other):
    for a, b in zip(_arrays(one), _arrays(other), strict=True):
        np.testing.assert_array_equal(a, b)


def _arrays(model):
    function = model.estimator.function_
    fields = [np.asarray(f) for f in function if isinstance(f, np.ndarray | float)]
    return [*fields, np.array(model.training["held_out"]["error"])]


LEARNERS = [
    {"params": {"loss": "logistic", "solver": "asgd"}},
    {"params": {"loss": "hinge", "solver": "pegasos"}},
    {"params": {"loss": "hinge", "solver": "rda"}},
    {"params": {"loss": "logistic", "solver": "fobos", "penalty": "l1"}},
    {"params": {"loss": "hinge", "solver": "asset"}},
    {"params": {"loss": "hinge", "solver": "dropout_pegasos"}},
    {"params": {"loss": "hinge", "solver": "weighted_pegasos"}},
    {"params": {"loss": "logistic", "solver": "rda_plus"}},
    {"params": {"loss": "least_squares", "solver": "least_squares"}},
    {"params": {"loss": "logistic", "solver": "summed_newton"}},
    {"learner": "kernel", "params": {"n_components": 20, "gamma": 0.3}},
    {"learner": "kernel", "params": {"map": "boosted"}},
    {"learner": "confidence", "params": {"covariance": "diagonal"}},
    {"learner": "confidence", "params": {"covariance": "full"}},
    {"learner": "confidence", "params": {"covariance": "low_rank"}},
    {"learner": "budgeted", "params": {"budget": 30}},
]
NAMES = [str(one["params"].get("solver", one.get("learner"))) for one in LEARNERS]


@pytest.mark.parametrize("options", LEARNERS, ids=NAMES)
def test_tasks_may_be_run_twice_and_in_any_order(path, options):
    given = {"target": "y", "weight": "w", "passes": 2, "shards": 5, **options}
    serial = train(path, cluster=Serial(), **given)
    for seed in range(2):
        same(train(path, cluster=Careless(seed), **given), serial)
    assert serial.training["held_out"]["error"] < 0.35


@pytest.mark.parametrize(
    "options",
    [*LEARNERS, {"learner": "hyperplanes"}],
    ids=[*NAMES, "hyperplanes"],
)
def test_one_shard_is_one_stream(path, options):
    given = {"target": "y", "weight": "w", "passes": 2, **options}
    shard = train(path, cluster=Serial(), shards=1, **given)
    same(shard, train(path, memory=1, **given))


@pytest.mark.parametrize(
    ("loss", "solver"), [("least_squares", "least_squares"), ("logistic", "summed_newton")]
)
def test_exact_solvers_give_the_model_of_one_machine(path, loss, solver):
    given = {"target": "y", "weight": "w", "params": {"solver": solver, "loss": loss}}
    one, many = train(path, memory=1, **given), train(path, cluster=Serial(), shards=7, **given)
    np.testing.assert_allclose(many.estimator.coef_, one.estimator.coef_, rtol=1e-9)
    assert many.training["held_out"]["auc"] == pytest.approx(one.training["held_out"]["auc"])


def test_relevance_is_that_of_all_rows(tmp_path):
    """By sums over shards, out of core and in memory: the same precisions, to rounding."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(6000, 4))
    rows[:, 1] += np.arange(6000) / 1000  # the first rows are unlike the others
    frame = pd.DataFrame(rows, columns=list("pqrs")).assign(
        y=np.array(["a", "b", "c"])[np.digitize(rows @ [1.0, -0.5, 0.2, 0.0], [-2.0, 0.0])]
    )
    frame.to_csv(tmp_path / "data.csv", index=False)
    given = {"target": "y", "holdout": 0.0, "passes": 2,
             "params": {"loss": "hinge", "solver": "weighted_pegasos"}}  # fmt: skip
    path = str(tmp_path / "data.csv")
    models = [
        train(path, cluster=Careless(), shards=5, **given),
        train(path, cluster=Serial(), shards=1, **given),
        train(path, memory=1, **given),
        train(path, **given),
    ]
    found = [model.estimator.penalty_.weights for model in models]
    for weights in found[:3]:
        np.testing.assert_allclose(weights, found[3], rtol=1e-6)
    assert np.ptp(np.log(found[3])) > 0.5


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_merged_passes_approach_one_stream(path, loss):
    given = {"target": "y", "passes": 5, "params": {"loss": loss, "solver": "asgd"}}
    one, many = train(path, memory=1, **given), train(path, cluster=Serial(), shards=4, **given)
    assert many.training["held_out"]["error"] < one.training["held_out"]["error"] + 0.01


@pytest.mark.parametrize("solver", ["rda", "adaptive_rda", "rw_l1_rda", "rw_l2_rda"])
def test_many_shards_do_not_overshoot(tmp_path, solver):
    """Each takes back what is wrong with the common start: all of them must not do so K times."""
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(y=X @ [1.0, -1.0, 0.5, 0.0])
    frame.to_csv(tmp_path / "data.csv", index=False)
    given = {"target": "y", "passes": 5, "params": {"loss": "least_squares", "solver": solver}}
    for shards in (3, 12):
        model = train(str(tmp_path / "data.csv"), cluster=Serial(), shards=shards, **given)
        assert model.training["held_out"]["r2"] > 0.97, shards


# ---------------------------------------------------------------- the first look


@pytest.mark.parametrize("most", [10_000, 40])
@pytest.mark.parametrize("trouble", ["none", "blank lines", "mostly blank", "bad rows"])
def test_the_same_rows_are_held_out_and_counted(path, trouble, most):
    lines = Path(path).read_text().splitlines()
    if trouble == "blank lines":
        lines[50:50] = [""] * 3
    if trouble == "mostly blank":
        lines[50:50] = [""] * 40_000
    if trouble == "bad rows":
        lines[1000] = lines[2000] = "word,1"
    Path(path).write_text("\n".join(lines))

    def opened():
        return open_data(path, target="y", weight="w", on_bad_rows="skip")

    holds = [HoldOut(0.2, most, 0) for _ in range(2)]
    one = take_in(opened(), holds[0], 1, True, lambda rows: None)
    many = survey(opened(), 6, holds[1], Careless(), lambda rows: None)
    for a, b in zip(holds[0].batch()[:3], holds[1].batch()[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    assert (one.rows, one.looked, one.data.bad.count) == (
        many.rows,
        many.looked,
        many.data.bad.count,
    )
    np.testing.assert_array_equal(one.class_counts, many.class_counts)
    assert one.class_counts.sum() == one.rows
    np.testing.assert_allclose(one.moments.mean, many.moments.mean, rtol=1e-12, atol=1e-12)
    assert one.mass == pytest.approx(many.mass) == one.moments.total
    assert many.data.bad.count == (2 if trouble == "bad rows" else 0)


def test_workers_send_the_rows_that_stay_held_out(path, monkeypatch):
    """And not those that one machine would hold out and then give back."""
    sent = []
    absorb = HoldOut.absorb
    monkeypatch.setattr(HoldOut, "absorb", lambda s, h: (sent.append(h.size), absorb(s, h)))
    hold = HoldOut(0.5, 40, 0)
    survey(open_data(path, target="y"), 6, hold, Serial(), lambda rows: None)
    assert hold.size <= sum(sent) <= 80


def test_rows_that_are_held_out_no_longer_are_counted(path):
    """The weights' mean is one, also where the held-out rows had to be thinned."""
    data = open_data(path, target="y", weight="w")
    hold = HoldOut(0.5, 100, 0)
    intake = take_in(data, hold, 1, True, lambda rows: None)
    assert hold.size <= 100
    assert intake.mass == pytest.approx(WEIGHT.sum() - hold.batch().weight.sum())


@pytest.mark.parametrize("learner", ["kmeans", "planes", "spectral"])
def test_clusters(path, learner):
    params = {"n_clusters": 3} | ({"n_components": 20} if learner == "spectral" else {})
    given = {"ignore": ["y"], "weight": "w", "learner": learner, "passes": 3, "params": params}
    serial = train(path, cluster=Serial(), shards=4, **given)
    careless = train(path, cluster=Careless(), shards=4, **given)
    assert serial.function.scores(X).tobytes() == careless.function.scores(X).tobytes()
    one = train(path, cluster=Serial(), shards=1, **given)
    stream = train(path, memory=1, **given)
    assert one.function.scores(X).tobytes() == stream.function.scores(X).tobytes()
    assert serial.evaluate(path, cluster=Careless()) == serial.evaluate(path)
    lost = serial.function.scores(X).max(axis=1).mean() / one.function.scores(X).max(axis=1).mean()
    assert lost < 1.1  # both are minus mean squared distances


def test_spectral_clusters_are_told_by_rows_of_all_shards(path, monkeypatch):
    """The sample that they are found on: shards would draw by the same numbers."""
    merged, merge = [], WeightedPCA.merge

    def heard(*given):
        merged.append(merge(*given))
        return merged[-1]

    monkeypatch.setattr(WeightedPCA, "merge", heard)
    params = {"n_clusters": 3, "n_components": 20, "gamma": 0.3}
    model = train(path, ignore=["y", "w"], learner="spectral", params=params, cluster=Serial(),
                  shards=4)  # fmt: skip
    learned = ROWS - model.training["held_out"]["rows"]
    assert learned < 5000  # of fewer all are kept
    assert merged[0].sample.shape[0] == learned


def test_maps_are_learned_from_rows_of_all_shards(tmp_path):
    """Sorted rows: those at the beginning would know one class and half of the plane."""
    order = np.argsort(X[:, 0])
    frame = pd.DataFrame(X[order], columns=list("pqrs")).assign(y=X[order, 0] > 0.0)
    frame.to_csv(tmp_path / "sorted.csv", index=False)
    hold = HoldOut(0.1, 1000, 0)
    data = open_data(tmp_path / "sorted.csv", target="y")
    intake = survey(data, 5, hold, Careless(), lambda rows: None, whole_window=True)
    assert intake.sample.size > 0.85 * ROWS  # of fewer rows than a window all that are not held out
    assert set(intake.sample.y.tolist()) == {0.0, 1.0}


def test_rows_of_a_stream_do_not_pile_up(path):
    """Without a first look nobody counts what is held out no longer, and nobody keeps it."""
    hold = HoldOut(0.5, 50, 0)
    intake = take_in(open_data(path, target="y"), hold, 1, False, lambda rows: None)
    rows = sum(intake.look(batch).size for batch in intake.windows())
    assert (rows, hold.size <= 50, hold.take_back()) == (ROWS, True, [])


def test_a_shard_with_one_class_and_more_shards_than_rows(tmp_path):
    frame = pd.DataFrame(X[:40]).assign(y=np.arange(40) >= 20)
    frame.to_csv(tmp_path / "sorted.csv", index=False)
    for shards in (2, 100):
        model = train(tmp_path / "sorted.csv", target="y", holdout=0.0, cluster=Serial(),
                      shards=shards)  # fmt: skip
        assert model.training["rows"] == 40


def test_data_in_memory():
    rows = sparse.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    codes = (X[:, 0] > 0).astype(int)
    many = train(rows, codes, cluster=Careless(), shards=3, params={"solver": "asgd"})
    one = train(rows, codes, cluster=Serial(), shards=1, params={"solver": "asgd"})
    assert many.training["held_out"]["error"] < one.training["held_out"]["error"] + 0.03
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(y=CLASSES)
    assert train(frame, target="y", cluster=Serial(), shards=2).training["data"] == "the data frame"


@pytest.mark.parametrize("shards", [1, 4, 7])
def test_data_in_memory_are_cut_as_asked(shards):
    class Counting(Serial):
        most = 0

        def run(self, task, recipes, shared):
            self.most = max(self.most, len(recipes))
            return super().run(task, recipes, shared)

    engine = Counting()
    train(X, (X[:, 0] > 0).astype(int), cluster=engine, shards=shards, params={"solver": "asgd"})
    assert engine.most == shards


def test_data_in_one_piece_say_so_where_shards_are_asked_for(path, tmp_path):
    pd.read_csv(path).to_parquet(tmp_path / "one.parquet")
    with pytest.warns(UserWarning, match=r"one\.parquet is one shard and cannot be cut into 4"):
        train(tmp_path / "one.parquet", target="y", cluster=Serial(), shards=4, passes=1)


def test_what_is_in_the_data(path):
    with Path(path).open("a") as file:
        file.write("word,1\n")

    def told(cluster):
        data = open_data(path, target="y", weight="w", on_bad_rows="skip")
        found = inspected(data, cluster=cluster).to_json()
        assert data.bad.count == 1
        return found

    one, many = told(None), told(Careless())
    assert many["rows"] == one["rows"] == ROWS
    assert many["classes"] == one["classes"]
    for a, b in zip(one["columns"], many["columns"], strict=True):
        assert a == {key: pytest.approx(value) for key, value in b.items()}


# ---------------------------------------------------------------- searches


def test_trials_do_not_depend_on_who_fits(path):
    """The study of one worker and of three that come and go is the same."""
    given = {"target": "y", "tune": 6, "search": "csa", "shards": 2, "cv": 3,
             "params": {"solver": "asgd"}}  # fmt: skip
    one, many = (train(path, cluster=engine, **given) for engine in (Serial(), Careless()))
    same(many, one)

    def plain(model):
        return [(t["params"], t["score"], t["folds"]) for t in model.training["trials"]]

    assert plain(many) == plain(one)
    assert len(plain(one)) >= 6


def test_halving_and_failures_elsewhere():
    found = TunedClassifier(
        LinearClassifier(), n_trials=6, halving=True, cv=3, random_state=0, cluster=Serial()
    ).fit(X, CLASSES)
    assert found.best_score_ < 0.4
    space = {"loss": ["logistic", "hinge"]}  # the second has no curvature
    broken = TunedClassifier(
        LinearClassifier(solver="newton"), space=space, search="grid", n_trials=2, cv=3,
        cluster=Careless(),
    ).fit(X, CLASSES)  # fmt: skip
    assert {t["state"] for t in broken.trials_} == {"complete", "failed"}


# ---------------------------------------------------------------- trouble


def test_who_cannot_merge_says_so(path):
    with pytest.raises(ValueError, match=r"Budgeted cannot .* 3 shards .* would be dropped"):
        train(path, target="y", learner="budgeted", cluster=Serial(), shards=3,
              params={"maintenance": "remove"})  # fmt: skip
    with pytest.raises(ValueError, match="the best of several planes"):
        train(path, target="y", learner="hyperplanes", cluster=Serial(), shards=3)


def test_who_needs_all_rows_says_so_before_anybody_looks_at_them(path):
    engine = Failing(0, AssertionError("it has looked"))
    for options in ({"learner": "svm"}, {"params": {"solver": "newton"}}):
        with pytest.raises(ValueError, match=r"see all rows at once, .* train without workers"):
            train(path, target="y", cluster=engine, shards=2, **options)
    with pytest.raises(ValueError, match=r"one-class machine .* a sample of the rows"):
        train(path, learner="one_class", cluster=engine, shards=2)


@pytest.mark.parametrize("name", ["data.csv", "data.parquet", "data.rows"])
def test_workers_may_work_in_another_folder(path, tmp_path, monkeypatch, name):
    class Elsewhere(Serial):
        def run(self, task, recipes, shared):
            for k, recipe in enumerate(recipes):
                with monkeypatch.context() as there:
                    there.chdir("/")
                    answer = task(recipe, shared)
                yield k, answer

    monkeypatch.chdir(tmp_path)
    pd.read_csv(path).to_parquet("data.parquet", row_group_size=500)
    write_rows(open_data(path, target="y"), "data.rows", block_rows=500)
    given = {"target": "y", "passes": 1, "shards": 3, "params": {"solver": "asgd"}}
    same(train(name, cluster=Elsewhere(), **given), train(name, cluster=Serial(), **given))


@pytest.mark.parametrize("error", [EngineError("the workers are gone"), DataError("no file")])
def test_a_lost_round_can_be_gone_on_from(path, tmp_path, error):
    given = {"target": "y", "passes": 4, "shards": 3, "model": tmp_path / "m.thresher",
             "params": {"loss": "logistic", "solver": "asgd"}}  # fmt: skip
    whole = train(path, cluster=Serial(), **given)
    lost = Failing(11, error)  # tallies and looks take six calls, so that the second round is lost
    with pytest.raises(type(error), match=str(error)):
        train(path, cluster=lost, checkpoint="1h", **given)
    resumed = train(path, cluster=Careless(), resume=True, **given)
    same(resumed, whole)
    assert resumed.training["history"] == whole.training["history"]


def test_a_stop_in_the_middle_of_a_round(path, tmp_path):
    """The model of the rounds before is usable, and the training goes on from there."""
    given = {"target": "y", "passes": 4, "shards": 3, "model": tmp_path / "m.thresher",
             "params": {"loss": "logistic", "solver": "asgd"}}  # fmt: skip
    whole = train(path, cluster=Serial(), **given)
    asked = iter([False] * 5)
    stopped = train(path, cluster=Serial(), checkpoint="1h",
                    stop=lambda: next(asked, True), **given)  # fmt: skip
    assert stopped.training["status"] == "INTERRUPTED"
    same(train(path, cluster=Serial(), resume=True, **given), whole)


def test_when_the_time_is_up_what_has_come_in_is_merged(path):
    learned = []

    def on_progress(event):
        if event.stage == "learning":
            learned.append(event.rows)

    given = {"target": "y", "shards": 5, "passes": 3, **LEARNERS[0]}
    with ending(lambda: len(learned) >= 2):
        model = train(path, cluster=Serial(), on_progress=on_progress, **given)
    assert model.training["status"] == "OUT_OF_TIME"
    assert 1000 < learned[-1] < 1200  # two of five shards, but for the held-out rows
    assert model.training["held_out"]["error"] < 0.3


def test_another_number_of_shards_is_another_training(path, tmp_path):
    given = {"target": "y", "passes": 3, "model": tmp_path / "m.thresher"}
    train(path, cluster=Serial(), shards=2, checkpoint="1h", stop=lambda: True, **given)
    with pytest.raises(ValueError, match="other shards"):
        train(path, cluster=Serial(), shards=3, resume=True, **given)


def test_shards_are_tasks_and_not_rows(path):
    for shards in (0, 10_001, 2.5, True, "x"):
        with pytest.raises(ValueError, match=r"shards must be a whole number in \[1, 10000\]"):
            train(path, target="y", cluster=Serial(), shards=shards)


@pytest.mark.parametrize("covariance", ["full", "low_rank"])
def test_beliefs_without_a_digit_left_have_diverged(path, covariance):
    """CW believes every row, and noise makes it sure of both sides."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(y=rng.choice(["a", "b", "c"], ROWS))
    frame.to_csv(path, index=False)
    combine = "product" if covariance == "full" else "average"
    params = {"method": "cw", "covariance": covariance, "combine": combine}
    model = train(path, target="y", learner="confidence", params=params, cluster=Serial(),
                  shards=5, passes=3)  # fmt: skip
    assert model.training["status"] in ("DIVERGED", "NO_BETTER")
    assert np.all(np.isfinite(model.estimator.coef_))


def test_options_that_need_each_other(path):
    with pytest.raises(ValueError, match="give a cluster"):
        train(path, target="y", shards=3)
    with pytest.raises(TypeError, match="cluster must be a number of workers"):
        train(path, target="y", cluster=3.5)
    with pytest.raises(ValueError, match="at least one worker"):
        train(path, target="y", cluster=0)


def test_engines_that_miscount_are_caught():
    class Twice(Serial):
        def run(self, task, recipes, shared):
            for k, answer in super().run(task, recipes, shared):
                yield k, answer
                yield k, answer

    class Forgetful(Serial):
        def run(self, task, recipes, shared):
            yield from super().run(task, recipes[1:], shared)

    def double(recipe, shared):
        return 2 * recipe

    assert in_order(Serial(), double, [1, 2], None) == [2, 4]
    with pytest.raises(EngineError, match="twice"):
        in_order(Twice(), double, [1, 2], None)
    with pytest.raises(EngineError, match="not answered task 1"):
        in_order(Forgetful(), double, [1, 2], None)
