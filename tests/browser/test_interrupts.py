"""The interrupt button in ten states of a run: it stops, nothing stays behind, and Run All stops there with it."""

import pytest
from playwright.sync_api import expect

from kagura_kernel.testing.patience import wait_until
from tests.browser.interrupts import STATES, Scene

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def scene(window, lab):
    """One kernel for all of them: what one interrupt leaves behind is in the way of the next."""
    page = window.new_page()
    found = Scene(page, lab, "interrupts")
    yield found
    found.notebook.shut()
    page.close()


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_an_interrupt_stops_the_run_and_nothing_stays_behind_while(scene, state):
    at = scene.enter(state)
    notebook = scene.notebook
    if state.processes:
        assert scene.processes(state.processes)
    notebook.interrupt()
    error = notebook.error(at)
    expect(error).to_contain_text(state.said)
    assert "Traceback" not in error.inner_text()
    # Run All was on its way to the cells below.
    expect(notebook.prompt(at + 1)).to_have_text("[ ]:")
    if state.survives:
        assert scene.status() == "running"
        assert scene.processes(state.processes)
    scene.leave(state)
    wait_until(scene.over)
    assert scene.status() == state.ends
    if state.processes:
        wait_until(lambda: not scene.processes(state.processes))
    if state.ends == "killed":
        card = notebook.output(at - state.survives)
        expect(card.locator(".kg-pill")).to_have_text("Stopped")
        expect(card.locator(".kg-live")).to_have_count(0)
