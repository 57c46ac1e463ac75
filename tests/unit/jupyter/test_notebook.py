"""The notebook around a cell: from what the kernel ran, from its file, and from a front end's answer."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from kagura_kernel.domain.errors import NotebookUnwritable, RunKilled, UsageError
from kagura_kernel.domain.notebook import CellEdit, CellImage
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.jupyter import notebook as module
from kagura_kernel.jupyter.notebook import (
    LARGEST_IMAGE,
    MOST_PASTED,
    about,
    cells_of,
    cells_writer,
    error_text,
    failed_cells,
    notebook_of,
    unwatch,
    watch,
)
from kagura_kernel.jupyter.steering import run_line
from kagura_kernel.jupyter.surface import Surface


class Kernel:
    """As much of a kernel as is asked: the request that it carries out."""

    def __init__(self):
        self.parent = {}

    def get_parent(self, _channel="shell"):
        return self.parent


class Shell(InteractiveShell):
    """Keeps a traceback as that of ipykernel does."""

    def _showtraceback(self, _kind, _value, told):
        self._last_traceback = told


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setattr("IPython.core.history.HistoryAccessor.enabled", False)
    made = Shell()
    made.kernel = Kernel()
    watch(made)
    yield made
    unwatch(made)


def run(shell, source, ident, *tags):
    shell.kernel.parent = {"metadata": {"tags": list(tags)}}
    return shell.run_cell(source, store_history=True, cell_id=ident)


async def seen(shell, notebook="", cell="here", surface=Surface.HEADLESS):
    return await notebook_of(shell, CellPlace(notebook, "", cell), surface)


async def test_what_the_kernel_ran_is_known_with_its_errors_and_without_values(shell):
    run(shell, "rows = [1, 2, 3]\nsecret_word = 'correct horse'", "a")
    run(shell, "rows['x']", "b")
    run(shell, "rows.append(4)", "a")
    found = await seen(shell)
    assert (found.source, [cell.id for cell in found.cells]) == ("kernel", ["b", "a"])
    assert found.cells[0].error.endswith("TypeError: list indices must be integers or slices, not str")
    assert "rows['x']" in found.cells[0].error
    names = {one.name: one.about for one in found.names}
    assert names == {"rows": "list, 4", "secret_word": "str, 13"}


async def test_an_interrupt_while_the_front_end_is_asked_says_that_nothing_was_run(shell, monkeypatch):
    asked, never = asyncio.Event(), asyncio.Event()

    async def ask(_question):
        asked.set()
        await never.wait()

    monkeypatch.setattr(module, "_asked", ask)
    cell = asyncio.ensure_future(seen(shell, surface=Surface.NOTEBOOK))
    await asked.wait()
    cell.cancel()
    with pytest.raises(RunKilled, match="nothing was run"):
        await cell


async def test_cells_that_nobody_names_are_known_by_their_order(shell):
    run(shell, "n = 1", None)
    run(shell, "n = 2", None)
    assert [(cell.id, cell.source) for cell in (await seen(shell, cell="")).cells] == [
        ("ran-1", "n = 1"),
        ("ran-2", "n = 2"),
    ]


async def test_a_private_cell_is_not_there_and_neither_are_the_names_that_it_gave(shell):
    run(shell, "password = 'x'\ndef unlock(): pass", "a", "private")
    run(shell, "n = 1", "b")
    run(shell, "# Private: of the bank\ntoken = 'x'", "c")
    found = await seen(shell)
    assert ([cell.id for cell in found.cells], [one.name for one in found.names]) == (["b"], ["n"])
    assert found.private == 2
    assert cells_of([{"cell_type": "code", "id": "p", "source": ["# private\n", "x"]}]) == ([], {"p"})


@pytest.mark.parametrize("source", ["live", "file"])
async def test_the_names_of_a_cell_that_became_private_after_it_ran_are_not_there(shell, monkeypatch, tmp_path, source):
    run(shell, "first = 1", "a")
    run(shell, "password = 'x'\nfrom os import sep as mark\nexec('by_itself = 1')\ndef unlock(): 1/0", "a")
    run(shell, "n = 1\nunlock()", "b")
    cells = [
        {"cell_type": "code", "id": "a", "source": "password", "metadata": {"tags": ["private"]}},
        {"cell_type": "code", "id": "b", "source": "n = 1\nunlock()", "execution_count": 2},
        {"cell_type": "code", "id": "here", "source": "%%kagura"},
    ]
    file = tmp_path / "work.ipynb"
    if source == "file":
        file.write_text(json.dumps({"cells": cells, "nbformat": 4}))

    async def answer(_question):
        return {"name": "w.ipynb", "cells": cells} if source == "live" else None

    monkeypatch.setattr(module, "_asked", answer)
    found = await seen(shell, str(file), surface=Surface.NOTEBOOK)
    assert (found.source, [one.name for one in found.names], found.private) == (source, ["n"], 1)
    assert "unlock" not in found.cells[0].error


async def test_a_private_cell_that_ran_before_the_extension_was_loaded_tells_nothing_either(shell):
    unwatch(shell)
    run(shell, "# private\npassword = 'x'\ndef unlock(): 1/0", "a")
    watch(shell)
    run(shell, "n = 1\nunlock()", "b")
    found = await seen(shell)
    assert ([one.name for one in found.names], found.private) == (["n"], 1)
    assert found.cells[0].error == "ZeroDivisionError: division by zero"


async def test_names_of_a_tagged_cell_that_ran_before_the_extension_was_loaded_are_known_by_its_file(
    shell, monkeypatch, tmp_path
):
    unwatch(shell)
    run(shell, "password = 'x'", "a", "private")
    watch(shell)
    run(shell, "n = 1", "b")
    tags, file = {"tags": ["private"]}, tmp_path / "work.ipynb"
    saved = {"cell_type": "code", "id": "a", "source": ["password = 'x'"], "metadata": tags}
    file.write_text(json.dumps({"cells": [saved], "nbformat": 4}))

    async def answer(_question):
        return {"name": "w.ipynb", "cells": [{"id": "a", "metadata": tags}]}

    monkeypatch.setattr(module, "_asked", answer)
    found = await seen(shell, str(file), surface=Surface.NOTEBOOK)
    assert (found.source, [one.name for one in found.names], found.private) == ("live", ["n"], 1)


async def test_of_the_file_what_ran_since_counts_and_what_is_not_saved_stands_before_the_asking_cell(shell, tmp_path):
    file = tmp_path / "work.ipynb"
    printed = {"output_type": "stream", "name": "stdout", "text": ["41\n"]}
    cells = [
        {"cell_type": "markdown", "id": "m", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "id": "a", "source": "n = 1", "execution_count": 1, "outputs": [printed]},
        {"cell_type": "code", "id": "p", "source": "token", "metadata": {"tags": ["private"]}},
        {"cell_type": "code", "id": "here", "source": "%%kagura\nlook"},
    ]
    file.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    run(shell, "n = 2", "a")
    run(shell, "n + 1", "new")
    found = await seen(shell, str(file))
    assert (found.source, found.name, found.private) == ("file", "work.ipynb", 1)
    assert [(cell.id, cell.source, cell.output) for cell in found.cells] == [
        ("m", "# Title\ntext", ""),
        ("a", "n = 2", ""),
        ("new", "n + 1", ""),
        ("here", "%%kagura\nlook", ""),
    ]


def test_a_cell_that_waits_for_nothing_asks_no_front_end(shell):
    run(shell, "n = 1", "a")
    asking = seen(shell, surface=Surface.INSIDE)
    with pytest.raises(StopIteration) as answered:
        asking.send(None)
    assert answered.value.value.source == "kernel"


async def test_the_front_end_is_asked_first_and_not_again_when_it_knows_nothing(shell, monkeypatch):
    asked = []

    async def answer(question):
        asked.append(question)
        return {"name": "w.ipynb", "cells": [{"cell_type": "code", "id": "here", "source": "x"}]} if asked[1:] else None

    monkeypatch.setattr(module, "_asked", answer)
    shell.kernel.parent = {"header": {"session": "old"}}
    assert (await seen(shell, surface=Surface.NOTEBOOK)).source == "kernel"
    assert (await seen(shell, surface=Surface.NOTEBOOK)).source == "kernel"
    assert len(asked) == 1
    shell.kernel.parent = {"header": {"session": "ours"}}
    found = await seen(shell, surface=Surface.NOTEBOOK)
    assert (found.source, found.name) == ("live", "w.ipynb")


def test_the_cell_that_failed_last_is_the_one_to_fix_until_it_runs_well(shell):
    run(shell, "1/0", "a")
    run(shell, "1/0", "b")
    assert failed_cells(shell) == ["b", "a"]
    run(shell, "1", "b")
    assert failed_cells(shell) == ["a"]
    run(shell, "1", "a")
    assert failed_cells(shell) == []
    run(shell, "%%kagura --no-such-option\nfix it", "c")
    assert failed_cells(shell) == []
    with pytest.raises(UsageError, match="No cell has failed"):
        run_line(shell, "fix")
    with pytest.raises(UsageError, match=r"'In\[3\]' is no id of a cell"):
        run_line(shell, "fix In[3]")


def test_a_cell_that_is_not_there_is_told_with_those_that_failed(shell):
    run(shell, "1", "fine")
    with pytest.raises(UsageError, match=r"no cell 'zzzzzzzz' .* None has failed"):
        run_line(shell, "fix zzzzzzzz")
    run(shell, "1/0", "a")
    run(shell, "1/0", "b")
    with pytest.raises(UsageError, match=r"no cell 'zzzzzzzz' .* These failed: b, a\."):
        run_line(shell, "explain zzzzzzzz")


def test_an_id_that_a_file_has_made_up_is_no_word_of_a_command(shell):
    cells, _ = cells_of([{"cell_type": "code", "id": "a\nimport os", "source": "x"}])
    assert cells[0].id == "cell-1"
    with pytest.raises(UsageError):
        run_line(shell, "fix 'a import-os()'")


async def test_an_error_tells_no_line_of_a_private_cell(shell):
    run(shell, "# private\ndef connect(x):\n    host = 'secret.example'\n    return 1 / x", "p")
    run(shell, "connect(0)", "a")
    assert [cell.error for cell in (await seen(shell)).cells] == ["ZeroDivisionError: division by zero"]
    failed = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["Cell In[1], line 2\nhost = 1"]}
    raw = [
        {"cell_type": "code", "id": "p", "source": "# private"},
        {"cell_type": "code", "id": "a", "outputs": [failed]},
    ]
    assert [cell.error for cell in cells_of(raw)[0]] == ["E: v"]


def test_a_traceback_keeps_the_persons_own_lines():
    told = [
        "\x1b[31m---\x1b[39m",
        "\x1b[31mKeyError\x1b[39m  Traceback (most recent call last)",
        "Cell \x1b[32mIn[5]\x1b[39m, line 1\n----> 1 frame['b']",
        "File \x1b[32m/venv/lib/python3.11/site-packages/pandas/core/frame.py:4102\x1b[39m, in get\n  4102 raise",
        "File pandas/_libs/index.pyx:172, in get_loc()\n--> 172 'Could not get source'",
        "File /home/ada/mine.py:3, in load\n----> 3 return frame['b']",
        "KeyError: 'b'",
    ]
    text = error_text("KeyError", "'b'", told)
    own = ["Cell In[5], line 1", "----> 1 frame['b']", "File /home/ada/mine.py:3, in load", "----> 3 return frame['b']"]
    assert text.split("\n") == [*own, "KeyError: 'b'"]


@pytest.mark.parametrize("raw", [None, {}, [1, None, {"cell_type": "odd"}], [{"cell_type": "code", "outputs": 3}]])
def test_what_is_no_cell_is_passed_over(raw):
    cells, private = cells_of(raw)
    assert (len(cells), private) == (int(isinstance(raw, list) and len(raw) == 1), set())


def test_of_a_source_all_is_kept_as_far_as_anybody_writes_one():
    long = "x = 1\n" * 20_000
    cells, _ = cells_of(
        [{"cell_type": "code", "id": "a", "source": long}, {"cell_type": "raw", "id": "b", "cut": True}]
    )
    assert [(cell.source, cell.whole) for cell in cells] == [(long, True), ("", False)]


def test_what_an_agent_answered_is_no_output_of_a_cell():
    shown = {"output_type": "display_data", "data": {"text/plain": "the whole card"}}
    cells, _ = cells_of([{"cell_type": "code", "id": "k", "source": "%%kagura\nlook", "outputs": [shown]}])
    assert cells[0].output == ""


class Odd:
    def __len__(self):
        raise RuntimeError("no code of the person's own is run")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (pd.DataFrame({"day": [1, 2], "amount": [3, 4]}), "DataFrame, 2 × 2: day, amount"),
        (np.zeros((2, 3)), "ndarray of float64, 2 × 3"),
        (pd.Series([1.5]), "Series of float64, 1"),
        (np.float64(1.5), "float64 of float64, a single value"),
        (np.random.default_rng(1), "numpy.Generator"),
        (pd.DataFrame({"day": [1]}).groupby("day"), "pandas.DataFrameGroupBy"),
        ({"a": 1}, "dict, 1"),
        (41, "int"),
        (SimpleNamespace(), "types.SimpleNamespace"),
        (error_text, "function(name, value, traceback)"),
        (Odd, "class"),
        (Odd(), "tests.Odd"),
    ],
)
def test_a_value_is_told_by_what_it_is(value, told):
    assert about(value) == told


def test_images_are_those_that_a_cell_shows_and_bounded():
    dot = {"image/png": "iVBORw0KGgo="}
    pasted = {"a.png": dot, "gone.png": dot}
    text = "![a](attachment:a.png) ![b](attachment:b.png)"
    outputs = [
        {"output_type": "display_data", "data": {**dot, "text/plain": "<Figure>"}},
        {"output_type": "display_data", "data": {"image/png": "x" * (LARGEST_IMAGE + 1)}},
        {"output_type": "display_data", "data": {"image/svg+xml": "<svg/>"}},
        {"output_type": "display_data", "data": 7},
    ]
    cells, _ = cells_of(
        [
            {
                "cell_type": "markdown",
                "id": "m",
                "source": text,
                "attachments": {**pasted, "b.png": 7},
            },
            {"cell_type": "code", "id": "c", "source": "plot()", "outputs": outputs},
            {"cell_type": "code", "id": "k", "source": "%%kagura\nlook", "outputs": outputs},
        ]
    )
    assert [cell.pasted for cell in cells] == [(CellImage("a.png", dot["image/png"]),), (), ()]
    assert [cell.drawn for cell in cells] == [(), (CellImage("output of c", dot["image/png"]),), ()]
    assert cells[0].digest != replace(cells[0], pasted=()).digest


def test_a_cell_with_images_without_end_is_asked_for_the_first_ones_alone():
    names = [f"{number}.png" for number in range(2 * MOST_PASTED)]
    source = "".join(f"(attachment:{name})" for name in names)
    attachments = {name: {"image/png": "iVBORw0KGgo="} for name in names}
    ((cell,), _) = cells_of([{"cell_type": "markdown", "source": source, "attachments": attachments}])
    assert [image.name for image in cell.pasted] == names[:MOST_PASTED]


class Comm:
    """A comm with pages at its other end, each of which shows the notebook; they answer at once, in their order."""

    def __init__(self, pages, **_opened):
        self.told = []
        self._pages = pages

    def on_msg(self, hear):
        self._hear = hear
        for page in self._pages:
            self._say({"shows": page})

    def send(self, data):
        self.told.append(data)
        if not data["to"].startswith("gone"):
            self._say({"refused": {"b": "changed"}})

    def close(self):
        pass

    def _say(self, data):
        self._hear({"content": {"data": data}})


@pytest.fixture
def pages(shell, monkeypatch):
    """Have these pages answer: the function that changes cells, and what the comm was told."""
    monkeypatch.setattr(module, "WRITE_SECONDS", 0.01)

    def opened(*names):
        comms = []

        def create(**options):
            comms.append(Comm(names, **options))
            return comms[-1]

        monkeypatch.setattr("comm.create_comm", create)
        return cells_writer(shell), comms

    return opened


def test_cells_are_changed_by_exactly_one_of_the_pages_that_show_the_notebook(pages):
    write, comms = pages("one", "two")
    assert write("/p/w.ipynb", [CellEdit("delete", "b")]) == {"b": "changed"}
    assert [told["to"] for told in comms[0].told] == ["one"]
    assert comms[0].told[0]["edits"][0]["cell"] == "b"


def test_a_page_that_is_gone_in_between_leaves_it_open_and_nobody_writes_the_file_meanwhile(pages):
    write, _ = pages("gone")
    with pytest.raises(NotebookUnwritable, match="gave no answer"):
        write("/p/w.ipynb", [CellEdit("delete", "b")])
    write, _ = pages()
    assert write("/p/w.ipynb", [CellEdit("delete", "b")]) is None
