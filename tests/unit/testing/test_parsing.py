from __future__ import annotations

import ast
import gc
import threading
from http.server import BaseHTTPRequestHandler

from kagura_kernel.testing.loopback_listener import LoopbackServer, OwnedListener
from tests.support import parsing

LARGE = "\n".join(f"def f{n}(a, b):\n    assert a == b, (a, [b, {{'x': a}}])\n" for n in range(3000))


def parse_from(depth: int) -> ast.AST:
    return ast.parse("x = [1, 2]") if depth == 0 else parse_from(depth - 1)


def collections_that_parse(phase: str, _info: dict[str, int]) -> None:
    if phase == "stop":
        parse_from(20)


def test_a_collection_that_parses_does_not_break_a_large_parse():
    gc.callbacks.append(collections_that_parse)
    try:
        tree = parsing.parse_undisturbed(LARGE)
    finally:
        gc.callbacks.remove(collections_that_parse)
    assert len(tree.body) == 3000
    assert gc.isenabled()


def test_collections_stay_off_where_they_were_off():
    gc.disable()
    try:
        parsing.parse_undisturbed("x = 1")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_text_that_is_no_python_leaves_collections_on():
    try:
        parsing.parse_undisturbed("x =")
    except SyntaxError:
        assert gc.isenabled()
    else:
        raise AssertionError


def test_every_test_runs_with_it():
    assert ast.parse is parsing.parse_undisturbed


class Waiting(LoopbackServer):
    """Says nothing until it ends, and notes that it was told so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.told: list[bool] = []

    def listen(self) -> OwnedListener[Waiting]:
        return OwnedListener(self, Handler)


class Handler(BaseHTTPRequestHandler):
    server: OwnedListener[Waiting]

    def do_GET(self) -> None:
        self.server.owner.asked.set()
        self.server.owner.told.append(self.server.owner.wait_closing(None))
