"""Settings that cannot be meant are told as a whole, by the file or variable that holds them, and nothing starts."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.assembly import make_cockpit
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import NotThisTime
from kagura_kernel.domain.events import AnyEvent, BoxStarted
from kagura_kernel.runs.request import RunRequest
from tests.support.kernel import kernel_environ, run_cells

pytestmark = [pytest.mark.timeout(180)]

Open = Callable[..., Cockpit]

WRONG = """
pool_size = "many"
net = ["ask", "pyhton-packages", "*.example.org"]
preapproved_grants = ["hunter2"]
image = "two words"

[mirrors]
npm = ["a b"]

[env]
PATH = "/hunter2"
TZ = "Europe/Berlin"
"""
FIELDS = {"pool_size", "net", "preapproved_grants", "image", "mirrors.npm", "env.PATH"}


@pytest.fixture
def environ(tmp_path: Path) -> Callable[..., dict[str, str]]:
    def make(text: str = "", **more: str) -> dict[str, str]:
        config = tmp_path / "config.toml"
        config.write_text(text)
        return kernel_environ(tmp_path / "home", KAGURA_CONFIG=str(config), **more)

    return make


@pytest.fixture
def open_cockpit(environ: Callable[..., dict[str, str]]) -> Iterator[Open]:
    made: list[Cockpit] = []

    def make(text: str = "", **more: str) -> Cockpit:
        made.append(make_cockpit(environ(text, **more)))
        return made[-1]

    yield make
    for cockpit in made:
        cockpit.close()


def test_a_notebook_is_told_everything_wrong_in_a_file_at_once_and_calmly(environ, project, tmp_path):
    cells = ["%load_ext kagura_kernel", "%kagura status", "%%sandbox bash\necho started"]
    _, status, cell = run_cells(cells, environ=environ(WRONG), cwd=project)
    for ran in (status, cell):
        assert ran.text.count("ERR_CONFIGURATION") == 1
        assert all(f"{field}: " in ran.text for field in FIELDS)
        assert "Traceback" not in ran.text
        assert "hunter2" not in ran.text
        assert str(tmp_path / "config.toml") in ran.text
    assert not (tmp_path / "home" / "kagura" / "journal.db").exists()


def box_of(cockpit: Cockpit, project: Path, **options: object) -> tuple[str, BoxStarted | None]:
    handle = cockpit.launch(RunRequest(language="python", task="print(1)", project=project, **options))  # type: ignore[arg-type]
    events: list[AnyEvent] = []
    handle.subscribe(events.append)
    error = handle.result(120).error
    return error, next((event for event in events if isinstance(event, BoxStarted)), None)


def test_an_image_is_not_ignored_by_boxes_that_have_none(open_cockpit, tmp_path, project):
    nowhere = {"DOCKER_HOST": f"unix://{tmp_path}/no.sock"}
    cockpit = open_cockpit(**nowhere)
    with pytest.raises(NotThisTime, match=r"bubblewrap have no images.*`--image node`"):
        cockpit.launch(RunRequest(language="python", task="print(1)", project=project, box="bubblewrap", image="node"))
    error, box = box_of(cockpit, project, image="node")
    assert box is None
    assert "bubblewrap: it has no images" in error


def test_an_image_of_the_settings_is_noted_where_a_box_has_none(open_cockpit, tmp_path, project):
    cockpit = open_cockpit('image = "example.org/tools:1"', DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    error, box = box_of(cockpit, project)
    assert (error, box and box.backend) == ("", "bubblewrap")
    assert box is not None
    assert any("bubblewrap has no image example.org/tools:1" in note for note in box.notes)


@pytest.mark.parametrize(("more", "shared"), [({}, False), ({"KAGURA_SHARED": "true"}, True)])
def test_the_status_says_whether_others_share_the_machine(open_cockpit, tmp_path, more, shared):
    status = open_cockpit(DOCKER_HOST=f"unix://{tmp_path}/no.sock", **more).status()
    assert status.shared is shared
    assert {part.name: part.isolation for part in status.boxes}["bubblewrap"] == "namespace"
