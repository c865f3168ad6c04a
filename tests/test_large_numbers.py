"""Numbers that are too large for what they stand for: a clear word, with the line."""

import numpy as np
import pytest

from thresher import DataError, open_data, train
from thresher.data import svmlight

BIG = 10**30


@pytest.fixture
def file(tmp_path):
    def written(lines, name="d.svm"):
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in lines))
        return path

    return written


def test_features_whose_weights_do_not_fit(file, monkeypatch):
    monkeypatch.setattr(svmlight, "most_features", lambda: 1000)
    rows = [f"{i % 2} 1:{i} 3:1" for i in range(50)]
    rows[17] += " 2147483647:1"
    with pytest.raises(DataError, match=r"d.svm, line 18: feature 2147483647 makes rows of"):
        open_data(file(rows))
    rows[17] = "# nothing"
    with pytest.raises(DataError, match="line 45: feature 5000"):
        open_data(file([*rows[:44], "1 5000:1"]), block_bytes=64)  # in a later block of the sample
    assert open_data(file(rows)).schema.n_features == 3


def test_a_feature_far_behind_the_sample(file, monkeypatch):
    monkeypatch.setattr(svmlight, "most_features", lambda: 1000)
    rows = [f"{i % 2} 1:{i}" for i in range(20_000)] + ["", "1 1500:1"]
    with pytest.raises(DataError, match="line 20002: feature 1500"):
        open_data(file(rows))
    assert open_data(file(rows), n_features=1500).schema.n_features == 1500


def test_what_the_machine_says():
    assert svmlight.most_features() > 10**6


@pytest.mark.parametrize("label", [BIG, 2**60])
def test_labels_that_cannot_be_told_apart(file, label):
    """Found when the model was saved, after the training."""
    path = file(["a,y", *(f"{i},{label * (i % 2)}" for i in range(50))], "d.csv")
    with pytest.raises(DataError, match=r"has the label 1.*beyond 2\^53"):
        open_data(path, target="y")
    with pytest.raises(DataError, match=r"beyond 2\^53"):
        open_data(file([f"{label * (i % 2)} 1:{i}" for i in range(50)]))
    with pytest.raises(DataError, match=r"beyond 2\^53"):
        open_data(np.eye(50), np.array([0.0, float(label)] * 25))
    assert open_data(path, target="y", task="regression").schema.target.task == "regression"


def test_options(thresher, file):
    path = file(["a,y", *(f"{i},{i % 2}" for i in range(50))], "d.csv")
    code, _, err = thresher("train", path, "-t", "y", "--seed", BIG, "-q")
    assert (code, "seed must be below 2^63" in err) == (5, True)
    with pytest.raises(ValueError, match="seed must be below"):
        train(path, target="y", seed=BIG)
