"""Places, as a brain and as a language server count them."""

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.tools.lsp_client import NoSuchPlace, Place, path_of, place_of, position, shown_place, uri_of
from kagura_kernel.tools.toolsets.foreign_tools import Breach

TEXT = "𝐱 = area(𝐱, self.area)\nprint(area_of)\n"


def test_a_symbol_is_found_as_a_whole_word_and_counted_in_halves():
    assert position(TEXT, 1, "area", None) == {"line": 0, "character": 5}
    assert position(TEXT, 1, "self.area", None) == {"line": 0, "character": 19}
    assert position(TEXT, 2, "area", None) == {"line": 1, "character": 6}
    assert position(TEXT, 1, "", None) == {"line": 0, "character": 0}
    assert position(TEXT, 1, "", 5) == {"line": 0, "character": 5}
    assert position(TEXT, 1, "", 999) == {"line": 0, "character": 24}


def test_a_place_that_is_not_there_is_said_with_the_line():
    with pytest.raises(NoSuchPlace, match="there is no 'none' on line 2, which is: print"):
        position(TEXT, 2, "none", None)
    with pytest.raises(NoSuchPlace, match="the file has 3 lines; there is no line 9"):
        position(TEXT, 9, "", None)


@given(st.text(alphabet="a𝐱é (.", min_size=1, max_size=30), st.data())
def test_a_column_that_was_asked_about_is_the_column_that_is_shown(row, data):
    column = data.draw(st.integers(1, len(row)))
    asked = position(row, 1, "", column)
    shown = shown_place(Place("/w/a.py", asked["line"], asked["character"]), "/w", [row])
    assert shown.startswith(f"a.py:1:{column}")


@given(st.text(min_size=1, max_size=20).filter(lambda name: "/" not in name and "\0" not in name))
def test_a_path_comes_back_from_its_uri(name):
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    if name not in (".", ".."):
        assert path_of(uri_of(f"/w/{name}")) == f"/w/{name}"


START = {"start": {"line": 1, "character": 2}}


@pytest.mark.parametrize("uri", ["jdt://contents/rt.jar/String.class", "file:a", "http://[", "untitled:1"])
def test_a_place_that_is_no_file_is_shown_as_it_is_called(uri):
    assert shown_place(place_of({"uri": uri, "range": START}), "/w", None) == f"{uri}:2:3"


@pytest.mark.parametrize("said", [{}, {"uri": 3, "range": START}, {"uri": "file:///a", "range": {}}, [], "file:///a"])
def test_what_is_no_place_is_a_breach(said):
    with pytest.raises(Breach):
        place_of(said)
