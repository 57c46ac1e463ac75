"""A run is shown its notebook: on the record first, without secrets, and in a conversation only once."""

import base64
import errno
import hashlib
import json

import pytest

from kagura_kernel.domain.errors import ChangeConflict, NotebookUnwritable, UsageError, WorkspaceError
from kagura_kernel.domain.events import ChangesCollected
from kagura_kernel.domain.notebook import CellImage, NamedValue, Notebook, NotebookCell
from kagura_kernel.domain.outcome import seal_of
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.jupyter.live_run import settle
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.views.card import run_text
from kagura_kernel.views.changes import changes_text
from kagura_kernel.views.run import RunView
from tests.support.gallery import png
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
    assert turn.task == "What is in rows?"
    assert turn.prompt == f"{shown.text}\n\n## The task\n\nWhat is in rows?"
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
    assert brain.turns[1].prompt == "What is in rows?"
    assert "~ sees 1 unchanged" in run_text(RunView().apply_all(events))
    _, (anew,), _ = asked(cockpit, project, new_session=True)
    assert anew.cells == 1


def test_images_pasted_above_come_with_the_task_the_nearest_first_and_once(cockpit_with, project):
    def pasted(name: str, data: bytes) -> NotebookCell:
        image = CellImage(name, base64.b64encode(data).decode())
        return NotebookCell(name, "markdown", f"![](attachment:{name})", pasted=(image,))

    # About 1,310 tokens each, of which 4,000 have room for three.
    cells = [pasted(f"{number}.png", png(1400, 700)) for number in range(4)]
    cells.insert(2, pasted("torn.png", b"no image"))
    notebook = Notebook("work.ipynb", "live", (*cells, NotebookCell("here")), "here")
    brain = FakeBrain(["Seen."], images=True)
    cockpit = cockpit_with(brain)
    _, _, events = asked(cockpit, project, notebook=notebook)
    assert [image.name for image in brain.turns[0].images] == ["1.png", "2.png", "3.png"]
    sent = [(event.call_id, event.name) for event in events if event.kind == "image.sent"]
    assert sent == [("task", "3.png"), ("task", "2.png"), ("task", "1.png")]
    asked(cockpit, project, notebook=notebook)
    assert list(brain.turns[1].images) == []
    asked(cockpit, project, notebook=notebook, context="names", new_session=True)
    assert list(brain.turns[2].images) == []


@pytest.mark.parametrize(("option", "setting"), [("none", "cells"), (None, "none")])
def test_nothing_is_shown_where_an_option_or_the_settings_say_so(cockpit_with, project, option, setting):
    brain = FakeBrain([Ask("read_notebook"), lambda results: results[-1].text])
    outcome, shown, _ = asked(cockpit_with(brain, settings=Settings(context=setting)), project, context=option)
    assert (shown, brain.turns[0].prompt) == ([], "What is in rows?")
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


def proposing(cockpit_with, project, *script, **options):
    """A run that proposes cells of a notebook that lies in the project; the cockpit, the outcome and the file."""
    file = project / "work.ipynb"
    known = options.get("notebook", NOTEBOOK).cells
    cells = [{"cell_type": "code", "id": cell.id, "metadata": {}, "source": cell.source} for cell in known]
    file.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    cockpit = cockpit_with([*script, lambda results: results[-1].text])
    place = CellPlace(str(file), "", "here")
    outcome, _, events = asked(cockpit, project, place=place, **options)
    return cockpit, outcome, file, events


def test_a_long_cell_is_mended_and_one_that_is_moved_stays_as_its_person_wrote_it(cockpit_with, project, monkeypatch):
    long = NotebookCell("long", source="x = 1\n" * 20_000)
    around = Notebook("work.ipynb", "live", (LOAD, long, NotebookCell("here")), "here")
    # As if the token of the cell were leased.
    monkeypatch.setattr(Scrubber, "scrub", lambda _self, text: text.replace(KEY, "(hidden)"))
    script = [Ask("move_cell", {"cell": "a", "below": "long"}), Ask("edit_cell", {"cell": "long", "source": "x = 2"})]
    cockpit, outcome, file, _ = proposing(cockpit_with, project, *script, notebook=around)
    assert sorted(change.state for change in outcome.changes) == ["proposed", "proposed"]
    cockpit.changes_desk.apply(outcome.run_id, by="ann")
    assert sources(file) == ["x = 2", LOAD.source, ""]


MENDED = Ask("edit_cell", {"cell": "a", "source": "rows = [1]"})
EVIL = {"cell": "a", "source": "rows = evil()"}


def sources(file):
    return ["".join(cell["source"]) for cell in json.loads(file.read_text())["cells"]]


def test_proposed_cells_wait_and_are_written_into_the_file_where_no_front_end_is(cockpit_with, project):
    cockpit, outcome, file, events = proposing(cockpit_with, project, MENDED)
    assert outcome.text == "a: proposed."
    (change,) = outcome.changes
    assert (change.path, change.kind, change.state) == ("work.ipynb#a", "code", "proposed")
    assert "+rows = [1]" in change.diff
    assert sources(file)[0] == LOAD.source
    settled = cockpit.changes_desk.apply(outcome.run_id, by="ann")
    assert settled.applied == ("work.ipynb#a",)
    assert sources(file)[0] == "rows = [1]"
    assert "1 changed cell" in changes_text(RunView().apply_all(events).changes)


def test_what_a_person_has_changed_is_a_conflict_and_a_withdrawn_proposal_is_gone(cockpit_with, project):
    back = Ask("edit_cell", {"cell": "a", "source": LOAD.source})
    _, outcome, _, _ = proposing(cockpit_with, project, MENDED, back)
    assert outcome.changes == ()
    assert "taken back" in outcome.text
    cockpit, outcome, file, _ = proposing(cockpit_with, project, MENDED)
    file.write_text(file.read_text().replace("load()", "reload()"))
    for _ in range(2):
        # Asked again, it is not that nothing was waiting.
        with pytest.raises(ChangeConflict, match=r"work\.ipynb#a"):
            cockpit.changes_desk.apply(outcome.run_id, by="ann")
    assert "reload()" in sources(file)[0]


def test_the_notebook_on_screen_comes_first_and_a_second_edit_fits_what_the_first_has_made(cockpit_with, project):
    live = {"a": LOAD.source}

    def write(_notebook, edits):
        refused = {edit.cell: "changed" for edit in edits if live[edit.cell] not in edit.was}
        live.update({edit.cell: edit.source for edit in edits if edit.cell not in refused})
        return refused

    held = []

    def meanwhile(_results):
        (cockpit,) = held
        cockpit.changes_desk.apply(cockpit.runs()[0].run_id, by="ann", write_cells=write)
        return Ask("edit_cell", {"cell": "a", "source": "rows = [1, 2]"})

    def keep(script):
        held.append(cockpit_with(script))
        return held[0]

    cockpit, outcome, file, _ = proposing(keep, project, MENDED, meanwhile)
    assert live["a"] == "rows = [1]"
    cockpit.changes_desk.apply(outcome.run_id, by="ann", write_cells=write)
    assert live["a"] == "rows = [1, 2]"
    assert sources(file)[0] == LOAD.source


@pytest.mark.parametrize("path", ["work.ipynb#a", None])
def test_a_button_applies_what_stood_beside_it_and_nothing_that_was_proposed_since(cockpit_with, project, path):
    cockpit, outcome, file, events = proposing(cockpit_with, project, MENDED, Ask("edit_cell", EVIL))
    seals = [f":{seal_of(event.changes)}" for event in events if isinstance(event, ChangesCollected)]
    paths = path and [path]
    told = settle(cockpit, outcome.run_id, "apply", paths, None, seals[0])
    assert "not what was shown" in told
    assert sources(file)[0] == LOAD.source
    assert settle(cockpit, outcome.run_id, "apply", paths, None, seals[-1]) == ""
    assert sources(file)[0] == EVIL["source"]


def test_with_write_through_they_are_written_at_once_and_with_none_never(cockpit_with, project):
    written = []

    def write(_notebook, edits):
        written.extend(edit.source for edit in edits)
        return {}

    _, outcome, _, _ = proposing(cockpit_with, project, MENDED, write_mode=WriteMode.THROUGH, write_cells=write)
    assert (outcome.text, written) == ("a: in the notebook now, and not run.", ["rows = [1]"])
    assert outcome.changes[0].state == "applied"
    _, outcome, _, _ = proposing(cockpit_with, project, MENDED, write_mode=WriteMode.NONE, write_cells=write)
    assert (outcome.text, outcome.changes[0].state) == ("a: noted; this run changes nothing.", "discarded")
    assert len(written) == 1


def test_a_cell_that_is_written_through_twice_is_changed_twice_and_a_refused_one_is_tried_again(cockpit_with, project):
    live, refuse = {"a": LOAD.source}, ["no"]

    def write(_notebook, edits):
        if refuse:
            return {edits[0].cell: refuse.pop()}
        refused = {edit.cell: "changed" for edit in edits if live[edit.cell] not in edit.was}
        live.update({edit.cell: edit.source for edit in edits if edit.cell not in refused})
        return refused

    again = Ask("edit_cell", {"cell": "a", "source": "rows = [1, 2]"})
    options = {"write_mode": WriteMode.THROUGH, "write_cells": write}
    _, outcome, _, _ = proposing(cockpit_with, project, MENDED, MENDED, again, **options)
    assert outcome.text == "a: in the notebook now, and not run."
    assert live["a"] == "rows = [1, 2]"


def inserted(results):
    return results[-1].text.partition(":")[0]


def below_last(source):
    return lambda results: Ask("insert_cell", {"below": inserted(results), "source": source})


def test_a_notebook_that_cannot_be_read_stops_apply_before_a_file_is_written(cockpit_with, project):
    wrote = Ask("write_file", {"path": "new.txt", "content": "x"})
    cockpit, outcome, file, _ = proposing(cockpit_with, project, wrote, MENDED)
    whole = file.read_text()
    file.write_text(json.dumps(json.loads(whole) | {"nbformat_minor": None}))
    with pytest.raises(NotebookUnwritable, match="format 4"):
        cockpit.changes_desk.apply(outcome.run_id, by="ann")
    assert not (project / "new.txt").exists()
    assert {change.state for change in cockpit.changes(outcome.run_id)} == {"proposed"}
    file.write_text(whole)
    assert set(cockpit.changes_desk.apply(outcome.run_id, by="ann").applied) == {"new.txt", "work.ipynb#a"}


def test_what_is_written_is_on_record_whatever_fails_after_it(cockpit_with, project, monkeypatch):
    wrote = [Ask("write_file", {"path": name, "content": "x"}) for name in ("a.txt", "b.txt")]
    cockpit, outcome, file, _ = proposing(cockpit_with, project, *wrote, MENDED)
    replace, full = ProjectFiles.replace, ["b.txt", "work.ipynb"]

    def refuse(self, path, *args, **options):
        if path in full:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(self, path, *args, **options)

    monkeypatch.setattr(ProjectFiles, "replace", refuse)
    for last in ("b.txt", "work.ipynb"):
        with pytest.raises(WorkspaceError, match="No space left"):
            cockpit.changes_desk.apply(outcome.run_id, by="ann")
        full.remove(last)
        states = {change.path: change.state for change in cockpit.changes(outcome.run_id)}
        assert (states["a.txt"], states["b.txt"] == "applied") == ("applied", last == "work.ipynb")
    assert cockpit.changes_desk.apply(outcome.run_id, by="ann").applied == ("work.ipynb#a",)
    assert sources(file)[0] == "rows = [1]"


def test_new_cells_are_told_as_proposed_and_any_of_them_can_be_applied_first(cockpit_with, project):
    first = Ask("insert_cell", {"below": "a", "source": "1"})
    script = [first, below_last("2"), below_last("3")]
    cockpit, outcome, file, _ = proposing(cockpit_with, project, *script)
    paths = [change.path for change in cockpit.changes(outcome.run_id)]
    assert [change.diff.splitlines()[-1] for change in cockpit.changes(outcome.run_id)] == ["+1", "+2", "+3"]
    for path in (paths[2], paths[0], paths[1]):
        assert cockpit.changes_desk.apply(outcome.run_id, [path], by="ann").applied == (path,)
    assert sources(file) == [LOAD.source, "1", "2", "3", ""]


def test_a_withdrawn_cell_that_was_written_through_is_taken_out_again_unless_a_person_has_changed_it(
    cockpit_with, project
):
    def run(meanwhile=None):
        def withdraw(results):
            if meanwhile is not None:
                live[inserted(results)] = meanwhile
            return Ask("delete_cell", {"cell": inserted(results)})

        live = {"a": LOAD.source, "here": ""}

        def write(_notebook, edits):
            refused = {}
            for edit in edits:
                if edit.action != "insert" and live[edit.cell] not in edit.was:
                    refused[edit.cell] = "the cell was changed meanwhile"
                elif edit.action == "delete":
                    del live[edit.cell]
                else:
                    live[edit.cell] = edit.source
            return refused

        new, back = Ask("insert_cell", {"below": "a", "source": "x"}), {"cell": "a", "source": LOAD.source}
        script = [MENDED, Ask("edit_cell", back), new, withdraw]
        options = {"write_mode": WriteMode.THROUGH, "write_cells": write}
        cockpit, outcome, _, _ = proposing(cockpit_with, project, *script, **options)
        return live, outcome.text, [change.state for change in cockpit.changes(outcome.run_id)]

    assert run()[0] == {"a": LOAD.source, "here": ""}
    assert run()[2] == ["discarded", "discarded"]
    live, told, states = run(meanwhile="x = 'mine'")
    assert "x = 'mine'" in live.values()
    assert "changed meanwhile" in told
    assert states == ["discarded", "applied"]


def test_what_was_proposed_while_planning_is_proposed_again_when_the_plan_is_carried_out(
    cockpit_with, project, await_question
):
    cockpit = cockpit_with([MENDED, Ask("carry_out", {"plan": "Mend it."}), MENDED, "Done."])
    place = CellPlace(str(project / "work.ipynb"), "", "here")
    handle = cockpit.launch(RunRequest("Plan.", project=project, mode="plan", notebook=NOTEBOOK, place=place))
    cockpit.decide(await_question(cockpit).id, allow=True, by="ann", via="cell", answer="Carry it out")
    assert [change.state for change in handle.result(60).changes] == ["proposed"]
