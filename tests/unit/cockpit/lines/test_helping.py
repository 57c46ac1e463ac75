from __future__ import annotations

import pytest

from kagura_kernel.cockpit.commands import COMMANDS, KAGURA, SANDBOX
from kagura_kernel.cockpit.lines.helping import cell_help, command_help, help_for, overview, usage_lines
from kagura_kernel.domain.errors import UnknownName
from kagura_kernel.domain.grammar import Surface

NOTEBOOK, TERMINAL = Surface.NOTEBOOK, Surface.TERMINAL


def command(name):
    return next(one for one in COMMANDS if one.name == name)


def test_the_overview_of_a_notebook_lists_cells_commands_and_how_to_steer_a_run_that_goes_on():
    text = overview(NOTEBOOK)
    assert "  %%kagura [options]   send a task to an agent" in text
    assert "  %kagura kill RUN …" in text
    assert "while a run goes on: from another notebook, or in this one with --bg" in text
    assert "doctor" not in text


def test_the_overview_of_a_terminal_lists_its_own_commands():
    text = overview(TERMINAL)
    assert "  kagura-kernel doctor " in text
    assert "%%kagura [options]" not in text
    assert "kagura-kernel watch" not in text


def test_slash_commands_are_shown_with_a_slash():
    text = overview(NOTEBOOK, prefix="/")
    assert "  /kill RUN …" in text
    assert "`/help WORD` says more about one" in text
    assert "%kagura kill" not in text


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("surface", [NOTEBOOK, TERMINAL])
def test_lines_are_no_wider_than_asked_for(surface, width):
    *blocks, _notes = overview(surface, width=width).split("\n\n")
    assert max(len(line) for block in blocks for line in block.splitlines()) <= width


def test_the_help_of_a_command_shows_what_is_taken_there_alone():
    assert "--json" in command_help(command("kill"), TERMINAL)
    assert "--json" not in command_help(command("kill"), NOTEBOOK)
    assert "usage: /kill RUN …" in command_help(command("kill"), NOTEBOOK, prefix="/")


def test_the_help_of_a_command_that_lives_elsewhere_says_so():
    text = command_help(command("doctor"), NOTEBOOK, prefix="/")
    assert text.startswith("Not here: a command of the terminal.\n\nusage: kagura-kernel doctor ")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ((), ["answer and stop"]),
        (("kill",), ["usage: %kagura kill RUN …"]),
        (("egress",), ["usage: %kagura egress log ", "usage: %kagura egress check "]),
        (("egress", "check"), ["usage: %kagura egress check "]),
        (
            ("leases",),
            ["usage: %kagura leases", "usage: kagura-kernel leases log ", "usage: kagura-kernel leases sweep "],
        ),
        (("leases", "revoke"), ["usage: %kagura revoke LEASE"]),
        (("%%kagura",), ["usage: %%kagura [--brain NAME]"]),
        (("sandbox",), ["usage: %%sandbox [python|bash]"]),
    ],
)
def test_help_says_more_about_a_word(words, parts):
    text = help_for(words, NOTEBOOK)
    for part in parts:
        assert part in text


def test_help_about_nothing_says_what_was_meant():
    with pytest.raises(UnknownName, match="Did you mean 'kill'"):
        help_for(("kil",), NOTEBOOK)


@pytest.mark.parametrize("magic", [KAGURA, SANDBOX])
def test_options_that_exclude_each_other_stand_in_one_bracket(magic):
    assert "[--session NAME | --new]" in usage_lines(magic)
    assert usage_lines(magic).count("--new") == 1


@pytest.mark.parametrize("magic", [KAGURA, SANDBOX])
def test_a_usage_goes_on_below_its_own_beginning_and_ends_with_what_comes_below(magic):
    first, *more, last = usage_lines(magic).splitlines()
    assert first.startswith(f"usage: {magic.typed} [")
    indent = len(f"usage: {magic.typed} ")
    assert all(line[:indent].isspace() and line[indent] == "[" for line in more)
    assert last == f"       the {magic.body}, in the lines below"


def test_the_help_of_a_cell_says_what_holds_without_an_option():
    text = " ".join(cell_help(KAGURA).split())
    assert "--idle SECONDS how long each command may print nothing, not the whole run; 0 lifts the limit " in text
    assert "(without it: 45)" in text
