"""Secrets in strings of JSON and in cells of notebooks: what is taken out, and all that has to stay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.redaction_corpus import SECRETS
from tests.support.redaction_corpus.judging import gone
from tests.support.redactors import shared_redactor

# Many examples beside other work take longer than one test usually may.
pytestmark = pytest.mark.timeout(600)

EXAMPLES = examples(
    60,
    500,
    "kagura_kernel/kit/redaction/",
    "tests/support/redaction_corpus/",
    suppress_health_check=[HealthCheck.too_slow],
)
PLANTED = st.sampled_from([one for one in SECRETS if one.form not in {"json", "ipynb"}])
WORD = "Kd83!jskQ2"


def redact(text: str) -> str:
    return shared_redactor().redact(text).text


def strings(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every string that is a value, and where it stands."""
    match value:
        case dict():
            for name, part in value.items():
                yield from strings(part, f"{place}/{name}")
        case list():
            for number, part in enumerate(value):
                yield from strings(part, f"{place}/{number}")
        case str():
            yield place, value


def keeps_its_shape(before: Any, after: Any) -> bool:
    """Whether the same strings stand at the same places, with as many lines, and no line end lost at their ends."""
    pairs = list(zip(strings(before), strings(after), strict=True))
    return all(
        one == other and text.count("\n") == left.count("\n") and left.endswith("\n") >= text.endswith("\n")
        for (one, text), (other, left) in pairs
    )


def notebook(text: str, *, printed: bool) -> dict[str, Any]:
    """A notebook with a text as a cell's source, or as what it printed, in lines as nbformat writes them."""
    lines = text.splitlines(keepends=True)
    head, tail = ["import os\n", "x = 1\n"], ["\n", "print(x)"]
    cell = {
        "cell_type": "code",
        "execution_count": 1,
        "id": "a1",
        "metadata": {},
        "outputs": [{"name": "stdout", "output_type": "stream", "text": lines if printed else ["x\n"]}],
        "source": [*head, *([] if printed else lines), *tail],
    }
    note = {"cell_type": "markdown", "id": "b2", "metadata": {}, "source": ["done\n", "and more"]}
    return {"cells": [cell, note], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@EXAMPLES
@given(PLANTED, st.sampled_from([None, 0, 1, 2]), st.booleans(), st.booleans())
def test_a_notebook_keeps_its_cells_its_lines_and_their_ends(planted, indent, ascii_only, printed):
    book = notebook(planted.text, printed=printed)
    done = shared_redactor().redact_file(
        json.dumps(book, indent=indent, ensure_ascii=ascii_only).encode(), "book.ipynb"
    )
    assert done.data is not None
    left = json.loads(done.data)
    assert keeps_its_shape(book, left)
    nbformat.validate(nbformat.from_dict(left))
    assert left["cells"][0]["source"][:2] == ["import os\n", "x = 1\n"]
    assert left["cells"][0]["source"][-2:] == ["\n", "print(x)"]
    assert left["cells"][1] == book["cells"][1]


@EXAMPLES
@given(PLANTED, st.sampled_from([None, 1]), st.booleans(), st.booleans())
def test_what_is_gone_from_a_text_is_gone_from_the_notebook_that_holds_it(planted, indent, ascii_only, printed):
    left = json.loads(
        redact(json.dumps(notebook(planted.text, printed=printed), indent=indent, ensure_ascii=ascii_only))
    )
    cell = left["cells"][0]
    body = "".join(cell["outputs"][0]["text"] if printed else cell["source"][2:-2])
    assert gone(planted, body) or not gone(planted, redact(planted.text))


@EXAMPLES
@given(
    PLANTED,
    st.sampled_from(["{}", "{}\n", "\n{}\n\n", "{}\\", "{}\\\\", '"{}"', "a\t{}\r\n", "é{}é"]),
    st.sampled_from(["password", "log", "x", "token", "a b"]),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_a_secret_in_any_string_leaves_the_document_its_shape(planted, around, name, indent, ascii_only):
    text = around.format(planted.text)
    document = {
        "n": [1, None, True],
        name: text,
        "list": ["one\n", text, "two\n"],
        "in": {"deep": [[text]]},
        "end": "é",
    }
    left = json.loads(redact(json.dumps(document, indent=indent, ensure_ascii=ascii_only)))
    assert keeps_its_shape(document, left)
    assert (left["n"], left["end"], left["list"][0], left["list"][2]) == (document["n"], "é", "one\n", "two\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (WORD + "\\", "[REDACTED:password]"),
        (WORD + '"x', "[REDACTED:password]"),
        (WORD + "\n", "[REDACTED:password]\n"),
        (WORD + "\nKd84!jskQ3\n", "[REDACTED:password]\n[REDACTED:password]\n"),
    ],
)
def test_a_whole_value_is_gone_with_its_escapes_but_for_the_ends_of_lines(before, after):
    assert json.loads(redact(json.dumps({"password": before, "b": "\\"}))) == {"password": after, "b": "\\"}


def test_a_value_that_ends_a_line_ends_there():
    lines = ["[client]\n", f"password = {WORD}\n", "host = db.internal\n", "port = 3306\n"]
    left = json.loads(redact(json.dumps({"text": lines}, indent=1)))
    assert left["text"] == [lines[0], "password = [REDACTED:password]\n", *lines[2:]]


def test_a_backslash_that_is_part_of_the_document_stays():
    text = json.dumps({"path": f"C:\\x\\{WORD}", "log": f"password={WORD}\\"})
    assert json.loads(redact(text))["log"].startswith("password=[REDACTED:password]")
    assert json.loads(redact(text))["path"] == f"C:\\x\\{WORD}"


def test_a_secret_with_escaped_letters_is_gone_and_no_escape_is_cut():
    text = json.dumps({"log": 'say "hi"\npassword: "Grüße+7é9"\nnext'}, ensure_ascii=True)
    left = json.loads(redact(text))["log"]
    assert left == 'say "hi"\npassword: "[REDACTED:password]"\nnext'


def test_colours_in_the_traceback_of_a_notebook_stay_and_hide_nothing():
    line = "\x1b[0;31mValueError\x1b[0m: token=\x1b[1mghp_wWPw5k4aXcaT4f\x1b[0mNP0UcnZwJUVFk6LO0pINUx\x1b[0m\n"
    left = json.loads(redact(json.dumps({"traceback": [line, "x\n"]})))["traceback"][0]
    assert left.startswith("\x1b[0;31mValueError\x1b[0m: token=\x1b[1m[REDACTED:")
    assert left.endswith("m[REDACTED:github-pat]\x1b[0m\n")


def test_lines_that_are_each_a_document_stay_documents():
    rows = [{"n": number, "msg": f"password={WORD}\nnext", "z": "\\"} for number in range(5)]
    left = redact("".join(json.dumps(row) + "\n" for row in rows))
    assert [json.loads(line) for line in left.splitlines()] == [
        {"n": number, "msg": "password=[REDACTED:password]\nnext", "z": "\\"} for number in range(5)
    ]
