"""Real jails: bubblewrap boxes with a plugin in them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.plugins.jail.box import JailLimits, JailParts
from kagura_kernel.plugins.jail.jail import Jail
from kagura_kernel.plugins.permissions import JailPlan
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from tests.support.jails import MODULE, NAME, small_content, small_manifest

HERE = Path(__file__).parent


@dataclass
class Jails:
    """Makes jails and closes them."""

    backend: BubblewrapBackend  # Of their boxes
    failed: list[tuple[str, str]] = field(default_factory=list)  # What was put off, and why
    crossed: list[EgressDecided | EgressClosed] = field(default_factory=list)  # What was recorded of their connections
    made: list[Jail] = field(default_factory=list)

    def parts(self, **more: Any) -> JailParts:
        limits = JailLimits(**{name: more.pop(name) for name in JailLimits.__slots__ if name in more})
        return JailParts(
            **{
                "start_box": self.backend.start,
                "record_egress": self.crossed.append,
                "failed": lambda name, why: self.failed.append((name, why)),
                "limits": limits,
                **more,
            }
        )

    async def start(self, source: str, plan: JailPlan | None = None, *modules: str, **more: Any) -> Jail:
        files = more.pop("files", {})
        content = small_content(source, **files)
        jail = await Jail.start(NAME, content, small_manifest(*modules), plan or JailPlan(), self.parts(**more))
        self.made.append(jail)
        return jail


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for `jails` shares a loop with its module, as their boxes share a back-end."""
    for item in items:
        if item.path.parent == HERE and "jails" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_backend() -> AsyncIterator[BubblewrapBackend]:
    """One for all tests of a module: a back-end starts a process of its own, and every jail has a box of its own."""
    backend = BubblewrapBackend()
    yield backend
    await backend.close()


@pytest_asyncio.fixture(loop_scope="module")
async def jails(shared_backend: BubblewrapBackend) -> AsyncIterator[Jails]:
    made = Jails(shared_backend)
    yield made
    for jail in made.made:
        await jail.close()


async def ask(jail: Jail, function: str, *arguments: Any, **named: Any) -> Any:
    """A call of a function of the one module."""
    return await jail.call(MODULE, function, arguments, named)
