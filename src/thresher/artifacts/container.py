"""The file that holds a model or a checkpoint: a zip of one JSON document and plain arrays.

::

    document.json        what the file is, which versions wrote it, everything that is not an array
    arrays/NAME.npy      one file per array, in numpy's own format

Reading runs nothing that the file says and believes nothing that it says: names, sizes, types and
shapes are checked before memory is asked for, and what is inflated is counted.  The zip and .npy
features that :func:`write` does not use (comments, encryption, object arrays, Fortran order) are
refused rather than understood.  Equal content gives equal bytes.
"""

from __future__ import annotations

import io
import json
import math
import os
import platform
import re
import stat
import struct
import zipfile
from importlib import import_module, metadata
from typing import IO, Any

import numpy as np

from thresher._files import Path_, atomic_file

__all__ = ["VERSION", "BadFile", "atomic_file", "read", "write"]

VERSION = 2
DOCUMENT = "document.json"
MAX_DOCUMENT = 64 * 2**20
MAX_DEPTH = 100
MAX_VALUES = 4 * 2**20  # in a document; each takes up to some hundred bytes of memory
MAX_CONTAINERS = 2**20  # lists and objects among them
MAX_MEMBERS = 65_000
_MAX_DIRECTORY = 16 * 2**20
_MAX_RATIO = 1100  # deflate cannot do better than 1032 to 1
_CHUNK = 2**20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_MEMBER = re.compile(rf"arrays/({_NAME.pattern})\.npy")
_DTYPE = re.compile(r"[<|](b1|[iu][1248]|f[248])")
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
# What numpy writes for a plain C-ordered array; matching it spares evaluating a Python literal.
_NPY_HEADER = re.compile(
    rb"\{'descr': '([^']{2,4})', 'fortran_order': False, 'shape': \(([0-9, ]{0,300})\), \} *\n"
)
_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")


class BadFile(ValueError):
    """A file that is damaged, hostile, or not what it should be; the message says which."""


# ---------------------------------------------------------------- writing


def write(path: Path_, document: dict[str, Any], arrays: dict[str, np.ndarray], kind: str) -> None:
    """Write ``document`` (plain JSON) and ``arrays`` to ``path``, all of it or nothing.

    The keys format, kind, version, versions and arrays are added to the document.
    """
    header = {
        "format": "thresher",
        "kind": kind,
        "version": VERSION,
        "versions": _versions(),
        "arrays": sorted(arrays),
    }
    text = _to_json({**document, **header})
    members = {name: _plain(name, arrays[name]) for name in sorted(arrays)}
    if len(members) >= MAX_MEMBERS:
        raise ValueError(f"{len(members)} arrays are more than a file may hold ({MAX_MEMBERS})")
    with (
        atomic_file(path) as file,
        zipfile.ZipFile(file, "w", strict_timestamps=True) as archive,
    ):
        _add(archive, DOCUMENT, [text], deflate=True)
        for name, array in members.items():
            sparse = bool(2 * np.count_nonzero(array) < array.size)
            parts = [_npy_header(array), array.reshape(-1).view(np.uint8)]
            _add(archive, f"arrays/{name}.npy", parts, deflate=sparse)


def _versions() -> dict[str, str]:
    found = {name: metadata.version(name) for name in _LIBRARIES}
    return {"thresher": our_version(), "python": platform.python_version(), **found}


def our_version() -> str:
    """Thresher's own version; by this way because the package's front door is a layer above."""
    return str(import_module("thresher").__version__)


def _to_json(document: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(document, allow_nan=False, sort_keys=True, indent=1)
        plain = json.loads(text, parse_int=_whole) == document
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the document is not plain JSON ({error}): encode it first") from error
    if not plain:
        raise ValueError("the document holds tuples or keys that are not strings: encode it first")
    if len(text) > MAX_DOCUMENT:
        raise ValueError(f"the document has {len(text)} bytes, more than {MAX_DOCUMENT}")
    data = text.encode("ascii")
    _check_counts(data)
    return data


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    """The array as it is stored: C-ordered, little-endian, numbers only."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"array name {name!r}: use up to 100 letters, digits, '_', '.' and '-'")
    array = np.asarray(array, order="C")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if not _DTYPE.fullmatch(array.dtype.str):
        raise ValueError(f"array {name!r} has type {array.dtype}; only plain numbers can be stored")
    return array


def _npy_header(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    fields = np.lib.format.header_data_from_array_1_0(array)
    # The flag is set for arrays that are both: with one dimension, or one row.
    np.lib.format.write_array_header_1_0(buffer, {**fields, "fortran_order": False})
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, parts: list[Any], deflate: bool) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
    info.create_system = 3
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    info.file_size = sum(len(part) for part in parts)
    with archive.open(info, "w") as member:
        for part in parts:
            for start in range(0, len(part), _CHUNK):
                member.write(part[start : start + _CHUNK])


# ---------------------------------------------------------------- reading


def read(
    path: Path_, kind: str, max_bytes: int = 4 * 2**30
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The document and the arrays of a file of this ``kind`` ("model", "checkpoint").

    Raises :class:`BadFile` for anything that :func:`write` would not have written, and for content
    of more than ``max_bytes``.
    """
    with open(path, "rb") as file:
        try:
            return _read(file, kind, max_bytes)
        except BadFile as error:
            raise BadFile(f"{os.fspath(path)}: {error}") from error.__cause__
        except MemoryError:
            raise
        except Exception as error:  # the zip reader meets damage with a dozen kinds of error
            what = f"{type(error).__name__}: {error}"
            raise BadFile(f"{os.fspath(path)}: the file is damaged ({what})") from error


def _read(
    file: IO[bytes], kind: str, max_bytes: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    _check_end(file, max_bytes)
    with zipfile.ZipFile(file) as archive:
        members = _checked_members(archive, os.fstat(file.fileno()).st_size, max_bytes)
        document = _from_json(_read_bytes(archive, members.pop(DOCUMENT)))
        _check_header(document, kind, sorted(members))
        arrays = {name: _read_array(archive, info) for name, info in members.items()}
    return document, arrays


def _check_end(file: IO[bytes], max_bytes: int) -> None:
    """The zip's last record, before the zip reader loads the directory that it points to."""
    size = file.seek(0, os.SEEK_END)
    if size > max_bytes:
        raise BadFile(f"the file has {size} bytes, more than max_bytes={max_bytes}")
    file.seek(max(0, size - 98))
    tail = file.read()
    end = tail[-22:]
    if len(end) < 22 or end[:4] != b"PK\x05\x06" or end[-2:] != b"\0\0":
        raise BadFile("not a Thresher file, or cut off: it does not end as a zip file does")
    directory = struct.unpack("<I", end[12:16])[0]
    if tail[-42:-38] == b"PK\x06\x07":  # a second, larger set of numbers: zip64
        if tail[-98:-94] != b"PK\x06\x06":
            raise BadFile("the zip64 records are damaged")
        directory = struct.unpack("<Q", tail[-58:-50])[0]
    if directory > min(_MAX_DIRECTORY, size):
        raise BadFile(f"its table of contents claims {directory} bytes")


def _checked_members(
    archive: zipfile.ZipFile, size: int, max_bytes: int
) -> dict[str, zipfile.ZipInfo]:
    """Members by array name (and the document), once the directory has been found harmless."""
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise BadFile(f"it has {len(infos)} members, more than {MAX_MEMBERS}")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = _check_member(info)
        if name in members:
            raise BadFile(f"it has two members called {info.filename!r}")
        members[name] = info
    if DOCUMENT not in members:
        raise BadFile(f"it has no {DOCUMENT}: not a Thresher file")
    if members[DOCUMENT].file_size > MAX_DOCUMENT:
        raise BadFile(f"its {DOCUMENT} claims more than {MAX_DOCUMENT} bytes")
    total = sum(info.file_size for info in infos)
    if total > max_bytes:
        raise BadFile(f"its content claims {total} bytes, more than max_bytes={max_bytes}")
    if sum(info.compress_size for info in infos) > size:
        raise BadFile("its members overlap, or claim more bytes than the file has")
    return members


def _check_member(info: zipfile.ZipInfo) -> str:
    shown = repr(info.orig_filename[:200])
    match = _MEMBER.fullmatch(info.orig_filename)
    if info.orig_filename != DOCUMENT and not match:
        raise BadFile(f"member {shown} does not belong in a Thresher file")
    if info.flag_bits & ~0x0806:  # compression level and the UTF-8 mark are all that we know
        raise BadFile(f"member {shown} is encrypted or uses other unknown zip features")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BadFile(f"member {shown} has unknown compression method {info.compress_type}")
    if not stat.S_ISREG(info.external_attr >> 16):
        raise BadFile(f"member {shown} is a link or no plain file")
    stored = info.compress_type == zipfile.ZIP_STORED
    if info.file_size > info.compress_size * (1 if stored else _MAX_RATIO):
        raise BadFile(f"member {shown} claims to grow from {info.compress_size} to "
                      f"{info.file_size} bytes: a zip bomb")  # fmt: skip
    return match[1] if match else DOCUMENT


def _fill(member: IO[bytes], buffer: np.ndarray, name: str) -> None:
    """Read exactly as many bytes as were claimed; the end also compares the checksum."""
    place = 0
    while place < buffer.size:
        part = member.read(min(_CHUNK, buffer.size - place))
        if not part:
            raise BadFile(f"member {name!r} is shorter than it claims")
        buffer[place : place + len(part)] = np.frombuffer(part, np.uint8)
        place += len(part)
    if member.read(1):
        raise BadFile(f"member {name!r} is longer than it claims")


def _read_bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    buffer = np.empty(info.file_size, np.uint8)
    with archive.open(info) as member:
        _fill(member, buffer, info.filename)
    return buffer.tobytes()


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as member:
        dtype, shape, header = _npy_fields(member, info.filename)
        expected = math.prod(shape) * dtype.itemsize
        if expected != info.file_size - header:
            raise BadFile(f"member {info.filename!r}: shape {shape} of {dtype} needs {expected} "
                          f"bytes, but there are {info.file_size - header}")  # fmt: skip
        buffer = np.empty(expected, np.uint8)
        _fill(member, buffer, info.filename)
    if dtype == np.bool_ and np.any(buffer > 1):
        raise BadFile(f"member {info.filename!r} holds truth values other than 0 and 1")
    return buffer.view(dtype).reshape(shape)


def _npy_fields(member: IO[bytes], name: str) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Type, shape and length of the header of an .npy file; numbers in C order only."""
    start = member.read(10)
    if len(start) < 10 or start[:8] != _NPY_MAGIC:
        raise BadFile(f"member {name!r} is not a .npy file of version 1.0")
    length = struct.unpack("<H", start[8:])[0]
    match = _NPY_HEADER.fullmatch(member.read(length))
    if not match:
        raise BadFile(f"member {name!r} is not a plain array in C order")
    descr, sizes = match[1].decode("latin-1"), match[2].decode("ascii")
    if not _DTYPE.fullmatch(descr):
        raise BadFile(f"member {name!r} has type {descr!r}; only plain numbers are read")
    parts = [part.strip() for part in sizes.split(",")]
    if parts[-1] == "":  # "()" and "(3,)"
        parts.pop()
    if len(parts) > 32 or not all(part.isdigit() and len(part) < 16 for part in parts):
        raise BadFile(f"member {name!r} has a strange shape ({sizes})")
    return np.dtype(descr), tuple(int(part) for part in parts), 10 + length


# ---------------------------------------------------------------- the document


def _check_counts(data: bytes) -> None:
    """A few bytes of a compressed file can be millions of values: they are counted before they
    are made.  (What stands in strings is counted too.)"""
    containers = data.count(b"[") + data.count(b"{")
    for found, most, what in (
        (containers, MAX_CONTAINERS, "lists and objects"),
        (containers + data.count(b","), MAX_VALUES, "values"),
    ):
        if found > most:
            raise BadFile(f"{DOCUMENT} holds {found} {what}, more than {most}")


def _from_json(data: bytes) -> dict[str, Any]:
    _check_counts(data)
    try:
        document = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except RecursionError as error:
        raise BadFile(f"{DOCUMENT} is nested too deeply") from error
    except BadFile:
        raise
    except ValueError as error:
        raise BadFile(f"{DOCUMENT} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadFile(f"{DOCUMENT} is a {type(document).__name__}, not an object")
    _check_depth(document)
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise BadFile(f"{DOCUMENT} has an object with the same key twice")
    return result


def _no_constant(text: str) -> None:
    raise BadFile(f"{DOCUMENT} holds {text}, which is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadFile(f"{DOCUMENT} holds {text[:50]}, which is too large a number")
    return value


def _whole(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= (value := int(text)) < 2**64:
        raise BadFile(f"{DOCUMENT} holds {text[:50]}, which is too large a whole number")
    return value


def _check_depth(document: dict[str, Any]) -> None:
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for value in level:
            children = value.values() if isinstance(value, dict) else value
            inner.extend(child for child in children if isinstance(child, dict | list))
        if not inner:
            return
        level = inner
    raise BadFile(f"{DOCUMENT} is nested more than {MAX_DEPTH} deep")


def _check_header(document: dict[str, Any], kind: str, names: list[str]) -> None:
    if document.get("format") != "thresher":
        raise BadFile("not a Thresher file: its document does not say so")
    version, versions = document.get("version"), document.get("versions")
    if type(version) is not int or version < 1 or not isinstance(versions, dict):
        raise BadFile("its document does not say which version wrote it")
    if version > VERSION:
        raise BadFile(
            f"written by a newer Thresher ({versions.get('thresher')!r}, file version {version}; "
            f"this one, {our_version()}, reads up to {VERSION}): upgrade thresher"
        )
    if document.get("kind") != kind:
        raise BadFile(f"this is a {document.get('kind')!r}, but a {kind!r} was expected")
    if document.get("arrays") != names:
        raise BadFile("the arrays that it lists are not the arrays that it holds")
