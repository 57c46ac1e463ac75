"""What the first run needs is imported between cells, and never beside one."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.events import EventManager, available_events

from kagura_kernel.jupyter import preparation


class Imports:
    """Stands in for `import_module`; each import is let through by hand."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.asked, self.let = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, name: str) -> None:
        self.asked.release()
        assert self.let.acquire(timeout=30)
        self.done.append(name)


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> Imports:
    imports = Imports()
    monkeypatch.setattr(preparation, "import_module", imports)
    monkeypatch.setattr(preparation, "_MODULES", ("one", "two"))
    return imports


class Shell:
    """As much of IPython as the preparation needs."""

    def __init__(self) -> None:
        self.events = EventManager(self, available_events)


@pytest.fixture
def shell() -> Iterator[Any]:
    shell = Shell()
    yield shell
    preparation.leave_be(shell)


def test_nothing_is_imported_while_a_cell_runs(imports: Imports, shell: Any, tmp_path: Path) -> None:
    prepared = preparation.prepare(shell, {"KAGURA_HOME": str(tmp_path)})
    shell.events.trigger("post_execute")
    assert imports.asked.acquire(timeout=30)
    cell = threading.Thread(target=shell.events.trigger, args=("pre_execute",))
    cell.start()
    cell.join(0.2)
    assert cell.is_alive(), "the cell waits for the import that is under way"
    imports.let.release()
    cell.join(30)
    assert imports.done == ["one"]
    assert not imports.asked.acquire(timeout=0.2), "the second waits for the cell"
    shell.events.trigger("post_execute")
    imports.let.release()
    prepared.wait()
    assert imports.done == ["one", "two"]


@pytest.mark.parametrize(
    ("answers", "waits"), [({}, {"_CELL_ENDS_WITHIN": 0.0}), ({"parent_header": {}}, {"_ANSWERS_WITHIN": 0.0})]
)
def test_it_begins_by_itself_where_no_cell_loads_the_extension_and_after_the_first_answer_of_a_kernel_that_does(
    imports: Imports,
    shell: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[str, Any],
    waits: dict[str, float],
) -> None:
    vars(shell).update(answers)
    for name, seconds in ({"_CELL_ENDS_WITHIN": 600.0} | waits).items():
        monkeypatch.setattr(preparation, name, seconds)
    prepared = preparation.prepare(shell, {"KAGURA_HOME": str(tmp_path)})
    imports.let.release(2)
    prepared.wait()
    assert imports.done == ["one", "two"]


def test_a_first_cell_comes_before_that(
    imports: Imports, shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.parent_header = {}
    monkeypatch.setattr(preparation, "_ANSWERS_WITHIN", 30.0)
    prepared = preparation.prepare(shell, {"KAGURA_HOME": str(tmp_path)})
    shell.events.trigger("pre_execute")
    assert not imports.asked.acquire(timeout=0.2), "it waits for the cell"
    shell.events.trigger("post_execute")
    imports.let.release(2)
    prepared.wait()
    assert imports.done == ["one", "two"]


def test_rules_that_are_there_are_read_beside_the_cell_that_loads_the_extension(
    imports: Imports, shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Path] = []
    read = threading.Event()
    monkeypatch.setattr(preparation, "begin", lambda folder: (begun.append(folder), read.set()))
    (tmp_path / "redaction").mkdir()
    (tmp_path / "redaction" / "rules.vscdb").touch()
    preparation.prepare(shell, {"KAGURA_HOME": str(tmp_path)})
    assert read.wait(30)
    assert begun == [tmp_path / "redaction"]
    assert imports.done == []


def test_an_extension_that_is_taken_away_imports_nothing_more(imports: Imports, shell: Any, tmp_path: Path) -> None:
    prepared = preparation.prepare(shell, {"KAGURA_HOME": str(tmp_path)})
    preparation.leave_be(shell)
    prepared.wait()
    assert imports.done == []
    shell.events.trigger("pre_execute")


def test_a_setting_switches_it_off(imports: Imports, shell: Any, tmp_path: Path) -> None:
    preparation.prepare(shell, {"KAGURA_HOME": str(tmp_path), "KAGURA_PREPARE": "false"}).wait()
    assert imports.done == []


def test_wrong_settings_are_told_by_the_cell_and_not_here(imports: Imports, shell: Any, tmp_path: Path) -> None:
    preparation.prepare(shell, {"KAGURA_HOME": str(tmp_path), "KAGURA_PREPARE": "perhaps"}).wait()
    assert imports.done == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [({}, ["talk"]), ({"KAGURA_BRAIN": "claude"}, ["talk"]), ({"KAGURA_BRAIN": "pydantic_ai"}, [])],
)
def test_what_talks_to_claude_is_imported_where_claude_would_think(
    imports: Imports, shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: Any, expected: list[str]
) -> None:
    monkeypatch.setattr(preparation, "_CLAUDE", ("talk",))
    monkeypatch.setattr(preparation, "_CELL_ENDS_WITHIN", 0.0)
    imports.let.release(6)
    home = {"KAGURA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    preparation.prepare(shell, home).wait()
    assert imports.done == ["one", "two"], "nobody is signed in"
    preparation.prepare(shell, home | {"ANTHROPIC_API_KEY": "dummy", **more}).wait()
    assert imports.done[4:] == expected


def test_every_module_it_names_is_there() -> None:
    for name in (*preparation._MODULES, *preparation._CLAUDE):
        __import__(name)
