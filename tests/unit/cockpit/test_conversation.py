"""A notebook's conversation: which session goes on, and with which model."""

import re
from dataclasses import replace

import pytest

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.journal.views import notebook_session
from kagura_kernel.jupyter.slots import press
from kagura_kernel.render.html import html_of
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import FakeBrain, Hang
from kagura_kernel.views.head import head_blocks
from kagura_kernel.views.run import RunView
from tests.support.redactors import shared_redactor

PLACE = CellPlace("/home/ada/work.ipynb", "kernel-1", "cell-1")


def ran(cockpit, project, **options):
    return cockpit.launch(RunRequest("look", project=project, **{"place": PLACE} | options)).result(60)


def test_a_notebook_goes_on_with_its_newest_session_that_nobody_named(cockpit, project):
    first = ran(cockpit, project)
    assert notebook_session(cockpit.journal, PLACE.notebook) == first.session_id
    ran(cockpit, project, session="refactoring")
    assert notebook_session(cockpit.journal, PLACE.notebook) == first.session_id
    cockpit.begin_anew()
    second = ran(cockpit, project)
    assert second.session_id != first.session_id
    assert notebook_session(cockpit.journal, PLACE.notebook) == second.session_id
    ran(cockpit, project, new_session=True, place=replace(PLACE, notebook="/home/ada/other.ipynb"))
    assert notebook_session(cockpit.journal, PLACE.notebook) == second.session_id
    assert notebook_session(cockpit.journal, "") == ""


def test_a_session_in_which_a_run_goes_on_elsewhere_is_left_to_it(cockpit_with, project):
    cockpit = cockpit_with([Hang()])
    handle = cockpit.launch(RunRequest("look", project=project, place=PLACE))
    handle.wait_begun()
    assert notebook_session(cockpit.journal, PLACE.notebook) == ""
    handle.kill("ada")
    handle.result(60)
    assert notebook_session(cockpit.journal, PLACE.notebook) == handle.session_id


def test_a_run_tells_whose_conversation_it_goes_on_with(cockpit, project):
    first, second = ran(cockpit, project), ran(cockpit, project)
    began = [row.event for row in cockpit.journal.events(kinds=("run.started",))]
    assert [event.follows for event in began] == ["", first.run_id]
    assert ran(cockpit, project, new_session=True).session_id != second.session_id


def test_a_new_conversation_can_be_left_for_the_one_before_and_the_cards_have_a_button_for_the_other(
    cockpit_with, project
):
    cockpit, told = cockpit_with(), []

    def pressed(act):
        press(cockpit, "", {"act": act}, lambda text, _about: told.append(text))

    def buttons():
        began = next(row.event for row in reversed([*cockpit.journal.events(kinds=("run.started",))]))
        return re.findall(r'data-act="(anew|go-back)"', html_of(head_blocks(RunView().apply_all([began]), live=True)))

    pressed("go-back")
    assert told == ["No earlier conversation is known here."]
    first = ran(cockpit, project)
    assert buttons() == []
    ran(cockpit, project)
    assert buttons() == ["anew"]
    # Pressed twice is once: nothing was said in between.
    pressed("anew")
    pressed("anew")
    second = ran(cockpit, project)
    assert second.session_id != first.session_id
    assert buttons() == ["go-back"]
    pressed("go-back")
    assert ran(cockpit, project).session_id == first.session_id
    assert buttons() == ["anew"]


def test_a_model_stays_until_it_is_taken_back_and_a_cell_s_own_counts(cockpit_with, project):
    brain = FakeBrain()
    cockpit = cockpit_with(brain, redactor=shared_redactor())
    cockpit.use_model("fake-2")
    ran(cockpit, project)
    ran(cockpit, project, model="fake-3")
    cockpit.use_model("")
    ran(cockpit, project)
    assert [turn.model for turn in brain.turns] == ["fake-2", "fake-3", ""]
    with pytest.raises(UsageError, match="looks like a secret"):
        cockpit.use_model("ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx")
