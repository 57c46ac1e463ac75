from __future__ import annotations

import pytest

from kagura_kernel.domain.errors import BoxFileError
from kagura_kernel.tools.paths import workspace_path


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
