import tomllib
from pathlib import Path

from kagura_kernel.plugins import manifest as places
from kagura_kernel.plugins.manifest import bundled_directory, discover, plugin_places

ROOT = Path(__file__).resolve().parents[3]


def test_the_bundled_plugins_are_found_and_sound():
    discovery = discover([("bundled", bundled_directory())])
    assert {"fs-read", "fs-write", "fetch", "sql-read"} <= set(discovery.found)
    assert discovery.problems == ()
    assert all(not found.content.oddities for found in discovery.found.values())
    assert all("README.md" in found.content.files for found in discovery.found.values())


def test_the_wheel_holds_them_where_they_are_looked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["sources"]
    assert ROOT / included["plugins"] == places._BUNDLED[0]
    assert places._BUNDLED[1] == ROOT / "plugins"


def test_a_folder_of_the_same_name_beside_an_installed_package_is_not_ours(tmp_path, monkeypatch):
    (tmp_path / "plugins" / "something").mkdir(parents=True)
    monkeypatch.setattr(places, "_BUNDLED", (tmp_path / "bundled", tmp_path / "plugins"))
    assert bundled_directory() is None
    assert plugin_places(tmp_path, None) == (("user", tmp_path / "plugins"),)


def test_places_lie_in_their_order(tmp_path):
    found = plugin_places(tmp_path / "data", tmp_path / "project")
    assert [place for place, _ in found] == ["bundled", "user", "project"]
    assert [place for place, _ in plugin_places(tmp_path / "data", None)] == ["bundled", "user"]
    assert plugin_places(tmp_path / "data", tmp_path / "project")[-1] == ("project", tmp_path / "project" / "plugins")
