"""A model as an ONNX graph of standard operators, computed in double precision."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from thresher._files import Path_, atomic_file
from thresher.artifacts.coefficients import column_names
from thresher.artifacts.container import our_version

__all__ = ["write_onnx"]

OPSET = 17
ML_OPSET = 3  # of the operators for machine learning, in graphs that have some
IR_VERSION = 8  # of the same age as the opset
_LARGEST = 2**31 - 2**20  # a protobuf file has at most 2 GiB


def write_onnx(
    path: Path_,
    function: Any,
    classes: Any = None,
    link: Any = None,
    feature_names: Sequence[str] | np.ndarray | None = None,
    dtype: str = "float64",
) -> None:
    """Write a function for any ONNX runtime; needs ``pip install "thresher[onnx]"``.

    The input "X" has shape [N, features] and type ``dtype`` ("float32" is widened at once, so the
    predictions are those of the same numbers as float64).  Outputs: "prediction" [N] for a
    regression (``classes`` None), else "label" [N], "scores" (as ``decision_function``: [N] for two
    classes, [N, classes] for more) and, with a ``link`` (of a calibration or a loss) that ONNX
    can say, "probabilities" [N, classes].

    Parameters
    ----------
    path : file to write
    function : of ``thresher.functions``
    classes : array or None, default=None
        Of a clustering, the numbers of the clusters; of one class -1 and 1.
    link : of ``thresher.functions.calibration``, or None, default=None
    feature_names : list of str or None, default=None
    dtype : {"float64", "float32"}, default="float64"
    """
    onnx = _onnx()
    function.check()
    labels = None if classes is None else np.asarray(classes)
    _check_classes(labels, function.outputs)
    names = column_names(feature_names, function.features)
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}")
    if labels is None and link is not None:
        raise ValueError("a regression has no probabilities")
    graph = _Graph(onnx)
    values = function.to_onnx(graph, graph.rows(dtype))
    if labels is None:
        graph.regression(values)
    else:
        graph.classification(values, labels, function.outputs)
        if link is not None:
            graph.probabilities(values, link, function.outputs)
    model = graph.model(function.features, dtype, names)
    onnx.checker.check_model(model)
    with atomic_file(path) as file:
        file.write(model.SerializeToString(deterministic=True))


def _check_classes(labels: np.ndarray | None, outputs: int) -> None:
    if labels is None:
        if outputs != 1:
            raise ValueError(f"a regression has one output, got {outputs}")
        return
    if labels.size < 2:
        raise ValueError("classes must be two labels at least; of a regression they are None")
    wanted = 1 if labels.size == 2 else labels.size
    # Clusters have a score each, also where they are two.
    if labels.ndim != 1 or outputs not in (wanted, labels.size):
        raise ValueError(f"{labels.size} classes need {wanted} outputs, got {outputs}")


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
        self.bytes = 0

    def reserve(self, size: int) -> None:
        """Refuse what does not fit before it is built."""
        self.bytes += size
        if self.bytes > _LARGEST:
            raise ValueError(f"{self.bytes} bytes of weights do not fit into ONNX's 2 GiB")

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        array = np.asarray(value)
        self.reserve(array.nbytes)
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

    def probabilities(self, scores: str, link: Any, outputs: int) -> None:
        result = link.to_onnx(self, scores, outputs)
        if result is not None:
            shape = ["N", max(2, outputs)]
            self.publish(result, "probabilities", np.dtype(np.float64), shape)

    def or_one(self, lengths: str) -> str:
        """To divide by: one in place of zero."""
        some = self.add("Greater", lengths, self.constant(0.0))
        return self.add("Where", some, lengths, self.constant(1.0))

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
        """As :func:`thresher.functions.normalised`: rows that sum to one."""
        if outputs == 1:
            other = self.add("Sub", self.constant(1.0), table)
            return self.add("Concat", other, table, axis=1)
        zero = self.constant(0.0)
        total = self.add("ReduceSum", table, self.constant(np.array([1])), keepdims=1)
        some = self.add("Greater", total, zero)
        safe = self.add("Where", some, total, self.constant(1.0))
        shares = self.add("Div", table, safe)
        return self.add("Where", some, shares, self.constant(np.full((1, outputs), 1.0 / outputs)))

    def _needed(self) -> tuple[list[Any], list[Any]]:
        """Nodes and constants that outputs are made of: a kernel may leave some unused."""
        wanted = {value.name for value in self.outputs}
        nodes = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                wanted.update(node.input)
                nodes.append(node)
        return nodes[::-1], [value for value in self.constants if value.name in wanted]

    def model(self, features: int, dtype: str, names: list[str]) -> Any:
        helper = self.onnx.helper
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        rows = helper.make_tensor_value_info("X", kind, ["N", features])
        nodes, constants = self._needed()
        graph = helper.make_graph(nodes, "thresher", [rows], self.outputs, constants)
        opsets = {"": OPSET} | {node.domain: ML_OPSET for node in nodes if node.domain}
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(name, version) for name, version in opsets.items()],
            ir_version=IR_VERSION,
            producer_name="thresher",
            producer_version=our_version(),
        )
        helper.set_model_props(model, {"feature_names": json.dumps(names)})
        return model
