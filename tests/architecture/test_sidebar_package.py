"""The sidebar is packed with the kernel: one version, no address of any registry, nothing built in the repository."""

import json
import re
import tomllib
from pathlib import Path
from typing import get_args

import kagura_kernel
from kagura_kernel.domain.outcome import RunStatus
from kagura_kernel.views.status import STATUS_WORDS, TONES

ROOT = Path(__file__).parents[2]
PACKAGE = json.loads((ROOT / "labextension" / "package.json").read_text())
LOCK = (ROOT / "labextension" / "package-lock.json").read_text()
SCHEMA = json.loads((ROOT / "labextension" / "schema" / "plugin.json").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_it_has_the_version_of_the_kernel():
    assert PACKAGE["version"] == kagura_kernel.__version__
    assert json.loads(LOCK)["version"] == kagura_kernel.__version__


def test_the_lock_file_names_versions_and_hashes_and_no_place_to_download_from():
    packages = json.loads(LOCK)["packages"]
    assert len(packages) > 100
    assert not [name for name, entry in packages.items() if "resolved" in entry]
    assert not [name for name, entry in packages.items() if name and "integrity" not in entry]


def test_one_wheel_carries_the_sidebar_the_kernel_and_the_server_extension():
    shared = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert set(shared.values()) == {
        "etc/jupyter/jupyter_server_config.d/kagura_kernel.json",
        "share/jupyter/kernels/kagura",
        f"share/jupyter/labextensions/{PACKAGE['name']}",
    }
    built = f"labextension/{PACKAGE['jupyterlab']['outputDir']}"
    assert built in shared
    for source in set(shared) - {built}:
        assert (ROOT / source).exists(), source


def test_nothing_that_is_built_is_kept_in_the_repository():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"/labextension/lib/", "/labextension/dist/", "node_modules/"} <= set(ignored)


def test_every_command_that_a_shortcut_or_a_menu_names_is_there():
    source = (ROOT / "labextension" / "src" / "plugins" / "commands.ts").read_text()
    commands = set(re.findall(r"'(kagura:[a-z-]+)'", source))
    named = {entry["command"] for entry in SCHEMA["jupyter.lab.shortcuts"]}
    named |= {
        item["command"] for menu in SCHEMA["jupyter.lab.menus"]["main"] for item in menu["items"] if "command" in item
    }
    assert named
    assert named <= commands


def test_each_state_of_a_run_has_the_word_and_the_tone_that_its_card_has():
    source = (ROOT / "labextension" / "src" / "model" / "words.ts").read_text("utf-8")
    cases = re.findall(r"case '(\w+)':\n +return \{ word: trans\.__\('([^']+)'\), tone: '(\w+)' \};", source)
    on_cards = {"awaiting_approval": "waiting"}
    assert {state: (word, tone) for state, word, tone in cases} == {
        state: (STATUS_WORDS[key], TONES.get(key, "bad"))
        for state in get_args(RunStatus)
        for key in [on_cards.get(state, state)]
    }
