"""Notebooks that a run has changed as files: their cells are what is proposed, and of its own nothing else."""

import copy
import json

import pytest

from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask
from kagura_kernel.views.changes import changes_text

SHOWN = [{"output_type": "stream", "name": "stdout", "text": "41\n"}]


def code(ident, source, outputs=()):
    return {
        "cell_type": "code",
        "id": ident,
        "metadata": {},
        "execution_count": 1,
        "outputs": list(outputs),
        "source": source,
    }


NOTEBOOK = {
    "cells": [code("a", "a = 1", SHOWN), {"cell_type": "markdown", "id": "m", "metadata": {}, "source": ["# T\n", "t"]}]
    + [code(ident, f"{ident} = 1") for ident in "bcd"],
    "metadata": {"kernelspec": {"name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def changed(*, outputs=False):
    """As an agent might write it: one cell edited, one new, one gone, one elsewhere."""
    made = copy.deepcopy(NOTEBOOK)
    a, m, b, _, d = made["cells"]
    a["source"] = ["a = 2\n", "a"]
    made["cells"] = [a, code("n", "new = 1"), d, m, b]
    if outputs:
        b["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "all tests passed"}]
    return made


@pytest.fixture
def run(cockpit_with, project):
    """Have a run write these files into its box, with `own.ipynb` as the notebook that asked for it."""
    for name in ("own.ipynb", "other.ipynb"):
        (project / name).write_text(json.dumps(NOTEBOOK, indent=1))

    def made(files, *meanwhile, **options):
        writes = [
            Ask("write_file", {"path": name, "content": text if isinstance(text, str) else json.dumps(text, indent=1)})
            for name, text in files.items()
        ]
        cockpit = cockpit_with([*(Ask("read_file", {"path": name}) for name in files), *meanwhile, *writes, "Done."])
        place = CellPlace(str(project / "own.ipynb"), "", "a")
        request = RunRequest("Change it.", project=project, place=place, **options)
        outcome = cockpit.launch(request).result(60)
        return cockpit, outcome, cockpit.changes(outcome.run_id)

    return made


def told(changes):
    return [(change.path, change.status, change.state) for change in changes]


def sources(file):
    cells = json.loads(file.read_text())["cells"]
    return [(cell["id"], "".join(cell["source"])) for cell in cells]


@pytest.mark.parametrize("name", ["own.ipynb", "other.ipynb"])
def test_a_notebook_that_was_changed_as_a_file_is_told_and_applied_by_cells(run, project, name):
    cockpit, outcome, changes = run({name: changed()})
    assert told(changes) == [
        (f"{name}#a", "modified", "proposed"),
        (f"{name}#n", "added", "proposed"),
        (f"{name}#d", "modified", "proposed"),
        (f"{name}#c", "deleted", "proposed"),
    ]
    assert changes[0].diff.splitlines()[-3:] == ["-a = 1", "+a = 2", "+a"]
    cockpit.changes_desk.apply(outcome.run_id, by="ann")
    assert sources(project / name) == [
        ("a", "a = 2\na"),
        ("n", "new = 1"),
        ("d", "d = 1"),
        ("m", "# T\nt"),
        ("b", "b = 1"),
    ]
    whole = json.loads((project / name).read_text())
    assert (whole["cells"][0]["outputs"], whole["metadata"]) == (SHOWN, NOTEBOOK["metadata"])


@pytest.mark.parametrize("name", ["own.ipynb", "other.ipynb"])
def test_outputs_are_left_out_and_that_is_said(run, project, name):
    cockpit, outcome, changes = run({name: changed(outputs=True)})
    assert {change.reason for change in changes} == {
        "what it changed beside sources of cells, such as outputs, was left out"
    }
    assert "such as outputs, was left out" in changes_text({change.path: change for change in changes})
    cockpit.changes_desk.apply(outcome.run_id, by="ann")
    assert "all tests passed" not in (project / name).read_text()


def test_of_the_notebook_that_asked_nothing_but_cells_leaves_the_box(run, project):
    forged = copy.deepcopy(NOTEBOOK)
    forged["cells"][2]["outputs"] = SHOWN
    before = (project / "own.ipynb").read_text()
    for text in (forged, "{", forged | {"nbformat": 3}):
        cockpit, outcome, changes = run({"own.ipynb": text})
        assert told(changes) == [("own.ipynb", "modified", "protected")]
        assert "sources of cells alone" in changes[0].reason
        cockpit.changes_desk.apply(outcome.run_id, by="ann")
        assert (project / "own.ipynb").read_text() == before
    # Written anew and the same is no change.
    assert run({"own.ipynb": json.dumps(NOTEBOOK)})[2] == []


def test_another_notebook_whose_cells_cannot_be_told_apart_stays_a_file(run):
    outputs, without = copy.deepcopy(NOTEBOOK), copy.deepcopy(NOTEBOOK)
    outputs["cells"][2]["outputs"] = SHOWN
    for cell in without["cells"]:
        del cell["id"]
    for text, why in (("{", "no JSON"), (without, "no ids"), (outputs, "")):
        _, _, changes = run({"other.ipynb": text, "new.ipynb": NOTEBOOK})
        assert told(changes) == [("new.ipynb", "added", "proposed"), ("other.ipynb", "modified", "proposed")]
        assert why in changes[1].reason
        assert bool(changes[1].reason) == bool(why)


def test_what_a_person_saves_meanwhile_is_no_change_of_the_run(run, project):
    def save(_results):
        saved = copy.deepcopy(NOTEBOOK)
        saved["cells"][2]["source"] = "b = 'mine'"
        saved["cells"].append(code("p", "mine"))
        (project / "own.ipynb").write_text(json.dumps(saved))
        return Ask("list_files", {})

    one = copy.deepcopy(NOTEBOOK)
    one["cells"][0]["source"] = "a = 2"
    cockpit, outcome, changes = run({"own.ipynb": one}, save)
    assert told(changes) == [("own.ipynb#a", "modified", "proposed")]
    cockpit.changes_desk.apply(outcome.run_id, by="ann")
    assert [source for _, source in sources(project / "own.ipynb")] == [
        "a = 2",
        "# T\nt",
        "b = 'mine'",
        "c = 1",
        "d = 1",
        "mine",
    ]


def test_a_mark_in_the_place_of_a_secret_is_never_written_into_a_cell(run, project):
    marks = "sed -i \"s/a = 1/a = '[REDACTED:token]'/; s/b = 1/b = 2/\" other.ipynb"
    cockpit, outcome, changes = run({}, Ask("bash", {"command": marks}))
    assert told(changes) == [("other.ipynb#a", "modified", "protected"), ("other.ipynb#b", "modified", "proposed")]
    cockpit.changes_desk.apply(outcome.run_id, by="ann")
    assert [source for _, source in sources(project / "other.ipynb")][:3] == ["a = 1", "# T\nt", "b = 2"]


def test_with_write_through_they_wait_and_what_is_taken_back_waits_no_more(run, project):
    less = copy.deepcopy(NOTEBOOK)
    less["cells"][0]["source"] = "a = 2\na"
    files = [Ask("write_file", {"path": "other.ipynb", "content": json.dumps(one)}) for one in (changed(), less)]
    options = {"write_mode": WriteMode.THROUGH}
    cockpit, outcome, changes = run({}, Ask("read_file", {"path": "other.ipynb"}), *files, **options)
    assert json.loads((project / "other.ipynb").read_text()) == NOTEBOOK
    states = {change.path[-1]: change.state for change in changes}
    assert states == {"a": "proposed", "n": "discarded", "d": "discarded", "c": "discarded"}
    cockpit.changes_desk.apply(outcome.run_id, by="ann")
    assert sources(project / "other.ipynb")[0] == ("a", "a = 2\na")


def test_a_verification_sees_the_notebook_as_the_run_left_it(run):
    _, outcome, _ = run({"other.ipynb": changed()}, verify="grep -q 'a = 2' other.ipynb")
    assert outcome.verified is True
