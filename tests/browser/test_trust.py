"""The curve of earned trust in a real JupyterLab, light and dark."""

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

# What happened in a fortnight: git was earned, used and lost; the others are on their way.
STORY = """\
%load_ext kagura_kernel
from datetime import UTC, datetime, timedelta
from kagura_kernel.assembly import get_cockpit
from tests.support.earned_trust import trust_row
journal = get_cockpit().journal
start = datetime.now(UTC) - timedelta(days=14)
human = {"signal": "human", "by": "ann"}
for day, change, category, more in (
    (0, "succeeded", "git", {"signal": "exit-code"}), (1.5, "succeeded", "git", {"signal": "exit-code"}),
    (2, "succeeded", "dns-read", {"signal": "verification"}), (3, "failed", "packages", {"signal": "exit-code"}),
    (3.5, "succeeded", "git", {"signal": "exit-code"}), (5, "succeeded", "dns-read", {"signal": "verification"}),
    (6, "succeeded", "git", {"signal": "exit-code"}), (8, "succeeded", "git", {"signal": "verification"}),
    (8.01, "proposed", "git", {}), (8.02, "granted", "git", human),
    (9, "succeeded", "packages", {"signal": "exit-code"}),
    (11, "failed", "git", {"signal": "exit-code"}), (11.01, "demoted", "git", {"signal": "exit-code"}),
    (13, "succeeded", "git", {"signal": "exit-code"}),
):
    journal.append(trust_row(change, start + timedelta(days=day), category=category, **more))
"""


def test_the_curve_is_drawn_and_legible_in_either_theme(open_notebook):
    notebook = open_notebook(STORY, "%kagura graduation chart", "%kagura graduation")
    notebook.run(0)
    notebook.wait_done(0)
    output = notebook.run(1)
    picture = output.locator(".vega-embed svg")
    expect(picture).to_be_visible()
    for category in ("git", "dns-read", "packages"):
        expect(picture.get_by_text(category, exact=True)).to_be_visible()
    colours = []
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        notebook.theme(theme)
        title = picture.locator(".mark-text.role-title-text text").first
        colours.append(title.evaluate("text => getComputedStyle(text).fill"))
    assert colours[0] != colours[1]
    notebook.picture("chart-trust", cell=1)
    notebook.run(2)
    notebook.wait_done(2)
    expect(notebook.output(2)).to_contain_text("demoted")
