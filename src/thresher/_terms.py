"""Terms: frozen dataclasses whose plain Python methods run inside compiled solvers.

A loss, penalty, schedule, reweighting rule or block of rows is a *term*: a frozen dataclass with
ordinary methods.  Passed to a Numba-compiled solver it becomes a C struct, and ``term.method(...)``
inside the solver becomes a direct (normally inlined) call of the compiled method.  The Numba type
of a term is named after

* its class, and a *fingerprint* of everything its methods compile to: their bytecode and
  constants, the functions, scalars and arrays they reach through globals and closures, and the
  sources of this package;
* the types of its fields, never their values.

That name is the key of Numba's disk cache.  So a new hyper-parameter value reuses the machine code,
an edited method compiles again, an undone edit finds its old code, and user classes are cached
exactly like ours.  Only ``_lanes`` and ``data._bytes`` go below Numba's surface as well.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import inspect
import types as pytypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    unbox,
)

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["Term", "capabilities", "contract", "prefetch", "reassociate"]

_PACKAGE = Path(__file__).parent
# A field annotated with one of these has that type whatever Python number it holds: ``tau=1``
# and ``tau=0.5`` must share one compiled solver.
_SCALARS = {
    float: types.float64,
    int: types.int64,
    bool: types.boolean,
    "float": types.float64,
    "int": types.int64,
    "bool": types.boolean,
}


class Term:
    """Base class of everything that plugs into a compiled solver.

    Subclasses are ``@dataclass(frozen=True)``; a field is a number, an array or another term.
    ``derived`` names attributes that ``__post_init__`` works out from the fields: methods see them
    like fields, parameters and files do not.  ``hidden`` names fields that no method sees: they may
    be anything, and their types make no machine code of their own.
    """

    derived: ClassVar[tuple[str, ...]] = ()
    hidden: ClassVar[frozenset[str]] = frozenset()
    #: methods that are Python's only: no capabilities, and no part of what is compiled
    plain: ClassVar[frozenset[str]] = frozenset({"get_params"})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, method in vars(cls).items():
            if inspect.isfunction(method):
                _lower_method(name)

    @property
    def _numba_type_(self) -> TermType:
        # Numba asks for this at every call of a compiled function: keep it (3 us, not 55).  Not by
        # way of ``__dict__``: making it is not safe in Python 3.11 where threads share the term.
        known = getattr(self, "_type", None)
        if known is None:
            seen = [f for f in dataclasses.fields(self) if f.name not in self.hidden]  # type: ignore[arg-type]
            fields = [(f.name, _field_type(self, f)) for f in seen]
            fields += [(name, _value_type(getattr(self, name))) for name in self.derived]
            known = TermType(_tag(type(self)), tuple(fields))  # type: ignore[arg-type]
            object.__setattr__(self, "_type", known)
        return known

    def __getstate__(self) -> dict[str, Any]:
        # The type names a class of this process; another process works out its own.
        return self.get_params() | {name: getattr(self, name) for name in self.derived}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Fields by name: what scikit-learn's ``clone`` and nested parameters read."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]


def reassociate(method: F) -> F:
    """Let the compiler reorder the sums of ``method`` so that they vectorise.

    Only for plain reductions over finite data: the result may differ from the interpreted one by
    rounding, while comparisons with NaN and exact zeros keep their meaning.
    """
    method.jit_options = {"fastmath": {"reassoc", "contract"}}  # type: ignore[attr-defined]
    return method


def contract(method: F) -> F:
    """Let the compiler fuse multiplications and additions, which rounds once instead of twice."""
    method.jit_options = {"fastmath": {"contract"}}  # type: ignore[attr-defined]
    return method


def capabilities(term: Term) -> frozenset[str]:
    """What ``term`` can do: the optional methods its class implements, and its declared traits.

    A protocol declares an optional method as ``None``; a class that defines it has the capability.
    """
    return _class_capabilities(type(term))  # type: ignore[arg-type]


@functools.cache
def _class_capabilities(cls: type) -> frozenset[str]:
    methods = {name for name, _ in _public_methods(cls)}
    return frozenset(methods | getattr(cls, "traits", frozenset()))


def _public_methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        found.update(vars(base))
    for name in sorted(found):
        if not name.startswith("_") and inspect.isfunction(found[name]) and name not in cls.plain:  # type: ignore[attr-defined]
            yield name, found[name]


# ---------------------------------------------------------------- the Numba type


class TermType(types.Type):  # type: ignore[misc]
    """Numba type of a term; its name is the whole cache key."""

    def __init__(self, tag: str, fields: tuple[tuple[str, Any], ...]):
        self.tag, self.fields = tag, fields
        super().__init__(f"{tag}({', '.join(f'{name}: {typ}' for name, typ in fields)})")


_classes: dict[str, type] = {}  # tag -> class, filled when a term is first typed in this process


def _field_type(term: Term, field: dataclasses.Field[Any]) -> Any:
    if field.type in _SCALARS:
        return _SCALARS[field.type]
    return _value_type(getattr(term, field.name))


def _value_type(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        # Terms do not write to their fields, so a read-only array needs no machine code of its own
        # (beliefs do, ``solvers/confidence.py``, and are never made of one).
        layout = "C" if value.flags.c_contiguous else "A"
        element: Any = numba.from_dtype(value.dtype)
        return types.Array(element, value.ndim, layout)  # type: ignore[call-overload]
    return numba.typeof(value)


@functools.cache
def _tag(cls: type) -> str:
    seen: set[Any] = set()
    parts = [part for name, method in _public_methods(cls) for part in (name, *_code(method, seen))]
    digest = hashlib.sha256("\n".join([_package_digest(), *parts]).encode()).hexdigest()[:16]
    tag = f"{cls.__module__}.{cls.__qualname__}#{digest}"
    _classes[tag] = cls
    return tag


@functools.cache
def _package_digest() -> str:
    """One hash of our own sources: an edited helper in any file makes every cached solver new.

    Of those that name Numba or terms: the others hold nothing that is compiled.
    """
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if b"numba" in source or b"_terms" in source:
            digest.update(source)
    return digest.hexdigest()


def _code(function: Any, seen: set[Any]) -> Iterator[str]:
    """What ``function`` compiles to, as text: its code and all that it reaches by name."""
    function = getattr(function, "py_func", function)
    if not inspect.isfunction(function) or function in seen:
        return
    seen.add(function)
    yield repr(function.__defaults__)
    closure = inspect.getclosurevars(function).nonlocals
    for code in _nested_code(function.__code__):
        constants = [c for c in code.co_consts if not inspect.iscode(c)]
        yield repr((code.co_code, constants, code.co_names))
        names = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
        for name in sorted(names):
            value = function.__globals__.get(name)
            yield from _frozen(value, seen)
            if inspect.ismodule(value):  # ``helpers.f(x)``: the function hides behind an attribute
                for attribute in code.co_names:
                    yield from _code(getattr(value, attribute, None), seen)
    for name in sorted(closure):
        yield from _frozen(closure[name], seen)


def _nested_code(code: pytypes.CodeType) -> Iterator[pytypes.CodeType]:
    yield code
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _nested_code(constant)


def _frozen(value: Any, seen: set[Any]) -> Iterator[str]:
    """Numba freezes global and closed-over values into the machine code: we, into the name."""
    if isinstance(value, bool | int | float | str | tuple | np.generic):
        yield repr(value)
    elif isinstance(value, np.ndarray):
        yield hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    else:
        yield from _code(value, seen)


# ---------------------------------------------------------------- how Numba sees a term


@register_model(TermType)
class _TermModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, typ: TermType):
        super().__init__(manager, typ, list(typ.fields))


@unbox(TermType)
def _unbox(typ: TermType, obj: Any, c: Any) -> NativeValue:
    model = c.context.data_model_manager[typ]
    struct = ir.Constant(model.get_value_type(), ir.Undefined)
    cleanups = []
    for name, field_type in typ.fields:
        attribute = c.pyapi.object_getattr_string(obj, name)
        native = c.unbox(field_type, attribute)
        struct = c.builder.insert_value(struct, native.value, model.get_field_position(name))
        if native.cleanup is not None:
            cleanups.append(native.cleanup)
        c.pyapi.decref(attribute)

    def cleanup() -> None:
        for undo in reversed(cleanups):
            undo()

    failed = cgutils.is_not_null(c.builder, c.pyapi.err_occurred())
    return NativeValue(struct, is_error=failed, cleanup=cleanup if cleanups else None)


@infer_getattr
class _TermAttributes(AttributeTemplate):  # type: ignore[misc]
    key = TermType

    def generic_resolve(self, typ: Any, attribute: str) -> Any:  # type: ignore[override]
        field = dict(typ.fields).get(attribute)
        if field is not None:
            return field
        if inspect.isfunction(getattr(_classes[typ.tag], attribute, None)):
            return types.BoundFunction(_method_template(typ, attribute), typ)
        return None


@lower_getattr_generic(TermType)
def _lower_field(context: Any, builder: Any, typ: TermType, value: Any, attribute: str) -> Any:
    struct = cgutils.create_struct_proxy(typ)(context, builder, value=value)
    return impl_ret_borrowed(
        context, builder, dict(typ.fields)[attribute], getattr(struct, attribute)
    )


@functools.cache
def _dispatcher(tag: str, name: str) -> Any:
    method = getattr(_classes[tag], name)
    # Said even where it is the default: otherwise a method would inherit the arithmetic of whoever
    # happens to compile it first, and so would the cache on disk.
    options = {"fastmath": False, **getattr(method, "jit_options", {})}
    # A process that compiles the method links its callers to that one, a process that reads the
    # callers from the cache to the one within them: optimised apart, they round differently.
    options["forceinline"] = bool(options["fastmath"])
    return numba.njit(**options)(method)


def _method_template(typ: TermType, name: str) -> type:
    class Method(AbstractTemplate):  # type: ignore[misc]
        key = (TermType, name)

        def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            function = types.Dispatcher(_dispatcher(typ.tag, name))
            signature = function.get_call_type(self.context, (typ, *args), kws)
            return None if signature is None else signature.as_method()

    return Method


@functools.cache
def _lower_method(name: str) -> None:
    """Teach Numba once per method name that a bound method calls the class's own dispatcher."""

    @lower_builtin((TermType, name), TermType, types.VarArg(types.Any))  # type: ignore[untyped-decorator]
    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = types.Dispatcher(_dispatcher(signature.args[0].tag, name))
        resolved = function.get_call_type(context.typing_context, signature.args, {})
        call = context.get_function(function, resolved)
        context.add_linking_libs(getattr(call, "libs", ()))
        return call(builder, args)


# ---------------------------------------------------------------- memory


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), byte)
        declared = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, declared, "llvm.prefetch.p0")
        builder.call(function, [address, number(0), number(3), number(1)])  # read, keep, data
        return context.get_dummy_value()

    return types.void(array, types.int64), emit


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def prefetch(array: np.ndarray, index: int) -> None:
        """Nothing to fetch when interpreted."""

else:
    #: ``prefetch(array, index)``: start loading that element; rows visited in random order wait
    #: for memory otherwise.  Never reads out of bounds: a bad address is ignored by the processor.
    prefetch = intrinsic(_prefetch)  # type: ignore[assignment]
