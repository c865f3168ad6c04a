"""The commands and their options; each command's work is in a module of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from thresher.cli import options as o
from thresher.registry import LEARNERS, LOSSES, PENALTIES, SOLVERS, TASKS

__all__ = ["app"]


class _Commands(TyperGroup):
    """Typer's group, quick to start: its help flag is False where it is not given.

    Typer would have Pydantic convert the None that is there otherwise, and importing that takes a
    third of the time of ``--help``.
    """

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


app = typer.Typer(
    name="thresher",
    cls=_Commands,
    help="Learning from data that is too big, too sparse or too nonlinear for the usual tools.\n\n"
    "Exit codes: 0 done, 1 a defect of ours, 2 wrong usage, 3 bad data, 4 bad model file, "
    "5 wrong option value, 6 workers or their scheduler failed, 130 interrupted (a usable model is "
    "left).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_LEARNER, _RUN, _COLUMNS = "The learner", "The training", "The columns"
_TUNING = "Tuning the learner"
_TARGETED = [name for name, task in TASKS.items() if task.has_target]


def _configured(ctx: typer.Context, path: Path | None) -> Path | None:
    if path is not None:
        known = {p.name for p in ctx.command.params if p.name}
        ctx.default_map = {**(ctx.default_map or {}), **o.read_config(path, known)}
    return path


def _version(wanted: bool) -> None:
    if wanted:
        from thresher import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
@o.clustered
@o.reading()
def train(
    reading: dict[str, Any],
    cluster: Any,
    data: o.Data,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Column to predict: a name, or a number "
                                    "from 1 (-1: the last). svmlight text has its own.",
                                    rich_help_panel=_COLUMNS),
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="File to write the model to.")
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="Column of row weights.", rich_help_panel=_COLUMNS)
    ] = None,
    task_column: Annotated[
        str | None, typer.Option(help="Column that names the task of each row (school, person): a "
                                 "linear function for each, learned together, whatever the "
                                 "size of the file.",
                                 rich_help_panel=_COLUMNS)
    ] = None,
    ignore: Annotated[
        list[str], typer.Option(help="Column to leave out (again for more).",
                                rich_help_panel=_COLUMNS)
    ] = [],
    types: Annotated[
        list[str], typer.Option("--type", help="COLUMN=number|powers:3|category|hashed:BITS|"
                                "boolean|date|ignored (again for more).", rich_help_panel=_COLUMNS)
    ] = [],
    task: Annotated[
        str | None, typer.Option(help=f"{' or '.join(_TARGETED)}; by the target's values.",
                                    rich_help_panel=_COLUMNS)
    ] = None,
    irrelevant: Annotated[
        str | None, typer.Option(help="Label of rows of no class, for a learner that learns from "
                                 "them too (universum).", rich_help_panel=_COLUMNS)
    ] = None,
    outlier_label: Annotated[
        str | None, typer.Option(help="Of --task novelty: the label of rows of no class; -1, or "
                                 "'outlier' among words.", rich_help_panel=_COLUMNS)
    ] = None,
    missing: Annotated[
        str, typer.Option(help="mean (and a feature that says so), most_frequent or error.",
                          rich_help_panel=_COLUMNS)
    ] = "mean",
    max_categories: Annotated[
        int, typer.Option(help="Values a text column keeps apart.", rich_help_panel=_COLUMNS)
    ] = 256,
    hash_bits: Annotated[
        int | None, typer.Option(help="Hash text columns into 2^BITS features.",
                                    rich_help_panel=_COLUMNS)
    ] = None,
    learner: Annotated[
        str | None, typer.Option(help=f"{o.learner_help()} linear, if not said, or who serves "
                                 "--task.", rich_help_panel=_LEARNER)
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help=o.names_help(LOSSES), rich_help_panel=_LEARNER)
    ] = None,
    penalty: Annotated[
        str | None, typer.Option(help=o.names_help(PENALTIES), rich_help_panel=_LEARNER)
    ] = None,
    solver: Annotated[
        str | None, typer.Option(help=f"auto, {o.names_help(SOLVERS)}", rich_help_panel=_LEARNER)
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Strength of the penalty; 1/rows for l2.",
                                      rich_help_panel=_LEARNER)
    ] = None,
    scale: Annotated[
        bool | None, typer.Option("--scale/--no-scale", help="Standardise the features; on for "
                                     "tables and dense rows.", rich_help_panel=_LEARNER)
    ] = None,
    intercept: Annotated[
        bool | None, typer.Option("--intercept/--no-intercept", help="Learn a free intercept.",
                                     rich_help_panel=_LEARNER)
    ] = None,
    class_weight: Annotated[
        str | None, typer.Option(help="balanced, or {label: factor, ...}.",
                                    rich_help_panel=_LEARNER)
    ] = None,
    calibrate: Annotated[
        str | None, typer.Option(help="sigmoid or isotonic: fit probabilities.",
                                    rich_help_panel=_LEARNER)
    ] = None,
    tol: Annotated[
        float | None, typer.Option(help="Accuracy asked of the optimum.",
                                      rich_help_panel=_LEARNER)
    ] = None,
    early_stopping: Annotated[
        bool, typer.Option("--early-stopping", help="Stop when held-out rows no longer improve.",
                           rich_help_panel=_LEARNER)
    ] = False,
    assign: Annotated[
        list[str], typer.Option("--set", help="Any other parameter: penalty.strength=1e-4, "
                                "loss.tau=0.3, solver.batch=10, n_jobs=2 (again for more).",
                                rich_help_panel=_LEARNER)
    ] = [],
    tune: Annotated[
        int | None, typer.Option(min=1, help="Try so many settings (40, say) and take the best; "
                                 "what is given stays. Larger data is tuned on a sample.",
                                 rich_help_panel=_TUNING)
    ] = None,
    criterion: Annotated[
        str | None, typer.Option(help=o.criteria_help(), rich_help_panel=_TUNING)
    ] = None,
    search: Annotated[
        str | None, typer.Option(help="csa+simplex (coupled annealing, then a simplex), csa, "
                                 "random, grid, directional, ...", rich_help_panel=_TUNING)
    ] = None,
    folds: Annotated[
        str | None, typer.Option(help="5 (the default), 5x3 (repeated), 0.2 (one split), loo or "
                                 "time.", rich_help_panel=_TUNING)
    ] = None,
    study: Annotated[
        Path | None, typer.Option(help="SQLite file to keep the trials in; the same command goes "
                                  "on from there.", dir_okay=False, rich_help_panel=_TUNING)
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Race all learners for 60s, 5m, ... and take the best, or "
                                 "several together; finds --learner and its settings.",
                                 rich_help_panel=_RUN)
    ] = None,
    prefer: Annotated[
        str, typer.Option(help="Of --budget: accuracy, or size (one learner; the smaller model "
                          "where the best is not clearly better).", rich_help_panel=_RUN)
    ] = "accuracy",
    passes: Annotated[
        int | None, typer.Option(min=1, help="Over the data; by its size.",
                                    rich_help_panel=_RUN)
    ] = None,
    holdout: Annotated[
        float, typer.Option(help="Share of rows kept to measure on.", rich_help_panel=_RUN)
    ] = 0.1,
    memory: Annotated[
        str, typer.Option(help="Larger data is streamed from the file.", rich_help_panel=_RUN)
    ] = "1GB",
    scan: Annotated[
        bool, typer.Option("--scan/--no-scan", help="Spend a pass on counting rows and learning "
                           "scales before a stream.", rich_help_panel=_RUN)
    ] = True,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="Take the rows in the given order, unshuffled.",
                           rich_help_panel=_RUN)
    ] = False,
    seed: Annotated[int, typer.Option(help="Of everything random.", rich_help_panel=_RUN)] = 0,
    cache: Annotated[
        bool, typer.Option("--cache", help="Keep the parsed rows in DATA.rows and read that.",
                           rich_help_panel=_RUN)
    ] = False,
    checkpoint: Annotated[
        str | None, typer.Option(help="Save the state every 60s, 5m or 1000000 (rows).",
                                    rich_help_panel=_RUN)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.",
                           rich_help_panel=_RUN)
    ] = False,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Parts that workers learn from side by side, merged "
                                 "after every pass; by the size of the files.",
                                 rich_help_panel=_RUN)
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of options; those given here win.",
                                     callback=_configured, is_eager=True, exists=True,
                                     dir_okay=False)
    ] = None,
    plugin: o.Plugin = [],
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:  # fmt: skip
    """Train a model on data of any size: thresher train data.csv --target income -m m.thresher."""
    begun = time.perf_counter()  # imports count
    from thresher.cli import train as work

    kinds = work.column_types(types)
    if task_column is not None:
        found = work.by_tasks({"task_column": task_column, "learner": learner, "types": kinds})
        learner, kinds = found["learner"], found["types"]
    learner, task = LEARNERS.agreed(learner, task)
    columns: dict[str, Any] = {
        "target": target, "weight": weight, "ignore": ignore, "task": task, "missing": missing,
        "outlier_label": outlier_label,
        "max_categories": max_categories, "hash_bits": hash_bits, "types": kinds,
        "cache": cache, "irrelevant": irrelevant,
    }  # fmt: skip
    params = {
        "loss": o.parse_value(loss), "penalty": o.parse_value(penalty),
        "solver": o.parse_value(solver), "class_weight": o.parse_value(class_weight),
        "alpha": alpha, "scale": scale, "fit_intercept": intercept, "calibrate": calibrate,
        "tol": tol,
    }  # fmt: skip
    params = {name: value for name, value in params.items() if value is not None}
    params |= {"early_stopping": True} if early_stopping else {}
    params |= {"order": "sequential"} if sequential else {}
    work.train(
        data, {**reading, **columns}, {**params, **o.parse_assignments(assign)}, plugin,
        json, quiet, learner=learner, budget=o.parse_seconds(budget), prefer=prefer,
        model=model,
        passes=passes, holdout=holdout, memory=o.parse_size(memory), scan=scan, seed=seed,
        checkpoint=checkpoint, resume=resume, begun=begun, tune=tune, criterion=criterion,
        search=search, cv=o.parse_value(folds), study=study, cluster=cluster, shards=shards,
        task_column=task_column,
    )  # fmt: skip


@app.command()
@o.clustered
@o.reading()
def predict(
    reading: dict[str, Any],
    cluster: Any,
    model: Annotated[Path, typer.Argument(help="A model file.", metavar="MODEL")],
    data: o.Data,
    output: Annotated[
        str, typer.Option("--output", "-o", help=".csv, .parquet, .arrow, or .txt with one value "
                          "per line; - for standard output.")
    ] = "-",
    scores: Annotated[bool, typer.Option("--scores", help="Also the scores.")] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also the probabilities.")
    ] = False,
    plugin: o.Plugin = [],
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:  # fmt: skip
    """Predict for every row of the data, in bounded memory."""
    from thresher.cli import predict as work

    work.predict(model, data, output, scores, probabilities, reading, plugin, json, quiet, cluster)


@app.command()
@o.clustered
@o.reading()
def evaluate(
    reading: dict[str, Any],
    cluster: Any,
    model: Annotated[Path, typer.Argument(help="A model file.", metavar="MODEL")],
    data: o.Data,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Labels to compare clusters with; other "
                                 "models know their target."),
    ] = None,
    plugin: o.Plugin = [],
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:  # fmt: skip
    """Compare predictions with the truth: error, AUC, log loss, F1, confusion; RMSE, R2.

    Of novelty detection also detection and false alarms; of clusters silhouette, and VI, Rand and
    ARI beside labels.
    """
    from thresher.cli import predict as work

    reading = reading if target is None else {**reading, "target": target}
    work.evaluate(model, data, reading, plugin, json, quiet, cluster)


@app.command()
@o.clustered
@o.reading(on_bad_rows="skip")
def inspect(
    reading: dict[str, Any],
    cluster: Any,
    data: o.Data,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Column to predict.")] = None,
    plugin: o.Plugin = [],
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:  # fmt: skip
    """Describe a data file (schema, ranges, class balance, density) or a model file."""
    from thresher.cli import inspect as work

    work.inspect(data, target, reading, plugin, json, quiet, cluster)


@app.command()
@o.reading()
def convert(
    reading: dict[str, Any],
    data: o.Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="By its suffix: .csv, .parquet, .arrow, .svm, "
                           ".npz, .rows (parsed rows); .thresher from a model of "
                           "LIBLINEAR or LIBSVM.")
    ],
    target: Annotated[str | None, typer.Option("--target", "-t", help="Column to predict; for "
                                                  ".svm, .npz and .rows.")] = None,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:  # fmt: skip
    """Turn data into another format, or into parsed rows that are read many times faster."""
    from thresher.cli import convert as work

    work.convert(data, output, target, reading, json, quiet)


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model file.", metavar="MODEL")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help=".onnx, .csv (coefficients), or anything else "
                           "for a LIBLINEAR model (learner svm: LIBSVM).")
    ],
    plugin: o.Plugin = [],
    json: o.Json = False,
) -> None:  # fmt: skip
    """Write a model for other tools: ONNX, LIBLINEAR, LIBSVM, coefficients as CSV."""
    from thresher.cli import export as work

    work.export(model, output, plugin, json)


@app.command()
@o.reading()
def report(
    reading: dict[str, Any],
    model: Annotated[Path, typer.Argument(help="A model file.", metavar="MODEL")],
    data: Annotated[
        list[str], typer.Option("--data", "-d", help="File to judge the model on (again for more); "
                                "without it the report shows what the training has kept.")
    ] = [],
    html: Annotated[
        Path | None, typer.Option(help="Page to write; MODEL.html if no file is named.")
    ] = None,
    pdf: Annotated[Path | None, typer.Option(help="PDF to write.")] = None,
    png: Annotated[Path | None, typer.Option(help="Picture of all figures to write.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out what has to learn again: learning curve, "
                           "stability of the weights, sparsity path.")
    ] = False,
    seconds: Annotated[
        float, typer.Option(min=0.0, help="Time for each of these.")
    ] = 20.0,
    static: Annotated[
        bool, typer.Option("--static", help="Pictures instead of interactive plots.")
    ] = False,
    plugin: o.Plugin = [],
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:  # fmt: skip
    """Write a page about a model: curves, weights, costs, how to reproduce it."""
    from thresher.cli import report as work

    work.report(
        model, data, html, pdf, png, quick, seconds, static, reading, plugin, json, quiet
    )  # fmt: skip


@app.command()
@o.reading()
def explore(
    reading: dict[str, Any],
    data: o.Data,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Column to show beside the map; it has no "
                                 "part in the order.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="Model whose scores are shown beside it.")
    ] = None,
    ignore: Annotated[
        list[str], typer.Option(help="Column to leave out (again for more).")
    ] = [],
    html: Annotated[
        Path | None, typer.Option(help="Write one page that needs no server, instead.")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Write a picture, instead.")] = None,
    port: Annotated[int, typer.Option(help="Of the page; 0: any that is free.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page.")
    ] = True,
    memory: Annotated[
        str, typer.Option(help="Of a larger table some rows are ordered, the others placed.")
    ] = "4GB",
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    plugin: o.Plugin = [],
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:  # fmt: skip
    """Look at a table as one heat map, rows and columns in an order with neighbours alike."""
    from thresher.cli import explore as work

    work.explore(
        data, target, model, ignore, html, png, port, browser, o.parse_size(memory), seed,
        reading, plugin, json, quiet,
    )  # fmt: skip


@app.command()
@o.reading()
def wizard(
    reading: dict[str, Any],
    data: o.Data,
    answers: Annotated[
        Path | None, typer.Option(help="TOML file of answers instead of questions: "
                                  "target = \"income\"; what is left out takes the default.",
                                  exists=True, dir_okay=False)
    ] = None,
) -> None:  # fmt: skip
    """Train a model by question and answer; prints the command and the Python code."""
    from thresher.cli import wizard as work

    work.wizard(data, answers, reading)


@app.command()
def warmup(json: o.Json = False) -> None:
    """Compile the common learners ahead, so that the first training starts at once."""
    from thresher.cli import warmup as work

    work.warmup(json)


@app.command()
def demo() -> None:
    """Compare losses and solvers on data that needs no download."""
    from thresher.demo import main

    main()
