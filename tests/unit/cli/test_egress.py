"""Targets are addresses or `localhost`, or nothing is looked up: no test asks a name server."""

import json

import pytest

from kagura_kernel.cli.main import main

pytestmark = pytest.mark.usefixtures("books")


def test_several_words_stand_behind_one_option_as_in_a_cell(capsys):
    words = ["egress", "check", "--no-resolve", "--net", "github, example.org", "example.org", "api.github.com"]
    assert main(words) == 0
    assert capsys.readouterr().out.count(": allowed") == 2


def test_none_takes_back_what_stands_before_it(capsys):
    words = ["egress", "check", "--no-resolve", "--net", "example.org,none", "--net", "example.net", "--json"]
    assert main([*words, "example.org", "example.net"]) == 1
    assert [one["allowed"] for one in json.loads(capsys.readouterr().out)] == [False, True]


def test_what_is_advised_for_a_host_on_this_machine_opens_it(capsys):
    assert main(["egress", "check", "--json", "localhost:8080"]) == 1
    (refused,) = json.loads(capsys.readouterr().out)
    word = refused["advice"].partition("--net ")[2]
    assert {one["address"] for one in refused["addresses"]} & {"127.0.0.1", "::1"}
    assert "127.0.0.1:8080" in word or "[::1]:8080" in word
    assert main(["egress", "check", "--net", word, "localhost:8080"]) == 0


@pytest.mark.parametrize("target", ["169.254.169.254:80", "http://[fd00:ec2::254]/latest", "100.100.100.200:80"])
def test_what_hands_out_the_credentials_of_a_machine_is_never_advised(target, capsys):
    assert main(["egress", "check", target]) == 1
    assert "--net" not in capsys.readouterr().out


def test_a_set_that_is_mistyped_is_an_error_with_what_was_meant(capsys):
    assert main(["egress", "check", "--no-resolve", "--net", "python-package", "example.org"]) == 2
    assert "Did you mean python-packages?" in capsys.readouterr().err


def test_a_set_that_has_a_mirror_means_the_mirror_as_in_a_run(tmp_path, capsys):
    folder = tmp_path / "config" / "kagura-kernel"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('[mirrors]\ngithub = ["mirror.example:8443"]\n')
    words = ["egress", "check", "--no-resolve", "--json", "--net", "github"]
    assert main([*words, "mirror.example:8443", "api.github.com"]) == 1
    assert [one["allowed"] for one in json.loads(capsys.readouterr().out)] == [True, False]
