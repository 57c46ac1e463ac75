"""A box that is lent to many tests is as new for each: what one has left is gone, or the box is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.testing.conformance.box_fixtures import project_in, sh
from tests.support.lending import Lender

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend() -> AsyncIterator[BubblewrapBackend]:
    backend = BubblewrapBackend()
    yield backend
    await backend.close()


@pytest_asyncio.fixture(loop_scope="module")
async def lender(backend: BubblewrapBackend, tmp_path: Path) -> AsyncIterator[Lender]:
    project = project_in(tmp_path)
    lender = Lender(lambda: backend.start(BoxSpec(workspace=project)), project)
    yield lender
    await lender.close()


@pytest.mark.parametrize(
    "line",
    [
        "cat a.txt; ls /proc > /dev/null",
        "echo x > 'new one'; mkdir -p d/e; mkfifo p; ln -s a.txt $'odd\\n\\xff'; touch d/e/.f",
        "echo x > /tmp/x; rm /tmp/x; (sleep 0.1 &)",
    ],
)
async def test_a_box_that_is_as_it_was_is_lent_again_and_nothing_is_left_in_it(lender: Lender, line: str) -> None:
    box = await lender.lend()
    before = (await sh(box, "ls -AR")).stdout.data
    assert (await sh(box, line)).ok
    await lender.take_back(spoilt=False)
    assert await lender.lend() is box
    assert (await sh(box, "ls -AR")).stdout.data == before
    assert await box.changes() == []


@pytest.mark.parametrize(
    "line",
    [
        *("echo x >> a.txt", "echo x > a.txt; echo alpha > a.txt; chmod 600 a.txt", "rm -r sub", "ln -sfn b link"),
        *("echo x > /tmp/x", "echo x > ~/x", "echo x > /dev/shm/x", "setsid sleep 600 > /dev/null 2>&1 &"),
        "touch $(seq 1000)",
    ],
)
async def test_a_box_that_was_changed_otherwise_is_not(lender: Lender, line: str) -> None:
    box = await lender.lend()
    assert (await sh(box, line)).ok
    await lender.take_back(spoilt=False)
    with pytest.raises(SandboxUnavailable):
        await sh(box, "true")
    other = await lender.lend()
    assert other is not box
    assert (await sh(other, "cat a.txt link sub/*.py; ls /tmp ~ /dev/shm")).stdout.text.startswith("alpha\nalpha\n")


async def test_nor_is_one_whose_project_was_changed_on_the_host(lender: Lender) -> None:
    box = await lender.lend()
    (lender.project / "a.txt").write_text("other")
    await lender.take_back(spoilt=False)
    assert await lender.lend() is not box


async def test_nor_is_one_that_was_closed_or_whose_test_has_failed(lender: Lender) -> None:
    box = await lender.lend()
    await box.close()
    await lender.take_back(spoilt=False)
    other = await lender.lend()
    assert other is not box
    await lender.take_back(spoilt=True)
    assert await lender.lend() is not other
