import ast

import pytest
from hypothesis import assume, given, strategies as st
from IPython.core.interactiveshell import InteractiveShell

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.dialect import (
    ENTRY,
    ENTRY_INSIDE,
    Form,
    escaped,
    form_of,
    is_marker,
    masked,
    plain,
    read,
    rewrite,
    without_markers,
)

LINE = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(lambda line: "\n" not in line)
TEXT = st.lists(LINE, max_size=6).map("\n".join)


@pytest.mark.parametrize(
    ("cell", "form"),
    [
        ("", Form.EMPTY),
        (" \n\t\n", Form.EMPTY),
        ("# NBVAL_SKIP", Form.EMPTY),
        ("# NBVAL_SKIP\n\n", Form.EMPTY),
        ("Count the files.", Form.PROMPT),
        ("x = 1", Form.PROMPT),
        ("import os\nos.getcwd()", Form.PROMPT),
        ("# A heading\nis a prompt, too", Form.PROMPT),
        ("Is it done?", Form.PROMPT),
        ("print?", Form.PROMPT),
        ("files = !ls", Form.PROMPT),
        ("\n\n  an indented prompt", Form.PROMPT),
        ("# NBVAL_IGNORE_OUTPUT\nGo on.", Form.PROMPT),
        ("A prompt\n%%py\n/runs\n!ls", Form.PROMPT),
        (r"\/etc/hosts: what is it?", Form.PROMPT),
        (r"\%matplotlib is what?", Form.PROMPT),
        (r"\\server\share", Form.PROMPT),
        ("%%py\nx = 1", Form.PYTHON),
        ("%%py", Form.PYTHON),
        ("\n# NBVAL_SKIP\n%%py\nx = 1", Form.PYTHON),
        ("%%kagura --new\nGo.", Form.AGENT),
        ("%%sandbox bash\nls", Form.AGENT),
        ("%%time\nGo.", Form.WRAPPED),
        ("%%pyx\nx", Form.IPYTHON),
        ("%%bash\nls", Form.IPYTHON),
        ("%%\nx", Form.IPYTHON),
        ("%matplotlib inline", Form.IPYTHON),
        ("!ls", Form.IPYTHON),
        ("?print", Form.IPYTHON),
        ("/runs", Form.COMMANDS),
        ("  /runs", Form.COMMANDS),
        ("/", Form.COMMANDS),
        ("//", Form.COMMANDS),
    ],
)
def test_the_first_characters_decide_what_a_cell_is(cell, form):
    assert form_of(cell) is form


@pytest.mark.parametrize(
    ("cell", "same"),
    [
        ("Count\nthe {files}, $5.\n", "%%kagura\nCount\nthe {files}, $5.\n"),
        (r"\/etc/hosts", "%%kagura\n/etc/hosts"),
        (r"\\/x", "%%kagura\n\\/x"),
        (r"\alpha", "%%kagura\n\\alpha"),
        ("# NBVAL_SKIP\nGo.", "# NBVAL_SKIP\n%%kagura\nGo."),
        ("%%py\nx = 1\n", "x = 1\n"),
        ("%%py", ""),
        ("%%py\n\n%%time\nx = 1", "%%time\nx = 1"),
        ("/runs", "%kagura runs"),
        ("/ runs ", "%kagura runs"),
        ("/", "%kagura"),
        ("/runs\n\n/cost", "get_ipython().kagura_commands(\n    'runs',\n    'cost',\n)"),
        ("%%time\nGo.", "%%time\n%%kagura\nGo."),
        ("%%time\n%%capture out\n%%py\nx", "%%time\n%%capture out\nx"),
        ("%%timeit\n%%py\nx", "%%timeit\nx"),
        ("%%timeit -n 1 -r2\nGo.", "%%timeit -n 1 -r2\n%%kagura\nGo."),
        ("%%kagura --new\nGo.", "%%kagura --new\nGo."),
        ("%matplotlib inline\n!ls \\\n  -l\n\n?print", "%matplotlib inline\n!ls \\\n  -l\n\n?print"),
        ("%%bash\nls", "%%bash\nls"),
        ("\n", "\n"),
    ],
)
def test_each_cell_has_an_equal_in_a_python_kernel(cell, same):
    assert plain(cell) == same


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%matplotlib inline\nNow draw it.", ["'Now draw it.'", "a cell of its own", "%%py"]),
        ("!ls\nx = 1", ["'x = 1'", "Nothing was run"]),
        ("/etc/hosts is odd\nWhy?", ["'Why?'", "backslash"]),
        ("/runs\n%kagura cost", ["'%kagura cost'"]),
        ("%%py x = 1", ["alone on its line"]),
        ("%%time\n%x\ny", ["'y'"]),
        ("%%timeit\nGo.", ["%%time ", "-n 1 -r 3"]),
        ("%%timeit -n 5\n%%kagura\nGo.", ["-n 1 -r 3"]),
        ("%x\n" + "y" * 500, ["yyy…'"]),
    ],
)
def test_a_cell_of_two_kinds_is_refused_and_told_the_ways_out(cell, words):
    with pytest.raises(UsageError) as refused:
        plain(cell)
    assert all(word in refused.value.message for word in words)


@pytest.mark.parametrize("cell", ["%x\ny", "%%py x", "%%timeit\nGo."])
def test_what_is_half_written_is_never_refused(cell):
    assert form_of(cell) in Form


@given(TEXT)
def test_no_prompt_loses_a_character(text):
    cell = escaped(text)
    assume(form_of(cell) is Form.PROMPT)
    found = read(cell)
    assert found.before + found.text == text
    assert plain(cell) == f"{found.before}%%kagura\n{found.text}"
    assert all(not line.strip() or is_marker(line) for line in found.before.split("\n"))


@given(TEXT.filter(lambda text: text.strip() and not any(map(is_marker, text.split("\n")))))
def test_every_text_can_be_sent_as_a_prompt(text):
    assert read(escaped(text)).form is Form.PROMPT


@given(TEXT)
def test_no_cell_is_a_surprise(cell):
    try:
        plain(cell, to_run=True)
    except UsageError as refused:
        assert refused.message  # noqa: PT017 - both ends are fine


@given(st.text("\n ", max_size=4), st.lists(st.sampled_from(["x = 1", "", "    y = 2", "if x:"]), max_size=5))
def test_python_stays_on_its_lines(before, lines):
    cell = f"{before}%%py\n" + "\n".join(lines)
    ran = plain(cell, to_run=True).split("\n")
    for number, line in enumerate(cell.split("\n")):
        if line.strip() and not line.strip().startswith("%%"):
            assert ran[number] == line
    assert all(line.strip() for line in ran[: cell[: cell.index("%%py")].count("\n")])


def test_indented_python_is_taken_back_as_ipython_does_it():
    assert plain("\n%%py\n  x = 1\n  y = 2", to_run=True) == "  #\n  # %%py\n  x = 1\n  y = 2"


def test_braces_of_a_command_stay_braces_where_ipython_would_fill_them():
    from IPython.utils.text import DollarFormatter

    line = plain('/approve app-1 "a {x} costs $5 or ${HOME}"').removeprefix("%kagura ")
    assert DollarFormatter().vformat(line, (), {"x": 7}) == 'approve app-1 "a {x} costs $5 or ${HOME}"'


def test_positions_stay_where_python_is_looked_at():
    assert masked("\n%%py\nimport os") == "\n# py\nimport os"


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
