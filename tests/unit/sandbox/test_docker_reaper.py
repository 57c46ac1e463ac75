"""The process that outlives a killed kernel: when it acts, and when it does not."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from kagura_kernel.sandbox.docker import reaper as docker_reaper
from kagura_kernel.sandbox.docker.reaper import Reaper, is_ours
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from kagura_kernel.sandbox.owner import owner_of, this_owner

WAIT = "import sys; from kagura_kernel.sandbox.docker.reaper import wait_for_the_end as w; print(w(sys.argv[1]))"


def waits(owner: str, *, told: bytes | None) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", WAIT, owner], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if told is not None and process.stdin is not None:
        process.stdin.write(told)
        process.stdin.close()
    return process


@pytest.mark.parametrize(("told", "reaps"), [(b"", b"True\n"), (b".", b"False\n")])
def test_a_closed_pipe_is_an_end_and_a_dismissal_is_none(told: bytes, reaps: bytes):
    with waits(this_owner(), told=told) as process:
        assert process.stdout is not None
        assert process.stdout.read() == reaps


def test_an_owner_that_is_gone_is_an_end_though_someone_still_holds_the_pipe():
    with subprocess.Popen(["sleep", "100"]) as owner, waits(owner_of(owner.pid), told=None) as process:
        assert process.stdout is not None
        owner.kill()
        owner.wait()
        assert process.stdout.read() == b"True\n"


@pytest.mark.parametrize(
    ("names", "ours"),
    [
        (["/box-1"], True),
        (["/kagura-fill-0a"], True),
        (["/other/alias", "/box-1"], True),
        # On its way out it may have none.
        ([], True),
        (["/mine"], False),
        (["/mine-of-box-1"], False),
    ],
)
def test_what_a_person_starts_from_an_image_that_was_made_of_a_box_is_theirs(names: list[str], ours: bool):
    assert is_ours({"Names": names, "Labels": {"kagura.box": "box-1", "kagura.owner": "host:1:2"}}) is ours


def test_a_reaper_that_is_dismissed_is_gone_and_may_be_dismissed_again(tmp_path: Path):
    reaper = Reaper(Endpoint(f"unix://{tmp_path / 'none.sock'}"), "holder", this_owner())
    assert reaper.alive
    reaper.dismiss()
    assert not reaper.alive
    reaper.dismiss()


def plant(folder: Path, told: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.py").write_text(f"open({str(told)!r}, 'a').write(__name__ + ' ')\n")


def status_of_a_dismissed_reaper(folder: Path) -> int:
    process = Reaper(Endpoint(f"unix://{folder / 'none.sock'}"), "holder", this_owner())._process
    assert process.stdin is not None
    process.stdin.write(b".")
    process.stdin.close()
    return process.wait(60)


def test_no_file_of_the_project_is_run_by_the_reaper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    project, told = tmp_path / "project", tmp_path / "told"
    plant(project, told, "sitecustomize", "usercustomize", "json", "kagura_kernel", "select", "docker")
    monkeypatch.setenv("PYTHONPATH", str(project))
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.chdir(project)
    assert status_of_a_dismissed_reaper(tmp_path) == 0
    assert not told.exists()


def test_nor_what_an_environment_in_the_project_has_run_at_every_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    project, told = tmp_path / "project", tmp_path / "told"
    venv.create(project / ".venv", symlinks=True)
    (packages,) = (project / ".venv" / "lib").glob("python*/site-packages")
    (packages / "evil.pth").write_text(f"import pathlib; pathlib.Path({str(told)!r}).touch()\n")
    monkeypatch.setattr(sys, "executable", str(project / ".venv" / "bin" / "python"))
    assert status_of_a_dismissed_reaper(tmp_path) == 0
    assert not told.exists()


def test_the_reaper_finds_the_library_it_needs_outside_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    project, told = tmp_path / "project", tmp_path / "told"
    plant(project, told, "docker", "simplejson", "requests")
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.chdir(project)
    ours = "from kagura_kernel.sandbox.docker.reaper import main\nmain(*sys.argv[3:])"
    assert ours in docker_reaper._PROGRAM
    instead = "import kagura_kernel, docker\nsys.exit(7)"
    monkeypatch.setattr(docker_reaper, "_PROGRAM", docker_reaper._PROGRAM.replace(ours, instead))
    reaper = Reaper(Endpoint(f"unix://{tmp_path / 'none.sock'}"), "holder", this_owner())
    try:
        assert reaper._process.wait(60) == 7
    finally:
        reaper.dismiss()
    assert not told.exists()


def test_nothing_of_the_environment_goes_to_the_reaper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-a-real-one")
    reaper = Reaper(Endpoint(f"unix://{tmp_path / 'none.sock'}"), "holder", this_owner())
    try:
        environ = Path(f"/proc/{reaper._process.pid}/environ").read_bytes()
        assert b"sk-not-a-real-one" not in environ
    finally:
        reaper.dismiss()
