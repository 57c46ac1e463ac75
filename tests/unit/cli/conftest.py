from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kagura_kernel import assembly
from kagura_kernel.cli import doctor
from kagura_kernel.cli.main import main
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.handles import RunHandle
from kagura_kernel.cockpit.plugin_talk import EnablePlugin
from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.domain.plugins import Risk
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import wait_until
from tests.support.auditor import FakeAuditor
from tests.support.plugin_rig import FakeJails, write_plugin

OURS = ("KAGURA_CONFIG", "KAGURA_JOURNAL_URL", "KAGURA_SHARED", "KAGURA_BOX", "JUPYTERHUB_USER")


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory in use by the settings, with nobody's configuration beside it, and no Docker daemon."""
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path / "books"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    return tmp_path / "books"


_PROBED: dict[tuple[str, str], Sequence[PartStatus]] = {}


@pytest.fixture
def probed_once(books: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor tries each choice of back-ends once, and not for each test that asks about something else."""
    del books
    real = doctor._probed

    async def probed(settings: Settings) -> Sequence[PartStatus]:
        asked = (settings.box, str(settings.shared))
        if asked not in _PROBED:
            _PROBED[asked] = await real(settings)
        return _PROBED[asked]

    monkeypatch.setattr(doctor, "_probed", probed)


@pytest.fixture
def journal(books: Path) -> Iterator[Journal]:
    journal = Journal.open(books)
    yield journal
    journal.close()


@pytest.fixture
def prints(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Types a command, which ends with this exit code; what was printed by then."""

    def type_(*words: str, code: int = 0) -> str:
        assert main([*words]) == code
        return capsys.readouterr().out

    return type_


@pytest.fixture
def refuses(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Types a command, which ends with this exit code; what it said on the error stream."""

    def type_(*words: str, code: int = 2) -> str:
        assert main([*words]) == code
        return capsys.readouterr().err

    return type_


@pytest.fixture
def gone() -> str:
    """An owner on this machine whose process is no more: nobody has its number."""
    host, _, since = process_owner().split(":")
    return f"{host}:999999999:{since}"


@pytest.fixture
def running(books: Path, project: Path) -> Iterator[Callable[[], RunHandle]]:
    """Sets a run going that would never end: its box, engine and journal are real."""
    cockpit: Cockpit = fake_cockpit(books, backend=FakeBackend())

    def start() -> RunHandle:
        cell = RunRequest(
            task="echo begun; sleep 100000",
            language="bash",
            project=project,
            new_session=True,
            command_timeout=0,
            idle_timeout=0,
        )
        handle = cockpit.launch(cell)
        told: list[str] = []
        handle.subscribe(lambda event: told.append(event.kind))
        wait_until(lambda: "output.streamed" in told)
        return handle

    yield start
    cockpit.close()


@pytest.fixture
def jails() -> FakeJails:
    """Jails without boxes, of the terminal's commands and of `notebook`."""
    return FakeJails()


@pytest.fixture
def plugins(books: Path, project: Path, jails: FakeJails, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's plugins, `greeter` among them; commands run in that project, with an honest auditor."""
    write_plugin(project / "plugins")
    monkeypatch.chdir(project)
    open_now: list[Cockpit] = []

    def get() -> Cockpit:
        open_now.append(fake_cockpit(books, backend=FakeBackend(), brains=[FakeAuditor()], start_jail=jails))
        return open_now[-1]

    monkeypatch.setattr(assembly, "get_cockpit", get)
    monkeypatch.setattr(assembly, "close_cockpit", lambda: open_now.pop().close())
    return project / "plugins"


@pytest.fixture
def notebook(plugins: Path, books: Path, jails: FakeJails) -> Iterator[Cockpit]:
    """The cockpit of a notebook that goes on: its session `S` has the plugin `other`."""
    write_plugin(plugins, "other")
    cockpit = fake_cockpit(books, backend=FakeBackend(), start_jail=jails)
    intent = EnablePlugin(name="other", session="S", static=True, accept=Risk.MEDIUM, headless=True, by="ada")
    cockpit.plugins.enable(intent).result(60)
    yield cockpit
    cockpit.close()


@pytest.fixture
def file(books: Path, tmp_path: Path) -> Path:
    """The settings, of which nobody has written any yet."""
    del books
    path = tmp_path / "config" / "kagura-kernel" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command about plugins prints."""
    found = main(["plugin", *words])
    out, err = capsys.readouterr()
    assert (found, err if not code else "") == (code, "")
    return out or err
