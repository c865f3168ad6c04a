"""``thresher wizard``: questions and answers, then the command, the code and the model.

The questions are in ``questions.py``; here the answers become a recipe (a pure function), and a
thin loop asks.  What is run is the very command that is printed.
"""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

from thresher._durations import seconds_of
from thresher.cli import show
from thresher.cli.questions import NOTHING, QUESTIONS, tunes
from thresher.cli.talk import Question, Talk
from thresher.data.errors import nearest
from thresher.registry import LEARNERS, LOSSES
from thresher.training.recipe import Recipe

__all__ = ["recipe_of", "wizard"]

INTERRUPTED = 130
_PENALTIES = {"yes": "l1", "mixed": "elastic_net"}
_GROUPS_TRIED = 19  # two to twenty
_DEFAULTS = {"encoding": "utf-8", "on_bad_rows": "error"}

Ask = Callable[[Question, Talk], str]


# ---------------------------------------------------------------- answers to a recipe


def recipe_of(paths: list[str], reading: dict[str, Any], answers: dict[str, str]) -> Recipe:
    """What the answers mean."""
    reading = {k: v for k, v in reading.items() if v is not None and v != _DEFAULTS.get(k)}
    if "clusters" in answers:
        return _grouping(paths, reading, answers)
    columns = {k: v for k, v in answers.items() if k in ("target", "task", "outlier_label")}
    if answers.get("irrelevant", NOTHING) != NOTHING:
        columns["irrelevant"] = answers["irrelevant"]
    asked = answers.get("budget", "none")
    budget = None if asked == "none" else seconds_of(asked)
    options: dict[str, Any] = {} if budget is None else {"budget": budget}
    if tunes(answers):
        options |= {"tune": int(answers["tune"]), "criterion": answers["criterion"]}
    params = _params(answers) if budget is None else {}
    learner = answers.get("learner", "linear")
    return Recipe(paths, {**columns, **reading}, learner, params, options, answers["save"])


def _grouping(paths: list[str], reading: dict[str, Any], answers: dict[str, str]) -> Recipe:
    """A clustering of so many groups, or of the number with the best silhouette."""
    params, options = {}, {}
    if answers["clusters"] == "auto":
        options = {"tune": _GROUPS_TRIED, "search": "grid"}
    else:
        params = {"n_clusters": int(answers["clusters"])}
    return Recipe(paths, reading, answers["grouping"], params, options, answers["save"])


def _params(answers: dict[str, str]) -> dict[str, Any]:
    learner, loss = answers.get("learner", "linear"), answers.get("loss")
    fixed = len(LEARNERS[learner].losses.get(answers["task"], ())) == 1
    params: dict[str, Any] = {} if fixed else {"loss": loss}
    if answers.get("map", "nystroem") != "nystroem":
        params["map"] = answers["map"]
    if answers.get("sparse", "no") != "no":
        params["penalty"] = _PENALTIES[answers["sparse"]]
    if answers.get("criterion") == "log_loss" and (
        fixed or loss is None or LOSSES[loss].link is None
    ):
        params["calibrate"] = "sigmoid"
    return params


# ---------------------------------------------------------------- asking


def wizard(paths: list[str], answers: Path | None, reading: dict[str, Any]) -> None:
    """Ask (or read the answers), print the recipe, run it and show the result."""
    talk = Talk(paths, reading)
    given = None if answers is None else read_answers(answers)
    try:
        _converse(talk, _asking if given is None else _reading(given))
    except (KeyboardInterrupt, EOFError):
        show.console.print("\nleft; nothing was trained")
        raise SystemExit(INTERRUPTED) from None
    recipe = recipe_of(paths, reading, talk.answers)
    _print(recipe)
    if talk.answers["run"] == "yes":
        _run(recipe, talk)


def _converse(talk: Talk, ask: Ask) -> None:
    for question in QUESTIONS:
        if question.asked(talk):
            ask(question, talk)


def read_answers(path: Path) -> dict[str, str]:
    """A TOML file: target = "income", sparse = true; what is left out takes the default."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    known = [q.key for q in QUESTIONS]
    for key in document:
        if key not in known:
            raise ValueError(f"{path} answers {key!r}, which is not asked: {nearest(key, known)}")
    yes_no = {True: "yes", False: "no"}
    return {k: yes_no[v] if isinstance(v, bool) else str(v) for k, v in document.items()}


def _reading(given: dict[str, str]) -> Ask:
    """Answers from a file: a wrong one ends it."""

    def ask(question: Question, talk: Talk) -> str:
        try:
            value = talk.answer(question, given.get(question.key, ""))
        except ValueError as error:
            raise ValueError(f"{question.key}: {error}") from None
        show.console.print(f"{escape(question.text)} [bold]{escape(value)}[/]", soft_wrap=True)
        return value

    return ask


def _asking(question: Question, talk: Talk) -> str:
    """Ask until there is a good answer."""
    _explain(question, talk)
    while True:
        default = question.default(talk)
        text = _input(f"[bold]{question.key}[/] [dim]({escape(default)})[/]: ")
        if text.strip() == "?":
            _explain(question, talk)
            continue
        try:
            return talk.answer(question, text)
        except ValueError as error:
            show.console.print(f"[bold]?[/] {escape(str(error))}")


def _input(prompt: str) -> str:
    try:
        return show.console.input(prompt)
    except EOFError:
        if sys.stdin.isatty():
            raise
        raise ValueError(
            "the answers ended: run it in a terminal, or give --answers FILE"
        ) from None


def _explain(question: Question, talk: Talk) -> None:
    console = show.console
    console.print(f"\n[bold]{escape(question.text)}[/]")
    why = question.why
    if question.key == "loss" and talk.task == "regression":
        why = "The loss is what a mistake costs while learning; r is the residual."
    console.print(Padding(escape(why), (0, 0, 0, 2)))
    grid = Table.grid(padding=(0, 1))
    for number, choice in enumerate(question.choices(talk), start=1):
        value = f"[cyan]{escape(choice.value)}[/]"
        grid.add_row(f"[bold]{number}[/]", value, escape(choice.text))
    if grid.row_count:
        console.print(Padding(grid, (0, 0, 0, 2)))
    rest = len(talk.data.schema.columns) - len(question.choices(talk))
    if question.key == "target" and rest > 0:
        console.print(f"  ... and {rest:,} more columns")
    usual = f"Most people choose {escape(question.usual)}. ENTER takes the default, ? repeats this."
    console.print(Padding(f"[dim]{usual}[/]", (0, 0, 0, 2)))


# ---------------------------------------------------------------- the end


def _print(recipe: Recipe) -> None:
    show.console.print("\n[bold]The same as one command[/]")
    show.result.print(shlex.join(recipe.words()), soft_wrap=True, markup=False)
    show.console.print("\n[bold]and in Python[/]")
    code = recipe.code('print(model.training["held_out"])')
    if show.result.is_terminal:
        show.result.print(Syntax(code, "python", theme="ansi_dark", word_wrap=True))
    else:
        show.result.print(code, soft_wrap=True, markup=False)


def _run(recipe: Recipe, talk: Talk) -> None:
    from thresher.cli.app import app

    app(recipe.words()[1:], standalone_mode=False)
    noted = ("criterion", "budget", "tune")
    asked = {key: value for key, value in talk.answers.items() if key in noted}
    path = talk.answers["save"]
    _record(path, asked)
    show.console.print("\n[bold]What next[/]")
    nexts = [["predict", path, "NEW_DATA"], ["evaluate", path, "TEST_DATA"]]
    if any(
        (c.name or getattr(c.callback, "__name__", "")) == "report" for c in app.registered_commands
    ):
        nexts.append(["report", path, "--data", "TEST_DATA"])
    for words in nexts:
        show.console.print(f"  {escape(shlex.join(['thresher', *words]))}", soft_wrap=True)


def _record(path: str, asked: dict[str, str]) -> None:
    """What was wished for is noted in the model; the criterion is shown."""
    from thresher.training import load_model

    model = load_model(path)
    model.training["asked"] = asked
    model.save(path)
    held = model.training.get("held_out") or {}
    criterion = asked.get("criterion", "silhouette")
    value = held.get(criterion)
    if criterion == "mse" and held.get("rmse") is not None:
        value = held["rmse"] ** 2
    if value is not None:
        show.console.print(f"\n[bold]{criterion} on held-out rows: {value:.4g}[/]")
