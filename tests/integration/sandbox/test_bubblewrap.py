"""The bubblewrap back-end on a real machine: what it shows, whose files they are, and what it does when it cannot."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.assembly.boxes import Boxes
from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import (
    SandboxUnavailable,
    SandboxUnsupported,
    UnknownName,
    WorkspaceTooLarge,
    WorkspaceUnreadable,
)
from kagura_kernel.domain.policy import BoxLimits, SandboxPolicy, SandboxPolicyType
from kagura_kernel.domain.settings import Settings
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.sandbox.python_view import current_view, find_view
from kagura_kernel.testing.conformance.load import LoadConformance, processes_with
from kagura_kernel.testing.conformance.walls import WallsConformance
from kagura_kernel.testing.patience import eventually
from tests.support.kernel import kernel_environ
from tests.support.lending import LendsBoxes

MIB = 2**20
SOURCE = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")
    (root / "out").mkdir()
    (root / "notes.md").write_text("notes\n")
    (root / "private.txt").write_text("only the owner's\n")
    (root / "private.txt").chmod(0o600)
    return root


def give(root: Path, uid: int) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, uid, uid)


@pytest.fixture
def make_program() -> Iterator[Callable[[str], str]]:
    """Shell scripts that any identity may run; pytest's own directory may only be entered by its owner."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)

    def make(script: str) -> str:
        program = folder / "bwrap"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return str(program)

    yield make
    shutil.rmtree(folder)


async def output(backend: BubblewrapBackend, spec: BoxSpec, line: str) -> tuple[int, str]:
    box = await backend.start(spec)
    result = await box.run(shell_command(line))
    return result.exit_code, result.stdout.text


# ------------------------------------------------------------------------ view


async def test_the_kernels_python_and_its_packages_are_there(backend, project):
    code = "import sys, numpy, pandas; print(sys.prefix, sys.base_prefix, sys.version)"
    for name in ("python", "python3"):
        box = await backend.start(BoxSpec(workspace=project))
        result = await box.run(Command((name, "-c", code)))
        await box.close()
        assert result.stdout.text == f"{sys.prefix} {sys.base_prefix} {sys.version}\n", result.stderr.text


async def test_what_an_editable_install_points_to_is_not_there(backend, project):
    code, _ = await output(backend, BoxSpec(workspace=project), "python -c 'import kagura_kernel.assembly'")
    assert code != 0 or str(SOURCE) in current_view().directories


async def test_an_environments_configuration_is_not_there(tmp_path):
    env = tmp_path / "env"
    venv.create(env, symlinks=True)
    for name, text in (
        ("etc/jupyter/server.json", "token"),
        ("pip.conf", "password"),
        ("etc/fonts/fonts.conf", "fonts"),
    ):
        (env / name).parent.mkdir(parents=True, exist_ok=True)
        (env / name).write_text(text)
    prefixes = (str(env), sys.base_prefix)
    backend = BubblewrapBackend(view=find_view(python=str(env / "bin" / "python"), prefixes=prefixes))
    try:
        look = f"cd {env}; ls etc/jupyter; cat pip.conf etc/fonts/*; ! touch etc/jupyter/x"
        line = f"python -c 'import sys; print(sys.prefix)'; {look}"
        assert await output(backend, BoxSpec(), line) == (0, f"{env}\nfonts")
    finally:
        await backend.close()


async def test_the_owners_private_files_can_be_read_and_edited(backend, project):
    line = "cat private.txt && echo more >> private.txt && stat -c '%U %a' private.txt && tail -1 private.txt"
    assert await output(backend, BoxSpec(workspace=project), line) == (0, "only the owner's\nagent 600\nmore\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_project_of_somebody_else_is_the_boxs_own(backend, project):
    give(project, 12345)
    code, text = await output(backend, BoxSpec(workspace=project), "cat private.txt; touch new; stat -c %U new .")
    assert (code, text) == (0, "only the owner's\nagent\nagent\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_files_of_others_in_the_project_stay_theirs(backend, project):
    give(project / "private.txt", 12345)
    code, _ = await output(backend, BoxSpec(workspace=project), "cat private.txt")
    assert code != 0


async def test_protected_parts_cannot_be_changed(backend, project):
    line = "cat .git/config && ! touch .git/hook && ! rm .git/config && ! mv .git gone && echo held"
    code, text = await output(backend, BoxSpec(workspace=project), line)
    assert (code, text) == (0, "[core]\nheld\n")


async def test_a_protected_part_that_is_a_link_leads_nowhere(backend, project, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret\n")
    shutil.rmtree(project / ".git")
    (project / ".git").symlink_to(tmp_path / "outside")
    code, text = await output(backend, BoxSpec(workspace=project), "cat .git/secret")
    assert code != 0
    assert "secret\n" not in text


async def test_nothing_in_proc_can_be_written(backend, project):
    line = "! echo 0 > /proc/$$/oom_score_adj && ! echo x > /proc/$$/comm && echo out > /dev/stdout"
    assert await output(backend, BoxSpec(workspace=project), line) == (0, "out\n")


async def test_links_out_of_the_project_lead_nowhere(backend, project, tmp_path):
    (tmp_path / "outside").write_text("secret\n")
    (project / "link").symlink_to(tmp_path / "outside")
    (project / "up").symlink_to("../outside")
    code, text = await output(backend, BoxSpec(workspace=project), "cat link up")
    assert code != 0
    assert text == ""


async def test_only_the_roots_that_a_policy_names_can_be_written(backend, project):
    spec = BoxSpec(workspace=project, policy=SandboxPolicy(writable_roots=("/workspace/out",)))
    assert await output(backend, spec, "touch out/new && ! touch new && ls out") == (0, "new\n")


async def test_a_parked_box_is_fresh_when_it_is_taken(backend, project):
    spec = BoxSpec(workspace=project)
    parked = await backend.park(spec)
    (project / "notes.md").write_text("changed meanwhile\n")
    (project / "late.txt").write_text("late\n")
    box = await parked.take(spec)
    assert box.warm
    assert (await box.run(shell_command("cat notes.md late.txt"))).stdout.text == "changed meanwhile\nlate\n"
    assert await box.changes() == []


async def test_a_parked_box_of_a_project_that_was_replaced_is_refused(backend, project):
    spec = BoxSpec(workspace=project)
    parked = await backend.park(spec)
    shutil.rmtree(project / ".git")
    (project / ".git").mkdir()
    assert not parked.alive
    with pytest.raises(SandboxUnavailable):
        await parked.take(spec)


# ---------------------------------------------------------------------- limits


async def test_file_space_that_does_not_fit_into_memory_is_cut_and_told(backend, project):
    limits = BoxLimits(memory_bytes=128 * MIB, workspace_bytes=1024 * MIB, scratch_bytes=1024 * MIB)
    box = await backend.start(BoxSpec(workspace=project, limits=limits))
    assert any("64 MiB of changes and 32 MiB of scratch" in note for note in box.notes)
    result = await box.run(shell_command("dd if=/dev/zero of=big bs=1M count=100"))
    assert not result.ok
    assert (await box.run(shell_command("rm big; echo well"))).stdout.text == "well\n"


# -------------------------------------------------------------------- failures


async def test_a_probe_starts_a_box_and_is_remembered(backend):
    first = await backend.probe()
    assert first.ok, first.reason
    assert await backend.probe() is first


async def test_a_missing_program_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("kagura_kernel.sandbox.bubblewrap.backend._SYSTEM_PROGRAMS", ())
    backend = BubblewrapBackend()
    try:
        probe = await backend.probe()
        assert not probe.ok
        assert "not installed" in probe.reason
        assert "apt install bubblewrap" in probe.install
        with pytest.raises(SandboxUnavailable, match="apt install bubblewrap"):
            await backend.start(BoxSpec())
    finally:
        await backend.close()


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ("exit 3", "exit code 3"),
    ],
)
async def test_a_bubblewrap_that_fails_is_quoted(make_program, script, word):
    backend = BubblewrapBackend(program=make_program(script))
    try:
        probe = await backend.probe()
        assert not probe.ok
        assert word in probe.reason
    finally:
        await backend.close()


async def test_giving_up_on_a_bubblewrap_that_hangs_ends_it(make_program):
    backend = BubblewrapBackend(program=make_program("sleep 86399"))
    try:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(backend.start(BoxSpec()), 1)
        await eventually(lambda: processes_with("sleep\x0086399") == [])
    finally:
        await backend.close()


async def test_a_back_end_that_was_closed_starts_nothing(project):
    backend = BubblewrapBackend()
    await backend.close()
    with pytest.raises(SandboxUnavailable, match="bubblewrap back-end was closed"):
        await backend.start(BoxSpec(project))


async def test_a_project_that_is_missing_or_no_directory_is_refused(backend, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceUnreadable, match="does not exist"):
        await backend.start(BoxSpec(workspace=tmp_path / "missing"))
    with pytest.raises(WorkspaceUnreadable, match="not a directory"):
        await backend.start(BoxSpec(workspace=tmp_path / "file"))


async def test_without_a_copy_on_write_view_the_project_is_copied(backend, project):
    backend._copies[project] = "it was told so"
    spec = BoxSpec(workspace=project)
    box = await backend.start(spec)
    assert any("copied into the box: it was told so" in note for note in box.notes)
    assert any(".git: a read-only copy" in note for note in box.notes)
    assert not (await box.run(shell_command("touch .git/new || echo x >> .git/config"))).ok
    result = await box.run(shell_command("cat notes.md; echo more >> notes.md; touch new"))
    assert result.stdout.text == "notes\n"
    assert {(change.status, change.path) for change in await box.changes()} == {
        ("modified", "notes.md"),
        ("added", "new"),
    }
    await box.close()
    assert (project / "notes.md").read_text() == "notes\n"
    assert backend.parking_spec(spec) is None


async def test_a_copy_is_not_more_writable_than_its_policy_says(backend, project):
    backend._copies[project] = "it was told so"
    with pytest.raises(SandboxUnsupported, match="parts alone"):
        await backend.start(BoxSpec(workspace=project, policy=SandboxPolicy(writable_roots=("/workspace/out",))))


async def test_a_project_too_large_to_be_copied_is_refused(backend, project):
    backend._copies[project] = "it was told so"
    (project / "large").write_bytes(os.urandom(3 * MIB))
    limits = BoxLimits(workspace_bytes=4 * MIB)
    with pytest.raises(WorkspaceTooLarge):
        await backend.start(BoxSpec(workspace=project, limits=limits))


async def test_a_read_only_box_needs_no_copy(backend, project):
    backend._copies[project] = "it was told so"
    policy = SandboxPolicy(type=SandboxPolicyType.READ_ONLY)
    assert await output(backend, BoxSpec(workspace=project, policy=policy), "cat notes.md; ! touch new") == (
        0,
        "notes\n",
    )


async def test_the_first_box_that_is_wanted_is_the_trial_of_the_back_end(backend, project):
    probe, box = await backend.try_out(BoxSpec(workspace=project))
    assert box is not None
    assert (await box.run(shell_command("cat notes.md"))).stdout.head == b"notes\n"
    assert (probe, None) == (await backend.probe(), None) == await backend.try_out(BoxSpec(workspace=project))
    assert probe.reason == "a bubblewrap box started and ran a command"


async def test_a_trial_does_not_blame_the_machine_for_what_was_asked(backend, tmp_path):
    probe, box = await backend.try_out(BoxSpec(workspace=tmp_path / "nowhere"))
    assert (probe.ok, box) == (True, None)


async def test_a_trial_says_why_no_box_starts_here(make_program):
    backend = BubblewrapBackend(program=make_program("echo no user namespaces here >&2; exit 1"))
    probe, box = await backend.try_out(BoxSpec())
    assert (probe.ok, box) == (False, None)
    assert "no user namespaces here" in probe.reason
    await backend.close()


class TestBubblewrapWalls(LendsBoxes, WallsConformance):
    make_backend = BubblewrapBackend


class TestBubblewrapUnderLoad(LoadConformance):
    pass


# Numbers are handed out in order: after these, none of the first hundred belongs to anybody but process 1.
PROGRAM = """
import asyncio, os
for _ in range(100):
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
assert not os.path.exists("/proc/2")
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend

async def main():
    backend = BubblewrapBackend()
    try:
        print((await backend.probe()).reason)
    finally:
        await backend.close()

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a space of processes without one of users")
def test_a_box_starts_where_low_numbers_belong_to_nobody():
    unshare = shutil.which("unshare")
    assert unshare is not None
    command = [unshare, "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "a bubblewrap box started and ran a command\n", done.stderr


def boxes_of(folder: Path, *, one_run: bool) -> Boxes:
    return Boxes(kernel_environ(folder / "home"), Settings(), "me", one_run=one_run)


@pytest.mark.parametrize(("one_run", "waiting", "others"), [(True, 0, set()), (False, 1, {"docker"})])
async def test_a_process_for_one_run_makes_what_that_needs(tmp_path, one_run, waiting, others):
    boxes = boxes_of(tmp_path, one_run=one_run)
    started = await boxes.start("bubblewrap", BoxSpec(workspace=tmp_path))
    assert started.reason == "asked for; a bubblewrap box started and ran a command"
    made = boxes._backends.made
    assert set(made) == {"bubblewrap"} | others
    pool = made["bubblewrap"]
    assert isinstance(pool, WarmPool)
    await pool.settled()
    assert pool.waiting == waiting
    await boxes.close()


async def test_a_name_that_is_none_makes_nothing(tmp_path):
    boxes = boxes_of(tmp_path, one_run=True)
    with pytest.raises(UnknownName):
        await boxes.start("shed", BoxSpec())
    assert boxes._backends.made == {}
    await boxes.close()
