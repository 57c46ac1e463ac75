import re
import shlex

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.cockpit.commands import CELL_MAGICS, COMMANDS, KAGURA, SANDBOX
from kagura_kernel.cockpit.lines.help import cell_help, command_help, help_for, overview, usage_lines
from kagura_kernel.cockpit.lines.parser import (
    LARGEST_COUNT,
    LARGEST_USD,
    LONGEST_SECONDS,
    Unreadable,
    read,
    unquoted,
    words_of,
)
from kagura_kernel.domain.errors import UnknownName
from kagura_kernel.domain.former_names import MODES
from kagura_kernel.domain.grammar import Argument, Kind, Option, Surface
from tests.support.effort import examples

LINES = st.text(alphabet="ab =,-\\'\" \t\n@é", max_size=30)


@examples(50, 300, "kagura_kernel/cockpit/")
@given(LINES)
def test_a_line_is_split_as_a_shell_splits_it(line):
    words = words_of(line)
    try:
        expected = shlex.split(line)
    except ValueError:
        assert words[-1].unfinished
    else:
        assert [word.text for word in words] == expected
        assert not any(word.unfinished for word in words)


@examples(50, 300, "kagura_kernel/cockpit/")
@given(LINES)
def test_every_word_stands_where_it_says(line):
    for word in words_of(line):
        assert line[word.start : word.end] == word.raw


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("'a b'", "a b"),
        ('"a \\"b\\" c"', 'a "b" c'),
        ("x=df['a']", "x=df['a']"),
        ("'a' + 'b'", "'a' + 'b'"),
        ('"a" + "b"', '"a" + "b"'),
        ("'open", "'open"),
        ("", ""),
    ],
)
def test_only_quotes_around_the_whole_are_taken_away(raw, text):
    assert unquoted(raw) == text


NUMBERS = {Kind.COUNT: LARGEST_COUNT, Kind.SECONDS: LONGEST_SECONDS, Kind.USD: LARGEST_USD}
SLOTS = [slot for form in (*COMMANDS, *CELL_MAGICS) for slot in (*form.arguments, *form.options)]
UNWRITABLE = "bad \udcff"


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_has_an_upper_bound_which_is_said(kind):
    option = Option(("--it",), "a number", kind)
    most = NUMBERS[kind]
    assert read(option, str(most)) == most
    for text in (str(most + 1), "9" * 40):
        with pytest.raises(Unreadable, match=f"too large; it can be {most:,} at most"):
            read(option, text)


def test_a_number_with_more_digits_than_python_reads_is_none():
    with pytest.raises(Unreadable, match="no whole number"):
        read(Option(("--it",), "a number", Kind.COUNT), "9" * 5000)


@pytest.mark.parametrize("mode", MODES)
def test_a_permission_mode_of_kagura_agent_is_answered_with_what_there_is_instead(mode):
    option = next(slot for slot in SLOTS if isinstance(slot, Option) and "--mode" in slot.flags)
    with pytest.raises(Unreadable, match=re.escape(MODES[mode])):
        read(option, mode)


@pytest.mark.parametrize("kind", sorted({slot.kind for slot in SLOTS if slot.kind}, key=str))
def test_bytes_that_are_no_text_are_refused_wherever_no_file_is_named(kind):
    slot = Argument("it", kind, "anything", choices=("a",))
    if kind in {Kind.FILE, Kind.DIRECTORY, Kind.NOTEBOOK}:
        assert str(read(slot, UNWRITABLE)) == UNWRITABLE
        return
    with pytest.raises(Unreadable, match="no text in UTF-8"):
        read(slot, UNWRITABLE)


NOTEBOOK, TERMINAL = Surface.NOTEBOOK, Surface.TERMINAL


def command(name):
    return next(one for one in COMMANDS if one.name == name)


def test_the_overview_of_a_notebook_lists_cells_commands_and_how_to_steer_a_run_that_goes_on():
    text = overview(NOTEBOOK)
    assert "  %%kagura [options]   send a task to an agent" in text
    assert "  %kagura kill RUN …" in text
    assert "from another notebook, or from its own where it was started with `--bg`" in " ".join(text.split())
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
    *blocks, notes = overview(surface, width=width).split("\n\n")
    told = blocks if surface is TERMINAL else [*blocks, notes]
    assert max(len(line) for block in told for line in block.splitlines()) <= width


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
        (
            ("egress",),
            ["begin with `%kagura egress`\n  %kagura egress log  ", "\n  %kagura egress check TARGET …", "help WORDS"],
        ),
        (("egress", "check"), ["usage: %kagura egress check "]),
        (
            ("leases",),
            [
                "usage: %kagura leases",
                "\n  kagura-kernel leases log    what ",
                "\n  kagura-kernel leases sweep  revoke ",
            ],
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
