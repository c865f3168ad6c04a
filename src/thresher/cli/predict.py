"""``thresher predict`` and ``thresher evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Group

from thresher.artifacts.container import BadFile
from thresher.cli import show
from thresher.cli.plugins import load_plugins
from thresher.cli.writers import open_writer
from thresher.registry import TASKS
from thresher.training import Model, load_model

__all__ = ["evaluate", "predict"]


def predict(
    path: Path, data: list[str], output: str, scores: bool, probabilities: bool,
    reading: dict[str, Any], plugins: list[Path], as_json: bool, quiet: bool, cluster: Any = None,
) -> None:  # fmt: skip
    model = _loaded(path, plugins)
    if probabilities and not hasattr(model.estimator, "predict_proba"):
        raise ValueError(
            "this model has no probabilities: train it with --loss logistic or --calibrate sigmoid"
        )
    if as_json and output == "-":
        raise ValueError("--json reports on standard output: name a file with --output")
    source = model.open(data, **reading)
    asked = {"prediction": True, "score": scores, "probability": probabilities}
    wanted = [what for what in TASKS[model.estimator.task].columns if asked[what]]
    rows = 0
    with show.Live(quiet or as_json) as live, open_writer(output) as writer:
        for part in model.predictions(source, cluster):
            writer.write(part, model.classes, wanted)
            rows += part.batch.size
            live.count("predicting", rows)
    if as_json:
        show.print_json({"rows": rows, "bad_rows": source.bad.count, "output": output})
    elif not quiet and source.bad.count:
        show.console.print(str(source.bad))


def _loaded(path: Path, plugins: list[Path]) -> Model:
    try:
        return load_model(path, load_plugins(plugins))
    except BadFile as error:
        raise BadFile(f"{error} (the model comes first, then the data)") from None


def evaluate(
    path: Path, data: list[str], reading: dict[str, Any], plugins: list[Path], as_json: bool,
    quiet: bool, cluster: Any = None,
) -> None:  # fmt: skip
    model = _loaded(path, plugins)
    source = model.open(data, labelled=True, **reading)
    with show.Live(quiet or as_json) as live:
        metrics = model.evaluate(source, lambda rows: live.count("evaluating", rows), cluster)
    if as_json:
        show.print_json({**metrics, "bad_rows": source.bad.count})
        return
    parts: list[Any] = [show.metrics_table(metrics, str(source.name))]
    confusion = show.confusion_table(metrics)
    if confusion is not None:
        parts += ["", confusion]
    if source.bad.count:
        parts += ["", str(source.bad)]
    show.result.print(Group(*parts))
