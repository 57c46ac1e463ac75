from __future__ import annotations

import json
import re
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from types import ModuleType

import pytest

from kagura_kernel import __version__
from kagura_kernel.cli import main as cli
from kagura_kernel.cli.printing import for_terminal
from kagura_kernel.domain.errors import (
    BrainNotConfigured,
    IsolationTooWeak,
    KaguraError,
    RunUnknown,
    SandboxDied,
    SandboxUnavailable,
)

HEAVY = ["sqlalchemy", "pydantic", "IPython", "pandas", "docker", "claude_agent_sdk", "kagura_kernel.cli.journal"]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A command `try` whose `run` a test replaces."""
    module = ModuleType("kagura_kernel.cli.trial")
    module.add_arguments = lambda parser: parser.add_argument("word", nargs="?")
    module.run = lambda _: 0
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(cli, "COMMANDS", (cli.CommandEntry("try", "try something", module.__name__),))
    return module


def test_help_lists_every_command_and_imports_none_of_them() -> None:
    code = (
        "import sys, json, contextlib, io\n"
        "from kagura_kernel.cli.main import main\n"
        "said = io.StringIO()\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(said): main(['--help'])\n"
        "print(json.dumps([said.getvalue(), sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said, modules = json.loads(done.stdout)
    for entry in cli.COMMANDS:
        assert [entry.name, *entry.help.split()] in [line.split() for line in said.splitlines()]
    assert [name for name in HEAVY if name in modules] == []


def test_no_command_at_all_shows_the_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    said = capsys.readouterr()
    assert "COMMAND --help" in said.out
    assert said.err == "ERR_USAGE: No command was given; the help lists them.\n"


def test_the_description_names_the_exit_codes_there_are_and_no_others() -> None:
    described = (cli.__doc__ or "").partition("Exit codes:")[2].partition(". An")[0]
    codes = {cli.OK, cli.FOUND, cli.FAILED, cli.NOT_SET_UP, cli.INTERRUPTED}
    assert {int(number) for number in re.findall(r"\b\d+\b", described)} == codes


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"kagura-kernel {__version__}\n"


def test_an_unknown_command_is_one_line_with_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["jurnal"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("ERR_UNKNOWN_NAME: There is no command 'jurnal'. Did you mean 'journal'?")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "program"),
    [(["--bad"], "kagura-kernel"), (["try", "--bad"], "kagura-kernel try"), (["try", "a", "b"], "")],
)
@pytest.mark.usefixtures("command")
def test_a_wrong_option_is_one_line_that_says_where_the_right_ones_stand(
    words: list[str], program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("ERR_USAGE: Unrecognized arguments: ")
    assert f"`{program}" in said.err
    assert "--help`" in said.err


def test_a_command_gets_its_arguments_and_gives_the_exit_code(command: ModuleType) -> None:
    seen: list[str] = []

    def run(arguments: Namespace) -> int:
        seen.append(arguments.word)
        return 4

    command.run = run
    assert cli.main(["try", "this"]) == 4
    assert seen == ["this"]


@pytest.mark.usefixtures("command")
def test_a_command_s_own_help_says_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["try", "--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert "usage: kagura-kernel try" in said
    assert "Try something." in said


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RunUnknown("run-9"), 2),
        (KaguraError("something"), 2),
        (SandboxDied("box-1", "it was killed"), 2),
        (SandboxUnavailable("nothing is installed", "apt-get install bubblewrap"), 3),
        (IsolationTooWeak("bubblewrap", "namespace", "gvisor"), 3),
        (BrainNotConfigured("no key"), 3),
    ],
)
def test_an_expected_error_is_its_code_and_text_without_a_stack_trace(
    command: ModuleType, error: KaguraError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: Namespace) -> int:
        raise error

    command.run = run
    assert cli.main(["try"]) == code
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"{error.code}: {for_terminal(error.message)}\n")


def test_an_error_names_the_command_of_the_terminal(command: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    def run(_: Namespace) -> int:
        raise RunUnknown("run-9")

    command.run = run
    assert cli.main(["try"]) == 2
    assert capsys.readouterr().err == "ERR_RUN_UNKNOWN: There is no run 'run-9'. `kagura-kernel runs` lists them.\n"


def test_an_unexpected_error_is_not_hidden(command: ModuleType) -> None:
    def run(_: Namespace) -> int:
        raise ZeroDivisionError

    command.run = run
    with pytest.raises(ZeroDivisionError):
        cli.main(["try"])


def test_an_interrupt_ends_quietly(command: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    def run(_: Namespace) -> int:
        raise KeyboardInterrupt

    command.run = run
    assert cli.main(["try"]) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    code = (
        "import sys, types\n"
        "from kagura_kernel.cli import main as cli\n"
        "def run(arguments):\n"
        "    while True: print('line')\n"
        "trial = types.ModuleType('trial'); trial.run = run; trial.add_arguments = lambda parser: None\n"
        "sys.modules['trial'] = trial\n"
        "cli.COMMANDS = (cli.CommandEntry('try', 'try', 'trial'),)\n"
        "sys.exit(cli.main(['try']))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize("entry", cli.COMMANDS, ids=lambda entry: entry.name)
def test_every_command_of_the_table_is_there_and_parses_its_own_help(entry: cli.CommandEntry) -> None:
    module = cli.import_module(entry.module)
    parser = ArgumentParser()
    module.add_arguments(parser)
    assert callable(module.run)
    with pytest.raises(SystemExit) as left:
        parser.parse_args(["--help"])
    assert left.value.code == 0
