"""Variables and results of whole cells, in a real kernel with real boxes."""

import json

import pytest

from .conftest import cassette

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]

FRAME = "import pandas as pd\ndf = pd.DataFrame({'city': ['Oslo', 'Rome', 'Oslo'], 'n': [1, 2, 3]})"


def printed(messages):
    return "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")


def plain(messages):
    """The plain text of everything shown."""
    return "\n".join(
        m["content"]["data"]["text/plain"]
        for m in messages
        if "data" in m["content"] and "text/plain" in m["content"]["data"]
    )


def errors(messages):
    return [f"{m['content']['ename']}: {m['content']['evalue']}" for m in messages if m["msg_type"] == "error"]


def record(messages):
    """The record that a run's card leaves in the notebook."""
    [found] = [
        m["content"]["data"]["application/vnd.kagura.run+json"]
        for m in messages
        if "application/vnd.kagura.run+json" in m["content"].get("data", {})
    ]
    return found


def crossed(kernel):
    """What the journal says of variables: direction, name, form and error of each."""
    code = """
import json as _json
from kagura_kernel.assembly import get_cockpit as _get
_rows = [s.event for s in _get().journal.events() if s.event.kind == "variable.crossed"]
print(_json.dumps([[e.direction, e.name, e.form, e.error] for e in _rows]))
"""
    return json.loads(printed(kernel.run(code)))


def value(kernel, expression):
    return printed(kernel.run(f"print({expression})")).rstrip("\n")


def test_a_frame_goes_into_the_box_and_a_series_comes_back(kernel):
    kernel.run(FRAME)
    messages = kernel.run("%%sandbox -i df -o total\ntotal = df.groupby('city')['n'].sum()\nprint(len(df))")
    assert errors(messages) == []
    assert plain(messages).startswith("[sandbox run: done]\n")
    assert value(kernel, "total.to_dict(), total.index.name, type(total).__name__") == (
        "{'Oslo': 4, 'Rome': 2} city Series"
    )
    assert not list(kernel.project.iterdir())


def test_what_did_not_come_back_is_told_after_the_rest_was_assigned(kernel):
    [error] = errors(kernel.run("%%sandbox -o a,b,c\na = 1\nb = lambda: 1\n"))
    assert error.startswith("VariableMissing: b did not come back from the box: a function cannot cross")
    assert "c did not come back from the box: nothing of that name was made." in error
    assert value(kernel, "a") == "1"
    assert crossed(kernel)[0] == ["out", "a", "json", ""]
    assert [row[1] for row in crossed(kernel) if row[3]] == ["b", "c"]


def test_a_failed_cell_brings_nothing_back(kernel):
    kernel.run("a = 'before'")
    [error] = errors(kernel.run("%%sandbox -o a\na = 1\nraise SystemExit(3)"))
    assert error.startswith("CellFailed")
    assert value(kernel, "a") == "before"


def test_shell_programs_find_plain_values_and_files_and_leave_files(kernel):
    kernel.run(FRAME + "\nn = 7; words = ['a', 'b']; flag = True; text = 'two words'")
    body = (
        "%%sandbox bash -i df,n,words,flag,text -o table,notes,count,raw\n"
        'echo "$n $words $flag $text"; cat "$df"\n'
        'sed s/Oslo/Bergen/ "$df" > $KAGURA_OUT/table.csv; echo hello > $KAGURA_OUT/notes.txt\n'
        'echo "[$n, null]" > $KAGURA_OUT/count.json; printf "\\1\\2" > $KAGURA_OUT/raw.bin'
    )
    messages = kernel.run(body)
    assert errors(messages) == []
    assert '7 ["a","b"] true two words\ncity,n\nOslo,1\nRome,2\nOslo,3\n' in plain(messages)
    assert value(kernel, "table.to_dict('list'), repr(notes), count, raw") == (
        "{'city': ['Bergen', 'Rome', 'Bergen'], 'n': [1, 2, 3]} 'hello\\n' [7, None] b'\\x01\\x02'"
    )
    [error] = errors(kernel.run("PATH = 'x'\n") + kernel.run("%%sandbox bash -i PATH\necho 1"))
    assert "$PATH means something to the shell itself" in error


def test_shell_programs_show_the_files_that_they_leave(kernel):
    shown = plain(kernel.run("%%sandbox bash\necho '# Title' > $KAGURA_SHOW/note.md; echo words > $KAGURA_SHOW/a.txt"))
    assert "words\n\n# Title" in shown
    cassette(kernel.project, ("bash", {"command": "echo '# Mine' > $KAGURA_SHOW/note.md"}))
    assert "# Mine" in plain(kernel.run("%%kagura --replay c.jsonl\nShow it."))


def test_a_parquet_file_is_unpacked_in_the_box(kernel):
    program = "import pandas as pd, os; pd.DataFrame({'a': [1]}).to_parquet(os.environ['KAGURA_OUT'] + '/t.parquet')"
    body = f'%%sandbox bash -o t\npython3 -c "{program}"'
    assert errors(kernel.run(body)) == []
    assert value(kernel, "t.to_dict('list')") == "{'a': [1]}"
    [error] = errors(kernel.run("%%sandbox bash -o t\necho junk > $KAGURA_OUT/t.parquet"))
    assert "the file cannot be read" in error


def test_an_agent_sees_the_inputs_and_hands_results_back(kernel):
    kernel.run(FRAME)
    cassette(
        kernel.project,
        ("python", {"code": "df['n'] += 1\nresult = df\nprint(df['n'].sum())"}),
        ("python", {"code": "result = df[df['city'] == 'Oslo']\nresult"}),
        ("bash", {"command": 'head -1 "$df"; echo \'"x"\' > $KAGURA_OUT/note.json'}),
    )
    messages = kernel.run("%%kagura --replay c.jsonl -i df -o result,note\nCount.")
    assert errors(messages) == []
    assert value(kernel, "result.to_dict('list'), note") == "{'city': ['Oslo', 'Oslo'], 'n': [2, 4]} x"
    assert crossed(kernel) == [
        ["in", "df", "frame", ""],
        ["out", "result", "frame", ""],
        ["out", "note", "json", ""],
    ]


def test_a_run_in_the_background_brings_its_variables_when_it_is_awaited(kernel):
    kernel.run(FRAME)
    kernel.run("%%sandbox --bg -i df -o total\ntotal = int(df['n'].sum())")
    assert errors(kernel.run("run = _\noutcome = await run\nprint(total)")) == []
    assert value(kernel, "total") == "6"
    kernel.run("total = 0\nawait run;")
    assert value(kernel, "total") == "0"


def count(messages):
    return next(m["content"]["execution_count"] for m in messages if m["msg_type"] == "execute_input")


def test_a_cell_goes_on_with_the_box_of_the_one_before_where_both_keep_it(kernel):
    first = kernel.run("%%sandbox --keep\nimport math\nx = 41")
    second = kernel.run("%%sandbox --keep -o y\ny = x + math.floor(1.5)\nprint(y)")
    assert (errors(first), errors(second)) == ([], [])
    assert f"goes on with the box of [{count(first)}]" in str(second)
    assert value(kernel, "y") == "42"
    cassette(kernel.project, ("python", {"code": "x + 1"}))
    third = kernel.run("%%kagura --replay c.jsonl --keep\nGo on.")
    assert f"goes on with the box of [{count(second)}]" in str(third)
    assert printed(kernel.run("%kagura box end")) == f"The box of [{count(third)}] ends.\n"
    assert printed(kernel.run("%kagura box end")) == "No box waits for a next cell.\n"
    [error] = errors(kernel.run("%%sandbox --keep\nprint(x)"))
    assert "ended with exit code 1" in error
