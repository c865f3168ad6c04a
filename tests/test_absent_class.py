"""A class all of whose rows would be held out, or that has one row, is neither lost nor in the way.

It keeps its first row to learn from; where rows are learned from as they come, the first row of any
class is.
"""

import numpy as np
import pytest

from thresher import LinearClassifier, load_model, open_data, save_model, train
from thresher._random import uniform
from thresher.training.holdout import HoldOut
from thresher.training.intake import take_in

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
# The rows whose position draws a small number are held out, whatever they hold.
HELD = np.array([uniform(0, i, 1) < 0.1 for i in range(300)])
LEARNERS = {"linear": {}, "kernel": {"n_components": 20}, "budgeted": {"budget": 20},
            "hyperplanes": {}, "confidence": {}}  # fmt: skip


def labels(rows):
    """Two classes by a threshold, and a third on these rows only."""
    y = np.where(X[:, 0] > 0.0, "b", "a").astype(object)
    y[rows] = "c"
    return y.astype(str)


@pytest.mark.parametrize("memory", [1 << 30, 1])
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("rows", [np.flatnonzero(HELD)[:3], np.flatnonzero(~HELD)[:1]])
def test_a_rare_class_stays(learner, memory, rows, tmp_path):
    y = labels(rows)
    model = train(X, y, learner=learner, params=LEARNERS[learner], memory=memory)
    assert model.classes.tolist() == ["a", "b", "c"]
    held = model.training["held_out"]
    assert held["classes"] == ["a", "b", "c"]
    kept = int(np.all(HELD[y == "c"]))  # a row that the class gets back
    assert model.training["rows"] == 300 - HELD.sum() + kept
    assert np.sum(held["confusion"]) == HELD.sum() - kept
    assert np.sum(held["confusion"], axis=1)[2] == np.count_nonzero(HELD & (y == "c")) - kept
    assert held["error"] < 0.4
    model.save(tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.evaluate(X, y=y)["rows"] == 300


@pytest.mark.parametrize("calibrate", ["sigmoid", "isotonic"])
def test_probabilities_of_a_class_without_rows(calibrate):
    codes = (X[:, 0] > 0.0).astype(np.int64)
    model = LinearClassifier(solver="newton", calibrate=calibrate)
    model.fit_codes(X, codes, np.array(["a", "b", "c"]))
    model.n_features_in_ = 4
    table = model.predict_proba(X)
    assert table.shape == (300, 3)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert set(model.predict(X)) == {"a", "b"}


@pytest.mark.parametrize("memory", [1 << 30, 1])
def test_the_row_that_a_class_gets_back_is_learned_from(memory):
    """Whether in memory or not, it is the first one, and the only one."""
    y = np.where(HELD, "b", "a")
    first = int(np.flatnonzero(HELD)[0])
    model = train(X, y, memory=memory, params={"solver": "asgd"})
    assert model.training["held_out_rows"] == HELD.sum() - 1
    # The same as if its position had not drawn a small number: by rows that are never held out.
    where = np.append(np.flatnonzero(~HELD), first)
    hold = HoldOut(0.1, 1000, 0)
    data = open_data(X, y)
    take_in(data, hold, memory, True, lambda rows: None)
    masks = [hold.mask(batch) for batch in data.chunks(64)]
    assert np.array_equal(np.flatnonzero(~np.concatenate(masks)), np.sort(where))
    assert sum(batch.size for batch in hold.rows) == HELD.sum() - 1


def test_scales_and_counts_include_the_row():
    y = np.where(HELD, "b", "a")
    data, hold = open_data(X, y), HoldOut(0.1, 1000, 0)
    intake = take_in(data, hold, 1 << 30, True, lambda rows: None)
    learned = ~np.concatenate([hold.mask(batch) for batch in data.chunks()])
    assert intake.rows == learned.sum() == intake.mass
    assert intake.class_counts.tolist() == [np.sum(learned & ~HELD), 1]
    mean, deviation = intake.moments.mean_and_deviation()
    np.testing.assert_allclose(mean, X[learned].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(deviation, X[learned].std(axis=0), rtol=1e-12)


def test_a_stream_without_a_scan_learns_from_every_class():
    y = np.where(HELD, "b", "a")
    model = train(X, y, memory=1, scan=False)
    assert model.training["held_out_rows"] == HELD.sum() - 1
    data, hold = open_data(X, y), HoldOut(0.1, 1000, 0)
    intake = take_in(data, hold, 1, False, lambda rows: None)
    masks = [intake.look(batch) for batch in intake.windows()]
    kept = np.flatnonzero(~np.concatenate(masks))
    assert np.array_equal(kept, np.sort([*np.flatnonzero(~HELD), np.flatnonzero(HELD)[0]]))


def test_a_stream_never_holds_out_the_first_row_of_a_class():
    """Windows of 20 rows, the first of them looked at before the stream begins."""
    y = np.arange(300) // 7  # 43 classes, that come one after the other
    first, wanted = np.arange(0, 300, 7), np.array([uniform(0, i, 1) < 0.5 for i in range(300)])
    data, hold = open_data(X, y.astype(str)), HoldOut(0.5, 1000, 0)
    codes = np.searchsorted(np.unique(y.astype(str)), y.astype(str))
    batches = list(data.chunks(20))
    masks = [hold.collect(batches[0])]
    hold.begin_stream(np.bincount(codes[:20][~masks[0]], minlength=43))
    masks = [hold.mask(batches[0]), *(hold.collect(batch) for batch in batches[1:])]
    held = np.concatenate(masks)
    assert set(y[~held]) == set(range(43))
    assert not np.any(held[first[3:]])  # 0, 7 and 14 lie in the first window
    alone = [c for c in range(3) if np.all(wanted[:20][y[:20] == c])]
    assert np.array_equal(np.flatnonzero(wanted != held), np.sort(
        [*(7 * c for c in alone), *first[3:][wanted[first[3:]]]]
    ))  # fmt: skip
    again = np.concatenate([hold.mask(batch) for batch in data.chunks(64)])
    assert np.array_equal(again, held)
    assert sum(batch.size for batch in hold.rows) == held.sum()


def test_other_rows_are_held_out_as_before():
    y = labels(np.flatnonzero(~HELD)[:1])
    data, hold = open_data(X, y), HoldOut(0.1, 1000, 0)
    take_in(data, hold, 1 << 30, True, lambda rows: None)
    assert np.array_equal(np.concatenate([hold.mask(b) for b in data.chunks()]), HELD)


def test_boolean_labels_come_back(tmp_path):
    model = LinearClassifier().fit(X, X[:, 0] > 0.0)
    save_model(model, tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher")
    assert again.predict(X).dtype == bool
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.evaluate(X, y=X[:, 0] > 0.0)["error"] < 0.05
