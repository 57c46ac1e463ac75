import pytest

from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.tools.text_file import readable_path, workspace_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".", "."),
        ("", "."),
        ("/workspace", "."),
        ("/workspace/", "."),
        ("a/b", "a/b"),
        ("./a//b/", "a/b"),
        ("a/../b", "b"),
        ("/workspace/a", "a"),
        ("/tmp", "/tmp"),
        ("/tmp/x", "/tmp/x"),
        ("//tmp/x", "/tmp/x"),
    ],
)
def test_paths_in_the_workspace_and_in_tmp_are_taken(path, expected):
    assert workspace_path("/workspace", path) == expected


@pytest.mark.parametrize(
    "path", ["..", "../x", "a/../../x", "/", "/etc/passwd", "/workspace2/x", "/tmp/../etc", "/tmpx"]
)
def test_paths_outside_are_refused_and_the_text_says_where_tools_may_look(path):
    with pytest.raises(BoxFileError, match="/workspace and /tmp"):
        workspace_path("/workspace", path)


def test_a_nul_is_refused():
    with pytest.raises(BoxFileError, match="NUL"):
        workspace_path("/workspace", "a\0b")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/a.py", "src/a.py"),
        ("/tmp/x", "/tmp/x"),
        ("/kagura/kit", "/kagura/kit"),
        ("/kagura/kit/skills/csv/SKILL.md", "/kagura/kit/skills/csv/SKILL.md"),
        ("../kagura/kit/skills/./csv", "/kagura/kit/skills/csv"),
    ],
)
def test_a_kit_can_be_read_like_the_workspace(path: str, expected: str):
    assert readable_path("/workspace", path) == expected


@pytest.mark.parametrize("path", ["/kagura", "/kagura/kits/x", "/kagura/kit/../secret", "/etc/passwd", "a\0b"])
def test_what_lies_beside_a_kit_cannot(path: str):
    with pytest.raises(BoxFileError):
        readable_path("/workspace", path)


def test_a_kit_cannot_be_written():
    with pytest.raises(BoxFileError):
        workspace_path("/workspace", "/kagura/kit/skills/csv/SKILL.md")
