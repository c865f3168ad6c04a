"""Reports: what they say is right, they hold what they should, and a browser draws them."""

from __future__ import annotations

import html as html_module
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn import metrics as reference

from thresher import (
    ForestFeatures,
    KernelClassifier,
    LinearClassifier,
    LocalNystroem,
    StackFeatures,
    TermFeatures,
    load_model,
    train,
)
from thresher.cli import report as command
from thresher.data import DataError
from thresher.training.sampled import Sampled
from thresher.views.charts import style
from thresher.views.charts.curves import calibration, precision_recall, roc
from thresher.views.charts.shapes import Bars, Line, Picture, thinned
from thresher.views.report import build as report
from thresher.views.report.reproduce import recipe
from thresher.views.report.trials import tried

pytest.importorskip("bokeh")
pytest.importorskip("matplotlib")

NASTY = "</script><script>alert(1)</script>"
FORMULA = "$$\\frac{x}$$ [b]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    n = 900
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, size=n),
            "work": rng.choice(["private", "state"], size=n),
            NASTY: np.round(rng.normal(size=n), 3),
            FORMULA: np.round(rng.normal(size=n), 3),
        }
    )
    score = 0.1 * (frame["age"] - 50) + (frame["work"] == "state") * 2 + rng.normal(size=n)
    frame["pay"] = np.round(10 * score + 100, 2)
    frame["kind"] = np.where(score > 2, "high", np.where(score > -2, "mid", "low"))
    frame["income"] = np.where(score > 0, ">50K", "<=50K")
    frame[:600].to_csv(folder / "train.csv", index=False)
    frame[600:].to_csv(folder / "test.csv", index=False)
    frame[600:].drop(columns="income").to_csv(folder / "unlabelled.csv", index=False)
    return folder


class Models(dict):
    """Trained when first asked for: workers do not train what they do not need."""

    made_of = {
        "two": ("income", "logistic", "linear"),
        "three": ("kind", "logistic", "linear"),
        "number": ("pay", "least_squares", "linear"),
        "kernel": ("income", "logistic", "kernel"),
    }

    def __init__(self, folder):
        self.folder = folder

    def __missing__(self, name):
        target, loss, learner = self.made_of[name]
        self[name] = train(
            self.folder / "train.csv", target=target, params={"loss": loss}, learner=learner,
            ignore=[c for c in ("pay", "kind", "income") if c != target],
        )  # fmt: skip
        return self[name]


@pytest.fixture(scope="module")
def models(folder):
    return Models(folder)


@pytest.fixture(scope="module")
def full(folder, models):
    """A page with everything: trials, refits, data with targets."""
    rng = np.random.default_rng(0)
    given = models["two"]
    model = type(given)(given.estimator, given.schema, dict(given.training))
    model.training["trials"] = [
        {"params": {"alpha": 10.0 ** rng.uniform(-6, 0), "loss": str(rng.choice(["hinge", NASTY]))},
         "score": float(rng.random()), "seconds": 0.1}
        for _ in range(12)
    ]  # fmt: skip
    model.training["criterion"] = "error"
    path, told = folder / "full.html", []
    sections = report.write_report(
        model, folder / "test.csv", path, title=f"On {NASTY}", on_line=told.append
    )
    return path, sections, told


class Addresses(HTMLParser):
    """What the tags of a page refer to; scripts are not looked into."""

    @classmethod
    def of(cls, text):
        parser = cls()
        parser.found = []
        parser.feed(text)
        return parser.found

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href", "data", "action")]


def charts(sections):
    return {chart.key: chart for section in sections for chart in section.charts}


# ---------------------------------------------------------------- numbers


def test_curves_agree_with_scikit_learn():
    rng = np.random.default_rng(1)
    y = rng.random(3000) < 0.3
    scores = np.round(y + rng.normal(size=y.size), 1)  # ties
    weight = rng.integers(0, 4, size=y.size).astype(float)
    ours = roc(y, scores, weight)
    assert ours.summary == pytest.approx(reference.roc_auc_score(y, scores, sample_weight=weight))
    fpr, tpr, _ = reference.roc_curve(y, scores, sample_weight=weight, drop_intermediate=False)
    np.testing.assert_allclose(ours.x, fpr, atol=1e-12)
    np.testing.assert_allclose(ours.y, tpr, atol=1e-12)
    ours = precision_recall(y, scores, weight)
    average = reference.average_precision_score(y, scores, sample_weight=weight)
    assert ours.summary == pytest.approx(average)
    assert roc(np.ones(5, bool), np.arange(5.0), np.ones(5)) is None
    assert precision_recall(np.zeros(5, bool), np.arange(5.0), np.ones(5)) is None


def test_calibration_of_right_and_wrong_probabilities():
    rng = np.random.default_rng(2)
    chance = rng.random(20_000)
    y = (rng.random(chance.size) < chance).astype(float)
    ones = np.ones(chance.size)
    assert calibration(y, chance, ones).summary < 0.02
    assert calibration(y, chance**3, ones).summary > 0.1


def test_samples_are_bounded_and_do_not_depend_on_chunks():
    values = np.arange(10_001)
    whole, parts = Sampled(most=1000), Sampled(most=1000)
    whole.add(y=values)
    for chunk in np.array_split(values, 37):
        parts.add(y=chunk, weight=None)
    assert np.array_equal(whole["y"], parts["y"])
    assert whole["y"].size == whole.kept <= 1000
    assert np.array_equal(whole["y"], values[:: whole.every])
    assert "weight" not in parts


def test_thinned_curves_keep_their_shape():
    x = np.linspace(0, 1, 100_000)
    y = np.sqrt(x)
    px, py = thinned(x, y)
    assert px.size <= 502
    assert (px[0], px[-1]) == (0.0, 1.0)
    assert np.abs(np.interp(x, px, py) - y).max() < 0.005
    short = thinned(x[:10], y[:10])
    assert np.array_equal(short[0], x[:10])


# ---------------------------------------------------------------- what a report holds


def test_full_report_has_every_section_and_loads_nothing(full):
    path, sections, told = full
    text = path.read_text(encoding="utf-8")
    assert [s.key for s in sections] == [
        "summary", "data", "map", "tried", "winner", "performance", "weights", "learning", "costs",
        "reproduce",
    ]  # fmt: skip
    assert set(charts(sections)) == {
        "map", "history", "parallel", "roc", "precision", "confusion", "calibration", "scores",
        "weights", "learning", "sparsity",
    }  # fmt: skip
    assert all(re.match("#|data:", address) for address in Addresses.of(text))
    assert "default-src 'none'" in text  # and the browser would refuse it
    assert "@import" not in text
    assert text.index('id="summary"') < text.index("<nav")  # short summary first
    for chart in charts(sections).values():
        assert chart.alt
        assert chart.caption
        assert f'aria-label="{html_module.escape(chart.alt, quote=True)}"' in text
    assert any("learning curve" in line for line in told)


def test_names_of_columns_are_data_not_code(full):
    text = full[0].read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "</script><script>" not in text
    assert html_module.escape(NASTY) in text
    assert (
        "$$" not in text.split("BEGIN bokeh")[1].split("</script>")[1]
    )  # Bokeh would load MathJax


def test_metrics_are_those_of_evaluate(full, folder, models):
    _, sections, _ = full
    found = models["two"].evaluate(folder / "test.csv")
    rows = dict(next(s for s in sections if s.key == "performance").tables[0].rows)
    assert rows["share of wrong labels"] == f"{found['error']:.2%}"
    assert float(rows["area under the ROC curve"]) == pytest.approx(found["auc"], abs=1e-4)
    assert f"{found['auc']:.3f}" in charts(sections)["roc"].caption


def test_weights_with_sign_and_stability(full):
    section = next(s for s in full[1] if s.key == "weights")
    age = next(row for row in section.tables[0].rows if row[0] == "age")
    assert age[1] == "+"
    assert age[-1] == "5 of 5 folds"
    bars = section.charts[0].layers[0]
    assert isinstance(bars, Bars)
    assert bars.names[0] == "age"
    assert np.all(bars.low <= bars.high)
    assert bars.low[0] > 0.0


def test_curves_of_refits(full):
    found = charts(full[1])
    unseen = found["learning"].layers[0]
    assert len(unseen.x) > 3
    assert unseen.y[-1] <= unseen.y[0]
    path = found["sparsity"].layers[0]
    assert path.x[0] < path.x[-1] <= 6


@pytest.mark.parametrize(
    ("name", "data", "expected", "absent"),
    [
        ("two", "test.csv", {"roc", "weights"}, {"learning", "sparsity", "history"}),
        ("three", "test.csv", {"roc", "confusion", "calibration", "scores", "weights"}, set()),
        ("number", "test.csv", {"truth", "residuals", "spread"}, {"roc", "confusion"}),
        ("kernel", "test.csv", {"roc", "scores"}, {"weights"}),
        ("two", "unlabelled.csv", {"scores", "confusion"}, {"roc", "calibration"}),
        ("number", "unlabelled.csv", {"truth"}, set()),
        ("two", None, {"confusion", "weights"}, {"roc", "scores"}),
        ("number", None, {"weights"}, {"truth"}),
    ],
)  # fmt: skip
def test_what_there_is_not_is_left_out(folder, models, name, data, expected, absent):
    given = None if data is None else folder / data
    sections = report.sections_of(models[name], given, True, 1.0, lambda line: None)
    found = set(charts(sections))
    assert expected <= found
    assert not absent & found


def test_terms_have_weights_and_a_sparsity_path():
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.poisson(0.4, size=(600, 8)).astype(float))
    y = (X[:, [2]].toarray().ravel() > 0).astype(int)
    model = train(X, y, learner="kernel", params={"map": "terms", "loss": "logistic"})
    sections = report.sections_of(model, X, False, 20.0, lambda line: None, y=y)
    found = charts(sections)
    assert "standard deviation of the weighted term" in found["weights"].x
    table = next(s for s in sections if s.key == "weights").tables[0]
    assert table.rows[0][0] == "feature 3"
    assert table.rows[0][-1] == "5 of 5 folds"
    assert found["sparsity"].layers[0].x[-1] <= 8


def test_data_it_was_trained_on_is_said_to_be_so(folder, models):
    sections = report.sections_of(
        models["two"], str(folder / "train.csv"), True, 1.0, lambda line: None
    )
    assert any("trained on" in text for text in sections[0].paragraphs)


def test_arrays_and_row_weights():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0.5).astype(int)
    model = train(X, y, params={"loss": "logistic"})
    given = {"y": y, "weight": rng.random(300)}
    sections = report.sections_of(model, X, True, 1.0, lambda line: None, **given)
    assert not any("trained on" in text for text in sections[0].paragraphs)  # who knows
    assert {"roc", "weights"} <= set(charts(sections))
    assert "train DATA" in sections[-1].codes[0][1]


def test_other_errors_of_the_data_are_not_hidden(folder, models, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("age,work\n1,2\n")
    with pytest.raises(DataError, match="no column"):
        report.sections_of(models["two"], bad, True, 1.0, lambda line: None)


def test_streams_show_their_own_history(models):
    model = models["two"]
    history = [{"passes": k, "rows": 100 * k, "error": 1.0 / k} for k in (1, 2, 3)]
    copy = type(model)(model.estimator, model.schema, {**model.training, "history": history})
    chart = charts(report.sections_of(copy, None, True, 1.0, lambda line: None))["learning"]
    assert isinstance(chart.layers[0], Line)
    assert list(chart.layers[0].x) == [100, 200, 300]


def test_trials_of_the_tuner_are_understood():
    trials = [
        {"params": {"alpha": 0.1}, "value": 0.3, "seconds": 1.0, "state": "complete"},
        {"params": {"alpha": 0.2}, "value": 0.9, "seconds": 1.0, "state": "complete"},
        {"params": {"alpha": 0.4}, "value": float("nan"), "seconds": 1.0, "state": "failed"},
    ]
    rising = tried({"trials": trials, "criterion": "auc"})
    assert rising.tables[0].rows[0][0] == "2"
    assert "1 more gave no result" in rising.paragraphs[0]
    assert tried({"trials": trials}).tables[0].rows[0][0] == "1"
    assert tried({"trials": trials[:1]}).charts  # one trial has no parallel coordinates
    assert tried({}) is None
    some = [{"params": {"alpha": a}, "score": 0.1} for a in (None, 0.1, 0.3)]
    axes = tried({"trials": some, "reason": "it is smaller"}).charts[1].layers[0]
    assert axes.places[:, 0] == pytest.approx([0.0, 0.2, 1.0])
    assert axes.ticks[0][0] == (0.0, "default")


# ---------------------------------------------------------------- files


def test_matplotlib_draws_the_same_figures(folder, models, tmp_path):
    model = models["two"]
    trials = [{"params": {"a$": k, "b": f"${k % 2}"}, "score": k / 9} for k in range(4)]
    copy = type(model)(model.estimator, model.schema, {**model.training, "trials": trials})
    paths = [tmp_path / f"report.{kind}" for kind in ("html", "pdf", "png")]
    sections = report.write_report(copy, folder / "test.csv", *paths, quick=True, static=True)
    text = paths[0].read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == len(charts(sections)) == 9
    assert "bokeh" not in text
    assert paths[1].read_bytes().startswith(b"%PDF")
    assert paths[2].read_bytes().startswith(b"\x89PNG")
    report.write_report(models["number"], folder / "test.csv", pdf=paths[1], quick=True)


def test_without_the_packages_it_says_how_to_get_them(models, tmp_path, monkeypatch):
    def missing(module):
        raise ImportError(f"No module named {module!r}")

    monkeypatch.setattr(style, "import_module", missing)
    monkeypatch.setattr(report, "have", lambda package: False)
    for files in ({"html": tmp_path / "a.html"}, {"pdf": tmp_path / "a.pdf"}):
        with pytest.raises(ImportError, match=r'pip install "thresher\[report\]"'):
            report.write_report(models["two"], **files)


def test_files_that_cannot_be_written_are_refused_before_the_work(models, tmp_path):
    with pytest.raises(ValueError, match="no folder"):
        report.write_report(models["two"], html=tmp_path / "none" / "a.html")
    with pytest.raises(ValueError, match="html="):
        report.write_report(models["two"])


MAPS = {
    "terms": TermFeatures(0.4),
    "forest": ForestFeatures(5, min_leaf=7, max_features=0.5, random_state=3),
    "local": LocalNystroem(20, cells=3, random_state=2),
    "stack": StackFeatures(
        [
            LinearClassifier(scale=True, random_state=5),
            KernelClassifier(map=ForestFeatures(4, random_state=3), random_state=1),
        ],
        weights=[0.75, 2.0],
        offsets=[0.1],
    ),
}


@pytest.mark.parametrize("name", ["linear", *MAPS])
def test_command_to_reproduce_gives_the_same_model(name, folder, models, tmp_path, monkeypatch):
    from thresher.cli.app import app

    model = models["two"]
    if name in MAPS:
        model = train(
            folder / "train.csv", target="income", ignore=["pay", "kind"], learner="kernel",
            params={"map": MAPS[name]},
        )  # fmt: skip
    words = recipe(model).words()
    assert words[:2] == ["thresher", "train"]
    monkeypatch.chdir(tmp_path)
    app([*words[1:], "--quiet"], standalone_mode=False)
    again = load_model("again.thresher")
    assert np.array_equal(again.estimator.coef_, model.estimator.coef_)
    known = {}
    exec(recipe(model).code(), known)
    assert np.array_equal(known["model"].estimator.coef_, model.estimator.coef_)


def test_work_of_the_command(folder, models, tmp_path, capsys, monkeypatch):
    path = tmp_path / "income.thresher"
    models["two"].save(path)
    options = dict(  # noqa: C408
        quick=True, seconds=1.0, static=False, reading={}, plugins=[], quiet=False
    )
    command.report(path, [str(folder / "test.csv")], None, None, None, as_json=True, **options)
    assert '"figures": 7' in capsys.readouterr().out
    assert (tmp_path / "income.html").stat().st_size > 500_000


# ---------------------------------------------------------------- a real browser


def browser():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


@pytest.mark.skipif(
    browser() is None, reason="no chromium or chrome on the PATH: page not looked at"
)
def test_a_browser_draws_every_plot_without_errors(full, tmp_path):
    path, sections, _ = full
    shot = tmp_path / "page.png"
    words = [
        browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=10000", "--window-size=1280,4000", "--enable-logging=stderr",
        f"--screenshot={shot}", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    root = re.search(r"<html[^>]*>", done.stdout)
    assert root is not None, done.stderr[-2000:]
    assert f'data-plots-drawn="{len(charts(sections))}"' in root[0]
    assert 'data-errors=""' in root[0]
    assert "Uncaught" not in done.stderr
    assert "ERR_NAME_NOT_RESOLVED" not in done.stderr  # nothing was asked of the network
    assert "Content Security Policy" not in done.stderr


# ---------------------------------------------------------------- the map of the data


def test_the_map_has_targets_and_scores_beside_it_and_is_small(full):
    section = next(s for s in full[1] if s.key == "map")
    picture = section.charts[0].layers[0]
    assert isinstance(picture, Picture)
    assert [name for _, name in picture.names][:2] == ["the target", "score"]
    assert "age" in [name for _, name in picture.names]
    assert all(0.0 <= place <= 1.0 for place, _ in picture.names)
    assert picture.pixels.nbytes < 2_000_000
    strip = picture.pixels[:, 26:50]  # the scores: one colour for each row of cells
    assert (strip == strip[:, :1]).all()
    assert len(np.unique(strip.reshape(-1, 3), axis=0)) > 10


def test_the_map_of_many_sparse_columns_shows_the_fullest():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((300, 500)) < 0.05, 1.0, 0.0)
    dense[:, 7] = rng.random(300)
    X, y = csr_matrix(dense), (dense[:, 7] > 0.5).astype(int)
    model = train(X, y, params={"loss": "logistic"})
    sections = report.sections_of(model, X, True, 1.0, lambda line: None, y=y)
    section = next(s for s in sections if s.key == "map")
    assert "60 of 500 columns" in section.paragraphs[0]
    assert "x8" in [name for _, name in section.charts[0].layers[0].names]
