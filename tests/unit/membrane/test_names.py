import unicodedata

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.membrane.names import folded, has_control, is_below, is_protected_name, shown

DISGUISED = [
    ".git",
    ".GIT/config",
    "docs/.git/hooks/post-checkout",
    "a/b/.Git",
    ".Kagura/z",
    ".Kagura",
    ".g\u200cit/config",
    "\ufeff.git/config",
    ".git\u2060",
    ".git . ./config",
    ".\uff47\uff49\uff54/config",
    "git~1/config",
    "GIT~27",
    "KAGURA~1/x",
    ".git::$INDEX_ALLOCATION/config",
    ".git:x",
    "a\\.git\\config",
    ".envrc",
    "sub/.envrc",
    ".hg/hgrc",
    ".jj/repo/config.toml",
]


@pytest.mark.parametrize("path", DISGUISED)
def test_a_protected_name_is_known_in_every_disguise_and_at_every_depth(path: str) -> None:
    assert is_protected_name(path)


@pytest.mark.parametrize(
    "path",
    [".gitignore", ".github/workflows/ci.yml", "git", "legit", "src/git.py", "git~", "git~x", "kagura/a", "..git"],
)
def test_other_names_are_free(path: str) -> None:
    assert not is_protected_name(path)


@pytest.mark.parametrize("char", ["\n", "\t", "\r", "\x1b", "\x00", "\x7f", "\x9b", "\u2028", "\u2029"])
def test_control_characters_are_known_and_written_out(char: str) -> None:
    assert has_control(f"a{char}b")
    assert shown(f"a{char}b") == f"a⟨U+{ord(char):04X}⟩b"


@given(st.text())
def test_what_is_shown_is_one_line_without_control_characters(text: str) -> None:
    line = shown(text)
    assert not has_control(line)
    assert len(line.splitlines()) <= 1


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_folding_twice_changes_nothing_and_forgets_case_and_form(name: str) -> None:
    assert folded(folded(name)) == folded(name)
    assert folded(unicodedata.normalize("NFD", name)) == folded(unicodedata.normalize("NFC", name))


def test_a_path_is_below_a_root_in_any_case_and_not_beside_it() -> None:
    assert is_below("Data/raw/x.csv", "data/raw")
    assert is_below("data/RAW", "data/raw")
    assert not is_below("data/rawer", "data/raw")
