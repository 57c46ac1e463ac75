"""`plugin publish`, `repository`, `search`, `install NAME` and `update`, as they are typed and read."""

import json
import sys

import pytest

from tests.support.plugin_rig import write_plugin


@pytest.fixture
def publish(plugins, prints, tmp_path):
    """Publishes a version of a plugin: what is said."""
    del plugins

    def make(version, **keys):
        made = write_plugin(tmp_path / version, "diary", version=version, **keys)
        return prints("plugin", "publish", str(tmp_path / "site"), str(made), "--key", str(tmp_path / "key"))

    return make


@pytest.fixture
def site(publish, prints, tmp_path):
    """A trusted repository, from which the plugin was installed."""
    said = publish("1.0.0")
    assert "diary 1.0.0 added, 1 in all" in said
    # The line that is printed is what others type.
    command = said.splitlines()[-1].split()[1:]
    assert "site is trusted" in prints(*command)
    assert "diary 1.0.0 is installed" in prints("plugin", "install", "diary")
    return tmp_path / "site"


@pytest.mark.usefixtures("plugins")
def test_what_was_changed_after_it_was_signed_is_not_published_and_says_what_to_do(prints, refuses, tmp_path):
    made, key = write_plugin(tmp_path / "made", "diary"), str(tmp_path / "key")
    prints("plugin", "sign", str(made), "--key", key, "--author", "Ada")
    (made / "README.md").write_text("more")
    said = refuses("plugin", "publish", str(tmp_path / "site"), str(made), "--key", key)
    assert "The plugin 'diary' cannot be published" in said
    assert "signs them anew" in said


def typing(monkeypatch, answer):
    """A person sits before the terminal, and answers."""
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)


@pytest.mark.usefixtures("site")
def test_a_search_says_what_a_plugin_asks_for_and_what_is_installed(prints, publish):
    publish("1.1.0", permissions={"net": ["example.org"]})
    line = prints("plugin", "search", "DIARY").splitlines()[1]
    assert line.split()[:6] == ["diary", "1.1.0", "1.0.0", "site", "-", "UNKNOWN"]
    assert "reaches example.org" in line
    [hit] = json.loads(prints("plugin", "search", "--json"))
    assert (hit["permissions"]["net"], hit["installed"]) == (["example.org"], "1.0.0")
    assert "Nothing like that" in prints("plugin", "search", "calendar")


@pytest.mark.usefixtures("site")
def test_an_update_says_what_is_other_and_changes_nothing_without_a_word(prints, publish, monkeypatch):
    assert "Nothing newer" in prints("plugin", "update")
    publish("1.1.0", permissions={"net": ["example.org"]})
    said = prints("plugin", "update", code=1)
    assert "permissions: new: reaches example.org" in said
    assert "kagura-kernel plugin update diary@1.1.0 --yes" in said
    assert "diary: 1.1.0 can be had" in prints("plugin", "list")
    typing(monkeypatch, "n")
    assert "Nothing is changed" in prints("plugin", "update", code=1)
    typing(monkeypatch, "y")
    assert "diary 1.1.0 is installed" in prints("plugin", "update", "diary")
    assert "can be had" not in prints("plugin", "list")


@pytest.mark.usefixtures("site")
def test_an_update_for_programs_is_data_and_asks_nobody(prints, publish, monkeypatch):
    publish("1.1.0")
    typing(monkeypatch, "y")
    [found] = json.loads(prints("plugin", "update", "--json", code=1))
    assert (found["installed"], found["version"], found["updated"]) == ("1.0.0", "1.1.0", False)
    [done] = json.loads(prints("plugin", "update", "diary@1.1.0", "--yes", "--json"))
    assert (done["updated"], done["changed"]) == (True, ["plugin.json"])


def test_a_repository_is_listed_and_trusted_no_longer(site, prints, refuses):
    [listed] = json.loads(prints("plugin", "repository", "list", "--json"))
    assert (listed["repository"], listed["url"], len(listed["root_sha256"])) == ("site", str(site), 64)
    assert str(site) in prints("plugin", "repository", "list")
    (site / "metadata" / "timestamp.json").write_text("{}")
    assert refuses("plugin", "search").startswith("ERR_PLUGIN_REPOSITORY: The plugin repository 'site'")
    assert "trusted no longer" in prints("plugin", "repository", "remove", "site")
    assert "You trust no repository yet" in prints("plugin", "repository", "list")
    assert "ERR_USAGE" in refuses("plugin", "search")


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("publish", "site"), "Say with which key"),
        (("repository", "add", "nowhere"), "no such folder"),
        (("repository", "add", "http://example.org"), "https://"),
        (("repository", "remove", "nobody"), "ERR_UNKNOWN_NAME"),
        (("update", "../x"), "is no plugin's name"),
        (("install", "diary", "--repository", "nobody"), "ERR_UNKNOWN_NAME"),
    ],
)
def test_a_mistake_is_told(words, said, refuses):
    assert said in refuses("plugin", *words)
