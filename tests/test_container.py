"""The file format: exact, atomic, reproducible; and hostile or damaged files are refused."""

import errno
import io
import json
import math
import os
import stat
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher.artifacts import container
from thresher.artifacts.container import BadFile, atomic_file, read, write

DOCUMENT = {
    "estimator": "x",
    "number": 0.1,
    "text": "ä\ud800",
    "list": [1, None, True, {"a": -0.0}],
}
ARRAYS = {
    "w": np.array([[0.1, -0.0, 1e-310], [math.nan, math.inf, 2.0]]),
    "i": np.arange(5, dtype=np.int32),
    "zeros": np.zeros(1000, np.float32),
    "flags": np.array([True, False]),
    "empty": np.empty((0, 3)),
    "scalar": np.array(7, np.uint8),
}


def header(names=("w",), **changes):
    versions = {"thresher": "0.1"}
    base = {"format": "thresher", "kind": "model", "version": 1, "versions": versions}
    return {**base, "arrays": sorted(names), **changes}


def npy(array, **options):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, **options)
    return buffer.getvalue()


def info(name, mode=stat.S_IFREG | 0o644, method=zipfile.ZIP_DEFLATED):
    result = zipfile.ZipInfo(name)
    result.external_attr, result.compress_type = mode << 16, method
    return result


def crafted(path, members=None, document=None, **options):
    """A zip with a good document unless told otherwise."""
    members = {"arrays/w.npy": npy(np.ones(3))} if members is None else members
    text = json.dumps(header()) if document is None else document
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {"document.json": text, **members}.items():
            archive.writestr(info(name, **options), data)
    return path


def refused(path, match=None, **options):
    with pytest.raises(BadFile, match=match) as caught:
        read(path, "model", **options)
    assert str(path) in str(caught.value)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "model.thresher"


# ---------------------------------------------------------------- what is written is read


def test_round_trip_is_exact(target):
    write(target, DOCUMENT, ARRAYS, "model")
    document, arrays = read(target, "model")
    assert {key: document[key] for key in DOCUMENT} == DOCUMENT
    assert document["kind"] == "model"
    assert set(document["versions"]) == {
        "thresher", "numpy", "scipy", "numba", "scikit-learn", "python",
    }  # fmt: skip
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()
        assert arrays[name].flags.writeable


def test_equal_content_gives_equal_bytes(tmp_path):
    write(tmp_path / "a", DOCUMENT, ARRAYS, "model")
    backwards = dict(reversed(DOCUMENT.items())), dict(reversed(ARRAYS.items()))
    write(tmp_path / "b", *backwards, "model")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_unusual_layouts_are_stored_by_value(target):
    table = np.arange(6.0).reshape(2, 3)
    write(target, {}, {"f": np.asfortranarray(table), "s": table[:, ::2], "b": table.astype(">f8")},
          "model")  # fmt: skip
    arrays = read(target, "model")[1]
    assert np.array_equal(arrays["f"], table)
    assert np.array_equal(arrays["s"], table[:, ::2])
    assert np.array_equal(arrays["b"], table)


@pytest.mark.parametrize(
    ("document", "arrays", "match"),
    [
        ({"x": math.nan}, {}, "not plain JSON"),
        ({"x": object()}, {}, "not plain JSON"),
        ({"x": (1, 2)}, {}, "tuples"),
        ({"x": {1: 2}}, {}, "keys"),
        ({}, {"../x": np.ones(2)}, "array name"),
        ({}, {"x": np.array([None])}, "only plain numbers"),
        ({}, {"x": np.array(["a"])}, "only plain numbers"),
        ({}, {"x": np.ones(2, complex)}, "only plain numbers"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_the_file_is_touched(
    target, document, arrays, match
):
    with pytest.raises(ValueError, match=match):
        write(target, document, arrays, "model")
    assert list(target.parent.iterdir()) == []


# ---------------------------------------------------------------- atomic


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("exists", [True, False])
def test_failed_write_leaves_the_old_file(target, monkeypatch, function, exists):
    if exists:
        write(target, {"old": 1}, {}, "model")
    before = target.read_bytes() if exists else None

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, function, full)
    with pytest.raises(OSError, match=r"could not write .*model.thresher: No space") as caught:
        write(target, {"new": 1}, ARRAYS, "model")
    assert caught.value.errno == errno.ENOSPC
    assert list(target.parent.iterdir()) == ([target] if exists else [])
    assert not exists or target.read_bytes() == before


def test_a_full_device_while_writing(target, monkeypatch):
    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile._ZipWriteFile, "write", full)
    with pytest.raises(OSError, match="No space"):
        write(target, {}, ARRAYS, "model")
    assert list(target.parent.iterdir()) == []


def test_an_interrupt_leaves_nothing_behind(target):
    def interrupted():
        with atomic_file(target) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(target.parent.iterdir()) == []


def test_permissions_and_links_are_kept(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    write(real, {}, {}, "model")
    real.chmod(0o600)
    link.symlink_to(real)
    write(link, {"second": 2}, {}, "model")
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert read(real, "model")[0]["second"] == 2


def test_only_plain_files_are_replaced(tmp_path):
    with pytest.raises(OSError, match="no plain file"):
        write(tmp_path, {}, {}, "model")
    with pytest.raises(FileNotFoundError, match="could not write"):
        write(tmp_path / "missing" / "model", {}, {}, "model")


def test_a_directory_that_cannot_be_flushed_is_no_failure(target, monkeypatch):
    real, calls = os.fsync, []

    def once(handle):
        calls.append(handle)
        if len(calls) > 1:
            raise OSError(errno.EINVAL, "Invalid argument")
        real(handle)

    monkeypatch.setattr(os, "fsync", once)
    write(target, {}, {}, "model")
    assert len(calls) == 2
    read(target, "model")


# ---------------------------------------------------------------- hostile files, one by one


def test_the_crafted_file_is_good(target):
    assert np.array_equal(read(crafted(target), "model")[1]["w"], np.ones(3))


@pytest.mark.parametrize("content", [b"", b"PK", b"hello world, this is no zip file at all"])
def test_no_zip(target, content):
    target.write_bytes(content)
    refused(target, "not a Thresher file")


def test_every_truncation_is_refused(target):
    write(target, {"a": 1}, {"w": np.ones(3)}, "model")
    whole = target.read_bytes()
    for size in range(0, len(whole), 7):
        target.write_bytes(whole[:size])
        refused(target)


def test_missing_file_is_an_os_error(target):
    with pytest.raises(FileNotFoundError):
        read(target, "model")


@pytest.mark.parametrize(
    "name",
    [
        "../evil.npy", "/etc/passwd", "arrays/../../evil.npy", "arrays/a/b.npy", "arrays/.npy",
        "C:\\evil.npy", "arrays/w.pkl", "arrays/é.npy", "arrays/w.npy\n", "other.json", "arrays/",
        "arrays/" + 200 * "w" + ".npy", "document.json\0.npy",
    ],
)  # fmt: skip
def test_strange_names(target, name):
    if "\0" in name:  # zipfile itself would cut the name at the NUL
        plain = name.replace("\0", "#")
        crafted(target, {"arrays/w.npy": npy(np.ones(3)), plain: b""})
        target.write_bytes(target.read_bytes().replace(plain.encode(), name.encode()))
    else:
        crafted(target, {"arrays/w.npy": npy(np.ones(3)), name: b"x"})
    refused(target, "does not belong")


def test_duplicate_members(target):
    crafted(target, {"arrays/w.npy": npy(np.ones(3)), "arrays/v.npy": npy(np.ones(3))})
    target.write_bytes(target.read_bytes().replace(b"arrays/v.npy", b"arrays/w.npy"))
    refused(target, "two members")


def test_missing_members(target):
    crafted(target, {})
    refused(target, "not the arrays that it holds")
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(info("arrays/w.npy"), npy(np.ones(3)))
    refused(target, "no document.json")
    crafted(target, {"arrays/w.npy": npy(np.ones(3)), "arrays/v.npy": npy(np.ones(3))})
    refused(target, "not the arrays that it holds")


def test_links(target):
    refused(crafted(target, mode=stat.S_IFLNK | 0o777), "link")


def patched(path, field, value, size, which=0):
    """Change a number in central directory entry ``which``, at offset ``field``."""
    data = bytearray(path.read_bytes())
    place = -1
    for _ in range(which + 1):
        place = data.index(b"PK\x01\x02", place + 1)
    data[place + field : place + field + size] = value.to_bytes(size, "little")
    path.write_bytes(data)
    return path


def test_encrypted_members(target):
    refused(patched(crafted(target), 8, 1, 2), "encrypted")


def test_unknown_compression(target):
    refused(crafted(target, method=zipfile.ZIP_LZMA), "compression|zip features")
    refused(patched(crafted(target), 10, 12, 2), "compression")


def test_wrong_checksum(target):
    refused(patched(crafted(target), 16, 12345, 4), "CRC")


def test_honest_zip_bomb(target):
    crafted(target, {"arrays/w.npy": npy(np.zeros(2**21))})
    assert target.stat().st_size < 50_000
    refused(target, "max_bytes", max_bytes=2**20)
    assert read(target, "model", max_bytes=2**25)[1]["w"].size == 2**21


def test_lying_zip_bomb_is_stopped_while_inflating(target):
    crafted(target, {"arrays/w.npy": npy(np.zeros(2**22))})
    small = len(npy(np.ones(3)))
    patched(target, 24, small, 4, which=1)  # the directory now claims a small array
    refused(target)


def test_lying_bomb_with_a_shape_to_match(target):
    bomb = npy(np.ones(3)) + bytes(2**25)
    crafted(target, {"arrays/w.npy": bomb})
    patched(target, 24, len(npy(np.ones(3))), 4, which=1)
    refused(target, "CRC|longer")


def test_claims_of_growth_beyond_deflate(target):
    crafted(target)
    refused(patched(target, 24, 2**31, 4, which=1), "zip bomb")
    crafted(target, method=zipfile.ZIP_STORED)
    refused(patched(target, 24, 2**31, 4, which=1), "zip bomb")


def test_overlapping_members(target):
    crafted(target, {"arrays/w.npy": npy(np.random.default_rng(0).normal(size=1000))})
    size = target.stat().st_size
    refused(patched(target, 20, size, 4, which=0), "overlap")


def test_oversized_files_and_directories(target):
    crafted(target)
    refused(target, "max_bytes=100", max_bytes=100)
    data = bytearray(target.read_bytes())
    data[-10:-6] = struct.pack("<I", 2**31)
    target.write_bytes(data)
    refused(target, "table of contents")


def test_zip64_records_are_not_believed(target):
    good = crafted(target).read_bytes()
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 2, 2, 2**40, 0)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, len(good) - 22, 1)
    target.write_bytes(good[:-22] + record + locator + good[-22:])
    refused(target, "table of contents")
    target.write_bytes(good[:-22] + bytes(56) + locator + good[-22:])
    refused(target, "zip64")


def test_too_many_members(target, monkeypatch):
    monkeypatch.setattr(container, "MAX_MEMBERS", 3)
    crafted(target, {f"arrays/w{i}.npy": npy(np.ones(1)) for i in range(5)})
    refused(target, "6 members")
    with pytest.raises(ValueError, match="more than a file may hold"):
        write(target, {}, {f"w{i}": np.ones(1) for i in range(5)}, "model")


# ---------------------------------------------------------------- hostile documents


@pytest.mark.parametrize(
    ("document", "match"),
    [
        ("[1]", "list, not an object"),
        ("{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + 5000 * "9" + "}", "too large a whole number"),
        ('{"a": -9223372036854775809}', "too large a whole number"),
        ('{"a": [' + ",".join(["[]"] * 2**21) + "]}", "lists and objects"),
        ('{"a": [' + ",".join("1" * (5 * 2**20)) + "]}", "values, more than"),
        ('{"a": 1, "a": 2}', "same key twice"),
        ('{"a": ' + 200 * "[" + 200 * "]" + "}", "more than 100 deep"),
        ('{"a": ' + 100_000 * "[" + 100_000 * "]" + "}", "too deeply"),
        (json.dumps(header(format="other")), "not a Thresher file"),
        (json.dumps(header(version="1")), "which version"),
        (json.dumps(header(version=True)), "which version"),
        (json.dumps(header(version=0)), "which version"),
        (json.dumps(header(versions=None)), "which version"),
        (
            json.dumps(header(version=container.VERSION + 1, versions={"thresher": "9.0"})),
            r"newer Thresher \('9.0'",
        ),
        (json.dumps(header(kind="checkpoint")), "this is a 'checkpoint', but a 'model'"),
        (json.dumps(header(arrays=3)), "not the arrays"),
    ],
)
def test_documents(target, document, match):
    refused(crafted(target, document=document), match)


def test_oversized_document(target, monkeypatch):
    monkeypatch.setattr(container, "MAX_DOCUMENT", 50)
    refused(crafted(target), "claims more than 50 bytes")
    with pytest.raises(ValueError, match="more than 50"):
        write(target, {}, {}, "model")


# ---------------------------------------------------------------- hostile arrays


def handmade(text, data=bytes(24), magic=b"\x93NUMPY\x01\x00"):
    text = text.encode("latin-1")
    return magic + struct.pack("<H", len(text)) + text + data


def fields(descr="'<f8'", order="False", shape="(3,)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}   \n"


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (npy(np.array([print], object), allow_pickle=True), "only plain numbers"),
        (npy(np.zeros(3, [("a", "f8")])), "not a plain array"),
        (npy(np.array(["abc"])), "only plain numbers"),
        (npy(np.zeros(3, complex)), "only plain numbers"),
        (npy(np.zeros(3, "M8[s]")), "not a plain array|only plain"),
        (npy(np.asfortranarray(np.ones((2, 3)))), "C order"),
        (npy(np.ones(3), version=(2, 0)), "version 1.0"),
        (b"", "version 1.0"),
        (npy(np.ones(3))[:-1], "needs 24 bytes, but there are 23"),
        (npy(np.ones(3)) + b"x", "needs 24 bytes, but there are 25"),
        (handmade(fields()), None),
        (handmade(fields("'>f8'")), "only plain numbers"),
        (handmade(fields("'|O'")), "only plain numbers"),
        (handmade(fields("'<f3'")), "only plain numbers"),
        (handmade(fields("__import__('os')")), "not a plain array"),
        (handmade(fields(shape="(-3,)")), "not a plain array"),
        (handmade(fields(shape="(3 3,)")), "strange shape"),
        (handmade(fields(shape="(3,,)")), "strange shape"),
        (handmade(fields(shape="(,)")), "strange shape"),
        (handmade(fields(shape="(99999999999999999999,)")), "strange shape"),
        (handmade(fields(shape="(1000000000, 1000000000, 1000000000)")), "needs 8000000000"),
        (handmade(fields(shape="(" + 40 * "1, " + "3)")), "strange shape"),
        (handmade("(" * 5000), "not a plain array"),
        (handmade(fields("'|b1'"), bytes([1, 0, 2])), "truth values"),
    ],
)
def test_arrays(target, data, match):
    crafted(target, {"arrays/w.npy": data})
    if match is None:
        assert np.array_equal(read(target, "model")[1]["w"], np.zeros(3))
    else:
        refused(target, match)


# ---------------------------------------------------------------- fuzz


def _valid(tmp):
    path = tmp / "valid"
    write(path, {"a": [1, 2.5, "x"]}, {"w": np.arange(4.0), "z": np.zeros(50)}, "model")
    return path


@st.composite
def mutations(draw):
    """Flipped, removed and inserted bytes, more than one at times."""
    return draw(
        st.lists(
            st.tuples(
                st.sampled_from(["flip", "cut", "insert", "end"]),
                st.floats(0, 1, exclude_max=True),
                st.integers(1, 255),
            ),
            min_size=1,
            max_size=3,
        )
    )


def mutated(data, changes):
    data = bytearray(data)
    for what, where, value in changes:
        place = int(where * len(data))
        if what == "flip" and data:
            data[place] ^= value
        elif what == "cut":
            del data[place : place + value % 8 + 1]
        elif what == "insert":
            data[place:place] = bytes([value]) * (value % 5 + 1)
        else:
            del data[place:]
    return bytes(data)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = _valid(tmp_path_factory.mktemp("fuzz"))
    return path.read_bytes(), *read(path, "model"), path.with_name("mutant")


def check_mutant(valid, data):
    _, document, arrays, path = valid
    path.write_bytes(data)
    try:
        found, parts = read(path, "model", max_bytes=2**24)
    except BadFile:
        return
    assert found == document
    assert {k: v.tobytes() for k, v in parts.items()} == {k: v.tobytes() for k, v in arrays.items()}


@given(changes=mutations())
def test_mutants_are_equal_or_refused(valid, changes):
    check_mutant(valid, mutated(valid[0], changes))


def test_every_byte_flipped(valid):
    data = valid[0]
    for place in range(len(data)):
        for bit in (0x01, 0x80, 0xFF):
            check_mutant(valid, data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])


@given(garbage=st.binary(max_size=300))
def test_documents_of_garbage(valid, garbage):
    path = valid[3]
    crafted(path, document=garbage)
    with pytest.raises(BadFile):
        read(path, "model")


@given(garbage=st.binary(max_size=100))
def test_arrays_of_garbage(valid, garbage):
    path = valid[3]
    crafted(path, {"arrays/w.npy": b"\x93NUMPY\x01\x00" + garbage})
    with pytest.raises(BadFile):
        read(path, "model")


def test_damaged_streams(target):
    """A compressed member whose bytes are not deflate, with directory and sizes in order."""
    crafted(target)
    data = bytearray(target.read_bytes())
    start = data.index(b"arrays/w.npy") + len("arrays/w.npy")
    data[start : start + 8] = b"\xff" * 8
    target.write_bytes(data)
    refused(target, "damaged")
