import pytest
from hypothesis import given, strategies as st

from kagura_kernel.cockpit.lines.completion import Completions, Name, complete, explain
from kagura_kernel.domain.grammar import Kind
from tests.support.effort import examples

KNOWN = {
    Kind.RUN: [Name("last", "done, count"), Name("run-1-abc", "done, count"), Name("run-2-xyz", "running, wait")],
    Kind.APPROVAL: [Name("app-7", "Run a command on the host (run-1-abc)")],
    Kind.LEASE: [Name("lea-1", "github:read of run-1-abc"), Name("github:read")],
    Kind.FILE: [Name("src/"), Name("my file.txt"), Name("setup.py", "a file")],
    Kind.NOTEBOOK: [Name("a.ipynb")],
    Kind.BOX: [Name("auto"), Name("docker", "ready")],
    Kind.HOST: [Name("ask"), Name("github"), Name("npm")],
    Kind.VARIABLE: [Name("df", "DataFrame, 3 × 2"), Name("day")],
    Kind.EXPRESSION: [Name("df", "DataFrame, 3 × 2"), Name("day")],
    Kind.CHANGED_PATH: [Name("a.txt"), Name("b c.txt"), Name("it's")],
    Kind.TEXT: [Name("the first one")],
}


class KnownNames:
    """Names that stand still; remembers what was looked up."""

    def __init__(self) -> None:
        self.asked: list[tuple[Kind, str, tuple[str, ...]]] = []

    def names(self, kind, prefix, given):
        self.asked.append((kind, prefix, tuple(given)))
        return KNOWN.get(kind, [])


def at_bar(cell):
    """A cell and its cursor, which stands as a bar."""
    return cell.replace("|", "", 1), cell.index("|")


def completed(cell, *, prompt=False):
    """What takes the place of what, by the cell as it would be."""
    text, cursor = at_bar(cell)
    found = complete(text, cursor, KnownNames(), prompt=prompt)
    if found is None:
        return None
    assert found.end == cursor
    return [text[: found.start] + item.text for item in found.items]


@pytest.mark.parametrize(
    ("cell", "cells"),
    [
        ("%kagura he|", ["%kagura help"]),
        ("  %kagura he|", ["  %kagura help"]),
        ("x = %kagura ru|", ["x = %kagura runs"]),
        ("print(1)\n%kagura ru|\nprint(2)", ["print(1)\n%kagura runs"]),
        ("%kagura eg|", ["%kagura egress"]),
        ("%kagura egress |", ["%kagura egress log", "%kagura egress check"]),
        ("%kagura egress log --ref|", ["%kagura egress log --refused"]),
        ("%kagura doc|", []),
        ("%kagura kill |", ["%kagura kill last", "%kagura kill run-1-abc", "%kagura kill run-2-xyz"]),
        ("%kagura kill xyz|", ["%kagura kill run-2-xyz"]),
        ("%kagura kill run-1-abc run|", ["%kagura kill run-1-abc run-2-xyz"]),
        ("%kagura approve |", ["%kagura approve app-7"]),
        ("%kagura approve app-7 |", ["%kagura approve app-7 'the first one'"]),
        ("%kagura revoke g|", ["%kagura revoke github:read"]),
        ("%kagura apply last b|", ["%kagura apply last 'b c.txt'"]),
        ("%kagura apply last 'b|", ["%kagura apply last 'b c.txt'"]),
        ('%kagura apply last "b|', ['%kagura apply last "b c.txt"']),
        ("%kagura apply last i|", ["""%kagura apply last 'it'"'"'s'"""]),
        ("%kagura apply last a.txt a|", []),
        ("%kagura export |", ["%kagura export a.ipynb", "%kagura export --output", "%kagura export --force"]),
        ("%kagura export a.ipynb --output=se|", ["%kagura export a.ipynb --output=setup.py"]),
        ("%kagura help kil|", ["%kagura help kill"]),
        ("%kagura help %%s|", ["%kagura help %%sandbox"]),
        ("%%kagura --bu|\ntask", ["%%kagura --budget"]),
        ("%%kagura --box |", ["%%kagura --box auto", "%%kagura --box docker"]),
        ("%%kagura --box=d|", ["%%kagura --box=docker"]),
        ("%%kagura --box d|ocker", ["%%kagura --box docker"]),
        ("%%kagura --net github,n|", ["%%kagura --net github,npm"]),
        ("%%kagura --net github,|", ["%%kagura --net github,ask", "%%kagura --net github,npm"]),
        ("%%kagura -i d|", ["%%kagura -i df", "%%kagura -i day"]),
        ("%%kagura -i df,d|", ["%%kagura -i df,day"]),
        ("%%kagura -i top=d|", ["%%kagura -i top=df", "%%kagura -i top=day"]),
        ("%%kagura -i top=f(d|", ["%%kagura -i top=f(df", "%%kagura -i top=f(day"]),
        ("%%kagura --write |", ["%%kagura --write ask", "%%kagura --write through", "%%kagura --write none"]),
        ("%%kagura --new --ses|", []),
        ("%%kagura --new --n|", ["%%kagura --new --net"]),
        ("%%kagura --budget |", []),
        ("%%kagura --nonsense=|", []),
        ("\n# NBVAL_IGNORE_OUTPUT\n%%sandbox ba|\nls", ["\n# NBVAL_IGNORE_OUTPUT\n%%sandbox bash"]),
        ("%%time\n%%kagura --mod|", ["%%time\n%%kagura --model", "%%time\n%%kagura --mode"]),
        ("%%kagura\nlook at @s|", ["%%kagura\nlook at @src/", "%%kagura\nlook at @setup.py"]),
        ("%%kagura\nlook at it|", []),
        ("%%kagura -- --bu|", []),
    ],
)
def test_in_a_python_kernel_our_lines_are_completed(cell, cells):
    assert completed(cell) == cells


@pytest.mark.parametrize(
    "cell",
    [
        "df.he|",
        "",
        "|",
        "%kagura|",
        "%%kag|ura",
        "|%%kagura --b",
        "%%sandbox\nimport o|",
        "%%bash\n%kagura ru|",
        "%kaguras r|",
        "x == '%kagura r|'",
        "# %kagura ru|",
        "read @se|",
        "/kil|",
        "%%time %kagura ru|\n1",
        "%%kagura -i top=df.|",
        "%%kagura -i top=df.he|",
        "%%kagura -i 'top=df[\"a|",
        "%%sandbox -i n -i top=f(df['a|",
    ],
)
def test_what_is_not_ours_is_left_to_ipython(cell):
    text, cursor = at_bar(cell) if "|" in cell else (cell, 0)
    assert complete(text, cursor, KnownNames(), prompt=False) is None


@pytest.mark.parametrize(
    ("cell", "cells"),
    [
        ("/kil|", ["/kill"]),
        ("/runs\n/kil|", ["/runs\n/kill"]),
        ("/kill x|", []),
        ("/kill xyz|", ["/kill run-2-xyz"]),
        ("Read @se|", ["Read @setup.py"]),
        ("Read @|", ["Read @src/", 'Read @"my file.txt"', "Read @setup.py"]),
        ('Read @"my|', ['Read @"my file.txt"']),
        ("Read (@se|)", ["Read (@setup.py"]),
        ("mail ann@se|", []),
        ("Read me|", []),
        ("\\/run @se|", ["\\/run @setup.py"]),
        ("%kagura ru|", ["%kagura runs"]),
        ("%%py\nx = %kagura ru|", ["%%py\nx = %kagura runs"]),
        ("%%time\nRead @se|", ["%%time\nRead @setup.py"]),
    ],
)
def test_in_the_kagura_kernel_prompts_and_slash_commands_are_completed(cell, cells):
    assert completed(cell, prompt=True) == cells


@pytest.mark.parametrize("cell", ["%%py\nimpor|", "!l|", "?le|", "%tim|", "%%py\nRead @se|"])
def test_python_in_the_kagura_kernel_is_left_to_ipython(cell):
    assert completed(cell, prompt=True) is None


def test_each_word_is_offered_once():
    text, cursor = at_bar("/help |")
    words = [item.text for item in complete(text, cursor, KnownNames(), prompt=True).items]
    assert len(words) == len(set(words))
    assert {"egress", "chart"} <= set(words)


def test_nothing_is_looked_up_for_words_of_the_grammar():
    names = KnownNames()
    for cell in (
        "%kagura |",
        "%%kagura --b|",
        "%%kagura --write |",
        "%%sandbox ba|",
        "%kagura help |",
        "%kagura egress |",
    ):
        text, cursor = at_bar(cell)
        assert complete(text, cursor, names, prompt=False).items
    assert names.asked == []


def test_a_look_up_is_told_what_stands_before_it():
    names = KnownNames()
    text, cursor = at_bar("%kagura apply last a.txt b|")
    complete(text, cursor, names, prompt=False)
    assert names.asked == [(Kind.CHANGED_PATH, "b", ("apply", "last", "a.txt"))]


def test_a_completion_says_what_it_is():
    text, cursor = at_bar("%kagura kill xyz|")
    found = complete(text, cursor, KnownNames(), prompt=False)
    assert isinstance(found, Completions)
    assert [tuple(item) for item in found.items] == [("run-2-xyz", "run", "running, wait")]


CELLS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "%kagura ",
                "%%kagura ",
                "%%sandbox ",
                "%%time\n",
                "%%py\n",
                "/",
                "@",
                "\n",
                "--in ",
                "-i x=",
                "kill ",
                "apply ",
                "'",
                '"',
                "\\",
                "--net a,",
                "--box=",
                " ",
                "# NBVAL_SKIP\n",
                "=",
                "--",
                "egress ",
            ]
        ),
        st.text(max_size=4),
    ),
    max_size=8,
).map("".join)


@examples(50, 300, "kagura_kernel/cockpit/")
@given(CELLS, st.data(), st.booleans())
def test_no_cell_and_no_cursor_is_too_odd(cell, data, prompt):
    cursor = data.draw(st.integers(0, len(cell)))
    found = complete(cell, cursor, KnownNames(), prompt=prompt)
    if found is not None:
        assert 0 <= found.start <= found.end == cursor
    said = explain(cell, cursor, KnownNames(), prompt=prompt)
    assert said is None or said


@pytest.mark.parametrize(
    ("cell", "parts"),
    [
        ("%%kagura --budg|et 3", ["--budget USD\n  Stop the run", "Without it: no limit.", "  %%kagura --budget 0.50"]),
        ("%%kagura --box=docke|r", ["docker: ready"]),
        ("%%kagura --box nowher|e", ["--box NAME"]),
        ("%%kagura| --new", ["usage: %%kagura [--brain NAME]"]),
        ("%%kagura --new |", ["usage: %%kagura [--brain NAME]"]),
        ("%%kagura -i d|f", ["df: DataFrame, 3 × 2"]),
        ("%%kagura -i top=d|f", ["df: DataFrame, 3 × 2"]),
        ("%%kagura --write as|k", ["--write ask|through|none"]),
        ("%%sandbox ba|sh", ["python|bash\n  The language of the program"]),
        ("%kagura ki|ll last", ["usage: %kagura kill RUN …"]),
        ("%kagura egr|ess log", ["usage: %kagura egress log "]),
        ("%kagura| runs", ["answer and stop"]),
        ("%kagura no|nsense", ["answer and stop"]),
        ("%kagura doct|or", ["answer and stop"]),
        ("%kagura kill xy|z", ["run-2-xyz: running, wait"]),
        ("%kagura kill nobod|y", ["RUN\n  An id or the end of one"]),
        ("%kagura approve app-|7", ["app-7: Run a command on the host (run-1-abc)"]),
        ("%kagura runs --lim|it 3", ["--limit N\n", "  %kagura runs --limit 5"]),
        ("%kagura runs --limit 3 |", ["usage: %kagura runs "]),
        ("%%kagura\nsee @setup.p|y", ["setup.py: a file"]),
        ('%%kagura\nsee @"my fi|le.txt"', ["my file.txt"]),
    ],
)
def test_what_stands_at_the_cursor_is_told(cell, parts):
    text, cursor = at_bar(cell)
    said = explain(text, cursor, KnownNames(), prompt=False)
    for part in parts:
        assert part in said


def test_a_slash_command_is_told_with_its_slash():
    text, cursor = at_bar("/kil|l last")
    assert explain(text, cursor, KnownNames(), prompt=True).startswith("usage: /kill RUN …")


@pytest.mark.parametrize(("cell", "prompt"), [("df.he|ad", False), ("plain wo|rds", True), ("see @nothin|g", True)])
def test_nothing_is_told_about_what_is_not_ours(cell, prompt):
    text, cursor = at_bar(cell)
    assert explain(text, cursor, KnownNames(), prompt=prompt) is None
