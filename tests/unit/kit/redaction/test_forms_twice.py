"""A redacted text is left alone, whatever carries it: prefixes, colours, strings of JSON, and all of them at once."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from kagura_kernel.domain.kit import MARKER
from tests.support.effort import examples
from tests.support.redaction_corpus import LOOK_ALIKES, SECRETS
from tests.support.redactors import shared_redactor

# Many examples beside other work take longer than one test usually may.
pytestmark = pytest.mark.timeout(600)

EXAMPLES = examples(
    100,
    500,
    "kagura_kernel/kit/redaction/",
    "tests/support/redaction_corpus/",
    suppress_health_check=[HealthCheck.too_slow],
)
CORPUS = [*(one.text for one in SECRETS), *(one.text for one in LOOK_ALIKES)]
PREFIX = st.sampled_from(
    [
        "> ",
        "+",
        "-",
        "# ",
        "12:",
        "app.conf:3:",
        "     7\t",
        "2026-03-04T11:02:51Z ",
        "web_1  | ",
        "[pod/x] ",
        "│ ",
        "  ",
    ]
)


def prefixed(text: str, prefix: str) -> str:
    return "".join(prefix + line for line in text.splitlines(keepends=True))


def coloured(text: str) -> str:
    return re.sub(r"\S{6,}", lambda found: f"\x1b[32m{found[0][:4]}\x1b[1m{found[0][4:]}\x1b[0m", text)


def in_json(text: str, indent: int | None) -> str:
    return json.dumps({"source": text.splitlines(keepends=True), "password": text, "x": [text]}, indent=indent)


@st.composite
def combined(draw: st.DrawFn) -> str:
    """One text of the corpus or two, each in up to three carriers, one in the other."""
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        text = CORPUS[draw(st.integers(0, len(CORPUS) - 1))]
        for carrier in draw(st.lists(st.sampled_from(["prefix", "colour", "json"]), max_size=3)):
            if carrier == "prefix":
                text = prefixed(text, draw(PREFIX))
            else:
                text = coloured(text) if carrier == "colour" else in_json(text, draw(st.sampled_from([None, 1])))
        parts.append(text)
    return "\n".join(parts)


@EXAMPLES
@given(combined())
def test_redacting_again_changes_nothing_however_a_text_is_carried(text):
    done = shared_redactor().redact(text)
    assert shared_redactor().redact(done.text).text == done.text
    assert done.text.count("\n") == text.count("\n")
    assert len(done.findings) == len(MARKER.findall(done.text)) - len(MARKER.findall(text))


@EXAMPLES
@given(combined())
def test_a_text_that_changes_has_a_marker_more(text):
    done = shared_redactor().redact(text)
    assert (done.text == text) is (not done.findings)
