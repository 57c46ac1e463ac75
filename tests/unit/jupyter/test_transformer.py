from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell

from kagura_kernel.jupyter.dialect import ENTRY, ENTRY_INSIDE, rewrite, without_markers


def arguments(cell: str) -> list[str]:
    """What the rewritten cell passes on: magic, line, body."""
    [line] = rewrite(cell.splitlines(keepends=True))
    call = ast.parse(line, mode="exec").body[0].value.value
    assert ast.unparse(call.func) == f"get_ipython().{ENTRY}"
    return [ast.literal_eval(argument) for argument in call.args]


def test_a_kagura_cell_becomes_an_awaited_call():
    cell = "%%kagura --budget 2\nCount the files.\nThen stop.\n"
    assert rewrite(cell.splitlines(keepends=True))[0].startswith("await ")
    assert arguments(cell) == ["kagura", "--budget 2", "Count the files.\nThen stop.\n"]


def test_a_sandbox_cell_becomes_an_awaited_call():
    assert arguments("%%sandbox bash\nls -l\n") == ["sandbox", "bash", "ls -l\n"]


@pytest.mark.parametrize(
    "body", ['say "hi"', "it's {x}", "'''", '"""', "back\\slash \\n", "日本語 🎉", "a\ttab", "%%kagura", "x;"]
)
def test_the_body_arrives_as_it_was_written(body):
    assert arguments(f"%%kagura\n{body}\n") == ["kagura", "", f"{body}\n"]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")))
def test_any_body_arrives_as_it_was_written(body):
    assert arguments("%%kagura\n" + body)[2] == without_markers(body)


@pytest.mark.parametrize(
    "cell",
    [
        "x = 1\n",
        "%kagura runs\n",
        "%%kaguraX\ntext\n",
        "%%kagura_kernel\n",
        "%%time\n%%kagura\nhello\n",
        "x = '''\n%%kagura\n'''\n",
        " %%kagura\nindented\n",
        "",
        "\n\n",
        "# NBVAL_SKIP\nprint(1)\n",
    ],
)
def test_other_cells_are_left_alone(cell):
    lines = cell.splitlines(keepends=True)
    assert rewrite(lines) == lines


def test_empty_lines_and_markers_may_stand_before_the_magic():
    assert arguments("\n# NBVAL_IGNORE_OUTPUT\n\n%%kagura\nhello\n") == ["kagura", "", "hello\n"]


def test_marker_lines_do_not_become_part_of_the_prompt():
    body = "# NBVAL_IGNORE_OUTPUT\nfirst\n  # NBVAL_RAISES_EXCEPTION\n# NBVAL_MINE\nlast # NBVAL_SKIP\n"
    assert arguments("%%kagura\n" + body)[2] == "first\n# NBVAL_MINE\nlast # NBVAL_SKIP\n"


def test_a_cell_without_a_body_still_gets_to_the_usage_answer():
    assert arguments("%%kagura --bg") == ["kagura", "--bg", ""]


@pytest.fixture
def shell():
    found = InteractiveShell()
    found.input_transformers_cleanup.insert(0, rewrite)
    yield found
    found.history_manager.end_session()


def test_a_cell_below_another_magic_becomes_a_call_that_is_not_awaited(shell):
    seen = []
    shell.register_magic_function(lambda _line, cell: seen.append(shell.transform_cell(cell)), "cell", "above")
    shell.run_cell_magic("above", "", "%%kagura --new\nGo.\n")
    assert seen == [f"get_ipython().{ENTRY_INSIDE}('kagura', '--new', 'Go.\\n')\n"]


async def test_a_cell_that_code_runs_below_a_loop_becomes_a_call_that_is_not_awaited(shell):
    setattr(shell, ENTRY_INSIDE, lambda *given: given)
    assert shell.run_cell("%%sandbox bash\nls").result == ("sandbox", "bash", "ls\n")
    assert shell.transform_cell("%%sandbox\nls").startswith("await ")
