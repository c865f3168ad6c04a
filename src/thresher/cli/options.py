"""Options that several commands share, and how text becomes parameters."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from thresher._durations import seconds_of
from thresher.registry import LEARNERS, MAPS, TASKS, Names

__all__ = ["cluster_options", "clustered", "data_options", "parse_assignments", "parse_size",
           "read_config"]  # fmt: skip

_DATA = "Reading the data"

Data = Annotated[
    list[str],
    typer.Argument(metavar="DATA...", help="Files, globs, pipes, URLs, or - for standard input."),
]
Format = Annotated[
    str | None,
    typer.Option(help="csv, svmlight, parquet, arrow, npz or rows; by name and content if not "
                 "given.", rich_help_panel=_DATA),
]  # fmt: skip
Delimiter = Annotated[
    str | None, typer.Option(help="Of delimited text; detected.", rich_help_panel=_DATA)
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="First line names the columns; detected.",
                 rich_help_panel=_DATA),
]  # fmt: skip
Encoding = Annotated[str, typer.Option(help="Of text files.", rich_help_panel=_DATA)]
BadRowsPolicy = Annotated[
    str,
    typer.Option("--on-bad-rows", help="error, or skip (and count them).", rich_help_panel=_DATA),
]
ZeroBased = Annotated[
    bool | None,
    typer.Option("--zero-based/--one-based", help="First feature number in svmlight text; by the "
                 "numbers that occur.", rich_help_panel=_DATA),
]  # fmt: skip
Features = Annotated[
    int | None,
    typer.Option("--n-features", help="Of svmlight text; saves the pass that counts them.",
                 rich_help_panel=_DATA),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Plugin = Annotated[
    list[Path],
    typer.Option("--plugin", help="Python file that registers your own losses, penalties or "
                 "solvers; it is executed.", exists=True, dir_okay=False),
]  # fmt: skip

_CLUSTER = "Workers"
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Processes on this machine that share the work.",
                 rich_help_panel=_CLUSTER),
]  # fmt: skip
SchedulerAddress = Annotated[
    str | None,
    typer.Option("--scheduler", help="Address of a Dask scheduler, tcp://host:8786: its workers "
                 "read the files themselves.", rich_help_panel=_CLUSTER),
]  # fmt: skip
TlsCa = Annotated[
    Path | None,
    typer.Option(help="Certificate of the authority, for a scheduler at tls://...",
                 rich_help_panel=_CLUSTER),
]  # fmt: skip
TlsCert = Annotated[Path | None, typer.Option(help="Own certificate.", rich_help_panel=_CLUSTER)]
TlsKey = Annotated[Path | None, typer.Option(help="Own key.", rich_help_panel=_CLUSTER)]
Command = Callable[..., None]


def reading(**defaults: Any) -> Callable[[Command], Command]:
    """Give a command the options of all readers.

    The command has a parameter ``reading``, which gets them as ``open_data`` takes them;
    ``defaults`` are those that are not the usual ones.
    """
    return _with_options("reading", data_options, defaults)


def clustered(command: Command) -> Command:
    """Give a command the options of workers; its parameter ``cluster`` gets what they say."""
    return _with_options("cluster", cluster_options, {})(command)


def _with_options(
    name: str, shared_options: Callable[..., Any], defaults: dict[str, Any]
) -> Callable[[Command], Command]:
    """Options that several commands share, which reach a command as one parameter."""

    def decorate(command: Command) -> Command:
        own = _parameters(command)
        shared = [
            p.replace(default=defaults.get(p.name, p.default))
            for p in signature(shared_options, eval_str=True).parameters.values()
        ]

        @wraps(command)
        def run(**given: Any) -> None:
            options = {p.name: given.pop(p.name) for p in shared}
            command(**{name: shared_options(**options)}, **given)

        # Typer reads a command's options off these two.
        parameters = [p for p in own if p.name != name] + shared
        named = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in parameters]
        run.__signature__ = Signature(named)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in named} | {"return": None}
        return run

    return decorate


def _parameters(command: Command) -> list[Parameter]:
    """Of a command, with its annotations as objects."""
    hints = get_type_hints(command, include_extras=True)
    return [p.replace(annotation=hints[p.name]) for p in signature(command).parameters.values()]


def cluster_options(
    workers: Workers = None,
    scheduler: SchedulerAddress = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
) -> Any:
    """Who works, as ``engine_for`` takes it; None: this process alone."""
    from thresher.engines import expect
    from thresher.engines.choice import Scheduler

    tls = (tls_ca, tls_cert, tls_key)
    if scheduler is None:
        if any(tls):
            raise ValueError("--tls-ca, --tls-cert and --tls-key are for a --scheduler")
        expect(workers)
        return workers
    if workers is not None:
        raise ValueError("--workers starts processes here, --scheduler has its own: give one")
    return Scheduler(scheduler, *(None if path is None else str(path) for path in tls))


def data_options(
    format: Format = None,
    delimiter: Delimiter = None,
    header: Header = None,
    encoding: Encoding = "utf-8",
    on_bad_rows: BadRowsPolicy = "error",
    zero_based: ZeroBased = None,
    n_features: Features = None,
) -> dict[str, Any]:
    """The reader's options as ``open_data`` takes them."""
    named = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    return {
        "format": format,
        "delimiter": named.get(delimiter, delimiter) if delimiter else None,
        "header": header,
        "encoding": encoding,
        "on_bad_rows": on_bad_rows,
        "zero_based": zero_based,
        "n_features": n_features,
    }


def parse_assignments(words: list[str]) -> dict[str, Any]:
    """``penalty.strength=1e-3`` as {"penalty__strength": 0.001}; values as Python writes them."""
    out = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--set {word!r}: write name=value, for example loss.tau=0.3")
        out[name.strip().replace(".", "__").replace("-", "_")] = parse_value(text.strip())
    return out


def parse_value(text: str | None) -> Any:
    """A number, a word, a list or dictionary, or a term such as ``Pinball(tau=0.3)``.

    Lists may hold learners and maps, as a stack's members do.
    """
    if text is None:
        return None
    if text.lower() in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[text.lower()]
    try:
        tree = ast.parse(text, mode="eval").body
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id.islower():
        return text  # no class of ours: a basis such as spline(x0)
    if isinstance(tree, ast.Call) or _has_calls(tree):
        return _argument(tree)
    try:
        return ast.literal_eval(tree)
    except (ValueError, TypeError):
        return text


def _term(call: ast.Call) -> Any:
    """Make one of the library's terms, solvers, maps or learners; nothing else can be called."""
    from thresher import kernels, losses, penalties, schedules, solvers

    modules = (losses, penalties, kernels, solvers, schedules)
    known = {n: getattr(m, n) for m in reversed(modules) for n in m.__all__}
    known |= {cls.__name__: cls for cls in (*MAPS.values(), *LEARNERS.kinds().values())}
    name = ast.unparse(call.func)
    if not isinstance(known.get(name), type):
        raise ValueError(
            f"{name!r} is none of our losses, penalties, kernels, solvers, schedules, maps or "
            "learners"
        )
    fields = {word.arg: _argument(word.value) for word in call.keywords if word.arg}
    return known[name](*map(_argument, call.args), **fields)


def _argument(node: ast.expr) -> Any:
    if isinstance(node, ast.List):
        return [_argument(item) for item in node.elts]
    return _term(node) if isinstance(node, ast.Call) else ast.literal_eval(node)


def _has_calls(tree: ast.expr) -> bool:
    return isinstance(tree, ast.List) and any(isinstance(item, ast.Call) for item in tree.elts)


def parse_size(text: str) -> int:
    """'512MB', '2GB' or a number of bytes."""
    word = text.strip().upper().removesuffix("B")
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}.get(word[-1:], 1)
    try:
        size = int(float(word.rstrip("KMGT") if scale > 1 else word) * scale)
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise ValueError(f"{text!r} is not a size: write 512MB or 2GB")
    return size


def parse_seconds(text: str | None) -> float | None:
    """'60s', '5m', '1h' or a number of seconds."""
    return None if text is None else seconds_of(text)


# ---------------------------------------------------------------- help texts of the registry


def learner_help() -> str:
    """What --learner names."""
    return ", ".join(f"{name} ({entry.help})" for name, entry in LEARNERS.items()) + "."


def names_help(table: Names) -> str:
    """Names that a term may have."""
    return ", ".join(table) + "."


def criteria_help() -> str:
    criteria = "; ".join(", ".join(task.criteria) for task in TASKS.values() if task.criteria)
    return f"What makes a setting better: {criteria}."


def read_config(path: Path, known: set[str]) -> dict[str, Any]:
    """Option values from a TOML file; sections [data], [train] and [set] are only for order."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    flat: dict[str, Any] = {}
    assignments = document.pop("set", {})
    for key, value in document.items():
        flat.update(value if isinstance(value, dict) else {key: value})
    flat = {key.replace("-", "_"): value for key, value in flat.items()}
    unknown = sorted(set(flat) - known)
    if unknown:
        import difflib

        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{path} sets {unknown[0]!r}, which is no option{hint}")
    if assignments:
        flat["assign"] = [f"{name}={value}" for name, value in _leaves(assignments)]
    return flat


def _leaves(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            out += _leaves(value, f"{prefix}{key}.")
        else:
            out.append((prefix + key, value))
    return out
