import os

import pytest

from kagura_kernel.domain.search_path import entries_outside, is_inside


@pytest.mark.parametrize("entry", ["", ".", "bin", "..", "/p", "/p/", "/p/bin", "/p/.venv/bin"])
def test_entries_that_lead_into_the_project_or_depend_on_where_one_stands_are_left_out(entry):
    assert entries_outside(["/usr/bin", entry, "/bin"], ["/p"], os.path.normpath) == ["/usr/bin", "/bin"]


@pytest.mark.parametrize("entry", ["/pp", "/usr/p", "/p2/bin", "/"])
def test_other_entries_are_kept_as_they_were_written(entry):
    assert entries_outside([entry], ["/p"], os.path.normpath) == [entry]


def test_a_link_into_the_project_counts_as_the_project(tmp_path):
    (tmp_path / "project" / "bin").mkdir(parents=True)
    (tmp_path / "elsewhere").symlink_to(tmp_path / "project" / "bin")
    (tmp_path / "by-link").symlink_to(tmp_path / "project")
    entries = [str(tmp_path / "elsewhere"), "/usr/bin"]
    assert entries_outside(entries, [str(tmp_path / "by-link")], os.path.realpath) == ["/usr/bin"]


def test_the_root_holds_everything_and_therefore_says_nothing():
    assert entries_outside(["/usr/bin"], ["/"], os.path.normpath) == ["/usr/bin"]
    assert not is_inside("/", ["/"])
