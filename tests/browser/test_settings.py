"""The form of settings in a real JupyterLab: what is changed in it stands in the file, and counts in a kernel."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.interrupts import LOAD
from tests.browser.sidebar import Sidebar

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

SETTINGS = """\
import os
from kagura_kernel.assembly import load_settings
print('recalls', load_settings(os.environ).recall)
"""


def test_a_setting_is_changed_in_the_form_and_counts_in_the_next_kernel(open_notebook):
    notebook = open_notebook(LOAD, SETTINGS, own_kernel=True)
    page = notebook.page
    Sidebar(page).open().panel.get_by_role("button", name="Settings").click()
    form = page.locator("#kagura-settings")
    told = form.get_by_text("Kernels read them from").inner_text()
    path = Path(told.removeprefix("Kernels read them from ").partition(" when")[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# Mine.\npool_size = 0\n")
    try:
        form.get_by_role("button", name="Load again").click()
        expect(form.locator("#root_pool_size")).to_have_value("0")
        expect(form).to_contain_text(
            "Warm boxes kept ready; 0 switches the pool off. Default: 1. From the file. Key: pool_size"
        )
        expect(form).to_contain_text("Approval deadline (seconds)")
        expect(form).to_contain_text("Write each into the file, as [endpoints.NAME].")
        notebook.window("settings")
        form.get_by_label("Search the settings").fill("Key: env")
        form.get_by_role("button", name="Add").click()
        form.locator(".form-group input").first.fill("TZ")
        form.locator(".form-group input").first.press("Tab")
        form.locator("#root_env_TZ").fill("Asia/Tokyo")
        notebook.window("settings-rows")
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("status")).to_contain_text("Saved.")
        assert path.read_text() == '# Mine.\npool_size = 0\n\n[env]\nTZ = "Asia/Tokyo"\n'
        path.write_text("# Mine.\npool_size = 0\n")
        form.get_by_role("button", name="Load again").click()
        expect(form.locator("#root_env_TZ")).to_have_count(0)
        form.get_by_label("Search the settings").fill("recall")
        recall = form.locator("#root_recall")
        recall.fill("51")
        form.get_by_role("button", name="Save").click()
        expect(form).to_contain_text("it must be at most 50")
        assert "recall" not in path.read_text()
        notebook.window("settings-wrong")
        recall.fill("7")
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("status")).to_contain_text("Saved.")
        assert path.read_text() == "# Mine.\npool_size = 0\nrecall = 7\n"
        path.write_text("recall = 8\n")
        recall.fill("9")
        form.get_by_role("button", name="Save").click()
        expect(form).to_contain_text("was changed meanwhile")
        form.get_by_role("button", name="Load again").click()
        expect(recall).to_have_value("8")
        page.get_by_role("tab", name=re.compile("ipynb")).first.click()
        notebook.done(0)
        expect(notebook.done(1)).to_contain_text("recalls 8")
    finally:
        path.unlink()
