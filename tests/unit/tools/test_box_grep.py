import os

import pytest

from kagura_kernel.tools import box_grep
from kagura_kernel.tools.box_grep import search


@pytest.fixture
def tree(tmp_path, monkeypatch):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("import os\nprint('Grüße')\n")
    (tmp_path / "b.txt").write_bytes(b"import this\r\nlast")
    (tmp_path / "bin").write_bytes(b"import\0binary")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x").write_text("import hidden")
    (tmp_path / "link").symlink_to("b.txt")
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(*args, **more):
    return search(*args, **more)["matches"]


@pytest.mark.usefixtures("tree")
def test_a_file_can_be_searched_alone():
    assert found("src/a.py", "Gr.ße") == [("src/a.py", 2, "print('Grüße')")]


@pytest.mark.usefixtures("tree")
def test_a_glob_chooses_by_name_and_with_a_slash_by_path():
    assert [match[0] for match in found(".", "import", glob="*.py")] == ["./src/a.py"]
    assert [match[0] for match in found(".", "import", glob="src/*")] == ["./src/a.py"]
    assert found(".", "import", glob="*.md") == []


def test_there_is_an_end_to_matches_and_to_lines(tree):
    assert search(".", "import", most=1)["more"] is True
    (tree / "long").write_text("x" * 5000)
    assert len(found("long", "x", most=1)[0][2]) == box_grep.LONGEST_LINE


@pytest.mark.usefixtures("tree")
def test_wrong_patterns_and_paths_are_told():
    assert "no regular expression" in search(".", "(")["error"]
    assert "there is no gone" in search("gone", "x")["error"]


def test_a_pattern_that_fits_nothing_at_all_finds_only_lines_that_are_empty(tree):
    (tree / "c.txt").write_bytes(b"one\r\n\r\nthree\n")
    assert found(".", "^$") == [("./c.txt", 2, "")]


@pytest.mark.usefixtures("tree")
def test_the_end_of_a_line_is_before_its_carriage_return():
    assert found("b.txt", "this$") == [("b.txt", 1, "import this")]
