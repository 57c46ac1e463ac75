"""Every foreseeable mistake ends in one clear, coded message, and nothing is half done."""

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.assembly import make_cockpit
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import (
    IsolationTooWeak,
    JournalUnwritable,
    WorkspaceRefused,
    WorkspaceUnreadable,
)
from kagura_kernel.domain.events import AnyEvent, BoxStarted
from kagura_kernel.domain.policy import WriteMode
from kagura_kernel.runs.request import RunRequest
from tests.support.kernel import kernel_environ

pytestmark = [pytest.mark.timeout(180)]

Open = Callable[..., Cockpit]


@pytest.fixture
def open_cockpit(tmp_path: Path) -> Iterator[Open]:
    made: list[Cockpit] = []

    def make(**environ: str) -> Cockpit:
        made.append(make_cockpit(kernel_environ(tmp_path / "home", **environ)))
        return made[-1]

    yield make
    for cockpit in made:
        cockpit.close()


def cell(project: Path, code: str = "print('hello')", **options: object) -> RunRequest:
    return RunRequest(language="python", task=code, project=project, **({"box": "bubblewrap"} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: path / "gone", WorkspaceUnreadable),
        (lambda path: _made(path / "file", lambda p: p.write_text("x")), WorkspaceUnreadable),
        (lambda path: _made(path / "alias", lambda p: p.symlink_to(path)), WorkspaceRefused),
        (lambda _: Path("/"), WorkspaceRefused),
        (lambda _: Path("/etc"), WorkspaceRefused),
    ],
)
def test_a_project_that_cannot_be_used_says_why(open_cockpit, tmp_path, make, error):
    cockpit = open_cockpit()
    with pytest.raises(error):
        cockpit.launch(cell(make(tmp_path)))
    assert cockpit.runs() == []


def _made(path: Path, make: Callable[[Path], object]) -> Path:
    make(path)
    return path


def test_a_project_of_five_gigabytes_is_shown_without_copying_it(open_cockpit, project):
    with (project / "big.bin").open("wb") as file:
        file.truncate(5 * 2**30)
    outcome = open_cockpit().launch(cell(project, "import os; print(os.path.getsize('big.bin'))")).result(60)
    assert (outcome.status, outcome.text) == ("done", f"{5 * 2**30}\n")
    assert outcome.changes == ()


@pytest.mark.docker
def test_a_project_of_five_gigabytes_is_refused_where_it_would_be_copied(open_cockpit, project, docker_daemon):
    with (project / "big.bin").open("wb") as file:
        file.truncate(5 * 2**30)
    cockpit = open_cockpit(DOCKER_HOST=docker_daemon.host)
    outcome = cockpit.launch(cell(project, box="docker")).result(120)
    assert (outcome.status, outcome.error_code) == ("failed", "ERR_WORKSPACE_TOO_LARGE")
    assert "--box bubblewrap" in outcome.error


@pytest.mark.parametrize("environ", [{"KAGURA_SHARED": "true"}, {"JUPYTERHUB_USER": "ada"}])
def test_a_shared_deployment_does_not_start_with_weak_walls(open_cockpit, environ):
    with pytest.raises(IsolationTooWeak, match="gvisor"):
        open_cockpit(KAGURA_BOX="bubblewrap", **environ)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("POLICY", "danger_full_access"),
        ("POLICY", "external_sandbox"),
        ("FALLBACK_TO_HOST", "true"),
        ("PERMISSION_MODE", "full_control"),
    ],
)
def test_a_shared_deployment_does_not_start_where_an_agent_would_act_without_walls(open_cockpit, name, value):
    with pytest.raises(IsolationTooWeak, match=f"the setting `{name.lower()} = .* gives none"):
        open_cockpit(**{"JUPYTERHUB_USER": "ada", f"KAGURA_{name}": value})


@pytest.mark.parametrize("environ", [{"KAGURA_SHARED": "true"}, {"JUPYTERHUB_USER": "ada"}])
def test_a_shared_deployment_refuses_a_cell_that_asks_for_weak_walls(open_cockpit, project, environ):
    outcome = open_cockpit(**environ).launch(cell(project)).result(60)
    assert (outcome.status, outcome.error_code) == ("failed", "ERR_ISOLATION_TOO_WEAK")


def test_a_shared_deployment_takes_gvisor_by_itself(open_cockpit, project, tmp_path):
    cockpit = open_cockpit(KAGURA_SHARED="true", DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    handle = cockpit.launch(cell(project, box="auto"))
    events: list[AnyEvent] = []
    handle.subscribe(events.append)
    assert handle.result(300).error == ""
    assert [event.isolation for event in events if isinstance(event, BoxStarted)] == ["gvisor"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "home" / "kagura"
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_stops_a_run_before_anything_is_executed(open_cockpit, project, small_disk):
    cockpit = open_cockpit()
    assert cockpit.launch(cell(project, write_mode=WriteMode.NONE)).result(60).status == "done"
    with contextlib.suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 4096)

    def run_until_it_fails() -> None:
        # A database may still hold a few free pages: a run that found room is whole, and the next one finds none.
        for _ in range(50):
            cockpit.launch(cell(project, "open('ran', 'w')", write_mode=WriteMode.THROUGH)).result(60)
            (project / "ran").unlink()

    with pytest.raises(JournalUnwritable, match="cannot be written"):
        run_until_it_fails()
    assert not (project / "ran").exists()
    cockpit.close()


def test_twenty_runs_at_once_in_real_boxes_finish(open_cockpit, project):
    cockpit = open_cockpit()
    handles = [cockpit.launch(cell(project, f"print({n})", session=f"s{n}")) for n in range(20)]
    assert [handle.result(120).text for handle in handles] == [f"{n}\n" for n in range(20)]
