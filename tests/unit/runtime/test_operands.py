from __future__ import annotations

import pytest

from kagura_kernel.runtime.router import leads_out


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.txt").write_text("")
    (folder / "inner").symlink_to("src/a.txt")
    (folder / "round").symlink_to("round")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "up").symlink_to("..")
    (folder / "far").symlink_to("up/../x")
    return folder


@pytest.mark.parametrize(
    "word",
    ["src", ".", "-n", "src/a.txt", "inner", "round", "missing/x", "s/a/b/", "x" * 5000, "--include=src", "-esrc"],
)
def test_what_stays_below_is_fine_whether_it_exists_or_not(project, word):
    assert leads_out(["-n", word], project) == ""


@pytest.mark.parametrize(
    "word",
    ["link", "up", "up/secret", "./up", "far", "..", "/etc", "-flink", "--file=link", "a=b=link", "x:up", "src/../.."],
)
def test_what_leads_out_is_named(project, word):
    assert leads_out(["src", word, "."], project) == word


def test_a_project_that_is_named_by_a_link_is_still_the_project(project, tmp_path):
    (tmp_path / "name").symlink_to(project)
    assert leads_out(["src", "inner"], tmp_path / "name") == ""
    assert leads_out(["link"], tmp_path / "name") == "link"
