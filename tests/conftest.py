"""Every test runs under the guards that ship with the package."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import journals
from tests.support.effort import EVERYTHING, left_out, sources_of, thorough

pytest_plugins = ["kagura_kernel.testing.guards", "tests.support.fixtures_docker"]

TESTS = Path(__file__).parent

# By itself hypothesis fails an example that takes 0.2 s, which says more about the machine than about the code.
settings.register_profile("new ones", deadline=None, max_examples=100 if EVERYTHING else 30)
settings.register_profile("the same ones", settings.get_profile("new ones"), derandomize=True)
settings.load_profile("new ones")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cheap tests first, while images are made; then what shares a daemon, which is the longest; then all others.

    With `--no-loadscope-reorder` workers take groups in this order. Of dear tests a sample stays, see `support.effort`.
    """
    out = left_out(item.nodeid for item in items)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in out])
    items[:] = [item for item in items if item.nodeid not in out]

    def turn(item: pytest.Item) -> int:
        cheap = item.path.is_relative_to(TESTS / "unit") or item.path.is_relative_to(TESTS / "architecture")
        return 0 if cheap else 1 if item.get_closest_marker("docker") else 2

    items.sort(key=turn)


def pytest_collection_finish() -> None:
    """Twenty thousand tests stay to the end: the garbage collector need not look at them again each time."""
    journals.prepare()
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of the journal make their tables themselves."""
    journals.Journals.anew = "journal" in item.path.parts


def pytest_collectstart(collector: pytest.Collector) -> None:
    """A property that says nothing of its own is tried with new examples where its code has changed."""
    if isinstance(collector, pytest.Module):
        settings.load_profile("new ones" if thorough(*sources_of(collector.path)) else "the same ones")


@pytest.fixture(autouse=True)
def no_cockpit_left_open() -> Iterator[None]:
    """The one cockpit of a process is closed by the test that has opened it: its log would take what later ones say."""
    yield
    process = sys.modules.get("kagura_kernel.assembly.process")
    if process is not None and process._cockpit is not None:
        process.close_cockpit()
        pytest.fail("This test has left the cockpit of the process open. It has to call close_cockpit().")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty folder to work in, below `tmp_path`."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
