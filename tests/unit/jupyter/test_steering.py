import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pandas as pd
import pytest

from kagura_kernel import assembly
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.lines.help import command_help, overview
from kagura_kernel.cockpit.lines.parser import parse_line
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import (
    ApprovalAlreadyDecided,
    ApprovalUnknown,
    NotThisTime,
    RunUnknown,
    UnknownName,
    UsageError,
)
from kagura_kernel.domain.events import ChangesCollected
from kagura_kernel.domain.grammar import Surface
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.patterns import Checkpoint
from kagura_kernel.journal import checkpoints
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.jupyter.steering import run_line
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from tests.support.plugin_rig import FakeJails, write_plugin
from tests.support.sample_run import SampleRun
from tests.support.steering import steer

HEADLESS = SimpleNamespace(kernel=None, user_ns={})


@pytest.fixture
def say(cockpit: Cockpit) -> Callable[[str], object]:
    """Types a line in a notebook that nobody looks at."""
    return lambda line: steer(cockpit, HEADLESS, line)


@pytest.fixture
def told(cockpit: Cockpit, tmp_path: Path) -> SampleRun:
    """A run that is over, `run-1`, with a change, connections and costs; and one, `run-2`, that goes on and asks."""
    run, other = SampleRun(), SampleRun("run-2", "ses-2")
    change = FileChange(path="a.txt", status="deleted", old_sha256="0" * 64)
    collected = ChangesCollected(run_id="run-1", session_id="ses-1", at=run.at, changes=(change,))
    before = (run.started(project=str(tmp_path)), *run.reached(), run.refused(), run.counted(), collected)
    for event in (*before, run.finished(), other.started(project=str(Path.cwd()))):
        cockpit.journal.append(event)
    Mailbox(cockpit.journal).post(other.request("app-12", requested_at=SystemClock().now()))
    return other


@pytest.mark.parametrize("line", ["plugin unapprove fs-reed", "plugin logs fs-reed", "plugin config fs-reed"])
def test_a_plugin_that_there_is_not_is_a_slip(tmp_path, monkeypatch, line):
    write_plugin(tmp_path / "plugins", "fs-read")
    monkeypatch.chdir(tmp_path)
    cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), start_jail=FakeJails())
    try:
        with pytest.raises(UnknownName, match="Did you mean 'fs-read'"):
            steer(cockpit, HEADLESS, line)
    finally:
        cockpit.close()


@pytest.mark.parametrize("line", ["", "help", "--help"])
def test_help_needs_no_cockpit(line, capsys, monkeypatch):
    monkeypatch.setattr(assembly, "get_cockpit", lambda: pytest.fail("the cockpit was made"))
    assert run_line(HEADLESS, line) is None
    assert capsys.readouterr().out == overview(Surface.NOTEBOOK) + "\n"


def test_help_about_a_word_reads_as_it_is_typed(capsys):
    run_line(HEADLESS, "help kill", prefix="/")
    command = parse_line("kill x", Surface.NOTEBOOK).command
    assert capsys.readouterr().out == command_help(command, Surface.NOTEBOOK, prefix="/") + "\n"


def test_a_mistake_is_told_before_there_is_a_cockpit(monkeypatch):
    monkeypatch.setattr(assembly, "get_cockpit", lambda: pytest.fail("the cockpit was made"))
    with pytest.raises(UnknownName):
        run_line(HEADLESS, "kil last")
    with pytest.raises(NotThisTime):
        run_line(HEADLESS, "doctor")


def test_the_cockpit_of_the_process_carries_a_line_out(cockpit, monkeypatch):
    monkeypatch.setattr(assembly, "get_cockpit", lambda: cockpit)
    assert isinstance(run_line(HEADLESS, "runs"), pd.DataFrame)


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("line", "column", "values"),
    [
        ("runs", "run", ["run-2", "run-1"]),
        ("runs --limit 1", "run", ["run-2"]),
        ("runs n-1", "run", ["run-1"]),
        ("runs last run-1", "run", ["run-2", "run-1"]),
        ("cost", "run", ["run-2", "run-1"]),
        ("cost n-1", "run", ["run-1"]),
        ("cost --calibration", "run", []),
        ("approvals", "approval", ["app-12"]),
        ("approvals --pending --limit 5", "run", ["run-2"]),
        ("leases", "lease", []),
        ("egress log", "allowed", [False, True]),
        ("egress log --refused", "host", ["example.com"]),
        ("egress log --run run-2", "host", []),
        ("egress log --since 1h", "host", []),
        ("egress log --since 2020-01-01 --limit 1", "host", ["example.com"]),
        ("egress check --no-resolve --net pypi.org pypi.org example.org", "allowed", [True, False]),
        ("egress check --no-resolve --net pypi.org,none https://pypi.org/x", "allowed", [False]),
    ],
)
def test_what_yields_data_is_a_frame(say, line, column, values):
    frame = say(line)
    assert isinstance(frame, pd.DataFrame)
    assert frame[column].tolist() == values


@pytest.mark.usefixtures("told")
def test_a_notebook_is_told_what_can_still_be_done_with_runs_and_questions(say, cockpit):
    waits, live = SampleRun("run-3"), SampleRun("run-4")
    change = FileChange(path="a.txt", status="added")
    cockpit.journal.append(waits.started())
    cockpit.journal.append(ChangesCollected(run_id="run-3", session_id="ses-1", at=waits.at, changes=(change,)))
    cockpit.journal.append(waits.finished(changed_files=1))
    failed = SampleRun("run-5")
    cockpit.journal.append(failed.started())
    checkpoints.store(cockpit.journal, Checkpoint("run-5", "ses-1", 1, failed.at, "Do it."))
    cockpit.journal.append(failed.finished(status="failed"))
    cockpit.journal.append(live.started(owner=process_owner()))

    def commands(line):
        found = re.findall("<code>(.+?)</code>", say(line)._repr_html_())
        return [re.sub("<[^>]+>", "", command) for command in found if command.startswith("<span")]

    assert sorted(commands("runs run-3 run-4 run-5")) == [
        "%%kagura --resume run-5",
        "%kagura apply run-3",
        "%kagura kill run-4",
    ]
    assert commands("approvals") == ["%kagura approve app-12", "%kagura deny app-12"]


@pytest.mark.usefixtures("told")
def test_a_frame_of_connections_has_types_to_work_with(say):
    frame = say("egress log")
    kinds = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert (kinds["at"], kinds["bytes_in"], kinds["seconds"]) == ("datetime64[us, UTC]", "Int64", "Float64")
    assert frame["bytes_in"].tolist() == [0, 48_213]
    assert frame["seconds"].isna().tolist() == [True, False]


def test_status_is_text_to_read(say):
    assert "Nothing runs, nothing waits." in repr(say("status"))


@pytest.mark.usefixtures("told")
def test_an_approval_is_answered_by_the_end_of_its_id(say, cockpit, capsys):
    say("approve p-12 this session")
    assert capsys.readouterr().out == "app-12: allowed.\n"
    decision = Mailbox(cockpit.journal).decision("app-12")
    assert (decision.allowed, decision.via, decision.answer) == (True, "command", "this session")
    with pytest.raises(ApprovalAlreadyDecided):
        say("deny app-12")


def test_names_that_fit_nothing_are_errors(say):
    with pytest.raises(ApprovalUnknown):
        say("approve app-9")
    with pytest.raises(RunUnknown):
        say("runs nobody")
    with pytest.raises(UsageError, match="nothing to stop"):
        say("kill last")


@pytest.mark.usefixtures("told")
def test_runs_are_stopped_and_none_is_when_one_name_is_wrong(say, cockpit, capsys):
    with pytest.raises(RunUnknown):
        say("kill run-2 nobody")
    assert Mailbox(cockpit.journal).take(["run-2"], ("kill",)) == []
    say("kill last n-2")
    assert capsys.readouterr().out == f"run-2 in {Path.cwd()} is being stopped.\n"
    assert [message.run_id for message in Mailbox(cockpit.journal).take(["run-2"], ("kill",))] == ["run-2"]


def in_notebook(kernel_id: str) -> SimpleNamespace:
    app = SimpleNamespace(connection_file=f"/run/kernel-{kernel_id}.json")
    return SimpleNamespace(
        kernel=SimpleNamespace(get_parent=lambda _channel: {"content": {"allow_stdin": True}}, parent=app), user_ns={}
    )


def proposes_to_delete(cockpit: Cockpit, run: SampleRun, file: Path, **place: str) -> None:
    """A run that is over, and would delete this file."""
    old = hashlib.sha256(file.read_bytes()).hexdigest()
    change = FileChange(path=file.name, status="deleted", old_sha256=old)
    collected = ChangesCollected(run_id=run.run_id, session_id=run.session_id, at=run.at, changes=(change,))
    for event in (run.started(project=str(file.parent), **place), collected, run.finished()):
        cockpit.journal.append(event)


def test_last_is_the_run_of_the_notebook_in_which_it_is_said(cockpit, capsys, tmp_path, monkeypatch):
    mine, theirs = tmp_path / "mine" / "a.txt", tmp_path / "theirs" / "b.txt"
    for file in (mine, theirs):
        file.parent.mkdir()
        file.write_text("kept\n")
    proposes_to_delete(cockpit, SampleRun("run-mine"), mine, notebook="mine.ipynb", kernel_id="k-1")
    handed = SampleRun("run-handed", "ses-1").started(
        project=str(mine.parent), notebook="mine.ipynb", kernel_id="k-1", lineage=("run-mine",)
    )
    cockpit.journal.append(handed)
    proposes_to_delete(cockpit, SampleRun("run-theirs"), theirs, notebook="theirs.ipynb", kernel_id="k-2")
    monkeypatch.setenv("JPY_SESSION_NAME", "mine.ipynb")
    steer(cockpit, in_notebook("k-9"), "apply last")
    assert capsys.readouterr().out == f"run-mine in {mine.parent}:\napplied: a.txt\n"
    assert (mine.exists(), theirs.exists()) == (False, True)
    monkeypatch.setenv("JPY_SESSION_NAME", "renamed.ipynb")
    steer(cockpit, in_notebook("k-2"), "discard last")
    assert capsys.readouterr().out == f"run-theirs in {theirs.parent}:\ndiscarded: b.txt\n"
    monkeypatch.setenv("JPY_SESSION_NAME", "new.ipynb")
    with pytest.raises(RunUnknown, match=r"this notebook, which has none yet.* the newest elsewhere is run-theirs "):
        steer(cockpit, in_notebook("k-3"), "apply last")


def test_last_is_a_run_of_its_own_in_a_kernel_that_nobody_told_of_its_notebook(cockpit, capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.chdir(tmp_path)
    shell = in_notebook("")
    shell.kernel.parent.connection_file = "/tmp/tmp1x2y.json"
    files = {name: tmp_path / f"{name}.txt" for name in ("theirs", "mine", "later")}
    for file in files.values():
        file.write_text("kept\n")
    proposes_to_delete(cockpit, SampleRun("run-theirs"), files["theirs"], owner="host:1:1")
    steer(cockpit, shell, "discard last")
    assert "run-theirs" in capsys.readouterr().out
    proposes_to_delete(cockpit, SampleRun("run-mine"), files["mine"], owner=process_owner())
    proposes_to_delete(cockpit, SampleRun("run-later"), files["later"], owner="host:1:1")
    steer(cockpit, shell, "apply last")
    assert capsys.readouterr().out == f"run-mine in {tmp_path}:\napplied: mine.txt\n"
    with pytest.raises(UsageError, match="nothing to stop"):
        steer(cockpit, shell, "kill last")


def test_the_last_question_is_one_of_this_notebook_and_so_is_the_last_run_that_goes_on(cockpit, capsys, monkeypatch):
    mine, theirs = SampleRun("run-mine", at=SystemClock().now()), SampleRun("run-theirs", at=SystemClock().now())
    for number, run in enumerate((mine, theirs), 1):
        cockpit.journal.append(run.started(notebook=f"{run.run_id}.ipynb", project="/project"))
        Mailbox(cockpit.journal).post(run.request(f"app-{number}"))
    monkeypatch.setenv("JPY_SESSION_NAME", "run-mine.ipynb")
    steer(cockpit, in_notebook("k-1"), "deny last")
    steer(cockpit, in_notebook("k-1"), "kill last")
    assert capsys.readouterr().out == "app-1: denied.\nrun-mine in /project is being stopped.\n"
    with pytest.raises(UsageError, match="No approval waits in this notebook; elsewhere app-2 does"):
        steer(cockpit, in_notebook("k-1"), "approve last")
    Mailbox(cockpit.journal).post(theirs.request("app-3"))
    with pytest.raises(UsageError, match=r"elsewhere app-\d, app-\d do\. "):
        steer(cockpit, in_notebook("k-1"), "approve last")
    monkeypatch.setenv("JPY_SESSION_NAME", "new.ipynb")
    with pytest.raises(UsageError, match="in this notebook; the newest elsewhere is run-theirs in /project"):
        steer(cockpit, in_notebook("k-3"), "kill last")


def test_where_nobody_tells_the_notebook_last_is_its_kernels_run_and_never_the_folders(cockpit, capsys, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    kernel = in_notebook("k-1")
    with pytest.raises(RunUnknown, match="this notebook, which has none yet: run a task here first"):
        steer(cockpit, kernel, "changes last")
    for number in (1, 2):
        run = SampleRun(f"run-{number}")
        cockpit.journal.append(run.started(project=str(Path.cwd()), kernel_id=f"k-{number}"))
    steer(cockpit, kernel, "changes last")
    assert capsys.readouterr().out.split()[0] == "run-1"
    for line in ("apply last", "discard last", "changes last"):
        with pytest.raises(RunUnknown, match=r"this notebook, which has none yet.* the newest elsewhere is run-2 in "):
            steer(cockpit, in_notebook("k-3"), line)
    assert list(steer(cockpit, SimpleNamespace(user_ns={}), "runs last")["run"]) == ["run-2"]


@pytest.mark.usefixtures("told")
def test_changes_are_shown_and_given_up(say, cockpit, capsys):
    say("changes run-2")
    assert capsys.readouterr().out == "The run goes on: what it changes is known when it is over.\n"
    say("discard n-1 a.txt")
    assert capsys.readouterr().out == "discarded: a.txt\n"
    assert [change.state for change in cockpit.changes("run-1")] == ["discarded"]
    with pytest.raises(UnknownName):
        say("apply run-1 a.txt")


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("line", "module", "function", "given"),
    [
        ("attach n-1", "background", "attach", ("COCKPIT", HEADLESS, "run-1")),
        ("watch", "boards", "watch", ("COCKPIT", HEADLESS)),
        ("chart cost", "charts", "chart", ("COCKPIT", "cost", None)),
        ("chart timeline last", "charts", "chart", ("COCKPIT", "timeline", "run-2")),
        ("chart egress", "charts", "chart", ("COCKPIT", "egress", None)),
        ("chart egress run-1", "charts", "chart", ("COCKPIT", "egress", "run-1")),
    ],
)
def test_displays_are_handed_what_they_show(say, cockpit, monkeypatch, line, module, function, given):
    name = f"kagura_kernel.jupyter.{module}"
    stand_in = ModuleType(name)
    setattr(stand_in, function, lambda *arguments: arguments)
    monkeypatch.setitem(__import__("sys").modules, name, stand_in)
    assert say(line) == tuple(cockpit if one == "COCKPIT" else one for one in given)


def test_a_notebook_is_exported(say, tmp_path, capsys):
    import nbformat

    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("Count the rows.")],
        metadata={"kernelspec": {"name": "kagura", "display_name": "Kagura"}},
    )
    nbformat.write(notebook, tmp_path / "a.ipynb")
    say(f"export {tmp_path}/a.ipynb -o {tmp_path}/plain.ipynb")
    assert capsys.readouterr().out == f"{tmp_path}/plain.ipynb was written.\n"
    assert "%%kagura\nCount the rows." in [cell.source for cell in nbformat.read(tmp_path / "plain.ipynb", 4).cells]
    with pytest.raises(UsageError):
        say(f"export {tmp_path}/a.ipynb -o {tmp_path}/plain.ipynb")
    say(f"export {tmp_path}/a.ipynb -o {tmp_path}/plain.ipynb --force")


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("command", ["runs", "sessions", "cost"])
def test_a_list_that_is_cut_says_how_many_more_there_are_and_how_to_see_them(say, capsys, command):
    assert len(say(f"{command} --limit 1")) == 1
    assert capsys.readouterr().out == "1 more is not shown; `--limit 2` shows them too.\n"
    say(command)
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("told")
def test_a_log_that_is_as_long_as_it_may_be_says_so(say, capsys):
    say("egress log --limit 1")
    assert capsys.readouterr().out == "No more than the newest 1 are shown; `--limit` takes a larger number.\n"
