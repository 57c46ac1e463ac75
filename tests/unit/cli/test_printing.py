from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest

from kagura_kernel.cli import printing
from kagura_kernel.cli.printing import as_json, for_terminal, paragraph, table, terminal_width
from kagura_kernel.cockpit.lines.parsing import parse_line
from kagura_kernel.domain.grammar import Surface

LONG = "a reason that goes on and on " * 10


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(printing, "sys", SimpleNamespace(stdout=Terminal()))


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_the_longest_cells_are_shortened_until_a_line_fits():
    rows = [("run-0123456789abcd", "refused", LONG), ("run-0123456789abce", "allowed", "x" * 30)]
    lines = table(("run", "decision", "why"), rows, whole=("run", "decision")).splitlines()
    assert max(map(len, lines)) == 80
    assert lines[1].startswith("run-0123456789abcd  refused   a reason that goes on")
    assert lines[1].endswith("…")
    assert lines[2].endswith("x" * 30)


@pytest.mark.usefixtures("terminal")
def test_where_that_is_not_enough_a_row_takes_several_lines_and_what_is_typed_again_is_whole():
    run, lease = f"run-{'0' * 30}", f"lea-{'1' * 30}"
    row = (run, lease, "1 h 00 min", "revoked by ada", LONG)
    lines = table(("run", "lease", "left", "state", "why"), [row], whole=("run", "lease")).splitlines()
    assert [line.split() for line in lines[:3]] == [["run", "lease"], ["left", "state"], ["why"]]
    assert lines[3] == f"{run}  {lease}"
    assert lines[4] == "    1 h 00 min  revoked by ada"
    assert lines[5].startswith("    a reason that goes on")
    assert (len(lines[5]), lines[5][-1]) == (80, "…")


@pytest.mark.usefixtures("terminal")
def test_an_id_is_whole_however_narrow_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    run = f"run-{'0' * 100}"
    assert table(("run", "why"), [(run, "x")], whole=("run",)).splitlines() == ["run", "    why", run, "    x"]


def test_what_is_piped_is_told_in_full(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert LONG.strip() in table(("run", "why"), [("run-1", LONG)])


@pytest.mark.usefixtures("terminal")
def test_a_table_that_fits_is_left_as_it_is():
    assert table(("a", "b"), [("1", "2"), ("33", "4")]) == "a   b\n1   2\n33  4"


@pytest.mark.parametrize(("columns", "width"), [("132", 132), ("20", printing.NARROWEST)])
def test_the_width_is_the_terminal_s_and_never_too_little(columns, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width() == width


def test_a_paragraph_goes_on_below_its_own_beginning():
    said = paragraph("one two three four five", "!  name  ", "         ", 22)
    assert said == "!  name  one two three\n         four five"


def test_each_problem_keeps_its_own_line_and_goes_on_below_its_text():
    said = paragraph("it cannot be used:\n  - first problem here\n  - second", "", "  ", 20)
    assert said.splitlines() == [
        "it cannot be used:",
        "    - first problem",
        "      here",
        "    - second",
    ]


def test_a_command_stays_on_one_line():
    said = paragraph("now type `kagura-kernel kill run-1 run-2` and wait", "", "", 30)
    assert said.splitlines() == ["now type", "`kagura-kernel kill run-1 run-2`", "and wait"]


def test_a_path_is_not_broken():
    path = "/a/very-long/path/with-hyphens/" * 4
    assert path in paragraph(f"look at {path} now", "", "  ", 60).splitlines()[1]


def test_a_paragraph_cannot_move_the_cursor():
    said = paragraph("one\x1b[2Jtwo\rthree", "", "", 60)
    assert "\x1b" not in said
    assert "⟨U+001B⟩" in said


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_text_is_its_beginning(text):
    assert paragraph(text, "!  name", " ", 60) == "!  name"


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("`%kagura runs` lists them.", "`kagura-kernel runs` lists them."),
        ("Stop it with `%kagura kill run-1`.", "Stop it with `kagura-kernel kill run-1`."),
        ("`%kagura revoke lea-1` ends it.", "`kagura-kernel revoke lea-1` ends it."),
        ("`%kagura egress log` lists them.", "`kagura-kernel egress log` lists them."),
        ("`%kagura watch` shows them.", "`%kagura watch` shows them."),
        ("`%kagura approvals` lists them.", "`kagura-kernel approvals` lists them."),
        ("Record one with `%%kagura --record x`.", "Record one with `kagura-kernel run --record x`."),
        ("%%kagura runs fine", "%%kagura runs fine"),
        ("Wait a little and run the cell again.", "Wait a little and try again."),
        ("Start the kernel in the project's own folder.", "Start in the project's own folder."),
    ],
)
def test_a_word_of_the_notebook_becomes_a_command_where_there_is_one(text, typed):
    assert for_terminal(text) == typed


@pytest.mark.parametrize("word", ["runs", "kill run-1", "leases", "revoke lea-1", "approve app-1"])
def test_what_becomes_a_command_is_one_on_both_sides(word):
    here = for_terminal(f"%kagura {word}").removeprefix("kagura-kernel ")
    assert parse_line(word, Surface.NOTEBOOK).command is parse_line(here, Surface.TERMINAL).command


def test_no_cell_of_a_table_turns_a_line_around_or_moves_the_cursor():
    assert table(["run"], [["a\u202eb\x9b2J\udc80c"]]).split("\n")[1] == "a⟨U+202E⟩b⟨U+009B⟩2J⟨U+DC80⟩c"


def test_json_on_a_terminal_is_the_same_json_and_nothing_that_a_terminal_obeys():
    odd = {"title": "ä\x1b[2J\x9b2J\u202e\x7f\u2028\udc80 日本 🙂"}
    line = as_json(odd)
    assert json.loads(line) == odd
    assert line.isprintable()
    assert "ä" in line
    assert "日本 🙂" in line
