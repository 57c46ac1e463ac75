"""A run is shown its notebook: on the record first, without secrets, and in a conversation only once."""

import hashlib

import pytest

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.notebook import NamedValue, Notebook, NotebookCell
from kagura_kernel.domain.settings import Settings
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.views.card import run_text
from kagura_kernel.views.run import RunView
from tests.support.redactors import shared_redactor

KEY = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
LOAD = NotebookCell("a", source=f"key = '{KEY}'\nrows = load()", count=1)
NOTEBOOK = Notebook("work.ipynb", "live", (LOAD, NotebookCell("here")), "here", (NamedValue("rows", "list, 3"),))


def asked(cockpit, project, **options):
    request = RunRequest("What is in rows?", project=project, **{"notebook": NOTEBOOK} | options)
    handle = cockpit.launch(request)
    events = []
    handle.subscribe(events.append)
    outcome = handle.result(60)
    return outcome, [event for event in events if event.kind == "notebook.shown"], events


def test_what_a_brain_is_shown_is_an_event_with_its_hash_and_a_line_of_the_card(cockpit_with, project):
    brain = FakeBrain(["Rows."])
    _, (shown,), events = asked(cockpit_with(brain, redactor=shared_redactor()), project)
    (turn,) = brain.turns
    assert turn.task == f"{shown.text}\n\n## The task\n\nWhat is in rows?"
    assert shown.sha256 == hashlib.sha256(shown.text.encode()).hexdigest()
    assert "rows = load()" in shown.text
    assert KEY not in shown.text
    assert (shown.cells, shown.names) == (1, 1)
    assert "~ sees 1 cell, 1 name" in run_text(RunView().apply_all(events))


def test_a_conversation_is_told_once_and_a_new_one_again(cockpit_with, project):
    brain = FakeBrain(["Rows."])
    cockpit = cockpit_with(brain)
    asked(cockpit, project)
    _, (again,), events = asked(cockpit, project)
    assert (again.text, again.unchanged) == ("", 1)
    assert brain.turns[1].task == "What is in rows?"
    assert "~ sees 1 unchanged" in run_text(RunView().apply_all(events))
    _, (anew,), _ = asked(cockpit, project, new_session=True)
    assert anew.cells == 1


@pytest.mark.parametrize(("option", "setting"), [("none", "cells"), (None, "none")])
def test_nothing_is_shown_where_an_option_or_the_settings_say_so(cockpit_with, project, option, setting):
    brain = FakeBrain([Ask("read_notebook"), lambda results: results[-1].text])
    outcome, shown, _ = asked(cockpit_with(brain, settings=Settings(context=setting)), project, context=option)
    assert (shown, brain.turns[0].task) == ([], "What is in rows?")
    assert "no tool 'read_notebook'" in outcome.text


def test_more_of_it_is_read_by_a_tool(cockpit_with, project):
    script = [Ask("read_notebook", {"cells": ["a"]}), lambda results: results[-1].text]
    outcome, _, _ = asked(cockpit_with(script, redactor=shared_redactor()), project)
    assert "rows = load()" in outcome.text
    assert KEY not in outcome.text


@pytest.mark.parametrize("word", ["some", "7", "1000000", ""])
def test_a_word_that_means_nothing_is_an_error_before_anything_runs(cockpit_with, project, word):
    with pytest.raises(UsageError, match="--context takes"):
        asked(cockpit_with(), project, context=word)
