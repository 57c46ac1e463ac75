from __future__ import annotations

import pytest

from kagura_kernel.domain.errors import UnknownName, UsageError
from kagura_kernel.jupyter.commands import USAGE, LineCommand, parse_command


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("", LineCommand("help")),
        ("runs", LineCommand("runs")),
        ("kill last", LineCommand("kill", "last")),
        ("approve app-1 yes, the second", LineCommand("approve", "app-1", ("yes,", "the", "second"))),
        ("leases", LineCommand("leases")),
        ("revoke lea-1", LineCommand("revoke", "lea-1")),
        ("apply run-1 a.txt 'b c.txt'", LineCommand("apply", "run-1", ("a.txt", "b c.txt"))),
    ],
)
def test_a_line_becomes_a_command(line, command):
    assert parse_command(line) == command


def test_an_unknown_word_is_answered_with_what_was_meant():
    with pytest.raises(UnknownName, match="Did you mean 'approvals'"):
        parse_command("aprovals")


@pytest.mark.parametrize(
    ("line", "part"),
    [("kill", "needs a RUN"), ("approve", "needs an ID"), ("extend", "needs a LEASE"), ("apply", r"RUN \[PATH …\]")],
)
def test_a_missing_word_is_named(line, part):
    with pytest.raises(UsageError, match=part):
        parse_command(line)


def test_a_word_too_many_is_named():
    with pytest.raises(UsageError, match="takes no 'all'"):
        parse_command("runs all")


@pytest.mark.parametrize("line", ["--help", "-h", "?"])
def test_every_way_to_ask_for_help_is_understood(line):
    assert parse_command(line) == LineCommand("help")


def test_the_usage_says_from_where_a_run_that_goes_on_is_steered():
    assert "while a run goes on: from another notebook, or in this one with --bg" in USAGE
