"""``thresher export``: models for other tools."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from thresher.artifacts.coefficients import write_coefficients
from thresher.artifacts.liblinear import write_liblinear
from thresher.artifacts.libsvm import write_libsvm
from thresher.cli import show
from thresher.cli.plugins import load_plugins
from thresher.losses import Logistic, Loss
from thresher.registry import resolve
from thresher.training import Model, load_model

__all__ = ["export"]


def export(path: Path, output: Path, plugins: list[Path], as_json: bool) -> None:
    model = load_model(path, load_plugins(plugins))
    kind = {".onnx": "onnx", ".csv": "coefficients"}.get(output.suffix.lower(), "liblinear")
    names = model.schema.feature_names()
    if kind == "onnx":
        _onnx(model, output, names)
    elif kind == "liblinear" and hasattr(model.estimator, "libsvm_type"):
        kind = "libsvm"
        write_libsvm(output, model.function, model.classes, model.estimator.libsvm_type)
    elif not model.is_linear:
        raise ValueError(
            f"{type(model.estimator).__name__} has no weights of the features for {kind} to hold: "
            "export to .onnx"
        )
    elif kind == "coefficients":
        write_coefficients(output, *model.coefficients(), names, model.classes)
    else:
        solver = None
        if model.is_classifier:
            loss = resolve(model.estimator.loss, Loss, "loss")
            logistic = model.estimator.calibrate is None and isinstance(loss, Logistic)
            solver = "L2R_LR" if logistic else "L2R_L2LOSS_SVC"
        regression = not model.is_classifier
        write_liblinear(output, *model.coefficients(), model.classes, regression, solver)
    if as_json:
        show.print_json({"format": kind, "output": str(output)})
    else:
        show.console.print(f"wrote {output} ({kind})")


def _onnx(model: Model, output: Path, names: list[str] | None) -> None:
    from thresher.artifacts.onnx_graph import write_onnx

    link = model.estimator.link if model.is_classifier else None
    classes = model.classes
    if not model.is_supervised:
        outputs = model.function.outputs
        classes = np.arange(outputs) if outputs > 1 else np.array([-1, 1])
    write_onnx(output, model.function, classes, link, names)
