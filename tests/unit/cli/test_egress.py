"""Targets are addresses or `localhost`, or nothing is looked up: no test asks a name server."""

import json

import pytest

from kagura_kernel.cli.main import main

pytestmark = pytest.mark.usefixtures("books")


def test_several_words_stand_behind_one_option_as_in_a_cell(prints):
    words = ["egress", "check", "--no-resolve", "--net", "github, example.org", "example.org", "api.github.com"]
    assert prints(*words).count(": allowed") == 2


def test_none_takes_back_what_stands_before_it(prints):
    words = ["egress", "check", "--no-resolve", "--net", "example.org,none", "--net", "example.net", "--json"]
    assert [one["allowed"] for one in json.loads(prints(*words, "example.org", "example.net", code=1))] == [False, True]


def test_what_is_advised_for_a_host_on_this_machine_opens_it(prints):
    (refused,) = json.loads(prints("egress", "check", "--json", "localhost:8080", code=1))
    word = refused["advice"].partition("--net ")[2]
    assert {one["address"] for one in refused["addresses"]} & {"127.0.0.1", "::1"}
    assert "127.0.0.1:8080" in word or "[::1]:8080" in word
    assert main(["egress", "check", "--net", word, "localhost:8080"]) == 0


@pytest.mark.parametrize("target", ["169.254.169.254:80", "http://[fd00:ec2::254]/latest", "100.100.100.200:80"])
def test_what_hands_out_the_credentials_of_a_machine_is_never_advised(target, prints):
    assert "--net" not in prints("egress", "check", target, code=1)


def test_a_set_that_is_mistyped_is_an_error_with_what_was_meant(refuses):
    assert "Did you mean python-packages?" in refuses(
        "egress", "check", "--no-resolve", "--net", "python-package", "example.org"
    )


def test_a_set_that_has_a_mirror_means_the_mirror_as_in_a_run(tmp_path, prints):
    folder = tmp_path / "config" / "kagura-kernel"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('[mirrors]\ngithub = ["mirror.example:8443"]\n')
    words = ["egress", "check", "--no-resolve", "--json", "--net", "github"]
    assert [one["allowed"] for one in json.loads(prints(*words, "mirror.example:8443", "api.github.com", code=1))] == [
        True,
        False,
    ]
