"""A person who has set nothing up runs a cell: a form in its place asks for what is missing, and the cell goes on."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.interrupts import LOAD
from tests.browser.notebook import THEMES
from tests.browser.test_accessibility import faults
from tests.support.model_script import says
from tests.support.openai_server import OpenAIServer

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

KEY = "sk-ant-a-key-that-nobody-else-has"

FRESH = """\
import os, keyring
from pathlib import Path
from tests.support.keychain import Keychain
os.environ.pop("ANTHROPIC_API_KEY")
os.environ["KAGURA_CONFIG"] = str(Path("../{name}.toml").resolve())
keyring.set_keyring(Keychain())
"""
"""A kernel as a new user has it, whose keychain is its own."""


def test_a_model_that_answers_on_this_machine_is_chosen_and_the_cell_goes_on(open_notebook):
    with OpenAIServer([says("Hello, Ada.")], models=("small", "qwen3:32b")) as server:
        notebook = open_notebook(FRESH.format(name="here"), LOAD, "%%kagura\nhello", own_kernel=True)
        settings = notebook.folder.parent / "here.toml"
        settings.write_text(f'[endpoints.lab]\nurl = "{server.url}"\n')
        notebook.done(0)
        notebook.done(1)
        output = notebook.run(2)
        form = output.get_by_role("region", name="Choose a model")
        expect(form.get_by_label("Model", exact=True).first).to_be_visible()
        for theme, _ in THEMES:
            notebook.theme(theme)
            assert faults(notebook.page, ".kg-live") == []
        notebook.picture("choose-model", cell=2)
        form.get_by_label("Model", exact=True).first.select_option("qwen3:32b (lab)")
        form.get_by_role("button", name="Use this model").click()
        notebook.wait_done(2)
        expect(output.locator(".kg-prose").last).to_contain_text("Hello, Ada.")
        expect(output).to_contain_text("Thinks with qwen3:32b of lab, on this machine.")
        assert [request.body["model"] for request in server.requests if request.method == "POST"] == ["qwen3:32b"]
    notebook.picture("model-chosen", cell=2)


def test_a_key_is_pasted_and_is_in_no_file(open_notebook, lab):
    lab.model.turns[:] = [says("Hello, Ada.")]
    notebook = open_notebook(FRESH.format(name="key"), LOAD, "%%kagura\nhello", own_kernel=True)
    notebook.done(0)
    notebook.done(1)
    output = notebook.run(2)
    field = output.get_by_label("Anthropic API key")
    expect(field).to_have_attribute("type", "password")
    field.fill(KEY)
    field.press("Enter")
    notebook.wait_done(2)
    expect(output.locator(".kg-prose").last).to_contain_text("Hello, Ada.")
    saved = json.dumps(notebook.save())
    assert "with a key in the keychain" in saved
    settings = (notebook.folder.parent / "key.toml").read_text()
    assert settings == 'claude_key_keyring = "kagura-kernel/anthropic"\n'
    kept = [path for top in (lab.root, lab.home) for path in top.rglob("*") if path.is_file()]
    assert [path for path in kept if KEY.encode() in path.read_bytes()] == []


def test_whoever_does_not_choose_now_ends_the_cell_with_one_calm_line(open_notebook):
    notebook = open_notebook(FRESH.format(name="later"), LOAD, "%%kagura\nhello", own_kernel=True)
    notebook.done(0)
    notebook.done(1)
    output = notebook.run(2)
    output.get_by_role("button", name="Not now").click()
    notebook.wait_done(2)
    expect(notebook.error(2)).to_contain_text("Run the cell again to choose.")
    output = notebook.run(2)
    expect(output.get_by_role("button", name="Not now")).to_be_visible()
    notebook.interrupt()
    notebook.wait_done(2)
    expect(notebook.error(2)).to_contain_text("Run the cell again to choose.")


def test_a_kernel_in_the_home_directory_is_given_a_folder(open_notebook):
    at_home = 'import os\nos.environ["HOME"] = os.getcwd()'
    notebook = open_notebook(at_home, LOAD, "%%sandbox bash\necho hello > here.txt", "!pwd", own_kernel=True)
    notebook.done(0)
    notebook.done(1)
    output = notebook.run(2)
    form = output.get_by_role("region", name="Choose a folder")
    field = form.get_by_role("textbox", name="Folder")
    expect(field).to_have_value("~/kagura-work")
    notebook.picture("choose-folder", cell=2)
    field.fill("/etc")
    field.press("Enter")
    expect(form.locator(".kg-told")).to_contain_text("choose a folder that lies in your home directory")
    field.fill("~/sales/march")
    field.press("Enter")
    notebook.wait_done(2)
    expect(output).to_contain_text("This kernel works in ~/sales/march now.")
    expect(output).to_contain_text("here.txt")
    expect(notebook.done(3)).to_contain_text(str(notebook.folder / "sales" / "march"))
