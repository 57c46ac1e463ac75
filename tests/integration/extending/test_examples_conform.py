"""The examples of the page keep the promises of their kind: the shipped suites, run as the page says."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kagura_kernel.membrane.credentials.secret_reference import SecretReference
from kagura_kernel.sandbox.backend import SandboxBackend
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.conformance.box_changes import BoxChangesConformance
from kagura_kernel.testing.conformance.box_commands import BoxCommandConformance
from kagura_kernel.testing.conformance.box_files import BoxFilesConformance
from kagura_kernel.testing.conformance.brain import BrainConformance, BrainFor, Round
from kagura_kernel.testing.conformance.credentials import ProviderConformance
from kagura_kernel.testing.conformance.memory import MemoryConformance
from kagura_kernel.testing.conformance.memory_rig import MemoryRig
from kagura_kernel.testing.credential_rigs import SCOPE, ProviderRig
from kagura_kernel.testing.credential_service import Call, LoopbackService, Reply

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


class TestModestBoxes(BoxCommandConformance, BoxFilesConformance, BoxChangesConformance):
    """Those parts of the suite that a box which is bubblewrap's own does not keep for that reason alone."""

    @pytest.fixture
    async def backend(self, house: House) -> AsyncIterator[SandboxBackend]:
        backend = house("modest_backend").ModestBackend()
        yield backend
        await backend.close()


class TestTeamMemory(MemoryConformance):
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
