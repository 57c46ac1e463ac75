from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.jupyter.cell import from_cell, parse_cell
from kagura_kernel.jupyter.dialect import ENTRY, rewrite
from kagura_kernel.jupyter.magics import Magics, register, unregister
from kagura_kernel.jupyter.surface import Surface, surface_of
from kagura_kernel.runs.request import RunRequest


@pytest.fixture
def shell():
    found = InteractiveShell()
    yield found
    found.history_manager.end_session()


def test_registering_twice_is_the_same_as_once_and_unregistering_undoes_it(shell):
    before = list(shell.input_transformers_cleanup)
    register(shell)
    register(shell)
    assert shell.input_transformers_cleanup == [rewrite, *before]
    assert {"kagura", "sandbox"} <= set(shell.magics_manager.magics["cell"])
    assert "kagura" in shell.magics_manager.magics["line"]
    unregister(shell)
    assert shell.input_transformers_cleanup == before
    assert not {"kagura", "sandbox"} & set(shell.magics_manager.magics["cell"])
    assert not hasattr(shell, ENTRY)


def test_help_is_printed_without_bringing_anything_else_in(shell, capsys):
    register(shell)
    shell.run_line_magic("kagura", "")
    assert "%kagura approve ID" in capsys.readouterr().out


def test_question_marks_show_all_that_help_shows(shell):
    register(shell)
    described = {name: shell.object_inspect_text(name) for name in ("%kagura", "%%kagura", "%%sandbox")}
    assert "%kagura approve ID" in described["%kagura"]
    assert "--budget" in described["%%kagura"]
    assert "python|bash" in described["%%sandbox"]


def test_nothing_is_filled_into_the_options_of_a_cell_that_code_runs(shell, monkeypatch):
    seen = []
    monkeypatch.setattr(Magics, "inside", lambda _self, *given: seen.append(given))
    register(shell)
    shell.user_ns["name"] = "x"
    shell.run_cell_magic("kagura", "--session {name} $name", "Go for {name}.")
    shell.run_cell_magic("sandbox", "--session {name}", "print('{name}')")
    assert [line for _, line, _ in seen] == ["--session {name} $name", "--session {name}"]


def test_several_commands_each_show_what_they_have_to_show(shell, monkeypatch, capsys):
    monkeypatch.setattr("kagura_kernel.jupyter.steering.run_line", lambda _shell, line, prefix: prefix + line)
    register(shell)
    assert shell.kagura_commands("runs", "cost") == "/cost"
    assert capsys.readouterr().out.strip() == "/runs"


def test_our_words_are_completed_in_a_python_cell_and_pythons_are_left_alone(shell):
    register(shell)
    with provisionalcompleter():

        def found(text):
            return [one.text for one in shell.Completer.completions(text, len(text))]

        assert found("%kagura appr") == ["approvals", "approve"]
        assert found("x = 1\n%kagura kil") == ["kill"]
        assert found("%%kagura --budg") == ["--budget"]
        shell.user_ns["salt"] = 1
        assert "salt" in found("sal")
        unregister(shell)
        assert "approve" not in found("%kagura appr")


def kernel(**content):
    return SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda _channel: {"content": content}))


def test_whoever_runs_a_notebook_without_a_person_says_that_input_is_not_allowed():
    assert surface_of(kernel(allow_stdin=False)) is Surface.HEADLESS
    assert surface_of(kernel()) is Surface.HEADLESS
    assert surface_of(kernel(allow_stdin=True)) is Surface.NOTEBOOK


def test_ipython_without_a_terminal_has_nobody_to_ask(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    assert surface_of(SimpleNamespace()) is Surface.HEADLESS
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    assert surface_of(SimpleNamespace()) is Surface.TERMINAL
    monkeypatch.setattr("sys.stdin", None)
    assert surface_of(SimpleNamespace()) is Surface.HEADLESS


def test_an_agent_cell_becomes_an_intent():
    line = "--brain b --model m --budget 2 --max-turns 3 --replay c.jsonl --session s --write none --timeout 5 --idle 2"
    intent = from_cell(parse_cell("kagura", line, "\n Do it. \n"), Surface.NOTEBOOK)
    assert intent == RunRequest(
        task="Do it.",
        brain="b",
        model="m",
        budget_usd=2.0,
        max_turns=3,
        replay=Path("c.jsonl"),
        session="s",
        write_mode=WriteMode.NONE,
        command_timeout=5.0,
        idle_timeout=2.0,
        origin="notebook",
    )


def test_a_sandbox_cell_becomes_an_intent_with_its_code_untouched():
    intent = from_cell(parse_cell("sandbox", "bash --new", " ls \n"), Surface.HEADLESS)
    assert intent == RunRequest(task=" ls \n", language="bash", new_session=True, headless=True, origin="notebook")


@pytest.mark.parametrize("magic", ["kagura", "sandbox"])
def test_an_empty_cell_is_answered_with_the_usage(magic):
    with pytest.raises(UsageError, match=f"the cell is empty[^\\n]*\\nusage: %%{magic}"):
        parse_cell(magic, "", " \n ")
