"""A model as an ONNX graph of standard operators, computed in double precision."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from thresher._files import Path_, atomic_file
from thresher.artifacts.coefficients import checked, column_names
from thresher.artifacts.container import our_version
from thresher.artifacts.onnx_scores import LinearScores

__all__ = ["write_onnx", "write_onnx_scores"]

OPSET = 17
ML_OPSET = 3  # of the operators for machine learning, in graphs that have some
IR_VERSION = 8  # of the same age as the opset
_LARGEST = 2**31 - 2**20  # a protobuf file has at most 2 GiB
_LINKS = ("logistic", "modified_huber")
_CALIBRATORS = {"sigmoid": 2, "softmax": 1, "isotonic": 1}


def write_onnx(
    path: Path_,
    coef: Any,
    intercept: Any,
    classes: Any = None,
    probability: str | tuple[Any, ...] | None = None,
    feature_names: Sequence[str] | np.ndarray | None = None,
    dtype: str = "float64",
) -> None:
    """Write the model for any ONNX runtime; needs ``pip install "thresher[onnx]"``.

    The input "X" has shape [N, features] and type ``dtype`` ("float32" is widened at once, so the
    predictions are those of the same numbers as float64).  Outputs: "prediction" [N] for a
    regression (``classes`` None), else "label" [N], "scores" (as ``decision_function``: [N] for two
    classes, [N, classes] for more) and, if asked for, "probabilities" [N, classes].

    ``probability``: None; a loss's own link, "logistic" or "modified_huber"; or a calibration,
    ("sigmoid", slope, offset), ("softmax", slope), ("isotonic", [(thresholds, values), ...]).
    """
    table, offsets, _ = checked(coef, intercept, classes)
    scores = LinearScores(table, offsets)
    write_onnx_scores(path, scores, classes, probability, feature_names, dtype)


def write_onnx_scores(
    path: Path_,
    scores: Any,
    classes: Any = None,
    probability: str | tuple[Any, ...] | None = None,
    feature_names: Sequence[str] | np.ndarray | None = None,
    dtype: str = "float64",
) -> None:
    """The same for any of the models in ``thresher.artifacts.onnx_scores``."""
    onnx = _onnx()
    labels = None if classes is None else np.asarray(classes)
    names = column_names(feature_names, scores.features)
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}")
    parts = [scores] if hasattr(scores, "nbytes") else vars(scores).values()
    size = sum(part.nbytes for part in parts if hasattr(part, "nbytes"))
    if size > _LARGEST:
        raise ValueError(f"{size} bytes of weights do not fit into ONNX's 2 GiB")
    if labels is None and probability is not None:
        raise ValueError("a regression has no probabilities")
    graph = _Graph(onnx)
    values = scores.build(graph, graph.rows(dtype))
    if labels is None:
        graph.regression(values)
    else:
        graph.classification(values, labels, scores.outputs)
        if probability is not None:
            graph.probabilities(values, probability, scores.outputs)
    model = graph.model(scores.features, dtype, names)
    onnx.checker.check_model(model)
    with atomic_file(path) as file:
        file.write(model.SerializeToString(deterministic=True))


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError('ONNX export needs onnx: pip install "thresher[onnx]"') from error
    return onnx


class _Graph:
    """Nodes, constants and outputs of a graph in the making; values go by their names."""

    def __init__(self, onnx: Any):
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        array = np.asarray(value)
        if array.dtype.kind in "UO":  # ONNX keeps strings as UTF-8
            flat = [str(item).encode("utf-8") for item in array.ravel()]
            make, kind = self.onnx.helper.make_tensor, self.onnx.TensorProto.STRING
            self.constants.append(make(name, kind, array.shape, flat))
        else:
            array = np.asarray(array, order="C")
            self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or f"v{len(self.nodes)}"
        make = self.onnx.helper.make_node
        self.nodes.append(make(operator, list(inputs), [name], **attributes))
        return name

    def publish(self, value: str, name: str, dtype: np.dtype[Any], shape: list[Any]) -> None:
        """Make ``value`` the output ``name``."""
        self.add("Identity", value, output=name)
        kind = (
            self.onnx.TensorProto.STRING
            if dtype.kind in "UO"
            else self.onnx.helper.np_dtype_to_tensor_dtype(dtype)
        )
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))

    def column(self, values: str) -> str:
        """[N, 1] to [N]."""
        return self.add("Squeeze", values, self.constant(np.array([1])))

    def single(self, values: str) -> str:
        return self.add("Cast", values, to=self.onnx.TensorProto.FLOAT)

    def whole(self, values: str) -> str:
        return self.add("Cast", values, to=self.onnx.TensorProto.INT64)

    def rows(self, dtype: str) -> str:
        if dtype == "float32":
            return self.add("Cast", "X", to=self.onnx.TensorProto.DOUBLE)
        return "X"

    def regression(self, scores: str) -> None:
        self.publish(self.column(scores), "prediction", np.dtype(np.float64), ["N"])

    def classification(self, scores: str, labels: np.ndarray, outputs: int) -> None:
        if outputs == 1:
            scores = self.column(scores)
            positive = self.add("Greater", scores, self.constant(0.0))
            best = self.whole(positive)
        else:
            best = self.add("ArgMax", scores, axis=1, keepdims=0)
        if labels.dtype.kind in "iu":
            labels = labels.astype(np.int64)
        label = self.add("Gather", self.constant(labels), best)
        self.publish(label, "label", labels.dtype, ["N"])
        shape = ["N"] if outputs == 1 else ["N", outputs]
        self.publish(scores, "scores", np.dtype(np.float64), shape)

    # ------------------------------------------------------------ probabilities

    def probabilities(self, scores: str, method: Any, outputs: int) -> None:
        name, *parameters = (method,) if isinstance(method, str) else method
        if len(parameters) != _CALIBRATORS.get(name, 0) or name not in (*_LINKS, *_CALIBRATORS):
            raise ValueError(
                f"probability={method!r:.100} is unknown: use 'logistic', 'modified_huber', "
                "('sigmoid', slope, offset), ('softmax', slope) or ('isotonic', [(x, y), ...])"
            )
        if name == "softmax":
            steep = self.add("Mul", scores, self.constant(float(parameters[0])))
            result = self.add("Softmax", steep, axis=1)
        else:
            result = self.normalised(getattr(self, name)(scores, *parameters), outputs)
        shape = ["N", max(2, outputs)]
        self.publish(result, "probabilities", np.dtype(np.float64), shape)

    def logistic(self, scores: str) -> str:
        return self.add("Sigmoid", scores)

    def modified_huber(self, scores: str) -> str:
        clipped = self.add("Clip", scores, self.constant(-1.0), self.constant(1.0))
        raised = self.add("Add", clipped, self.constant(1.0))
        return self.add("Mul", raised, self.constant(0.5))

    def sigmoid(self, scores: str, slope: float, offset: float) -> str:
        steep = self.add("Mul", scores, self.constant(float(slope)))
        return self.add("Sigmoid", self.add("Add", steep, self.constant(float(offset))))

    def isotonic(self, scores: str, steps: Sequence[tuple[Any, Any]]) -> str:
        columns = []
        for c, (thresholds, values) in enumerate(steps):
            column = self.add("Gather", scores, self.constant(np.array([c])), axis=1)
            columns.append(self.interpolated(column, np.asarray(thresholds), np.asarray(values)))
        return self.add("Concat", *columns, axis=1)

    def interpolated(self, column: str, x: np.ndarray, y: np.ndarray) -> str:
        """The piecewise linear function through (x, y) at a [N, 1] column, constant outside.

        The piece is found by counting the inner thresholds at or below the score.
        """
        x, y = x.astype(np.float64), y.astype(np.float64)
        if x.size == 1:
            x, y = np.array([x[0], x[0] + 1.0]), np.repeat(y, 2)
        inside = self.add("Clip", column, self.constant(x[0]), self.constant(x[-1]))
        passed = self.add("GreaterOrEqual", inside, self.constant(x[1:-1]))
        piece = self.add("ReduceSum", self.whole(passed), self.constant(np.array([1])), keepdims=1)
        slopes = self.constant(np.diff(y) / np.diff(x))
        beyond = self.add("Sub", inside, self.add("Gather", self.constant(x[:-1]), piece))
        rise = self.add("Mul", beyond, self.add("Gather", slopes, piece))
        return self.add("Add", rise, self.add("Gather", self.constant(y[:-1]), piece))

    def normalised(self, table: str, outputs: int) -> str:
        """As :func:`thresher.estimators._calibration.normalised`: rows that sum to one."""
        if outputs == 1:
            other = self.add("Sub", self.constant(1.0), table)
            return self.add("Concat", other, table, axis=1)
        zero = self.constant(0.0)
        total = self.add("ReduceSum", table, self.constant(np.array([1])), keepdims=1)
        some = self.add("Greater", total, zero)
        safe = self.add("Where", some, total, self.constant(1.0))
        shares = self.add("Div", table, safe)
        return self.add("Where", some, shares, self.constant(np.full((1, outputs), 1.0 / outputs)))

    def model(self, features: int, dtype: str, names: list[str]) -> Any:
        helper = self.onnx.helper
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        rows = helper.make_tensor_value_info("X", kind, ["N", features])
        graph = helper.make_graph(self.nodes, "thresher", [rows], self.outputs, self.constants)
        opsets = {"": OPSET} | {node.domain: ML_OPSET for node in self.nodes if node.domain}
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(name, version) for name, version in opsets.items()],
            ir_version=IR_VERSION,
            producer_name="thresher",
            producer_version=our_version(),
        )
        helper.set_model_props(model, {"feature_names": json.dumps(names)})
        return model
