"""The examples of the page keep the promises of their kind: the shipped suites, run as the page says.

What runs here, and why: the brain, the tokens and the chat are the example's own work, and their suites run whole. The
boxes are bubblewrap's and the memory is SQLite's, started and opened by a line of the example: that they begin, work
and end as such is proved here, and the rest by `test_bubblewrap_box.py` and `test_memory_sqlite.py`; with
KAGURA_TEST_EVERYTHING set the suites run on them too.
"""

import asyncio
import errno
import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.membrane.credentials.secret import SecretReference
from kagura_kernel.sandbox.backend import SandboxBackend
from kagura_kernel.testing.chat import Shown
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.conformance.box import BoxChangesConformance, BoxCommandConformance, BoxLifeConformance
from kagura_kernel.testing.conformance.box_files import BoxFilesConformance
from kagura_kernel.testing.conformance.box_fixtures import BoxFixtures, sh
from kagura_kernel.testing.conformance.brain import BrainConformance, BrainFor, Round
from kagura_kernel.testing.conformance.credentials import ProviderConformance
from kagura_kernel.testing.conformance.memory import (
    MemoryCrowdsConformance,
    MemoryGraphConformance,
    MemoryTrustConformance,
)
from kagura_kernel.testing.conformance.memory_keeping import MemoryKeepingConformance, MemoryRecallConformance
from kagura_kernel.testing.conformance.memory_rig import MemoryRig
from kagura_kernel.testing.conformance.transport import Chat, TransportConformance
from kagura_kernel.testing.credential_service import SCOPE, Call, LoopbackService, ProviderRig, Reply
from kagura_kernel.testing.patience import eventually
from tests.support.effort import EVERYTHING

House = Callable[[str], ModuleType]


class TestSmallBrain(BrainConformance):
    @pytest.fixture
    def brain_for(self, house: House) -> BrainFor:
        module = house("small_brain")

        @contextmanager
        def make(rounds: Sequence[Round]) -> Iterator[Any]:
            def asking() -> Any:
                left = iter(rounds)

                async def ask(_messages: list[dict[str, Any]], _tools: list[Any]) -> Any:
                    one = next(left)
                    if one.slow:
                        await asyncio.sleep(0.5)
                    return module.Answer(one.text, one.calls)

                return ask

            class Scripted(module.SmallBrain):
                """The example, whose model follows the script anew in every run."""

                def run(self, turn: Any) -> Any:
                    return module.SmallBrain(asking()).run(turn)

            yield Scripted()

        return make


class ModestBoxes:
    @pytest.fixture
    async def backend(self, house: House) -> AsyncIterator[SandboxBackend]:
        backend = house("modest_backend").ModestBackend()
        yield backend
        await backend.close()


class TestModestBoxes(ModestBoxes, BoxFixtures):
    async def test_they_are_its_own_and_start_run_keep_files_tell_changes_and_end(self, backend, box):
        assert (backend.name, box.backend) == ("modest", "modest")
        assert (await sh(box, "cat a.txt; echo more > more.txt")).stdout.data == b"alpha\n"
        await box.files.write("new.txt", b"new")
        assert await box.files.read("new.txt") == b"new"
        assert [change.path for change in await box.changes()] == ["more.txt", "new.txt"]
        await box.close()
        with pytest.raises(SandboxUnavailable):
            await sh(box, "true")

    async def test_the_suite_says_so_where_a_guest_cannot_be_killed_from_inside(self, box):
        with pytest.raises(pytest.skip.Exception, match="the host kills it"):
            await BoxLifeConformance().test_a_box_that_dies_says_so(box)


class TeamMemories:
    @pytest.fixture
    def rig(self, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryRig]:
        monkeypatch.setenv("TEAM_MEMORIES", str(tmp_path))
        open_team, clock, names = house("team_memory").open_team, FakeClock(), list[str]()

        def fresh() -> Any:
            names.append("".join(chr(ord("a") + byte % 26) for byte in secrets.token_bytes(12)))
            return open_team(f"team://{names[-1]}", clock)

        rig = MemoryRig(clock, fresh, lambda: open_team(f"team://{names[-1]}", clock))
        yield rig
        rig.close()


class TestTeamMemory(TeamMemories, MemoryKeepingConformance):
    """What is kept is there after a restart, which the name of the example decides on."""


if EVERYTHING:

    class TestTheRestOfModestBoxes(ModestBoxes, BoxCommandConformance, BoxFilesConformance, BoxChangesConformance):
        """Those parts of the suite that a box which is bubblewrap's own does not keep for that reason alone."""

    class TestTheRestOfTeamMemory(
        TeamMemories,
        MemoryRecallConformance,
        MemoryTrustConformance,
        MemoryGraphConformance,
        MemoryCrowdsConformance,
    ):
        pass


class FakeHouse(LoopbackService):
    """The service that the example speaks to."""

    def __init__(self) -> None:
        super().__init__()
        self.key = "house-" + secrets.token_urlsafe(24)
        self.tokens: dict[str, tuple[str, str]] = {}

    def live(self) -> dict[str, str]:
        with self.lock:
            return {token: name for name, token in self.tokens.values()}

    def respond(self, call: Call) -> Reply:
        if call.bearer != self.key:
            return Reply(401, {})
        if call.method == "POST":
            number = secrets.token_hex(8)
            self.tokens[number] = (call.json()["name"], secrets.token_urlsafe(30))
            return Reply(200, {"id": number, "token": self.tokens[number][1]})
        if call.method == "GET":
            found = [number for number, (name, _) in self.tokens.items() if name == call.query.get("name")]
            return Reply(200, {"id": found[0] if found else ""})
        number = call.path.rpartition("/")[2]
        return Reply(204 if self.tokens.pop(number, None) else 404, {})


class TestHouseTokens(ProviderConformance):
    @pytest.fixture
    def rig(self, house: House) -> Iterator[ProviderRig]:
        module = house("house_tokens")
        with FakeHouse() as service:
            settings = module.HouseSettings(url=service.url, scopes={str(SCOPE): {"rights": ["read"]}})
            key = SecretReference("providers.test.key", "env", "KEY")
            yield ProviderRig(
                service,
                service.live,
                lambda reader, _clock, timeout: module.HouseTokens("house", settings, key, reader, timeout=timeout),
                {"KEY": service.key},
                {"KEY": "house-wrong-" + "9" * 30},
            )


class People:
    """The far side of the example: people who write files into their folders, and read those of the threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._last: tuple[Callable[[str], int], str] | None = None
        self.refusals = 0

    async def say(self, operator: str, text: str, *, thread: str = "", files: Sequence[tuple[str, bytes]] = ()) -> str:
        self._count += 1
        thread = thread or f"thread-{self._count}"
        own = self._folder / "people" / operator
        own.mkdir(parents=True, exist_ok=True)
        for name, content in files:
            (own / name).write_bytes(content)
        written = {"thread": thread, "text": text, "files": [name for name, _ in files]}
        await self._deliver(own / f"{self._count}.json", written)
        return thread

    async def click(self, operator: str, thread: str, post_id: str, action: str) -> None:
        self._count += 1
        own = self._folder / "people" / operator
        own.mkdir(parents=True, exist_ok=True)
        await self._deliver(own / f"{self._count}.json", {"thread": thread, "post": post_id, "press": action})

    async def replay(self) -> None:
        if self._last is not None:
            write, text = self._last
            write(text)

    def shown(self, thread: str) -> list[Shown]:
        paths = sorted((self._folder / "threads" / thread).glob("*.json"))
        return [self._shown(thread, path.stem, json.loads(path.read_text())) for path in paths]

    def uploads(self, thread: str) -> list[tuple[str, bytes]]:
        paths = sorted((self._folder / "threads" / thread / "files").glob("*"))
        return [(path.name, path.read_bytes()) for path in paths]

    def refuse(self, times: int) -> None:
        self.refusals = times

    def _shown(self, thread: str, post_id: str, told: dict[str, Any]) -> Shown:
        buttons = tuple((label, action) for label, action in told["buttons"])
        return Shown(post_id, thread, f"{told['ours']}\n{told['theirs']}", buttons, told["edits"])

    async def _deliver(self, path: Path, written: dict[str, Any]) -> None:
        self._last = path.write_text, json.dumps(written)
        await self.replay()
        # What is written over before it was heard was never there.
        await eventually(lambda: not path.exists())


class TestFolderChat(TransportConformance):
    @pytest.fixture
    def chat(self, house: House, tmp_path: Path) -> Chat:
        (tmp_path / "folder" / "people").mkdir(parents=True)
        people = People(tmp_path / "folder")

        class Full(house("folder_chat").FolderChat):
            """The example, on a disk that is full when the test says so."""

            def _put(self, path: Path, content: bytes) -> None:
                if people.refusals:
                    people.refusals -= 1
                    raise OSError(errno.ENOSPC, "No space left on device")
                super()._put(path, content)

        return Full(tmp_path / "folder"), people
