"""What a page may ask of a session, whoever carries the question: a server, or a notebook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thresher.views.explorer.session import Session
from thresher.views.explorer.window import Window

__all__ = ["WRONG", "answered"]

#: what a question that makes no sense may raise: of wrong types, too deep, infinite
WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError)


def answered(session: Session, question: str, asked: Any) -> Any:
    """The answer, bytes or what JSON can say; one of ``WRONG`` where it makes no sense."""
    return _ANSWERS[question](session, asked)


def _window(session: Session, asked: Any) -> bytes:
    names = ("level", "start", "stop", "first", "last", "step")
    level, start, stop, first, last, step = (int(asked[name]) for name in names)
    return session.window(Window(level, start, stop, first, last, step, str(asked["layer"])))


def _side(session: Session, asked: Any) -> bytes:
    return session.side(*(int(asked[name]) for name in ("side", "level", "start", "stop")))


def _shown(session: Session, asked: Any) -> Any:
    session.show(str(asked["order"]))
    return session.describe()


def _found(session: Session, asked: Any) -> Any:
    return session.find(str(asked["text"]), asked["column"] or None, int(asked["after"]))


def _ranges(asked: Any) -> list[tuple[int, int]]:
    return [(int(start), int(stop)) for start, stop in asked["ranges"]]


_ANSWERS: dict[str, Callable[[Session, Any], Any]] = {
    "/describe": lambda session, asked: session.describe(),
    "/window": _window,
    "/side": _side,
    "/show": _shown,
    "/find": _found,
    "/row": lambda session, asked: session.row(int(asked["place"])),
    "/summary": lambda session, asked: session.summary(_ranges(asked)),
    "/name": lambda session, asked: session.name(str(asked["name"]), _ranges(asked)),
    "/export": lambda session, asked: session.export(str(asked["kind"]), _ranges(asked)),
    "/labels": lambda session, asked: session.export_labels(),
    "/cuts": lambda session, asked: session.cuts(int(asked["clusters"])),
    "/points": lambda session, asked: session.points(
        int(asked["x"]), int(asked["y"]), _ranges(asked)
    ),
}
