import datetime as dt
import json
import struct
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.variables import PackedVariable, is_free_in_a_shell
from kagura_kernel.jupyter.variables import value_of
from kagura_kernel.membrane.credentials.needles import needles
from kagura_kernel.membrane.credentials.secret import Secret
from kagura_kernel.runs.box_runner.pack import pack
from kagura_kernel.runs.box_runner.wire import CannotCross, Packed, to_file
from kagura_kernel.runs.exchange import ExchangeDirectory
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.runs.variables import collect_outputs, csv_of, make_exchange, shell_word
from tests.unit.runs.conftest import SECRET

ROOM = 2**20


def variable(name, value):
    packed = pack(value, ROOM)
    return PackedVariable(name, packed.form, packed.data, dict(packed.details), packed.summary)


async def left(stage, *names, **files):
    exchange = ExchangeDirectory(stage.box, outputs=names or ("x",), room=stage.order.room)
    for name, data in files.items():
        await stage.box.files.write(f"{exchange.out}/{name.replace('__', '.')}", data)
    return await collect_outputs(stage, exchange)


async def test_variables_lie_in_the_box_before_anything_runs_and_are_recorded(stage):
    given = (variable("n", 3), variable("df", pd.DataFrame({"a": [1]})))
    stage.order.request = RunRequest(inputs=given)
    exchange = await make_exchange(stage, for_shell=True)
    program = "print(n)"
    path = f"{exchange.scratch}/cell.py"
    await stage.box.files.write(path, program.encode())
    result = await stage.box.run(Command(await exchange.python(path, "cell"), env=exchange.environment("cell")))
    assert (result.stdout.text, result.stderr.text) == ("3\n", "")
    rows = [(row.name, row.direction, row.form, row.bytes > 0) for row in stage.recorder.variables]
    assert rows == [("n", "in", "json", True), ("df", "in", "frame", True)]
    assert exchange.environment("cell")["n"] == "3"
    assert exchange.environment("cell")["df"].endswith("/in/df.csv")


async def test_settings_that_choose_how_to_draw_stand(stage):
    assert (await make_exchange(stage, for_shell=False)).environment("c")["MPLBACKEND"] == "Agg"
    stage.order.spec.env["MPLBACKEND"] = "svg"
    assert "MPLBACKEND" not in (await make_exchange(stage, for_shell=False)).environment("c")


async def test_what_was_left_is_brought_and_the_newest_file_of_a_name_counts(stage):
    brought = await left(stage, "x", "y", x__json=b"[1]", y__kagura=to_file(pack("text", ROOM)))
    assert [(one.name, one.form, one.data) for one in brought.outputs] == [
        ("x", "json", b"[1]"),
        ("y", "text", b"text"),
    ]
    await stage.box.run(shell_command(f"touch -d '2001-01-01' {ExchangeDirectory(stage.box).out}/*"))
    brought = await left(stage, "x", x__txt=b"newer")
    assert brought.outputs[0].form == "text"


async def test_what_was_not_made_is_missing_with_the_reason(stage):
    brought = await left(stage, "x", "y", y__kagura=b'{"error": "a function\\u001b[2J cannot cross"}\n')
    assert brought.missing == (("x", "nothing of that name was made"), ("y", "a function [2J cannot cross"))
    assert [row.error for row in stage.recorder.variables] == [why for _, why in brought.missing]


def head(**fields):
    return json.dumps({"form": "json", "details": {}, "summary": "", **fields}).encode() + b"\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"null\n",
        b"[" * 100_000 + b"\n",
        b"x" * 100,
        head(form="pickle"),
        head(form=["json"]),
        head(form="json", details=[]),
        head(form="json", summary=5),
        head(form="json") + b"{",
        head(form="frame") + b"ARROW1",
        head(form="series", details={"labels": []}) + b"",
        head(form="array") + b"\x80\x04N.",
        head(form="image") + b"<svg onload=alert(1)>",
        head(form="image") + b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 2**30, 2**30),
        head(form="text") + b"\xff",
        head(form="file", details={"kind": "pickle"}),
    ],
    ids=range(17),
)
async def test_what_cannot_be_believed_is_refused_and_told(stage, data):
    brought = await left(stage, x__kagura=data)
    assert brought.outputs == ()
    [(name, why)] = brought.missing
    assert (name, bool(why)) == ("x", True)
    assert stage.recorder.variables[0].error == why


async def test_without_pyarrow_beside_the_kernel_a_frame_says_what_brings_it(stage, monkeypatch):
    frame = pd.DataFrame({"a": [1]})
    came = to_file(pack(frame, ROOM))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(CannotCross, match=r"beside this kernel: `pip install 'kagura-kernel\[frames\]'`"):
        pack(frame, ROOM)
    [(_, why)] = (await left(stage, x__kagura=came)).missing
    assert "a frame travels by pyarrow, which is not installed beside this kernel" in why


async def test_sizes_are_bounded_for_one_and_for_all_together(stage):
    stage.order.room = 1000
    brought = await left(stage, "a", "b", "c", a__txt=b"x" * 600, b__txt=b"x" * 600, c__txt=b"x" * 300)
    assert [one.name for one in brought.outputs] == ["a", "c"]
    assert brought.missing == (("b", "it has 600 bytes, and 400 bytes may cross"),)
    huge = f"truncate -s 100G {ExchangeDirectory(stage.box).out}/x.txt"
    await stage.box.run(shell_command(huge))
    assert (await left(stage, "x")).missing[0][1].startswith("it has 100.0 GiB")


async def test_a_leased_secret_does_not_come_out_as_a_variable(stage):
    secret = max(needles([Secret(SECRET)]), key=len)
    brought = await left(stage, x__json=json.dumps(secret).encode())
    assert brought.missing == (("x", "it holds a secret that this run has leased, and secrets stay in the box"),)


async def test_a_link_that_leads_elsewhere_is_no_output(stage):
    exchange = ExchangeDirectory(stage.box, outputs=("x",))
    await stage.box.run(shell_command(f"mkdir -p {exchange.out}; ln -s /etc/hostname {exchange.out}/x.txt"))
    assert (await collect_outputs(stage, exchange)).outputs == ()


async def test_a_csv_file_becomes_a_frame_and_an_array_file_an_array(stage, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    brought = await left(stage, "t", "a", t__csv=b"n,s\n1,x\n", a__npy=(tmp_path / "a.npy").read_bytes())
    table, array = (value_of(one, tmp_path) for one in brought.outputs)
    assert table.to_dict("list") == {"n": [1], "s": ["x"]}
    assert array.tolist() == [0, 1, 2]


async def test_a_summary_of_a_box_is_one_short_line(stage):
    packed = Packed("json", b"1", {}, "a\nb\u202e" + "x" * 1000)
    [one] = (await left(stage, x__kagura=to_file(packed))).outputs
    assert one.summary.startswith("a b x")
    assert len(one.summary) == 500


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
        (pd.DataFrame({"t": pd.to_datetime(["2026-01-02 03:04"]).as_unit("us")}), "t\n2026-01-02 03:04:00.000000\n"),
        (pd.Series([1.5], name="s"), "s\n1.5\n"),
        (pd.Series([1.5]), "value\n1.5\n"),
        (pd.Series([1.5], name="half \ud800"), "half \ufffd\n1.5\n"),
        (pd.DataFrame(), "\n"),
    ],
    ids=range(11),
)
def test_a_table_is_csv_for_a_shell(value, text):
    assert csv_of(packed(value)).decode() == text


def test_names_that_mean_something_to_a_shell_are_known():
    assert not any(
        map(is_free_in_a_shell, ["PATH", "LD_PRELOAD", "HOME", "KAGURA_OUT", "https_proxy", "BASH_ENV", "IFS"])
    )
    assert all(map(is_free_in_a_shell, ["df", "path", "DATA", "GITHUB", "result_2"]))
