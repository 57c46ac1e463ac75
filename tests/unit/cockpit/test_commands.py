"""The one list: complete, parseable, and served wherever it says so."""

import pytest

from kagura_kernel.cli.main import handler_of
from kagura_kernel.cockpit.commands import CELL_MAGICS, COMMANDS, GROUPS
from kagura_kernel.cockpit.lines.help import cell_help, command_help, overview
from kagura_kernel.cockpit.lines.parser import parse_cell_line, parse_line
from kagura_kernel.domain.grammar import Kind, Surface
from kagura_kernel.jupyter.steering import executor_of, memory, plugins, runs

EVERY = [(command, surface) for command in COMMANDS for surface in sorted(command.surfaces, key=lambda one: one.value)]
IDS = [f"{surface.value} {command.name}" for command, surface in EVERY]

# As they could be typed before there was one list: all of it goes on working.
USUAL = {
    Surface.NOTEBOOK: [
        *("runs", "cost", "approvals", "status", "kill last", "approve app-1", "approve app-1 this session"),
        *("deny app-1 never", "leases", "revoke lea-1", "extend lea-1", "changes last", "apply last a.txt 'b c.txt'"),
        *("discard last", "help", "", "--help", "-h", "?"),
    ],
    Surface.TERMINAL: [
        "doctor --since 7d --json --dir x",
        "egress check --net a,b --net none --json --no-resolve example.org https://example.org/x",
        "egress log --refused --run last --since 2h --limit 3 --json --url postgresql://db/x",
        "images build --base x --lock strict --network host --build-arg A=B --build-arg C=D --tag-prefix p/ base node",
        "images list --json --tag-prefix p/",
        "images verify --json --tag-prefix p/ python sha256:1",
        "journal verify --json --dir x",
        "journal rebuild --json --dir x",
        "journal path --url postgresql://db/x",
        "journal backup copy --dir x",
        "kill run-1 run-2 --wait 3 --json --dir x",
        "kill --all",
        "leases --all --json --dir x",
        "leases log --run last --since 2h --limit 3 --json --dir x",
        "leases revoke lea-1 github:read --json --dir x",
        "leases revoke --all",
        "leases revoke --provider cloudflare",
        "leases sweep --json --dir x",
        "route --json --strict --escalated --mode full_control --no-sandbox why -- ls -la",
        "route --preapproved ls --preapproved cat -- ls",
        "runs run-1 last --limit 3 --json --dir x",
    ],
}


@pytest.mark.parametrize(("command", "surface"), EVERY, ids=IDS)
def test_every_command_is_carried_out_wherever_it_can_be_typed(command, surface):
    assert callable(handler_of(command.name) if surface is Surface.TERMINAL else executor_of(command.name))


def test_nothing_is_carried_out_that_is_not_in_the_list():
    names = {command.name.replace(" ", "_") for command in COMMANDS if Surface.NOTEBOOK in command.surfaces}
    for file in (memory, plugins, runs):
        own = {name for name, one in vars(file).items() if getattr(one, "__module__", "") == file.__name__}
        assert {name for name in own if not name.startswith("_")} - names <= {"told"}


@pytest.mark.parametrize(("command", "surface"), EVERY, ids=IDS)
def test_every_command_has_examples_that_parse_and_help_that_shows_them(command, surface):
    assert command.examples
    text = command_help(command, surface)
    for example in command.examples:
        assert parse_line(example, surface).command is command
        assert f"  {surface.prefix}{example}\n" in f"{text}\n"


@pytest.mark.parametrize(("command", "surface"), EVERY, ids=IDS)
def test_every_command_is_in_the_overview_under_a_heading(command, surface):
    assert command.group in GROUPS
    assert f"  {surface.prefix}{command.name}" in overview(surface)


@pytest.mark.parametrize("magic", CELL_MAGICS, ids=lambda magic: magic.name)
def test_every_cell_magic_has_examples_that_parse_and_help_that_shows_them(magic):
    text = cell_help(magic)
    for example in magic.examples:
        parse_cell_line(magic, example.removeprefix(magic.name))
        assert f"  %%{example}" in text


@pytest.mark.parametrize(("surface", "line"), [(surface, line) for surface, lines in USUAL.items() for line in lines])
def test_what_could_always_be_typed_still_can(surface, line):
    assert surface in parse_line(line, surface).command.surfaces


def test_names_are_told_apart():
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))
    for form in (*COMMANDS, *CELL_MAGICS):
        flags = [flag for option in form.options for flag in option.flags]
        assert len(flags) == len(set(flags))
        assert not {"--help", "-h"} & set(flags)


def test_only_the_last_argument_takes_many_and_nothing_required_follows_what_is_not():
    for command, surface in EVERY:
        arguments = command.arguments_on(surface)
        assert not any(argument.many for argument in arguments[:-1])
        required = [argument.required for argument in arguments]
        assert required == sorted(required, reverse=True)


def test_options_that_exclude_each_other_say_so_both():
    for form in (*COMMANDS, *CELL_MAGICS):
        by_flag = {flag: option for option in form.options for flag in option.flags}
        for option in form.options:
            for other in option.excludes:
                assert option.flags[-1] in by_flag[other].excludes


def test_whatever_prints_data_in_a_terminal_can_print_json():
    # `journal export` prints JSON lines and nothing else.
    silent = {"help", "images build", "repl", "serve", "setup", "completion", "journal export"}
    for command in COMMANDS:
        if Surface.TERMINAL in command.surfaces:
            flags = {flag for option in command.options_on(Surface.TERMINAL) for flag in option.flags}
            assert ("--json" in flags) is (command.name not in silent)


def test_a_choice_has_something_to_choose():
    for form in (*COMMANDS, *CELL_MAGICS):
        for slot in (*form.arguments, *form.options):
            assert bool(slot.choices) is (slot.kind is Kind.CHOICE)


def test_the_choices_are_those_of_the_domain():
    from kagura_kernel.domain.policy import PermissionMode, WriteMode
    from kagura_kernel.jupyter.cell import parse_options
    from kagura_kernel.sandbox.images.recipes import Lock

    options = {(form.name, option.flags[-1]): option for form in (*COMMANDS, *CELL_MAGICS) for option in form.options}
    assert options["kagura", "--write"].choices == tuple(mode.value for mode in WriteMode)
    assert options["route", "--mode"].choices == tuple(mode.value for mode in PermissionMode)
    assert options["images build", "--lock"].choices == tuple(lock.value for lock in Lock)
    assert parse_options("sandbox", "").language == CELL_MAGICS[1].arguments[0].default
