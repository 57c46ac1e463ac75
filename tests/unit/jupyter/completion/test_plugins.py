"""Plugins and their settings, completed as they lie."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kagura_kernel.cockpit.lines.completion import complete, explain
from kagura_kernel.jupyter.completion import names as plugins
from kagura_kernel.jupyter.completion.names import ShellNames
from tests.support.plugin_rig import write_plugin

SOURCE = """\
SCHEMA = {
    "limit": {"type": "number", "description": "At most", "default": 3},
    "base": {"type": "string", "description": "Where"},
    "deep": {"type": "boolean", "description": "Folders too", "default": False},
}


def create_host_functions(config):
    return {MODULE: {"f": len}}
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "project"
    (found / "data").mkdir(parents=True)
    (found / "notes.txt").write_text("")
    monkeypatch.chdir(found)
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path / "books"))
    write_plugin(found / "plugins", "reader", source=SOURCE, permissions={"read": ["{base}"]})
    write_plugin(tmp_path / "books" / "plugins", "mine", description="My own")
    return found


def offered(line: str) -> dict[str, str]:
    """What may stand at the end of a line, options apart."""
    found = complete(line, len(line), ShellNames(SimpleNamespace(user_ns={}), blink=60), prompt=line.startswith("/"))
    assert found is not None
    return {item.text: item.summary for item in found.items if item.kind != "option"}


@pytest.mark.parametrize("begin", ["%kagura ", "/"])
@pytest.mark.parametrize("word", ["enable", "disable", "approve", "unapprove", "audit", "config", "logs"])
def test_plugins_of_every_place_are_offered(begin, word):
    found = offered(f"{begin}plugin {word} ")
    assert {"fs-read", "fs-write", "fetch", "sql-read", "reader", "mine"} <= set(found)
    assert found["reader"] == "The plugin reader"


def test_only_one_s_own_are_offered_to_be_removed():
    assert offered("%kagura plugin remove ") == {"mine": "My own"}


def test_what_cannot_be_used_is_not_offered(project):
    (project / "plugins" / "reader" / "plugin.json").write_text("{")
    assert offered("%kagura plugin enable rea") == {}


def test_settings_of_the_plugin_on_the_line_are_offered_those_that_are_needed_first():
    found = offered("%kagura plugin enable reader ")
    assert list(found) == ["base=", "limit=", "deep="]
    assert found["base="] == "string, needed: Where"
    assert found["limit="] == "number: At most"
    assert list(offered("%kagura plugin enable reader li")) == ["limit="]
    assert list(offered("%kagura plugin enable --static reader base=./data ")) == ["limit=", "deep="]
    assert list(offered("%kagura plugin enable fs-read b")) == ["base_dir="]


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("base=", ["base=data/", "base=plugins/", "base=notes.txt"]),
        ("base=./d", ["base=./data/"]),
        ("deep=", ["deep=yes", "deep=no"]),
        ("deep=y", ["deep=yes"]),
        ("limit=", []),
        ("other=", []),
    ],
)
def test_behind_the_sign_stand_paths_where_a_path_is_wanted(typed, values):
    assert list(offered(f"%kagura plugin enable reader {typed}")) == values


@pytest.mark.parametrize(
    "line", ["%kagura plugin enable none-such ba", "%kagura plugin approve reader ba", "%kagura plugin enable "]
)
def test_where_no_setting_can_stand_none_is_offered(line):
    assert not [text for text in offered(line) if "=" in text]


def test_a_source_that_cannot_be_read_offers_nothing_and_breaks_nothing(project):
    (project / "plugins" / "reader" / "plugin.py").write_text("SCHEMA = (((")
    assert offered("%kagura plugin enable reader ") == {}


def test_a_source_is_scanned_once_and_anew_when_it_has_changed(project, monkeypatch):
    assert list(offered("%kagura plugin enable reader li")) == ["limit="]
    with monkeypatch.context() as now:
        now.setattr("kagura_kernel.plugins.scan.scanner.scan_content", lambda *_: pytest.fail("scanned again"))
        assert list(offered("%kagura plugin enable reader li")) == ["limit="]
    write_plugin(
        project / "plugins", "reader", source=SOURCE.replace("limit", "line"), permissions={"read": ["{base}"]}
    )
    assert list(offered("%kagura plugin enable reader li")) == ["line="]


def test_few_sources_are_kept(project, monkeypatch):
    monkeypatch.setattr(plugins, "_KEPT", 2)
    plugins._schemas.clear()
    for word in ("one", "two", "three"):
        write_plugin(project / "plugins", "reader", source=SOURCE.replace("limit", word))
        assert f"{word}=" in offered("%kagura plugin enable reader ")
    assert len(plugins._schemas) == 2


def test_a_source_to_install_is_completed_as_a_file_is():
    assert list(offered("%kagura plugin install ")) == ["data/", "plugins/", "notes.txt"]


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("reader", "reader: The plugin reader"),
        ("base=./data", "base: string, needed: Where"),
        ("limit=3", "limit: number: At most"),
        ("other=3", "NAME=VALUE\n  Configuration, as `plugin config` lists it."),
    ],
)
def test_what_stands_at_the_cursor_is_explained(word, told):
    line = "%kagura plugin enable reader base=./data limit=3 other=3"
    names = ShellNames(SimpleNamespace(user_ns={}), blink=60)
    assert explain(line, line.rindex(word) + 1, names, prompt=False) == told
