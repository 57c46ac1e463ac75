from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

from kagura_kernel.cockpit.intents import LaunchCell, LaunchRun
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.jupyter.launching import intent_of, parse_cell
from kagura_kernel.jupyter.magics import register, unregister
from kagura_kernel.jupyter.surface import Surface, surface_of
from kagura_kernel.jupyter.transformer import ENTRY, rewrite


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
    assert "%kagura approve ID | deny ID" in capsys.readouterr().out


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
    intent = intent_of(parse_cell("kagura", line, "\n Do it. \n"), "\n Do it. \n", Surface.NOTEBOOK)
    assert intent == LaunchRun(
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
    intent = intent_of(parse_cell("sandbox", "bash --new", " ls \n"), " ls \n", Surface.HEADLESS)
    assert intent == LaunchCell(code=" ls \n", language="bash", new_session=True, headless=True, origin="notebook")


@pytest.mark.parametrize("magic", ["kagura", "sandbox"])
def test_an_empty_cell_is_answered_with_the_usage(magic):
    with pytest.raises(UsageError, match=f"the cell is empty[^\\n]*\\nusage: %%{magic}"):
        parse_cell(magic, "", " \n ")
