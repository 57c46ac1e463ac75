from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kagura_kernel.domain.variables import PackedVariable, is_free_in_a_shell
from kagura_kernel.runs.box_runner.packing import pack
from kagura_kernel.runs.variables import csv_of, shell_word


def packed(value):
    found = pack(value, 2**24)
    return PackedVariable("x", found.form, found.data, dict(found.details), found.summary)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (3, "3"),
        (2.5, "2.5"),
        (True, "true"),
        (None, ""),
        ("two words", "two words"),
        (["a", 1], '["a",1]'),
        ({"on": dt.date(2026, 1, 2), "usd": [Decimal("1.10")]}, '{"on":"2026-01-02","usd":["1.10"]}'),
        ([float("inf"), float("nan"), True, None], "[null,null,true,null]"),
        ([dt.timedelta(hours=1), Path("/workspace/a")], '["1:00:00","/workspace/a"]'),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (Decimal("1.10"), "1.10"),
        (Path("/workspace/a"), "/workspace/a"),
        (np.zeros(2), "/file"),
        (b"x", "/file"),
        ("with\0nothing", "/file"),
        ("half \ud800", "/file"),
        ("x" * 200_000, "/file"),
    ],
    ids=repr,
)
def test_plain_values_are_words_and_everything_else_a_file(value, word):
    assert shell_word(packed(value), "/file") == word


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pd.DataFrame({"a": [1, 2], "b": ["x", None]}), "a,b\n1,x\n2,\n"),
        (pd.DataFrame({"a": ["x, y", 'say "z"']}), 'a\n"x, y"\n"say ""z"""\n'),
        (pd.DataFrame({"a": [1]}, index=pd.Index(["k"], name="key")), "key,a\nk,1\n"),
        (pd.DataFrame({"a": [1]}, index=["k"]), "index,a\nk,1\n"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("p", 2)])), "p_2\n1\n"),
        (pd.DataFrame({"c": pd.Categorical(["u", "v"]), "l": [[1], []]}), "c,l\nu,[1]\nv,[]\n"),
        (pd.DataFrame({"t": pd.to_datetime(["2026-01-02 03:04"])}), "t\n2026-01-02 03:04:00.000000\n"),
        (pd.Series([1.5], name="s"), "s\n1.5\n"),
        (pd.Series([1.5]), "value\n1.5\n"),
        (pd.DataFrame(), "\n"),
    ],
    ids=range(10),
)
def test_a_table_is_csv_for_a_shell(value, text):
    assert csv_of(packed(value)).decode() == text


def test_names_that_mean_something_to_a_shell_are_known():
    assert not any(
        map(is_free_in_a_shell, ["PATH", "LD_PRELOAD", "HOME", "KAGURA_OUT", "https_proxy", "BASH_ENV", "IFS"])
    )
    assert all(map(is_free_in_a_shell, ["df", "path", "DATA", "GITHUB", "result_2"]))
