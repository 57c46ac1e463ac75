"""An id that somebody types names one thing, or nothing."""

from __future__ import annotations

import pytest

from kagura_kernel.cockpit.transports.acting import ending, the_one
from kagura_kernel.domain.errors import UsageError

FIRST, SECOND = "app-0123456789abcd", "app-1123456789abcd"


@pytest.mark.parametrize("word", [FIRST, FIRST.upper(), "app-0123456789abcd"[4:]])
def test_a_whole_id_names_its_own(word):
    assert the_one(word, "app", [FIRST, SECOND]) == FIRST


@pytest.mark.parametrize("word", ["89abcd", "app-89abcd"])
def test_the_end_of_an_id_names_it_where_it_fits_one_alone(word):
    assert the_one(word, "app", [SECOND]) == SECOND
    with pytest.raises(UsageError, match="fits 2"):
        the_one(word, "app", [FIRST, SECOND])


@pytest.mark.parametrize("word", ["d", "9abcd", "app-9abcd", "app-", "last", ""])
def test_what_is_shorter_names_nothing(word):
    with pytest.raises(UsageError, match="Too short"):
        the_one(word, "app", [FIRST])


def test_what_fits_none_is_none():
    assert the_one("run-89abcd", "app", [FIRST]) == ""
    assert ending("run-89ABCD", "run") == "89abcd"
