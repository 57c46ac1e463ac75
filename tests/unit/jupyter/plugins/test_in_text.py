"""An audit and an enabling in a console or a terminal: what is printed, and what typed lines do."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from kagura_kernel.domain.errors import PluginRefused, RunKilled
from kagura_kernel.domain.plugins import PluginState
from kagura_kernel.jupyter import plugin_card
from kagura_kernel.jupyter.surface import Surface
from kagura_kernel.testing.brain import Hang
from kagura_kernel.testing.patience import eventually
from tests.support.auditor import report


class Typist:
    """Types its next line whenever it is asked for one; None ends the input."""

    def __init__(self, *lines):
        self.prompts = []
        self._lines = deque(lines)
        self._typed = deque()

    def ask(self, prompt):
        self.prompts.append(prompt)
        if self._lines:
            self._typed.append(self._lines.popleft())

    def take(self):
        if not self._typed:
            return None
        line = self._typed.popleft()
        if line is None:
            raise EOFError
        return line


@pytest.fixture
def types(monkeypatch):
    """Has somebody type these lines."""

    def make(*lines):
        typist = Typist(*lines)
        monkeypatch.setattr(plugin_card, "lines_of", lambda _surface: typist)
        return typist

    return make


async def test_a_person_reads_the_report_answers_and_fills_in_the_form(cell, fields, types, capsys):
    here = cell(report(summary="It greets \x1b[31mloudly"), source=fields)
    typist = types("a", "./data", "many", "7", "y", "")
    row = await here.enable(surface=Surface.CONSOLE)
    assert (row.state, row.approved) == (PluginState.ENABLED, True)
    assert row.config["most"] == "7"
    shown = capsys.readouterr().out
    assert "Low risk. The audit has nothing against it" in shown
    assert "It greets ⟨U+001B⟩[31mloudly" in shown
    assert "Its jail would open: nothing" in shown
    assert "is no number" in shown
    assert "is enabled in this session" in shown
    assert "approved for later sessions" in shown
    assert typist.prompts[0].startswith("Enable greeter?")


@pytest.mark.parametrize("line", ["", "no", None])
async def test_anything_but_a_yes_is_a_no(cell, types, line):
    here = cell()
    types(line)
    with pytest.raises(PluginRefused, match="said no"):
        await here.enable(surface=Surface.TERMINAL)
    assert not here.jails.started


async def test_a_decision_from_elsewhere_takes_the_prompt_away(cell, types, capsys):
    here = cell()
    typist = types()
    task = here.enable(surface=Surface.CONSOLE)
    await eventually(lambda: typist.prompts)
    [request] = here.cockpit.pending()
    here.cockpit.decide(request.id, allow=True, by="eve", via="sidebar")
    assert (await task).state is PluginState.ENABLED
    assert "Answered elsewhere, or too late" in capsys.readouterr().out


async def test_a_form_that_ends_with_the_input_enables_nothing(cell, fields, types):
    here = cell(source=fields)
    types("e", None)
    with pytest.raises(PluginRefused):
        await here.enable(surface=Surface.TERMINAL)
    assert not here.jails.started


async def test_a_silent_auditor_is_asked_about_by_line(cell, types, capsys, monkeypatch):
    monkeypatch.setattr("kagura_kernel.runs.auditing.SILENCE_SECONDS", 0.2)
    monkeypatch.setattr("kagura_kernel.runs.auditing.SILENCE_SECONDS", 0.2)
    here = cell(Hang(), report())
    typist = types("x", "static")
    await here.audit(surface=Surface.CONSOLE)
    assert typist.prompts == ["(r)etry, (s)tatic only, (a)bort: "] * 2
    shown = capsys.readouterr().out
    assert "That is none of the answers." in shown
    assert "Risk unknown" in shown


async def test_an_interrupt_calls_it_off_and_the_prompting_thread_ends(cell, types):
    here = cell()
    typist = types()
    talk_made = here.enable(surface=Surface.CONSOLE)
    await eventually(lambda: typist.prompts)
    talk_made.cancel()
    with pytest.raises(RunKilled):
        await talk_made
    await eventually(lambda: here.talk.done)
    await eventually(lambda: not _prompting())
    assert not here.jails.started


async def test_a_report_is_printed_once_for_an_audit(cell, types, capsys):
    here = cell()
    types()
    await asyncio.wait_for(here.audit(surface=Surface.TERMINAL), 30)
    assert capsys.readouterr().out.count("Low risk") == 1


def _prompting():
    import threading

    return [one for one in threading.enumerate() if one.name == "kagura plugin prompts" and one.is_alive()]
