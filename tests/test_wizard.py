"""The wizard: defaults, wrong answers, and a command and code that give the very same model."""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from thresher import load_model
from thresher._durations import seconds_of
from thresher.cli import show, wizard
from thresher.cli.questions import QUESTIONS
from thresher.cli.talk import Talk

BY_KEY = {question.key: question for question in QUESTIONS}
_MARKUP = "[bold]odd[/]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wizard")
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame({"age": rng.integers(18, 90, size=n), _MARKUP: rng.normal(size=n)})
    score = 0.1 * (frame["age"] - 50) + rng.normal(size=n)
    frame["pay"] = np.round(score, 2)
    frame["rare"] = np.where(score > 4.0, "yes", "no")
    frame["kind"] = np.where(score > 0, "up", "down")
    frame.to_csv(folder / "people.csv", index=False)
    return folder


@pytest.fixture
def here(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return folder / "people.csv"


def talked(data, **answers):
    """All questions that are asked, with these answers and the defaults for the others."""
    talk = Talk([str(data)])
    for question in QUESTIONS:
        if question.asked(talk):
            talk.answer(question, answers.get(question.key, ""))
    return talk


@pytest.mark.parametrize("clusters", ["auto", "4"])
def test_rows_are_grouped_where_nothing_is_predicted(here, clusters):
    talk = talked(here, target="none", clusters=clusters, run="no")
    assert list(talk.answers) == ["target", "clusters", "grouping", "save", "run"]
    recipe = wizard.recipe_of([str(here)], {}, talk.answers)
    words = shlex.join(recipe.words())
    assert "--learner kmeans" in words
    assert ("--set n_clusters=4" if clusters == "4" else "--tune 19 --search grid") in words
    assert "--target" not in words
    with pytest.raises(ValueError, match="no number of groups"):
        talk.answer(BY_KEY["clusters"], "0")
    with pytest.raises(ValueError, match="no answer"):
        talk.answer(BY_KEY["grouping"], "linear")


def test_the_groups_of_a_wizard(here, capsys):
    (here.parent / "groups.toml").write_text('target = "none"\nclusters = 3\nsave = "g.thresher"')
    wizard.wizard([str(here)], here.parent / "groups.toml", {"ignore": ["kind", "rare"]})
    assert load_model("g.thresher").function.outputs == 3


def test_defaults_come_from_the_data(here):
    answers = talked(here).answers
    assert answers == {
        "target": "kind", "task": "classification", "budget": "none", "loss": "squared_hinge",
        "learner": "linear", "sparse": "no", "tune": "no", "criterion": "error",
        "save": "people.thresher", "run": "yes",
    }  # fmt: skip
    assert talked(here, target="rare").answers["criterion"] == "auc"
    answers = talked(here, target="pay").answers
    assert (answers["task"], answers["loss"], answers["criterion"]) == (
        "regression", "least_squares", "mse",
    )  # fmt: skip
    open("people.thresher", "w").close()
    assert talked(here).answers["save"] == "people-2.thresher"


def test_choices_depend_on_earlier_answers(here):
    talk = talked(here, loss="hinge")
    names = [c.value for c in BY_KEY["learner"].choices(talk)]
    assert names == ["linear", "kernel", "budgeted", "svm", "mkl", "hyperplanes", "universum"]
    talk = talked(here, learner="kernel")
    names = [c.value for c in BY_KEY["learner"].choices(talk)]
    assert names == ["linear", "kernel", "confidence"]
    assert "sparse" not in talk.answers


def test_every_question_explains_itself(here):
    talk = talked(here)
    for question in QUESTIONS:
        assert question.why
        assert question.usual
        assert all(c.text for c in question.choices(talk) if question.key != "target")


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("target", "agee", "did you mean 'age'"),
        ("target", "77", "no column"),
        ("loss", "hing3", "did you mean 'hinge'"),
        ("loss", "9", "is no answer"),
        ("budget", "soon", "is no time"),
        ("tune", "some", "is no number of settings"),
        ("save", "nowhere/model.thresher", "no folder"),
        ("task", "regression", "number"),
    ],
)
def test_wrong_answers_are_refused_with_the_reason(here, key, text, reason):
    talk = talked(here)
    before = dict(talk.answers)
    with pytest.raises(ValueError, match=reason):
        talk.answer(BY_KEY[key], text)
    assert talk.answers == before


def test_answers_by_number_name_and_beginning(here):
    talk = talked(here)
    assert talk.answer(BY_KEY["loss"], "3") == "logistic"
    assert talk.answer(BY_KEY["loss"], "Pin") == "pinball"
    assert talk.answer(BY_KEY["target"], "-2") == "rare"
    assert talk.answer(BY_KEY["target"], "5") == "kind"
    assert talk.answer(BY_KEY["budget"], "2") == "1m"
    assert talk.answer(BY_KEY["budget"], "90s") == "90s"
    assert [talk.answer(BY_KEY["tune"], t) for t in ("3", "25", "none")] == ["40", "25", "no"]
    assert (seconds_of("1.5h"), seconds_of("45")) == (5400.0, 45.0)


def same(a, b):
    """Two model files hold the same model, whatever is noted about its making."""
    a, b = load_model(a), load_model(b)
    assert a.schema == b.schema
    names = [n for n in vars(a.estimator) if n.endswith("_") and n not in ("status_",)]
    for name in names:
        x, y = getattr(a.estimator, name), getattr(b.estimator, name)
        if isinstance(x, np.ndarray):
            assert np.array_equal(x, y), name
    return a


@pytest.mark.parametrize(
    "answers",
    [
        {"criterion": "log_loss"},
        {"loss": "logistic", "sparse": "yes", "criterion": "auc"},
        {"loss": "hinge", "learner": "budgeted"},
        {"target": "pay", "loss": "huber", "sparse": "mixed"},
        {"tune": "6", "loss": "logistic", "sparse": "yes", "criterion": "sparse_error"},
    ],
)
def test_command_code_and_arguments_give_the_same_model(here, answers, capsys):
    from thresher.cli.app import app

    talk = talked(here, **answers)
    plan = wizard.recipe_of(talk.paths, {}, talk.answers)
    app([*shlex.split(shlex.join(plan.words()))[1:], "--quiet"], standalone_mode=False)
    os.rename("people.thresher", "command.thresher")
    exec(compile(plan.code(), "code", "exec"), {})
    model = same("command.thresher", "people.thresher")
    assert model.training["held_out"]
    if "tune" in answers:
        assert model.training["tuning"]["trials"] == 6
        assert model.training["tuning"]["criterion"] == answers["criterion"]
    if answers.get("criterion") == "log_loss":
        assert model.training["held_out"]["log_loss"] is not None


def test_reading_options_are_part_of_the_plan(here):
    reading = {
        "format": None, "delimiter": ";", "header": False, "encoding": "utf-8",
        "on_bad_rows": "skip", "zero_based": None, "n_features": None,
    }  # fmt: skip
    answers = talked(here).answers
    plan = wizard.recipe_of(["a b.csv", "c.csv"], reading, answers)
    line = shlex.join(plan.words())
    assert "'a b.csv' c.csv" in line
    assert "--delimiter ';' --no-header --on-bad-rows skip" in line
    assert "encoding" not in line
    assert "['a b.csv', 'c.csv']" in plan.code()
    assert plan.arguments()["header"] is False


def test_a_race_takes_the_place_of_the_questions_about_the_learner(here):
    talk = talked(here, budget="1.5m")
    assert not {"loss", "learner", "sparse", "tune"} & set(talk.answers)
    plan = wizard.recipe_of(talk.paths, {}, talk.answers)
    assert plan.words()[-4:] == ["--budget", "90s", "--model", "people.thresher"]
    assert plan.arguments()["budget"] == 90.0
    assert "    budget=90.0," in plan.code()
    assert "params" not in plan.arguments()


def test_answers_from_a_file(here, tmp_path, capsys):
    file = tmp_path / "answers.toml"
    file.write_text('target = "kind"\nloss = "logistic"\nsparse = true\nsave = "mine.thresher"\n')
    wizard.wizard([str(here)], file, {})
    out = capsys.readouterr().out
    assert "thresher train" in out
    assert "--penalty l1 --model mine.thresher" in out
    model = load_model("mine.thresher")
    assert model.training["asked"] == {
        "budget": "none", "tune": "no", "criterion": "error",
    }  # fmt: skip
    file.write_text("run = false\n")
    wizard.wizard([str(here)], file, {})
    assert "--model people.thresher" in capsys.readouterr().out
    assert not os.path.exists("people.thresher")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("los = 'hinge'", "did you mean 'loss'"), ("loss = 'x'", "loss: 'x'"), ("loss", "not TOML")],
)
def test_wrong_answers_in_a_file_end_it(here, tmp_path, text, reason):
    file = tmp_path / "answers.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=reason):
        wizard.wizard([str(here)], file, {})


def test_answers_that_end_early(here, monkeypatch):
    def ended(prompt):
        raise EOFError

    monkeypatch.setattr(show.console, "input", ended)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(ValueError, match="--answers"):
        wizard.wizard([str(here)], None, {})


# ---------------------------------------------------------------- in a terminal

CHILD = """
import fcntl, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C shall reach us
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests run in the background
from thresher.cli.wizard import wizard
wizard([sys.argv[1]], None, {})
"""


class Terminal:
    """A process in a pseudo-terminal: what it shows, and what is typed."""

    def __init__(self, data):
        pty = pytest.importorskip("pty")
        self.fd, other = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(data)],
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
        )
        os.close(other)
        self.shown, self.open = "", True

    def expect(self, words, seconds=60.0):
        """Read until these words are shown."""
        assert self.shows(words, seconds), self.shown[-2000:]
        self.shown = self.shown.partition(words)[2]

    def shows(self, words, seconds):
        end = time.monotonic() + seconds
        while words not in self.shown and time.monotonic() < end and self.read():
            pass
        return words in self.shown

    def read(self):
        if not select.select([self.fd], [], [], 1.0)[0]:
            return True
        try:
            raw = os.read(self.fd, 65536)
        except OSError:  # the other side has closed
            return False
        self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw.decode(errors="replace"))
        return bool(raw)

    def type(self, text):
        os.write(self.fd, text.encode())

    def ended(self):
        while self.read():
            pass
        return self.closed()

    def closed(self):
        """Hang up, as a terminal does that is closed."""
        if self.open:
            os.close(self.fd)
            self.open = False
        return self.process.wait(timeout=60)


@pytest.fixture
def terminal(here):
    started = Terminal(here)
    yield started
    started.closed()


def test_a_conversation_in_a_terminal(terminal):
    terminal.expect(_MARKUP)  # a name is not markup
    terminal.expect("target (kind): ")
    terminal.type("knid\n")
    terminal.expect("did you mean 'kind'?")
    terminal.expect("target (kind): ")
    terminal.type("?\n")
    terminal.expect("Which column is to be predicted?")
    typing = {"loss": "log", "learner": "1", "criterion": "2"}
    for key in ("target", "task", "budget", "loss", "learner", "sparse", "tune", "criterion",
                "save", "run"):  # fmt: skip
        terminal.expect(f"{key} (")
        terminal.type(typing.get(key, "") + "\n")
    terminal.expect("thresher train")
    terminal.expect("--loss logistic --model people.thresher")
    terminal.expect("model = train(")
    terminal.expect("auc on held-out rows")
    terminal.expect("thresher predict people.thresher")
    assert terminal.ended() == 0
    assert load_model("people.thresher").training["asked"]["criterion"] == "auc"


def test_leaving_with_control_c(terminal):
    terminal.expect("target (kind): ")
    for _ in range(5):  # a signal between the prompt and the reading waits for the next key
        terminal.type("\x03")
        if terminal.shows("nothing was trained", 5.0):
            break
    terminal.expect("nothing was trained")
    assert "Traceback" not in terminal.shown
    assert terminal.ended() == 130
    assert not os.path.exists("people.thresher")
