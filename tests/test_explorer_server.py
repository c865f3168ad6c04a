"""The explorer over HTTP: who gets in, what comes out, when it ends; and in a real browser."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

from thresher.cli import _explained
from thresher.views.explorer import answers
from thresher.views.explorer import server as server_module
from thresher.views.explorer.explore import serve
from thresher.views.explorer.page import write_page
from thresher.views.explorer.server import Server
from thresher.views.explorer.session import Session
from thresher.views.explorer.widget import explorer_widget, reply
from thresher.views.explorer.window import Window


@pytest.fixture(scope="module")
def session():
    rng = np.random.default_rng(0)
    t = rng.random(3000)
    table = pa.table({
        "a": t, "b": np.cos(5 * t), "c": rng.choice(["u", "<script>alert(1)</script>"], 3000),
        "n": np.arange(3000), "y": np.where(t > 0.5, "p", "q"),
    })  # fmt: skip
    return Session(table, "y", title="</script><b>bold")


@pytest.fixture(scope="module")
def server(session):
    server = Server(session)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield server
    if thread.is_alive():
        server.close()
    thread.join(5)


def asked(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    usual = {"Host": f"127.0.0.1:{server.port}", "X-Token": server.token}
    headers = {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def test_the_page_comes_with_the_token_and_may_load_nothing_else(server):
    status, body, headers = asked(server, "GET", f"/?token={server.token}")
    assert status == 200
    assert b"{{" not in body
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    (nonce,) = set(re.findall(rb'nonce="([^"]*)"', body))
    assert nonce.decode() in headers["Content-Security-Policy"]
    assert server.token.encode() not in body


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=wrong", "/page.js", "/../page.py"])
def test_without_the_token_or_elsewhere_there_is_no_page(server, path):
    assert asked(server, "GET", path)[0] == 403


PATHS = sorted([*answers._ANSWERS, *server_module._LIFE])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {"X_Token": "wrong"},
        {"X_Token": ""},
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_strangers_get_nothing(server, path, headers):
    status, body, _ = asked(server, "POST", path, {}, **headers)
    assert (status, body) == (403, b"not allowed")


def test_a_page_of_our_own_is_let_in(server):
    origin = f"http://127.0.0.1:{server.port}"
    assert asked(server, "POST", "/describe", {}, Origin=origin)[0] == 200
    assert asked(server, "POST", "/describe", {}, Host=f"localhost:{server.port}")[0] == 200


def test_answers_are_those_of_the_session(server, session):
    window = {"level": 2, "start": 5, "stop": 90, "first": 1, "last": 3, "step": 1,
              "layer": "extremes"}  # fmt: skip
    status, body, _ = asked(server, "POST", "/window", window)
    assert status == 200
    assert body == session.window(Window(2, 5, 90, 1, 3, layer="extremes"))
    assert json.loads(asked(server, "POST", "/describe", {})[1]) == session.describe()
    assert json.loads(asked(server, "POST", "/row", {"place": 4})[1]) == session.row(4)
    side = {"side": 0, "level": 3, "start": 0, "stop": 9}
    assert asked(server, "POST", "/side", side)[1] == session.side(0, 3, 0, 9)
    ranges = [[3, 40]]
    summary = asked(server, "POST", "/summary", {"ranges": ranges})[1]
    assert json.loads(summary) == session.summary(ranges)
    exported = asked(server, "POST", "/export", {"kind": "csv", "ranges": ranges})[1]
    assert exported == session.export("csv", ranges)
    points = asked(server, "POST", "/points", {"x": 0, "y": 1, "ranges": ranges})[1]
    assert points == session.points(0, 1, ranges)


def test_named_rows_come_back_as_labels(server, session):
    ranges = [[0, 3]]
    assert asked(server, "POST", "/name", {"name": "three", "ranges": ranges})[0] == 200
    lines = asked(server, "POST", "/labels", {})[1].decode().split()
    expected = [f'{r + 1},"three"' for r in sorted(session.order[:3])]
    assert lines[1:] == expected
    session.named.clear()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/nothing", {}),
        ("/window", {}),
        ("/window", []),
        ("/row", {"place": 10**9}),
        ("/row", {"place": "x"}),
        ("/export", {"kind": "/etc/passwd", "ranges": [[0, 1]]}),
        ("/summary", {"ranges": [[5, 1]]}),
        ("/show", {"order": "../x"}),
        ("/find", {"text": "#x", "column": "", "after": 0}),
        ("/find", {"text": "x", "column": "no such", "after": 0}),
        ("/points", {"x": 99, "y": 0, "ranges": []}),
        ("/row", {"place": float("inf")}),
        ("/row", {"place": 10**400}),
        ("/side", {"side": 0, "level": 10**30, "start": 0, "stop": 1}),
        ("/cuts", {"clusters": 0}),
    ],
)
def test_wrong_questions_are_answered_as_such(server, path, body):
    assert asked(server, "POST", path, body)[0] == 400
    assert asked(server, "POST", "/describe", {})[0] == 200


def test_questions_without_a_bottom_are_wrong_ones(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    for path, token in (("/row", server.token), ("/bye", "")):
        connection.request("POST", path, "[" * 500_000, {"X-Token": token})
        answer = connection.getresponse()
        answer.read()
        assert answer.status in (400, 403)
    connection.close()


def test_requests_beyond_measure_are_not_read(server):
    assert asked(server, "POST", "/row", None, Content_Length=str(1 << 30))[0] == 403


def test_the_server_ends_after_its_page(session, monkeypatch):
    monkeypatch.setattr(server_module, "_GRACE", 0.2)
    server = Server(session)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert asked(server, "GET", f"/?token={server.token}")[0] == 200
    assert thread.is_alive()
    body = {"token": server.token}  # as a beacon brings it
    assert asked(server, "POST", "/bye", body, X_Token="")[0] == 200
    thread.join(10)
    assert not thread.is_alive()


def test_a_page_that_comes_back_keeps_the_server(session, monkeypatch):
    monkeypatch.setattr(server_module, "_GRACE", 0.6)
    server = Server(session)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    asked(server, "POST", "/bye", {})
    asked(server, "POST", "/beat", {})
    time.sleep(1.2)
    assert thread.is_alive()
    server.close()
    thread.join(5)


def test_it_listens_on_this_machine_only_and_says_if_a_port_is_taken(session):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} cannot be used") as caught:
            Server(session, port)
    assert _explained(caught.value) == 5
    with pytest.raises(ValueError, match="port must be"):
        Server(session, 70000)


def test_a_page_in_a_file_holds_the_levels_and_no_markup_of_the_data(session, tmp_path):
    assert write_page(session, tmp_path / "page.html", most_bytes=5000) == 8
    text = (tmp_path / "page.html").read_text()
    assert "<script>alert" not in text
    assert "</script><b>" not in text
    (data,) = re.findall(r'id="data">(.*)</script>', text)
    told = json.loads(data)
    assert told["cells"]["first_level"] == 3
    assert len(told["cells"]["means"]) == told["depth"] - 3
    assert told["title"] == session.title
    assert os.path.getsize(tmp_path / "page.html") < 100_000


# ---------------------------------------------------------------- in a notebook


def test_a_notebook_gets_the_answers_that_a_server_gives(session):
    body = {"level": 0, "start": 0, "stop": 9, "first": 0, "last": 2, "step": 1, "layer": "means"}
    told, parts = reply(session, {"id": 7, "path": "/window", "body": body})
    assert (told, parts) == ({"id": 7}, [session.window(Window(0, 0, 9, 0, 2))])
    told, parts = reply(session, {"id": 8, "path": "/row", "body": {"place": 3}})
    assert (told, parts) == ({"id": 8, "value": session.row(3)}, [])


@pytest.mark.parametrize(
    "asked",
    [None, [], {"id": 1}, {"id": 1, "path": "/etc/passwd", "body": {}},
     {"id": 1, "path": "/row", "body": {"place": 10**9}}, {"id": 1, "path": "/row", "body": None}],
)  # fmt: skip
def test_questions_that_make_no_sense_have_an_answer_too(session, asked):
    told, parts = reply(session, asked)
    assert told["wrong"]
    assert not parts


def test_the_widget_has_the_page_and_answers(tmp_path):
    pytest.importorskip("anywidget")
    widget = explorer_widget(np.random.default_rng(0).random((30, 3)), height=300)
    assert widget.height == 300
    assert "http-equiv" in widget.page
    sent = []
    widget.send = lambda *message: sent.append(message)
    widget._handle_custom_msg({"id": 1, "path": "/describe", "body": {}}, [])
    assert sent[0][0]["value"]["rows"] == 30
    assert widget.session.order.size == 30


def test_without_anywidget_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ImportError, match=r"thresher\[notebook\]"):
        explorer_widget(np.eye(4))


# ---------------------------------------------------------------- what may go wrong


def test_without_a_browser_the_address_is_told(monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    monkeypatch.setattr(Server, "run", lambda self: self._http.server_close())
    told = []
    serve(Session(pa.table({"a": [1.0, 2.0]})), 0, True, told.append)
    assert told[0].startswith("http://127.0.0.1:")
    assert told[1] == "no browser was found: open the address above yourself"


def test_a_port_that_is_taken_is_named(thresher, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, _, err = thresher("explore", tmp_path / "t.csv", "--port", port, "--no-browser")
    assert code != 0
    assert f"port {port} cannot be used" in err


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b,c\n1,2,x\n", 1),
        ("a\n1\n", 1),
        ("a\n" + "".join(f"{k % 7}\n" for k in range(40)), 40),
        ("a,b\n" + "1,x\n" * 40, 40),
        ("a,b\n" + "".join(f"{k % 7},5\n" for k in range(40)), 40),
        ("a,b\n" + "".join(f"{'uvw'[k % 3]},{'pq'[k % 2]}\n" for k in range(40)), 40),
        ("a\n" + "".join(f"name {k}\n" for k in range(40)), 40),
    ],
    ids=["one row", "one cell", "one column", "equal rows", "one value", "text", "names"],
)
def test_odd_tables_have_a_page(thresher, tmp_path, text, rows):
    (tmp_path / "t.csv").write_text(text)
    page = tmp_path / "p.html"
    code, out, err = thresher("explore", tmp_path / "t.csv", "--html", page, "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == rows
    assert page.read_text().startswith("<!doctype html>")


def test_a_page_of_very_many_columns_is_bounded(tmp_path):
    names = [f"x{j}" for j in range(6000)]
    table = pa.table([np.random.default_rng(j).random(20) for j in range(6000)], names=names)
    write_page(Session(table), tmp_path / "p.html")
    assert (tmp_path / "p.html").stat().st_size < 8_000_000
