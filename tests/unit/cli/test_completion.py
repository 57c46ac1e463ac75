import json
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pytest

from kagura_kernel.cli.completion import FILES, SCRIPTS, lines_for
from kagura_kernel.cli.main import main
from kagura_kernel.cli.repl import completer
from kagura_kernel.cockpit.commands import COMMANDS
from kagura_kernel.cockpit.lines.completion import Name
from kagura_kernel.domain.grammar import Kind, Surface
from tests.support.sample_run import SampleRun


class Known:
    """Two runs and a grant."""

    def names(self, kind: Kind, prefix: str, given: Sequence[str]) -> Sequence[Name]:
        del prefix, given
        found = {Kind.RUN: [Name("run-1ab", "done, Fix it"), Name("run-2cd")], Kind.GRANT: [Name("github:read")]}
        return found.get(kind, [])


def bash(line: str) -> list[str]:
    """What bash is told."""
    return lines_for("bash", f"kagura-kernel {line}", Known())


def test_every_command_of_a_terminal_is_completed_word_by_word():
    for command in COMMANDS:
        if Surface.TERMINAL in command.surfaces:
            *before, last = command.name.split()
            assert last in bash(" ".join([*before, last[:1]]))


def test_commands_of_the_notebook_alone_are_not():
    assert "watch" not in bash("w")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("run --rep", ["--replay"]),
        ("changes ", ["run-1ab", "run-2cd", "--json", "--dir", "--url"]),
        ("changes 1ab", ["run-1ab"]),
        ("run --write=", ["ask", "through", "none"]),
        ("run --grant github:r", ["read"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("run --prompt-file ", [FILES]),
        ("export ", [FILES]),
        ("nonsense ", []),
    ],
)
def test_options_ids_and_values_are_completed(line, found):
    assert bash(line) == found


def test_other_shells_are_told_what_each_thing_is_and_take_words_whole():
    assert lines_for("fish", "kagura-kernel changes run-1", Known()) == ["run-1ab\tdone, Fix it"]
    assert lines_for("zsh", "kagura-kernel run --grant git", Known()) == ["github:read"]


def test_runs_of_the_journal_in_use_are_completed(journal, prints):
    journal.append(SampleRun().started())
    assert prints("__complete", "bash", "kagura-kernel changes r").split() == ["run-1"]


@pytest.mark.usefixtures("books")
def test_where_there_is_no_journal_nothing_is_said(capsys):
    assert main(["__complete", "bash", "kagura-kernel changes r"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shell", list(SCRIPTS))
def test_the_script_of_each_shell_is_printed_and_read_by_it(shell, prints):
    script = prints("completion", shell)
    assert script == SCRIPTS[shell]
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=30)


# How each shell asks for what may stand at the end of a line. Of zsh, whose own way needs a terminal, the parts that it
# would give our function.
ASKED = {
    "bash": """COMP_LINE='kagura-kernel run WORD'; COMP_POINT=${#COMP_LINE}
        compopt() { :; }
        _kagura_kernel; printf '%s\\n' "${COMPREPLY[@]}"
        """,
    "zsh": """compdef() { :; }
        compset() { PREFIX=${PREFIX#--*=}; }
        compadd() { print -l -- ${(M)texts:#$PREFIX*}; }
        LBUFFER='cd /tmp && kagura-kernel run WORD'; words=(kagura-kernel run WORD); CURRENT=3; PREFIX=WORD
        _kagura_kernel
        """,
    "fish": "complete -C 'cd /tmp; and kagura-kernel run WORD'",
}


@pytest.mark.parametrize("line", ["--repl", "--write=th"])
@pytest.mark.parametrize("shell", list(ASKED))
def test_the_shell_itself_completes_with_it(tmp_path, shell, line):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    program = tmp_path / "kagura-kernel"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kagura_kernel.cli.main "$@"\n')
    program.chmod(0o755)
    asked = SCRIPTS[shell] + ASKED[shell].replace("WORD", line)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    ran = subprocess.run([shell, "-c", asked], env=environ, capture_output=True, text=True, timeout=60, check=True)
    found = {"--repl": "--replay", "--write=th": "--write=through" if shell == "fish" else "through"}[line]
    assert ran.stdout.split("\t")[0].split() == [found]


def test_in_a_conversation_commands_behind_a_slash_are_completed_and_tasks_are_not():
    def found(line: str, word: str) -> list[str]:
        complete = completer(lambda: line, lambda: len(line), Known())
        items: list[str] = []
        while (item := complete(word, len(items))) is not None:
            items.append(item)
        return items

    assert found("/chang", "/chang") == ["/changes"]
    assert found("/changes ab", "ab") == ["run-1ab"]
    assert found("/run --write=th", "--write=th") == ["--write=through"]
    assert found("fix the ru", "ru") == []


def test_no_line_makes_it_fail(capsys):
    for line in ("", "kagura-kernel", "kagura-kernel 'a", "kagura-kernel run \\", json.dumps({"x": 1})):
        assert main(["__complete", "bash", line]) == 0
    assert capsys.readouterr().err == ""
