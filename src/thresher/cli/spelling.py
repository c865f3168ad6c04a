"""Messages of the library in the words of the command line."""

from __future__ import annotations

import re

__all__ = ["as_options"]

_OPTIONS = "alpha|calibrate|encoding|format|holdout|learner|loss|n_features|on_bad_rows"
_OPTIONS += "|model|passes|penalty|solver|shards|target|task|weight|criterion|search|study|tune|cv"
_RENAMED = {"cv": "folds"}
_ASSIGNED = re.compile(rf"\b({_OPTIONS})=(?:'([^']*)'|([\w.]+))")
_SET = re.compile(r"(?<!--set )(?<!\S)memory=")  # of a learner: --memory is about rows
_TYPED = re.compile(r"types=\{'([^']*)': '([^']*)'\}")
_TERMS = re.compile(r"pass it, load_model\(path, terms=\[[^\]]*\]\)")


def as_options(message: str) -> str:
    """``on_bad_rows='skip'`` as ``--on-bad-rows skip``."""

    def option(match: re.Match[str]) -> str:
        value = match[2] if match[2] is not None else match[3]
        return f"--{_RENAMED.get(match[1], match[1]).replace('_', '-')} {value}"

    message = _TYPED.sub(r"--type \1=\2", message)
    message = _TERMS.sub("name the file that defines it with --plugin", message)
    message = _SET.sub("--set memory=", message)
    return _ASSIGNED.sub(option, message).replace("n_features= says", "--n-features says")
