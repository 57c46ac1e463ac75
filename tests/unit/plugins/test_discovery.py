import os

import pytest

from kagura_kernel.domain.errors import PluginInvalid
from kagura_kernel.plugins.manifest import discover, load_found
from tests.support.plugin_files import write_plugin


@pytest.fixture
def places(tmp_path):
    return [("bundled", tmp_path / "ours"), ("user", tmp_path / "user"), ("project", tmp_path / "project")]


def whys(discovery):
    return {problem.path.name: "\n".join(problem.why) for problem in discovery.problems}


def test_plugins_of_all_places_are_found_by_name(places):
    for (_, place), name in zip(places, ("zeta", "alpha", "mid"), strict=True):
        write_plugin(place, name)
    discovery = discover(places)
    assert [(name, found.place) for name, found in discovery.found.items()] == [
        ("alpha", "user"),
        ("mid", "project"),
        ("zeta", "bundled"),
    ]
    assert discovery.problems == ()
    assert discovery.found["mid"].manifest.host_modules == ("mid",)
    assert discovery.found["mid"].content.root == places[2][1] / "mid"


def test_places_that_do_not_exist_have_no_plugins(places):
    assert discover(places).found == {}


def test_an_earlier_place_keeps_its_name(places):
    for _, place in places:
        write_plugin(place, "greeter")
    discovery = discover(places)
    assert discovery.found["greeter"].place == "bundled"
    assert [(problem.place, problem.why[0]) for problem in discovery.problems] == [
        ("user", "its name is that of a bundled plugin; give it another one"),
        ("project", "its name is that of a bundled plugin; give it another one"),
    ]


def test_a_module_belongs_to_the_first_plugin_that_has_it(places):
    write_plugin(places[1][1], "later", hostModules=["words", "more"])
    write_plugin(places[1][1], "also", hostModules=["words"])
    write_plugin(places[0][1], "first", hostModules=["more"])
    discovery = discover(places)
    assert list(discovery.found) == ["also", "first"]
    assert whys(discovery) == {"later": "its module 'more' is one of the bundled plugin 'first'; give it another name"}


def test_an_invalid_plugin_is_told_and_the_others_go_on(places):
    write_plugin(places[1][1], "good")
    write_plugin(places[1][1], "worse", version="v1", description="")
    write_plugin(places[1][1], "broken", files={"plugin.json": b"{"})
    (write_plugin(places[1][1], "half") / "plugin.py").unlink()
    (write_plugin(places[1][1], "other-half") / "plugin.json").unlink()
    write_plugin(places[1][1], "elsewhere").rename(places[1][1] / "here")
    discovery = discover(places)
    assert list(discovery.found) == ["good"]
    told = whys(discovery)
    assert "version" in told["worse"]
    assert "description" in told["worse"]
    assert "not JSON" in told["broken"]
    assert told["half"] == "there is no plugin.py"
    assert told["other-half"] == "there is no plugin.json"
    assert "its directory is 'here'" in told["here"]


def test_a_linked_plugin_is_told_and_not_read(places, tmp_path):
    root = write_plugin(tmp_path / "away")
    places[2][1].mkdir()
    (places[2][1] / "greeter").symlink_to(root)
    discovery = discover(places)
    assert discovery.found == {}
    assert "is a link" in whys(discovery)["greeter"]


def test_a_linked_manifest_says_that_it_is_one(places, tmp_path):
    root = write_plugin(places[1][1])
    (root / "plugin.json").rename(tmp_path / "plugin.json")
    (root / "plugin.json").symlink_to(tmp_path / "plugin.json")
    assert whys(discover(places)) == {"greeter": "plugin.json is a link; a plugin holds its files itself"}


def test_what_is_no_plugin_at_all_is_passed_over(places):
    place = places[2][1]
    (place / "docs").mkdir(parents=True)
    (place / "file.py").write_text("")
    write_plugin(place, "hidden").rename(place / ".hidden")
    write_plugin(place, "private").rename(place / "_private")
    assert discover(places).problems == ()
    assert discover(places).found == {}


def test_one_place_under_two_names_is_one_place(places, tmp_path):
    write_plugin(places[0][1])
    (tmp_path / "alias").symlink_to(places[0][1])
    discovery = discover([*places, ("project", tmp_path / "alias")])
    assert list(discovery.found) == ["greeter"]
    assert discovery.problems == ()


def test_a_directory_with_a_name_that_is_not_text_is_told_in_letters(places):
    root = write_plugin(places[1][1])
    root.rename(root.with_name(os.fsdecode(b"gr\xffeter")))
    [problem] = discover(places).problems
    assert problem.name == "gr\\udcffeter"
    assert all(why.isprintable() for why in problem.why)


def test_oddities_are_left_to_the_gate_so_that_a_person_sees_them(places):
    (write_plugin(places[1][1]) / "notes").symlink_to("README.md")
    [found] = discover(places).found.values()
    assert [finding.rule for finding in found.content.oddities] == ["link"]


def test_discovery_reads_anew(places):
    root = write_plugin(places[1][1])
    before = discover(places).found["greeter"].content.content_hash
    stamps = (root / "README.md").stat()
    (root / "README.md").write_bytes(b"# Greetz\n")
    os.utime(root / "README.md", ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    assert discover(places).found["greeter"].content.content_hash != before


def test_one_directory_is_loaded_or_says_all_that_is_wrong(tmp_path):
    root = write_plugin(tmp_path, version="1")
    (root / "plugin.py").unlink()
    with pytest.raises(PluginInvalid) as raised:
        load_found(root, "user")
    assert len(raised.value.problems) == 2


def test_a_place_that_holds_too_much_is_not_read_to_its_end_and_the_next_one_is(places, monkeypatch):
    for name in ("first", "second", "third"):
        (write_plugin(places[1][1], name) / "data.txt").write_bytes(b"x" * 1000)
    write_plugin(places[2][1], "mine")
    monkeypatch.setattr("kagura_kernel.plugins.manifest.MAX_PLACE_BYTES", 2000)
    discovery = discover(places)
    assert list(discovery.found) == ["first", "mine", "second"]
    assert "it was not read" in whys(discovery)["third"]
