from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.runtime.files import matches


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "d/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "d/e/a.py", True),
        ("d/**", "d/e/f", True),
        ("d/**", "d", False),
        ("d/**/f", "d/f", True),
        ("?.txt", "a.txt", True),
        ("?.txt", "ab.txt", False),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("[!ab].txt", "c.txt", True),
        ("a[!x]b", "a/b", False),
        ("[a", "[a", True),
        ("[]]", "]", True),
        ("a.b", "axb", False),
        ("[a-c]1", "b1", True),
        ("[^a]", "^", True),
        ("./a", "a", True),
        ("a\nb*", "a\nbc", True),
    ],
)
def test_patterns_match_paths(pattern, path, expected):
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    assert matches(parts, path.split("/")) is expected


@given(st.text(), st.text())
def test_no_pattern_breaks_it(pattern, path):
    assert matches(pattern.split("/"), path.split("/")) in (True, False)
