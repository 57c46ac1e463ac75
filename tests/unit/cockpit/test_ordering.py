from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.intents import LaunchCell, LaunchRun
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.variables import CellPlace

UNWRITABLE = "half \ud800"


def test_what_no_text_can_hold_is_refused_before_anything_begins(
    cockpit_with: Callable[..., Cockpit], project: Path
) -> None:
    cockpit = cockpit_with()
    for intent in (LaunchRun(task=UNWRITABLE, project=project), LaunchCell(code=UNWRITABLE, project=project)):
        with pytest.raises(UsageError, match="no text in UTF-8"):
            cockpit.launch(intent)
    assert cockpit.runs() == []


def test_a_run_cannot_change_the_notebook_that_it_is_asked_for_in(
    cockpit_with: Callable[..., Cockpit], project: Path, tmp_path: Path
) -> None:
    (project / "books").mkdir()
    (project / "books" / "own.ipynb").write_text("{}")
    cockpit = cockpit_with()
    code = "echo forged | tee books/own.ipynb books/other.ipynb; echo x > a.txt"
    (tmp_path / "link").symlink_to(project)
    intents = {
        str(project / "books" / "own.ipynb"): "books/own.ipynb",
        str(tmp_path / "link" / "books" / "own.ipynb"): "books/own.ipynb",
        str(tmp_path / "elsewhere.ipynb"): None,
        "": None,
    }
    for notebook, own in intents.items():
        intent = LaunchCell(code=code, language="bash", project=project, place=CellPlace(notebook=notebook))
        outcome = cockpit.launch(intent).result(60)
        assert {change.path for change in outcome.changes} == {"a.txt", "books/other.ipynb", "books/own.ipynb"} - {own}
    assert (project / "books" / "own.ipynb").read_text() == "{}"
