import json

import pytest

from kagura_kernel.cli import images
from kagura_kernel.cli.main import main
from kagura_kernel.sandbox.images.build import Listed
from kagura_kernel.sandbox.images.recipes import NAMES
from kagura_kernel.sandbox.images.verification import Finding, Kind, Verdict


@pytest.mark.docker
@pytest.mark.parametrize("words", [["build", "base"], ["list"], ["verify"]])
@pytest.mark.parametrize("host", ["unix:///nonexistent/none.sock", "ssh://somewhere"])
def test_a_machine_without_docker_is_told_and_not_set_up(words, host, monkeypatch, capsys):
    monkeypatch.setenv("DOCKER_HOST", host)
    assert main(["images", *words]) == 3
    said = capsys.readouterr()
    assert said.err.startswith("ERR_SANDBOX_UNAVAILABLE: ")
    assert "Traceback" not in said.err
    assert "bubblewrap" not in said.err


def test_without_docker_the_recipes_are_listed_and_nothing_is_said_of_their_images(monkeypatch, prints):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/none.sock")
    said = prints("images", "list", code=3).splitlines()
    assert [line.split()[0] for line in said] == list(NAMES)
    assert all("not known, no daemon" in line for line in said)
    assert {one["known"] for one in json.loads(prints("images", "list", "--json", code=3))} == {False}


def test_an_unknown_image_is_refused_before_any_daemon_is_asked(refuses):
    assert "Did you mean 'python'" in refuses("images", "build", "pyton")


def test_a_build_argument_without_a_value_is_refused(refuses):
    assert refuses("images", "build", "--build-arg", "KEY", "gcloud") == (
        "ERR_USAGE: kagura-kernel images build: --build-arg: 'KEY' has no value; NAME=VALUE is needed. "
        "`kagura-kernel images build --help` says what can be asked for.\n"
    )


def test_findings_are_told_with_their_place():
    verdict = Verdict(
        "a:b",
        "sha256:1",
        2,
        10,
        (
            Finding(Kind.CREDENTIAL, "root/.netrc", "a password for a host", 1, deleted=True),
            Finding(Kind.ROOT, "user", "its programs run as root"),
        ),
    )
    assert images._told(verdict) == (
        "a:b: 2 found (2 layers, 10 entries)\n"
        "  - credential: layer 1, root/.netrc: a password for a host (deleted in a later layer)\n"
        "  - root: user: its programs run as root"
    )


def test_a_line_of_the_list_tells_what_there_is():
    there = Listed(
        "base", "kagura/base:latest", "a shell", "locked", tested=True, id="sha256:" + "a" * 64, size=1_500_000_000,
        created="2026-01-02T03:04:05.6Z", base="sha256:" + "b" * 64, current=True
    )  # fmt: skip
    assert images._line(there) == (
        "base    kagura/base:latest  aaaaaaaaaaaa  1,500 MB  2026-01-02T03:04:05 on bbbbbbbbbbbb"
        "  up to date, locked: a shell"
    )
    missing = Listed("gcloud", "kagura/gcloud:latest", "gcloud", "none", tested=False)
    assert images._line(missing) == "gcloud  not built, and not built in the tests: gcloud"
