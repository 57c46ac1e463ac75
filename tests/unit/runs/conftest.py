"""A run's stage over a box without walls, as far as variables and results need one; parts of a run without a box."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kagura_kernel.domain.events import ResultShown, VariableCrossed
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.credentials.registry import Registry
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.membrane.grant import MembraneParts
from kagura_kernel.runs.order import RunParts
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.redaction import BlindRedactor

SECRET = "tok-6f1d9c2b7a4e8d3f"


class Rows:
    """A record that only remembers."""

    def __init__(self) -> None:
        self.results: list[ResultShown] = []
        self.variables: list[VariableCrossed] = []

    def record(self, kind: type, /, **fields: Any) -> None:
        kept = self.results if kind is ResultShown else self.variables
        kept.append(SimpleNamespace(**{"error": "", "note": "", "data": "", "text": "", **fields}))

    async def ready_for(self, *_texts: str) -> None:
        pass


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


@pytest.fixture
async def stage(tmp_path):
    backend = FakeBackend()
    box = await backend.start(BoxSpec())
    order = SimpleNamespace(request=RunRequest(), room=2**20, spec=SimpleNamespace(env={}), keep_seconds=0.0)
    scrubber = Scrubber(lambda: [Secret(SECRET)])
    yield SimpleNamespace(
        box=box, order=order, recorder=Rows(), membrane=SimpleNamespace(scrubber=scrubber), project=tmp_path, kept=None
    )
    await backend.close()


@pytest.fixture
def boxless(tmp_path: Path) -> Callable[..., RunParts]:
    """Makes the parts of a run that comes to no box."""

    async def nowhere(*_: Any) -> Any:
        raise AssertionError("no box was wanted")

    def made(journal: Journal, **changes: Any) -> RunParts:
        parts = {
            "journal": journal,
            "clock": journal.clock,
            "approver": ScriptedApprover(),
            "blobs": BlobStore(tmp_path / "blobs"),
            "start_box": nowhere,
            "spill_root": tmp_path / "outputs",
            "price": lambda *_: (None, ""),
            "membrane": MembraneParts(LeaseLedger(journal), Registry),
            "redactor": BlindRedactor(),
        }
        return RunParts(**parts | changes)

    return made
