import itertools

import pytest

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.plugins.repositories.trusted import name_for, newest, place_of, precedence, read_offer

ENTRY = {
    "name": "diary",
    "version": "1.0.0",
    "description": "Keeps a diary",
    "hostModules": ["diary"],
    "permissions": {"read": [], "write": [], "net": []},
    "author": "",
    "risk": "LOW",
    "contentHash": "a" * 64,
}


def offer(version):
    found = read_offer("site", "diary.zip", ENTRY | {"version": version})
    assert found is not None
    return found


def test_versions_are_in_the_order_of_semver():
    order = ["1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0", "1.0.1", "1.10.0"]
    for before, after in itertools.pairwise(order):
        assert precedence(before) < precedence(after)
    assert precedence("1.0.0+a") == precedence("1.0.0+b")


@pytest.mark.parametrize(
    ("versions", "latest"),
    [(["1.9.0", "1.10.0", "2.0.0-rc.1"], "1.10.0"), (["2.0.0-rc.1", "2.0.0-rc.2"], "2.0.0-rc.2"), ([], None)],
)
def test_the_newest_is_no_preview_where_there_is_anything_else(versions, latest):
    found = newest(map(offer, versions))
    assert (found.version if found is not None else None) == latest


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "../diary"},
        {"version": "v1"},
        {"description": "a\u202eb"},
        {"author": "Ada\u200b"},
        {"risk": "NONE"},
        {"contentHash": "a"},
        {"permissions": {"read": ["../x"]}},
    ],
)
def test_an_entry_that_cannot_be_understood_offers_nothing(wrong):
    assert read_offer("site", "x", ENTRY | wrong) is None


def test_an_entry_may_say_more_than_is_known():
    assert read_offer("site", "x", ENTRY | {"homepage": "https://example.org"}) is not None
    assert read_offer("site", "x", None) is None


def test_a_repository_is_called_like_its_host_or_folder(tmp_path):
    assert name_for(place_of("https://plugins.example.org/a")) == "plugins-example-org"
    (tmp_path / "Our Site").mkdir()
    assert name_for(place_of(str(tmp_path / "Our Site"))) == "our-site"
    assert name_for("https://127.0.0.1/") == "plugins"


@pytest.mark.parametrize(
    "source", ["https://[", "~nobody-of-that-name/site", "x" * 5000, "a\0b"], ids=["bracket", "home", "long", "letter"]
)
def test_what_can_be_no_place_of_a_repository_says_so(source):
    with pytest.raises(UsageError, match=r"There (can be|is) no repository at"):
        place_of(source)
