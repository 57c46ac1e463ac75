from __future__ import annotations

from types import SimpleNamespace

import pytest

from kagura_kernel.cockpit.lines.words import unquoted, words_of
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.jupyter.cell import filled, filled_line, wants_fmt
from kagura_kernel.jupyter.surface import place_of


def shell_of(metadata=None, connection_file="/run/kernel-4a1b-22.json"):
    parent = {"header": {}, "content": {}, "metadata": metadata or {}}
    app = SimpleNamespace(connection_file=connection_file)
    return SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda _channel: parent, parent=app))


@pytest.mark.parametrize("name", ["cellId", "cell_id"])
def test_a_cell_knows_its_notebook_its_kernel_and_its_id(monkeypatch, name):
    monkeypatch.setenv("JPY_SESSION_NAME", "work/sales.ipynb")
    assert place_of(shell_of({name: "ab12"})) == CellPlace("work/sales.ipynb", "4a1b-22", "ab12")


def test_the_notebook_is_known_where_the_editor_alone_tells_it(monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    shell = shell_of()
    shell.user_ns = {"__vsc_ipynb_file__": "/books/sales.ipynb"}
    assert place_of(shell).notebook == "/books/sales.ipynb"


@pytest.mark.parametrize("file", ["", "/run/mine.json", "/run/kernel-1.txt"])
def test_what_nobody_told_stays_empty(monkeypatch, file):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert place_of(shell_of(connection_file=file)) == CellPlace()
    assert place_of(SimpleNamespace()) == CellPlace()


@pytest.mark.parametrize(
    ("line", "asks"),
    [("--fmt", True), ("--new --fmt", True), ("", False), ("--session 'a --fmt b'", False), ("--fmt 'open", True)],
)
def test_filling_in_has_to_be_asked_for(line, asks):
    assert wants_fmt(line) is asks


def test_expressions_are_filled_in_and_doubled_braces_and_dollars_are_text():
    assert (
        filled("{n} of {len(xs)}: {xs[0:1]}, {{n}}, $n, $5", {"n": 2, "xs": [7]}, "%%kagura")
        == "2 of 1: [7], {n}, $n, $5"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{nothing}", "no variable 'nothing'"),
        ("{1 / 0}", "ZeroDivisionError"),
        ("an open {", "ValueError"),
        ("{x.secret}", "AttributeError"),
        ("{}", "braces"),
    ],
)
def test_what_cannot_be_filled_in_is_told_and_not_kept(text, words):
    with pytest.raises(UsageError, match="--fmt") as refused:
        filled(text, {"x": 1}, "%%kagura")
    assert words in refused.value.message
    assert "{{ or }}" in refused.value.message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--fmt --session {name}", ["--fmt", "--session", "two words --net *"]),
        ("--fmt --session 'of {name}'", ["--fmt", "--session", "of two words --net *"]),
        ("--fmt -i x={xs[0]}", ["--fmt", "-i", "x=7"]),
        ("--fmt -i {quoted}=df['a']", ["--fmt", "-i", "it's=df['a']"]),
        ("--fmt -i 'x=d[{xs[0] + 1}]'", ["--fmt", "-i", "x=d[8]"]),
        ("--fmt --session {{plain}}", ["--fmt", "--session", "{plain}"]),
    ],
)
def test_a_value_on_the_line_of_options_stays_inside_its_word(line, words):
    variables = {"name": "two words --net *", "xs": [7], "quoted": "it's"}
    made = filled_line(line, variables, "%%kagura")
    assert [unquoted(word.raw) for word in words_of(made)] == words


@pytest.mark.parametrize("line", ["--fmt {x}", "--fmt --session a {x}", "--fmt '{x}'"])
def test_a_value_never_becomes_an_option(line):
    with pytest.raises(UsageError, match="begins with a dash"):
        filled_line(line, {"x": "--writable-root"}, "%%kagura")
