"""Values to plain JSON and back, exactly: numbers, containers, arrays, terms and solver states.

What JSON knows stands for itself; everything else is an object with one key that starts with "$"::

    {"$float": "inf"}   {"$tuple": [..]}   {"$dict": [[key, value], ..]}   {"$scalar": ["<f4", 0.5]}
    {"$array": ["a0", "C"]}   {"$strings": {..}}   {"$dtype": "<f8"}   {"$type": "<f8"}
    {"$enum": ["module.Class", "NAME"]}   {"$object": {"class": "module.Class", "fields": {..}}}
    {"$csr": {"shape": [..], ..}}   {"$map": {"name": "terms", "parameters": {..}, "state": {..}}}
    {"$learner": {"kind": "linear_classifier", "parameters": {..}}}

The arrays themselves go into a dictionary beside the JSON.  Classes are looked up in a table of
Thresher's own, of registered classes and of those the caller passes; a name that stands in a file
is never imported.
"""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from thresher import registry
from thresher._rows import is_sound_layout
from thresher.artifacts.classes import (
    ROLES,
    check_fields,
    check_names,
    field_names,
    own_classes,
    qualified,
    registered_classes,
    role_of,
)
from thresher.artifacts.container import BadFile
from thresher.artifacts.upgrades import added_fields, added_state, current_name
from thresher.maps.base import FeatureMap

__all__ = ["UnknownTerm", "decode", "encode", "kept_parameters"]

_SPARSE = ("data", "indices", "indptr")
_DTYPES = {f"<{kind}{size}" for kind in "iu" for size in (2, 4, 8)}
_DTYPES |= {"|b1", "|i1", "|u1", "<f2", "<f4", "<f8"}
_MAX_STRINGS = 2**28  # characters in one array of strings, whose width the file names


class UnknownTerm(ValueError):
    """The file needs a class of the user's that was not passed; the message names it."""


# ---------------------------------------------------------------- encoding


def encode(value: Any, arrays: dict[str, np.ndarray], where: str = "value") -> Any:
    """``value`` as JSON; ``where`` names it in errors.

    Its arrays are added to ``arrays`` as they are: copy them if they may change before the write.
    """
    if isinstance(value, np.generic) and not isinstance(value, np.str_):
        return _encode_scalar(value, where)
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return str(value) if isinstance(value, np.str_) else value
    if isinstance(value, enum.Enum) and qualified(type(value)) in own_classes():
        return {"$enum": [qualified(type(value)), value.name]}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.ndarray):
        return _encode_array(value, arrays, where)
    if isinstance(value, np.dtype):
        return {"$dtype": _plain_dtype(value, where).str}
    if isinstance(value, type) and issubclass(value, np.generic):
        return {"$type": _plain_dtype(np.dtype(value), where).str}
    if issparse(value):
        return _encode_sparse(value, arrays, where)
    if isinstance(value, FeatureMap):
        return _encode_map(value, arrays, where)
    if field_names(type(value)) is not None:
        return _encode_object(value, arrays, where)
    kind = registry.LEARNERS.kind_of(type(value))
    if kind is not None:
        parameters = encode(kept_parameters(value), arrays, where)
        return {"$learner": {"kind": kind, "parameters": parameters}}
    return _encode_container(value, arrays, where)


def _encode_container(value: Any, arrays: dict[str, np.ndarray], where: str) -> Any:
    if isinstance(value, list | tuple):
        items = [encode(item, arrays, f"{where}[{i}]") for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}
    if isinstance(value, dict):
        pairs = [
            [encode(key, arrays, where), encode(item, arrays, f"{where}[{key!r}]")]
            for key, item in value.items()
        ]
        if all(type(key) is str and not key.startswith("$") for key in value):
            return dict(pairs)
        return {"$dict": pairs}
    raise TypeError(
        f"{where} is a {type(value).__name__}, which cannot be saved: only numbers, strings, "
        "lists, dictionaries, arrays and frozen dataclasses can"
    )


def _encode_scalar(value: np.generic, where: str) -> dict[str, Any]:
    kind = _plain_dtype(value.dtype, where)
    return {"$scalar": [kind.str, encode(value.item(), {}, where)]}


def _encode_array(value: np.ndarray, arrays: dict[str, np.ndarray], where: str) -> dict[str, Any]:
    if value.dtype.kind in "UO":
        return _encode_strings(value, where)
    _plain_dtype(value.dtype, where)
    # The order in memory is kept: products with a transposed matrix round differently.
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    stored = value.T if order == "F" else value
    same = [name for name, known in arrays.items() if _are_one(known, stored)]
    name = same[0] if same else f"a{len(arrays)}"
    arrays[name] = stored
    return {"$array": [name, order]}


def _are_one(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether they are the same piece of memory, which a file then holds once."""
    return a.size > 0 and a.__array_interface__ == b.__array_interface__


def _encode_strings(value: np.ndarray, where: str) -> dict[str, Any]:
    values = value.ravel().tolist()
    if not all(isinstance(item, str) for item in values):
        raise TypeError(f"{where} is an array of objects; only arrays of numbers or strings save")
    width = value.dtype.itemsize // 4 if value.dtype.kind == "U" else 0
    if width * len(values) > _MAX_STRINGS:
        raise ValueError(f"{where} is an array of {len(values)} strings of up to {width}: too big")
    return {"$strings": {"shape": list(value.shape), "width": width, "values": values}}


def _encode_sparse(value: Any, arrays: dict[str, np.ndarray], where: str) -> dict[str, Any]:
    rows = csr_matrix(value)
    parts = {name: encode(getattr(rows, name), arrays, where) for name in _SPARSE}
    return {"$csr": {"shape": list(rows.shape), **parts}}


def _encode_map(value: FeatureMap, arrays: dict[str, np.ndarray], where: str) -> dict[str, Any]:
    """By its name and its parameters, and what it has learned, if it has."""
    name = registry.MAPS.name_of(type(value))
    if name is None:
        shown = type(value.shown).__name__
        raise TypeError(f"a model with the map {shown} cannot be saved: it has no registered name")
    fitted = any(key.endswith("_") for key in vars(value))
    state = encode(value.state(), arrays, where) if fitted else None
    parameters = encode(without_chance(value.get_params(deep=False)), arrays, where)
    return {"$map": {"name": name, "parameters": parameters, "state": state}}


def kept_parameters(estimator: Any) -> dict[str, Any]:
    """The constructor's parameters, without those that no file can hold."""
    kept = without_chance(estimator.get_params(deep=False))
    kept.pop("callbacks", None)
    return kept


def without_chance(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters without a ``random_state`` that is not an integer: no file can hold it."""
    seed = params.get("random_state")
    kept = {name: value for name, value in params.items() if name != "random_state"}
    return kept | ({"random_state": int(seed)} if isinstance(seed, int | np.integer) else {})


def _encode_object(value: Any, arrays: dict[str, np.ndarray], where: str) -> dict[str, Any]:
    cls = type(value)
    fields = {
        name: encode(getattr(value, name), arrays, f"{where}.{name}")
        for name in field_names(cls) or ()
    }
    encoded = {"class": qualified(cls), "role": role_of(cls), "fields": fields}
    return {"$object": encoded}


def _plain_dtype(dtype: np.dtype[Any], where: str) -> np.dtype[Any]:
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise TypeError(f"{where} has type {dtype}; only plain numbers of up to 8 bytes save")
    return dtype.newbyteorder("<")


# ---------------------------------------------------------------- decoding


def decode(value: Any, arrays: dict[str, np.ndarray], classes: Iterable[type] = ()) -> Any:
    """What :func:`encode` was given; ``classes`` are the user's own that it may hold.

    Raises :class:`BadFile` for what ``encode`` cannot have written, :class:`UnknownTerm` for a
    class that is neither Thresher's nor among ``classes``.
    """
    return _Decoder(arrays, tuple(classes)).decode(value)


class _Decoder:
    def __init__(self, arrays: dict[str, np.ndarray], classes: tuple[type, ...]):
        self.arrays, self.classes = arrays, classes

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        tags = [key for key in value if key.startswith("$")]
        if not tags:
            return {key: self.decode(item) for key, item in value.items()}
        if len(value) > 1 or tags[0] not in _TAGS:
            raise BadFile(f"unknown kind of value {tags[0][:50]!r}")
        kind, method = _TAGS[tags[0]]
        if not isinstance(value[tags[0]], kind):
            raise BadFile(f"damaged value of kind {tags[0]!r}")
        return method(self, value[tags[0]])

    def float_(self, text: str) -> float:
        if text not in ("nan", "inf", "-inf"):
            raise BadFile(f"{text[:50]!r} is no special number")
        return float(text)

    def tuple_(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(self.decode(item) for item in items)

    def dict_(self, pairs: list[Any]) -> dict[Any, Any]:
        result = {}
        for pair in pairs:
            key, item = (self.decode(part) for part in _listed(pair, 2))
            if not _is_key(key) or key in result:
                raise BadFile("damaged dictionary: a key is repeated or is no key")
            result[key] = item
        return result

    def scalar(self, parts: list[Any]) -> np.generic:
        descr, number = _listed(parts, 2)
        dtype, number = _dtype(descr), self.decode(number)
        expected = {"b": bool, "f": float}.get(dtype.kind, int)
        if type(number) is not expected:
            raise BadFile(f"{number!r:.50} is no number of type {dtype}")
        try:
            with np.errstate(over="raise"):
                return dtype.type(number)
        except (OverflowError, FloatingPointError) as error:
            raise BadFile(f"{number!r:.50} does not fit into {dtype}") from error

    def array(self, parts: list[Any]) -> np.ndarray:
        name, order = _listed(parts, 2)
        if not isinstance(name, str) or name not in self.arrays or order not in ("C", "F"):
            raise BadFile(f"array {name!r:.50} is missing")
        return self.arrays[name].T if order == "F" else self.arrays[name]

    def strings(self, parts: dict[str, Any]) -> np.ndarray:
        if parts.keys() != {"shape", "width", "values"}:
            raise BadFile("damaged array of strings")
        shape, width, values = parts["shape"], parts["width"], parts["values"]
        sizes = [width, *shape] if isinstance(shape, list) else [None]
        if not isinstance(values, list) or not all(type(n) is int and n >= 0 for n in sizes):
            raise BadFile("damaged array of strings")
        if not all(isinstance(item, str) for item in values) or math.prod(shape) != len(values):
            raise BadFile(f"an array of strings of shape {shape} has {len(values)} values")
        if width * max(len(values), 1) > _MAX_STRINGS or len(shape) > 32:
            raise BadFile("an array of strings is too big")
        result = np.empty(len(values), dtype=f"U{width}" if width else object)
        result[:] = values
        if result.tolist() != values:
            raise BadFile("an array of strings has values longer than its width")
        return result.reshape(shape)

    def dtype(self, descr: str) -> np.dtype[Any]:
        return _dtype(descr)

    def type_(self, descr: str) -> type:
        return _dtype(descr).type

    def enum_(self, parts: list[Any]) -> enum.Enum:
        name, member = _listed(parts, 2)
        cls = own_classes().get(name) if isinstance(name, str) else None
        members = cls.__members__ if cls is not None and issubclass(cls, enum.Enum) else {}
        if not isinstance(member, str) or member not in members:
            raise BadFile(f"{name!r:.100} has no member {member!r:.50}")
        return members[member]

    def object_(self, parts: dict[str, Any]) -> Any:
        if parts.keys() != {"class", "role", "fields"} or not isinstance(parts["class"], str):
            raise BadFile("damaged object")
        cls = self._class(parts["class"], str(parts["role"]))
        names, given = field_names(cls), parts["fields"]
        if names is None or not isinstance(given, dict):
            raise BadFile(f"{parts['class']!r:.100} is no class of fields")
        given = {**added_fields(qualified(cls)), **given}
        check_names(cls, names, given)
        fields = {name: self.decode(given[name]) for name in names}
        if qualified(cls) in own_classes():
            check_fields(cls, fields)
        try:
            return cls(**fields)
        except Exception as error:  # whatever a class meets values with that it does not expect
            raise BadFile(f"{cls.__name__} refuses its parameters: {error}") from error

    def sparse(self, parts: dict[str, Any]) -> csr_matrix:
        if parts.keys() != {"shape", *_SPARSE}:
            raise BadFile("damaged sparse matrix")
        shape = parts["shape"]
        plain = isinstance(shape, list) and len(shape) == 2
        plain = plain and all(type(n) is int and 0 <= n < 2**62 for n in shape)
        data, indices, indptr = (self.decode(parts[name]) for name in _SPARSE)
        arrays = all(isinstance(a, np.ndarray) and a.ndim == 1 for a in (data, indices, indptr))
        if not plain or not arrays or indices.dtype.kind != "i" or indptr.dtype.kind != "i":
            raise BadFile("damaged sparse matrix")
        whole = is_sound_layout(data, indices, indptr, (shape[0], shape[1]))
        if not whole or not indptr[-1] == indices.size == data.size:
            raise BadFile("damaged sparse matrix: its row pointers or columns are wrong")
        return csr_matrix((data, indices, indptr), shape=tuple(shape))

    def map_(self, parts: dict[str, Any]) -> FeatureMap:
        if parts.keys() != {"name", "parameters", "state"}:
            raise BadFile("damaged feature map")
        name, given = parts["name"], self.decode(parts["parameters"])
        if not isinstance(name, str) or name not in registry.MAPS:
            raise BadFile(f"unknown map {name!r:.100}; known: {', '.join(registry.MAPS)}")
        cls, state = registry.MAPS[name], self.decode(parts["state"])
        if not isinstance(given, dict) or not isinstance(state, dict | None):
            raise BadFile(f"damaged feature map {name!r}")
        made = _made(cls, given)
        try:
            if state is not None:
                state = {**added_state(name), **state}
                if state.keys() != set(cls.state_names):
                    raise BadFile(f"a {name} map needs {', '.join(cls.state_names)}")
                made.restore(state)
        except Exception as error:  # as above
            raise BadFile(f"{cls.__name__} refuses its state: {error}") from error
        return made

    def learner(self, parts: dict[str, Any]) -> Any:
        """Not fitted."""
        kind, kinds = parts.get("kind"), registry.LEARNERS.kinds()
        if parts.keys() != {"kind", "parameters"} or not isinstance(kind, str) or kind not in kinds:
            raise BadFile(f"unknown learner {kind!r:.100}")
        return _made(kinds[kind], self.decode(parts["parameters"]))

    def _class(self, name: str, role: str) -> type:
        """Ours, or the user's of that name; of the same short name, if it has moved since."""
        name = current_name(name)
        own = own_classes().get(name) or registered_classes().get(name)
        if own is not None:
            return own
        exact = [cls for cls in self.classes if qualified(cls) == name]
        module, _, short = name.rpartition(".")
        found = exact or [cls for cls in self.classes if cls.__name__ == short]
        if len(found) == 1:
            return found[0]
        role = role if role in dict(ROLES) else "term"
        module = module.partition(".<locals>")[0]
        raise UnknownTerm(
            f"the model uses the {role} {short[:100]!r} (module {module[:100]}), which is not part "
            f"of Thresher: pass it, load_model(path, terms=[{short[:100]}])"
        )


_TAGS: dict[str, tuple[type, Callable[[_Decoder, Any], Any]]] = {
    "$float": (str, _Decoder.float_),
    "$tuple": (list, _Decoder.tuple_),
    "$dict": (list, _Decoder.dict_),
    "$scalar": (list, _Decoder.scalar),
    "$array": (list, _Decoder.array),
    "$strings": (dict, _Decoder.strings),
    "$dtype": (str, _Decoder.dtype),
    "$type": (str, _Decoder.type_),
    "$enum": (list, _Decoder.enum_),
    "$object": (dict, _Decoder.object_),
    "$csr": (dict, _Decoder.sparse),
    "$map": (dict, _Decoder.map_),
    "$learner": (dict, _Decoder.learner),
}


def _made(cls: Any, given: Any) -> Any:
    """With these parameters of its constructor."""
    if not isinstance(given, dict):
        raise BadFile(f"damaged {cls.__name__}")
    unknown = sorted(set(given) - set(inspect.signature(cls).parameters))
    if unknown:
        raise BadFile(f"{cls.__name__} has no {unknown[0][:100]!r}, which the file gives")
    try:
        return cls(**given)
    except Exception as error:  # whatever a class meets values with that it does not expect
        raise BadFile(f"{cls.__name__} refuses its parameters: {error}") from error


def _listed(parts: Any, count: int) -> list[Any]:
    if not isinstance(parts, list) or len(parts) != count:
        raise BadFile(f"damaged value: {count} parts were expected")
    return parts


def _is_key(value: Any) -> bool:
    """Tuples can be keys, but not with lists, dictionaries or arrays in them."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _dtype(descr: Any) -> np.dtype[Any]:
    if not isinstance(descr, str) or descr not in _DTYPES:
        raise BadFile(f"unknown number type {descr!r:.50}")
    return np.dtype(descr).newbyteorder("=")
