import contextlib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.cockpit.commands import CELL_MAGICS, COMMANDS
from kagura_kernel.cockpit.lines.parser import cell_magic, parse_cell_line, parse_line, parse_words
from kagura_kernel.domain.errors import NotThisTime, UnknownName, UsageError
from kagura_kernel.domain.grammar import Surface
from tests.support.effort import examples

NOTEBOOK, TERMINAL = Surface.NOTEBOOK, Surface.TERMINAL
APPLY = {"hunk": (), "conflict": None, "commits": False, "branch": ""}

WORDS = [
    *(word for command in COMMANDS for word in command.name.split()),
    *(flag for form in (*COMMANDS, *CELL_MAGICS) for option in form.options for flag in option.flags),
    *(
        "--",
        "-",
        "?",
        "--help",
        "last",
        "x=1",
        "a,b",
        "''",
        "'open",
        "\\",
        "-1",
        "1e309",
        "nan",
        "--in=x",
        "--=",
        "=",
        ",",
    ),
]
LINES = st.one_of(
    st.text(max_size=40),
    st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=8)), max_size=8).map(" ".join),
)


@examples(50, 300, "kagura_kernel/cockpit/")
@given(LINES, st.sampled_from([NOTEBOOK, TERMINAL]))
def test_whatever_is_typed_is_a_command_or_a_clear_mistake(line, surface):
    try:
        parsed = parse_line(line, surface)
    except UsageError as error:
        told = error.message if type(error) in (UsageError, UnknownName, NotThisTime) else ""
    else:
        told = parsed.command.name if surface in parsed.command.surfaces else ""
        slots = (*parsed.command.arguments_on(surface), *parsed.command.options_on(surface))
        assert set(parsed.values) == {slot.name for slot in slots}
    assert told


@examples(50, 300, "kagura_kernel/cockpit/")
@given(LINES, st.sampled_from(CELL_MAGICS))
def test_whatever_stands_at_the_top_of_a_cell_is_options_or_a_clear_mistake(line, magic):
    try:
        values = parse_cell_line(magic, line)
    except UsageError as error:
        told = error.message
    else:
        told = "usage:"
        assert set(values) == {slot.name for slot in (*magic.arguments, *magic.options)}
    assert "usage:" in told or "a quote is not closed" in told or "behind the backslash" in told


@examples(50, 300, "kagura_kernel/cockpit/")
@given(st.lists(st.text(max_size=8), max_size=6))
def test_words_of_a_shell_are_never_split_again(words):
    with contextlib.suppress(UsageError):
        assert parse_words(["approve", "app-1", "--", *words], TERMINAL).values["answer"] == tuple(words)


@pytest.mark.parametrize(
    ("line", "name", "values"),
    [
        ("", "help", {"word": ()}),
        ("--help", "help", {"word": ()}),
        ("-h", "help", {"word": ()}),
        ("?", "help", {"word": ()}),
        ("kill --help", "help", {"word": ("kill",)}),
        ("kill ?", "help", {"word": ("kill",)}),
        ("egress --help", "help", {"word": ("egress",)}),
        ("egress log -h", "help", {"word": ("egress", "log")}),
        ("doctor --help", "help", {"word": ("doctor",)}),
        ("runs", "runs", {"run": (), "limit": None}),
        ("runs last --limit=5 abc", "runs", {"run": ("last", "abc"), "limit": 5}),
        ("kill last", "kill", {"run": ("last",)}),
        ("kill last  everywhere last abc", "kill", {"run": ("last everywhere", "last", "abc")}),
        (
            "approve last everywhere this session",
            "approve",
            {"approval": "last everywhere", "answer": ("this", "session")},
        ),
        ("say last everywhere go on", "say", {"run": "last everywhere", "text": ("go", "on"), "instead": False}),
        ("approve app-1", "approve", {"approval": "app-1", "answer": ()}),
        ("approve app-1 yes, the second", "approve", {"approval": "app-1", "answer": ("yes,", "the", "second")}),
        ("approve app-1 -5 degrees", "approve", {"approval": "app-1", "answer": ("-5", "degrees")}),
        ("approve app-1 no -x --y", "approve", {"approval": "app-1", "answer": ("no", "-x", "--y")}),
        ("approve app-1 -- --help", "approve", {"approval": "app-1", "answer": ("--help",)}),
        ("approve app-1 what ?", "approve", {"approval": "app-1", "answer": ("what", "?")}),
        (
            "apply run-1 a.txt 'b c.txt'",
            "apply",
            APPLY | {"run": "run-1", "paths": ("a.txt", "b c.txt")},
        ),
        ("apply run-1 -- -odd", "apply", APPLY | {"run": "run-1", "paths": ("-odd",)}),
        ("apply run-1 '-odd'", "apply", APPLY | {"run": "run-1", "paths": ("-odd",)}),
        ("chart egress", "chart egress", {"run": None}),
        ("export a.ipynb -o b", "export", {"notebook": Path("a.ipynb"), "output": Path("b"), "force": False}),
        ("export -ob --force a.ipynb", "export", {"notebook": Path("a.ipynb"), "output": Path("b"), "force": True}),
    ],
)
def test_a_line_becomes_a_command_with_its_values(line, name, values):
    parsed = parse_line(line, NOTEBOOK)
    assert (parsed.command.name, parsed.values) == (name, values)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("aprovals", "There is no command 'aprovals'. Did you mean 'approvals'?"),
        ("audit", "Did you mean `%kagura plugin audit`?"),
        ("list", "Did you mean `%kagura memory list` or `%kagura plugin list` or `%kagura plugin repository list`?"),
        ("kit add", "It needs one of aws, cloudflare, gcp."),
        ("setup memory", "'memory' is not brain, which is all that can stand here."),
        ("egress lgo", "There is no command 'egress lgo'. Did you mean 'egress log'? Known: egress log, egress check."),
        (
            "egress",
            "`%kagura egress` needs one more word: log, check. `%kagura help egress` says what each is for.",
        ),
        ("kill", "%kagura kill: It needs a RUN.\nusage: %kagura kill RUN …"),
        ("approve", "%kagura approve: It needs an ID.\nusage: %kagura approve ID [TEXT …]"),
        ("extend", "%kagura extend: It needs a LEASE.\nusage: %kagura extend LEASE"),
        (
            "apply",
            (
                "usage: %kagura apply [--hunk N …] [--conflict theirs|merge|markers] [--commits] [--branch NEW] RUN "
                "[PATH …]"
            ),
        ),
        ("status now", "%kagura status: It takes no 'now'.\nusage: %kagura status"),
        ("attach a b", "%kagura attach: It takes no 'b'.\nusage: %kagura attach RUN"),
        ("runs --limt 3", "There is no option '--limt' here. Did you mean --limit?"),
        ("runs --limit 0", "--limit: '0' is too small; it has to be 1 or more."),
        ("approve app-1 --jsn", "There is no option '--jsn' here. A text that begins with a dash stands behind `--`."),
        ("kill 'last", "%kagura kill 'last: a quote is not closed."),
        ("kill last\\", "%kagura kill last\\: nothing stands behind the backslash."),
    ],
)
def test_a_mistake_says_what_is_wrong_and_how_it_is_written(line, text):
    with pytest.raises(UsageError) as caught:
        parse_line(line, NOTEBOOK)
    assert caught.value.message.startswith(text) or text in caught.value.message


@pytest.mark.parametrize(
    ("line", "surface", "text"),
    [
        (
            "doctor",
            NOTEBOOK,
            "`%kagura doctor` does not work here; it is a command of the terminal: `kagura-kernel doctor`.",
        ),
        (
            "leases sweep",
            NOTEBOOK,
            "`%kagura leases sweep` does not work here; it is a command of the terminal: `kagura-kernel leases sweep`.",
        ),
        (
            "attach run-1",
            TERMINAL,
            "`kagura-kernel attach` does not work here; it is a command of the notebook: `%kagura attach last`.",
        ),
    ],
)
def test_a_command_that_works_elsewhere_says_where(line, surface, text):
    with pytest.raises(NotThisTime) as caught:
        parse_line(line, surface)
    assert caught.value.message == text


def test_an_error_of_a_slash_command_begins_like_one():
    with pytest.raises(UsageError, match=r"^/kill: It needs a RUN\.\nusage: /kill RUN …$"):
        parse_line("kill", NOTEBOOK, prefix="/")
    with pytest.raises(UsageError, match=r"^/kill 'last: a quote is not closed\.$"):
        parse_line("kill 'last", NOTEBOOK, prefix="/")


def test_the_old_way_to_revoke_is_the_same_command():
    assert parse_line("leases revoke --all", TERMINAL) == parse_line("revoke --all", TERMINAL)


def test_options_of_a_text_may_follow_it_as_long_as_no_dashes_say_otherwise():
    assert parse_line("route ls -la --json", TERMINAL).values["json"] is True
    assert parse_line("route -- ls -la --json", TERMINAL).values["command"] == ("ls", "-la", "--json")


def test_what_looks_like_an_option_within_a_question_is_one():
    assert parse_line("recall board --k=3", TERMINAL).values["k"] == 3
    assert parse_line("recall board -- --k=3", TERMINAL).values["query"] == ("board", "--k=3")
    assert parse_line("recall board -x", TERMINAL).values["query"] == ("board", "-x")
    with pytest.raises(UsageError, match=r"no option '--tir' here\. Did you mean --tier\?"):
        parse_line("recall board --tir trusted", NOTEBOOK)
    assert parse_line("memory add Call it with --bogus.", TERMINAL).values["text"][-1] == "--bogus."


def test_a_limit_behind_a_task_holds_however_it_is_written_and_a_slip_in_it_starts_nothing():
    assert parse_words(["run", "Fix it", "--budget=0.5"], TERMINAL).values["budget_usd"] == 0.5
    assert parse_words(["run", "Say what --verbose does"], TERMINAL).values["task"] == ("Say what --verbose does",)
    assert parse_words(["run", "--", "fix", "--bogus"], TERMINAL).values["task"] == ("fix", "--bogus")
    assert parse_line("memory add Ship it --tag=deploy", TERMINAL).values["tag"] == ("deploy",)
    with pytest.raises(UsageError, match=r"no option '--budgt' here\. Did you mean --budget\?"):
        parse_words(["run", "Fix it", "--budgt", "0.5"], TERMINAL)
    with pytest.raises(UsageError, match="no option '--keep' here"):
        parse_words(["run", "Fix it", "--keep"], TERMINAL)


@pytest.mark.parametrize(("slip", "meant"), [("--nte pypi.org", "--net"), ("--modle x", "--model")])
def test_letters_that_changed_places_are_a_likelier_slip_than_another_letter(slip, meant):
    with pytest.raises(UsageError, match=rf"Did you mean {meant}\?"):
        parse_cell_line(cell_magic("kagura"), slip)


def test_there_are_two_cell_magics():
    assert cell_magic("sandbox").name == "sandbox"
    with pytest.raises(UnknownName, match="Did you mean 'kagura'"):
        cell_magic("kagra")


def test_an_option_of_the_other_magic_says_whose_it_is():
    with pytest.raises(UsageError, match=r"no option '--agent' here\. It is one of %%kagura\."):
        parse_cell_line(cell_magic("sandbox"), "bash --agent reviewer")


@pytest.mark.parametrize(
    ("magic", "line", "said"),
    [
        ("sandbox", "-i a b", "'b' is none of python, bash; several values of --in have commas, as in `--in a,b`."),
        ("kagura", "--net a.org b.org", "There is no word 'b.org' here; several values of --net have commas,"),
        ("kagura", "fix it", "There is no word 'fix' here. The task goes"),
    ],
)
def test_a_second_value_without_a_comma_says_how_it_is_written(magic, line, said):
    with pytest.raises(UsageError) as caught:
        parse_cell_line(cell_magic(magic), line)
    assert said in caught.value.message
