import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from kagura_kernel.cockpit import run_names
from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.domain.events import ChangesCollected
from kagura_kernel.domain.grammar import Kind
from kagura_kernel.domain.memory import Author, Draft, Source, Tier
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter.completion.names import MOST_FILES, ShellNames, files, variables
from kagura_kernel.memory.location import FILE
from kagura_kernel.memory.sqlite.store import SqliteMemory
from tests.support.sample_run import SampleRun

PATIENT = 60.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal.open(tmp_path / "books")
    yield journal
    journal.close()


@pytest.fixture
def names(journal: Journal) -> ShellNames:
    @contextmanager
    def opened() -> Iterator[Journal]:
        yield journal

    return ShellNames(SimpleNamespace(user_ns={}), opened, blink=PATIENT)


def told(names: ShellNames, kind: Kind, *given: str) -> dict[str, str]:
    return {name.text: name.summary for name in names.names(kind, "", given)}


def test_words_of_a_box_put_nothing_into_a_cell_or_a_terminal_by_completion(journal, names):
    run = SampleRun("run-1")
    for event in (run.started(task="look \x1b]0;title\x07"), run.asked("app-1", title="may \x1b[2J it\u202e?")):
        journal.append(event)
    assert told(names, Kind.APPROVAL, "approve") == {"app-1": "may ⟨U+001B⟩[2J it⟨U+202E⟩? (run-1)"}
    assert "\x1b" not in told(names, Kind.RUN, "attach")["run-1"]
    change = FileChange(path="a\n/approve app-1", status="added")
    journal.append(ChangesCollected(run_id="run-1", session_id="ses-1", at=run.at, changes=(change,)))
    assert told(names, Kind.CHANGED_PATH, "apply", "run-1") == {}


def test_runs_are_told_with_their_status_and_task_and_only_those_that_go_on_can_be_killed(journal, names):
    old, new = SampleRun("run-old", "ses-1"), SampleRun("run-new", "ses-2")
    for event in (old.started(), old.finished(), new.started(task="wait\nfor it", project=str(Path.cwd()))):
        journal.append(event)
    assert told(names, Kind.RUN, "attach") == {
        "last": "running, wait for it",
        "run-new": "running, wait for it",
        "run-old": "done, count the rows",
    }
    assert list(told(names, Kind.RUN, "kill")) == ["last", "run-new"]
    assert told(names, Kind.SESSION, "--session") == {
        "ses-2": "running, wait for it",
        "ses-1": "done, count the rows",
    }


def test_runs_whose_changes_wait_are_those_to_apply_and_discard(journal, names):
    for run_id, state in (("run-waits", "proposed"), ("run-over", "applied"), ("run-none", "")):
        run = SampleRun(run_id)
        journal.append(run.started(task=f"the task of {run_id}", project=str(Path.cwd())))
        changes = (FileChange("a.txt", "added", state=state),) if state else ()
        if changes:
            journal.append(ChangesCollected(run_id=run_id, session_id="ses-1", at=run.at, changes=changes))
        journal.append(run.finished(changed_files=len(changes)))
    for command in ("apply", "discard"):
        offered = told(names, Kind.RUN, command)
        assert list(offered) == ["last", "run-waits"]
        assert offered["run-waits"].endswith("the task of run-waits")


def test_a_cell_is_offered_the_runs_that_can_be_gone_on_with(journal, names, monkeypatch):
    # The live run is another kernel's: with one of its own, `last` would be about those alone.
    monkeypatch.setattr(run_names, "process_owner", lambda: "another")
    facts = (
        ("run-good", {}, {}),
        ("run-failed", {}, {"status": "failed"}),
        ("run-refuted", {}, {"verified": False}),
        ("run-child", {"lineage": ("run-failed",)}, {"status": "failed"}),
        ("run-cell", {"brain": "", "flavour": "sandbox"}, {"status": "failed", "brain": ""}),
        ("run-replay", {"brain": "replay"}, {"status": "failed", "brain": "replay"}),
    )
    for run_id, started, finished in facts:
        run = SampleRun(run_id)
        journal.append(run.started(**started))
        journal.append(run.finished(**finished))
    journal.append(SampleRun("run-live").started(owner=process_owner()))
    host, _, since = process_owner().split(":")
    journal.append(SampleRun("run-crashed").started(owner=f"{host}:999999999:{since}", project=str(Path.cwd())))
    assert list(told(names, Kind.RUN)) == ["last", "run-crashed", "run-refuted", "run-failed"]


def test_models_are_those_that_have_answered(journal, names):
    run = SampleRun()
    for event in (run.started(), run.counted(), run.finished()):
        journal.append(event)
    assert told(names, Kind.MODEL, "--model") == {"m-1": ""}


def test_approvals_that_wait_are_offered_alone_and_a_question_offers_its_answers(journal, names):
    run = SampleRun()
    for event in (run.started(), run.asked("app-1"), run.decided("app-1")):
        journal.append(event)
    Mailbox(journal).post(run.request("app-2", options=("this run", "never")))
    assert told(names, Kind.APPROVAL, "approve") == {"app-2": "Run a command on this machine (run-1)"}
    assert list(told(names, Kind.TEXT, "approve", "app-2")) == ["this run", "never"]
    assert told(names, Kind.TEXT, "approve", "app-2", "this") == {}


def test_files_of_a_run_are_those_that_wait(journal, names):
    run = SampleRun()
    changes = (FileChange(path="a.txt", status="modified"), FileChange(path="b.txt", status="added", state="protected"))
    journal.append(run.started(project=str(Path.cwd())))
    journal.append(ChangesCollected(run_id="run-1", session_id="ses-1", at=run.at, changes=changes))
    assert told(names, Kind.CHANGED_PATH, "apply", "last") == {"a.txt": "modified, proposed"}
    assert told(names, Kind.CHANGED_PATH, "apply") == {}
    assert told(names, Kind.CHANGED_PATH, "apply", "nobody") == {}


def test_what_is_configured_is_told(names, tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text('[mirrors]\nours = ["a.example.com"]\n')
    monkeypatch.setenv("KAGURA_CONFIG", str(tmp_path / "config.toml"))
    assert told(names, Kind.HOST, "--net")["ours"] == "a.example.com"
    assert {"ask", "none", "python-packages"} <= set(told(names, Kind.HOST, "--net"))
    assert {"auto", "bubblewrap", "docker", "gvisor"} <= set(told(names, Kind.BOX, "--box"))
    assert {"auto", "claude", "replay"} <= set(told(names, Kind.BRAIN, "--brain"))
    assert "kagura/python:latest" in told(names, Kind.IMAGE, "--image")
    assert "kagura/server:latest" not in told(names, Kind.IMAGE, "--image")
    assert "python" in told(names, Kind.RECIPE, "build")
    assert told(names, Kind.GRANT, "--grant") == {}


def test_a_journal_that_is_not_there_and_wrong_settings_are_no_names_and_no_stack_trace(monkeypatch, tmp_path):
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path / "nothing"))
    names = ShellNames(SimpleNamespace(user_ns={}), blink=PATIENT)
    assert names.names(Kind.RUN, "", ("attach",)) == ()
    (tmp_path / "config.toml").write_text("nonsense = 1\n")
    monkeypatch.setenv("KAGURA_CONFIG", str(tmp_path / "config.toml"))
    assert names.names(Kind.HOST, "", ("--net",)) == ()
    assert not (tmp_path / "nothing").exists()


def test_a_journal_that_cannot_be_used_is_no_names():
    def refuse():
        raise ConfigurationError("x", ["it is wrong"])

    assert ShellNames(None, refuse, blink=PATIENT).names(Kind.RUN, "", ("attach",)) == ()


def test_what_takes_longer_than_a_blink_is_given_up_for_this_time():
    let_go = threading.Event()

    @contextmanager
    def slow():
        let_go.wait(PATIENT)
        yield None

    try:
        assert ShellNames(None, slow, blink=0.0).names(Kind.RUN, "", ("attach",)) == ()
    finally:
        let_go.set()


def test_kinds_without_names_have_none(names):
    for kind in (Kind.COUNT, Kind.SECONDS, Kind.USD, Kind.URL, Kind.TIME, Kind.TARGET):
        assert names.names(kind, "", ("x",)) == ()


def test_variables_are_a_person_s_own_data():
    space = {
        "df": pd.DataFrame({"a": [1, 2], "b": [3, 4]}),
        "grid": np.zeros((2, 3)),
        "words": ["a", "b"],
        "n": 3,
        "nothing": None,
        "_1": 1,
        "exit": object(),
        "pd": pd,
        "told": told,
        "Names": ShellNames,
    }
    found = {name.text: name.summary for name in variables(space, {"exit": None})}
    assert found == {
        "df": "DataFrame, 2 × 2",
        "grid": "ndarray, 2 × 3",
        "n": "int, 3",
        "nothing": "None",
        "words": "list, 2 long",
    }
    assert ShellNames(SimpleNamespace(user_ns={"n": 1})).names(Kind.EXPRESSION, "", ())[0].text == "n"


def test_no_code_of_a_value_is_run_to_tell_what_it_is():
    class Trap:
        def __repr__(self) -> str:
            raise AssertionError

        def __len__(self) -> int:
            raise AssertionError

        @property
        def shape(self) -> tuple[int]:
            raise AssertionError

    class DataFrame(Trap):
        pass

    assert [tuple(name) for name in variables({"a": Trap(), "b": DataFrame()})] == [("a", "Trap"), ("b", "DataFrame")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "src" / "deep").mkdir(parents=True)
    for name in ("README.md", "a.ipynb", ".secret", "src/main.py", "src/.hidden", "my file.txt", "odd\nname"):
        (project / name).write_text("")
    (tmp_path / "outside.txt").write_text("")
    (project / "away").symlink_to(tmp_path)
    return project


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("", ["away/", "src/", "README.md", "a.ipynb", "my file.txt"]),
        ("R", ["README.md"]),
        (".", [".secret"]),
        ("src/", ["src/deep/", "src/main.py"]),
        ("src/.", ["src/.hidden"]),
        ("./s", ["./src/"]),
        ("away/", []),
        ("../", []),
        ("/", []),
        ("~/", []),
    ],
)
def test_files_are_those_of_the_project_and_hidden_ones_only_when_asked_for(project, prefix, found):
    assert [name.text for name in files(project, prefix, Kind.FILE, outside=False)] == found


def test_an_option_takes_files_from_anywhere(project, tmp_path, private_home):
    (private_home / "mine.jsonl").write_text("")
    assert "../outside.txt" in [name.text for name in files(project, "../", Kind.FILE, outside=True)]
    assert f"{tmp_path}/outside.txt" in [name.text for name in files(project, f"{tmp_path}/o", Kind.FILE, outside=True)]
    assert [name.text for name in files(project, "~/mi", Kind.FILE, outside=True)] == ["~/mine.jsonl"]


@pytest.mark.parametrize(
    ("kind", "found"), [(Kind.DIRECTORY, ["away/", "src/"]), (Kind.NOTEBOOK, ["away/", "src/", "a.ipynb"])]
)
def test_folders_and_notebooks_are_told_apart(project, kind, found):
    assert [name.text for name in files(project, "", kind, outside=False)] == found


def test_no_more_files_are_told_than_somebody_could_read(tmp_path):
    for number in range(MOST_FILES + 10):
        (tmp_path / f"f{number}").touch()
    assert len(files(tmp_path, "f", Kind.FILE, outside=False)) == MOST_FILES


def test_the_files_of_a_prompt_are_looked_up_from_the_working_directory(project, monkeypatch):
    monkeypatch.chdir(project)
    names = ShellNames(SimpleNamespace(user_ns={}), blink=PATIENT)
    assert [name.text for name in names.names(Kind.FILE, "READ", ())] == ["README.md"]
    assert names.names(Kind.FILE, "nowhere/x", ()) == ()
    assert names.names(Kind.FILE, "../out", ()) == []
    assert [name.text for name in names.names(Kind.FILE, "../out", ("--replay",))] == ["../outside.txt"]


@pytest.fixture
def told_of_memories(tmp_path, monkeypatch):
    """The names that a line is offered, with what is said of them."""
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KAGURA_CONFIG", str(tmp_path / "none.toml"))
    names = ShellNames(SimpleNamespace(user_ns={}))
    names._blink = 60.0
    return lambda *given: {name.text: name.summary for name in names.names(Kind.MEMORY, "", given)}


def test_a_command_is_offered_the_memories_that_fit_it(told_of_memories, tmp_path):
    store = SqliteMemory(tmp_path / "home" / FILE)
    store.remember(Draft("Deploys \x1b[2J on Fridays.", Source(Author.AGENT), id="mem-a"))
    store.remember(Draft("Sales are in EUR.", Source(Author.HUMAN), Tier.TRUSTED, id="mem-b"))
    store.close()
    assert set(told_of_memories("memory", "show")) == {"mem-a", "mem-b"}
    assert told_of_memories("memory", "promote") == {"mem-a": "note, in quarantine: Deploys ⟨U+001B⟩[2J on Fridays."}
    assert list(told_of_memories("memory", "demote")) == ["mem-b"]


@pytest.mark.parametrize("memory", ["", "postgresql://nobody@192.0.2.1/memory"], ids=["no file", "a server"])
def test_nothing_is_offered_and_nothing_made_where_there_is_no_file(told_of_memories, tmp_path, monkeypatch, memory):
    monkeypatch.setenv("KAGURA_MEMORY", memory)
    assert told_of_memories("memory", "show") == {}
    assert not (tmp_path / "home").exists()
