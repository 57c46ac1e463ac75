"""The kagura kernel as a front end sees it: what each kind of cell does, and what helps to write one."""

from __future__ import annotations

import ast
import json

import pytest

from kagura_kernel.testing.conformance.load import processes_with
from kagura_kernel.testing.patience import wait_until

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]


def shown(messages):
    """All that a reader without widgets sees."""
    parts = []
    for message in messages:
        content = message["content"]
        if message["msg_type"] == "stream":
            parts.append(content["text"])
        elif message["msg_type"] == "error":
            parts.append("\n".join(content["traceback"]))
        else:
            parts.append(content.get("data", {}).get("text/plain", ""))
    return "\n".join(parts)


def failed(messages):
    return [message["content"]["ename"] for message in messages if message["msg_type"] == "error"]


def value(kernel, expression):
    """A Python expression's value, as a front end's probe asks for it: silently."""
    request = kernel.execute("", silent=True, user_expressions={"found": f"__import__('json').dumps({expression})"})
    found = kernel.reply(request)["user_expressions"]["found"]
    assert found["status"] == "ok", found
    return json.loads(ast.literal_eval(found["data"]["text/plain"]))


def test_it_says_what_it_is(kagura):
    info = kagura.ask("kernel_info_request", {})
    assert info["implementation"] == "kagura"
    assert "%%py" in info["banner"]
    assert info["language_info"]["mimetype"] == "text/x-ipythongfm"
    assert {"debugger", "kernel subshells"} <= set(info["supported_features"])
    assert any("kernel.md" in link["url"] for link in info["help_links"])


def test_each_kind_of_cell_does_what_it_is_for(kagura):
    assert "You said: Is {this} $5?" in shown(kagura.run("Is {this} $5?"))
    assert "42" in shown(kagura.run("%%py\nx = 41\nx + 1"))
    assert "You said: x = 7" in shown(kagura.run("x = 7"))
    assert value(kagura, "x") == 41
    assert "from the box" in shown(kagura.run("%%sandbox bash\necho from the box"))
    assert "hello" in shown(kagura.run("!echo hello"))
    assert "You said: /etc/hosts?" in shown(kagura.run("\\/etc/hosts?"))
    runs = shown(kagura.run("/runs"))
    assert "obedient" in runs
    several = shown(kagura.run("/runs\n/status"))
    assert "obedient" in several
    assert "Nothing runs" in several


def test_prompts_of_a_notebook_are_one_session(kagura):
    kagura.run("First.")
    kagura.run("Second.")
    kagura.run(
        "%%py\nfrom kagura_kernel.assembly import get_cockpit\nids = [r.session_id for r in get_cockpit().runs()]"
    )
    ids = value(kagura, "ids")
    assert len(ids) == 2
    assert len(set(ids)) == 1


def test_the_journal_knows_the_cell_that_asked(kagura):
    kagura.reply(kagura.execute("Go.", metadata={"cellId": "ab12"}))
    kagura.run(
        "%%py\nfrom kagura_kernel.assembly import get_cockpit\n"
        "[run] = get_cockpit().runs()\nplace = [run.cell_id, run.kernel_id]"
    )
    assert value(kagura, "place") == ["ab12", kagura.id]


@pytest.mark.parametrize(
    ("cell", "name", "words"),
    [
        ("%pwd\nAnd now?", "UsageError", "Nothing was run"),
        ("/stauts", "UnknownName", "Did you mean 'status'?"),
        ("/etc/hosts", "UnknownName", "put a backslash before it"),
        ("//", "UnknownName", "put a backslash before it"),
        ("/status\n/nonsense", "UnknownName", "nonsense"),
        ("%%timeit\nGo.", "UsageError", "-n 1 -r 3"),
    ],
)
def test_what_cannot_be_understood_is_one_calm_error_and_runs_nothing(kagura, cell, name, words):
    messages = kagura.run(cell)
    assert failed(messages) == [name]
    text = shown(messages)
    assert words in text
    assert "Traceback" not in text
    assert "Nothing runs" not in text


def test_only_the_cell_that_a_person_sent_can_be_a_prompt(kagura):
    kagura.run("%%py\nget_ipython().run_cell('inner = 1')\nexec(get_ipython().transform_cell('other = 2'))")
    kagura.reply(kagura.execute("probe = 3", silent=True, store_history=False))
    kagura.reply(kagura.execute("hidden = 4", store_history=False))
    assert value(kagura, "[inner, other, probe, hidden]") == [1, 2, 3, 4]
    assert "Empty DataFrame" in shown(kagura.run("/runs"))


def test_a_hook_that_runs_a_cell_again_runs_no_prompt_again(kagura):
    kagura.run(
        "%%py\nip = get_ipython()\nseen = []\n"
        "def again(result):\n"
        "    if result.info.raw_cell == 'Buy it once.' and len(seen) < 2:\n"
        "        seen.append(result.info.raw_cell)\n"
        "        ip.run_cell(result.info.raw_cell)\n"
        "ip.events.register('post_run_cell', again)"
    )
    kagura.run("Buy it once.")
    kagura.run("%%py\nip.events.unregister('post_run_cell', again)")
    assert value(kagura, "seen") == ["Buy it once.", "Buy it once."]
    kagura.run(
        "%%py\nfrom kagura_kernel.assembly import get_cockpit\ntasks = [run.task for run in get_cockpit().runs()]"
    )
    assert value(kagura, "tasks").count("Buy it once.") == 1


def test_magics_around_a_prompt_run_it(kagura):
    timed = shown(kagura.run("%%time\nbash: test -d /workspace\nDone."))
    assert "(sandbox, exit 0)" in timed
    assert "You said: Done." in timed
    assert "Wall time" in timed
    captured = kagura.run("%%capture found\nBe quiet.")
    assert "Be quiet." not in shown(captured)
    assert not failed(captured)
    assert "You said: Be quiet." in shown(kagura.run("%%py\nfound.show()"))
    assert "1 loop each" in shown(kagura.run("%%timeit -n 1 -r 2\n%%py\nx = 1"))
    twice = shown(kagura.run("%%timeit -n 1 -r 2\nAgain."))
    assert twice.count("You said: Again.") == 2


def test_in_and_history_hold_the_cell_as_it_was_typed(kagura):
    cells = ["Is it {done}?", "%%py\nx = 1", "/status"]
    for cell in cells:
        kagura.run(cell)
    asked = {"hist_access_type": "tail", "n": 3, "raw": True, "output": False}
    assert [line for _, _, line in kagura.ask("history_request", asked)["history"]] == cells
    assert value(kagura, "[_i1, _i2, _i3]") == cells
    [again] = kagura.reply(kagura.execute("%recall 1"))["payload"]
    assert (again["source"], again["text"]) == ("set_next_input", cells[0])


def test_a_traceback_counts_the_lines_of_the_cell(kagura):
    assert "line 4" in shown(kagura.run("\n%%py\nx = 0\n1 / x"))


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("Count the files (all of them", "complete"),
        ("Count the files \\", "incomplete"),
        ("/runs", "complete"),
        ("%%py", "incomplete"),
        ("%%py\nfor x in y:", "incomplete"),
        ("%%py\nx = 1\n", "complete"),
        ("%%py\nx = )", "invalid"),
        ("%%kagura --new", "incomplete"),
        ("%%kagura --new\nGo.\n\n", "complete"),
        ("%pwd", "complete"),
        ("", "complete"),
    ],
)
def test_a_console_is_told_when_a_cell_is_whole(kagura, code, status):
    assert kagura.ask("is_complete_request", {"code": code})["status"] == status


def complete(kernel, code, cursor=None):
    asked = {"code": code, "cursor_pos": len(code) if cursor is None else cursor}
    reply = kernel.ask("complete_request", asked)
    return reply["matches"], code[reply["cursor_start"] : reply["cursor_end"]]


def inspect(kernel, code, cursor=None):
    asked = {"code": code, "cursor_pos": len(code) if cursor is None else cursor, "detail_level": 0}
    reply = kernel.ask("inspect_request", asked)
    return reply["data"].get("text/plain", "") if reply["found"] else None


def test_completion_and_inspection_know_where_the_cursor_is(kagura):
    (kagura.project / "sales.csv").write_text("a\n")
    kagura.run("%%py\nimport string\nsalt = 1")
    assert complete(kagura, "/app") == (["approvals", "approve", "apply"], "app")
    assert complete(kagura, "%%kagura --budg") == (["--budget"], "--budg")
    assert complete(kagura, "Look into @sal")[0] == ["sales.csv"]
    assert complete(kagura, "I like sal")[0] == []
    assert complete(kagura, "import os\nos.get")[0] == []
    assert "salt" in complete(kagura, "%%py\nsal")[0]
    [letters] = complete(kagura, "%%py\nstring.ascii_le")[0]
    assert letters.endswith("ascii_letters")
    assert "%%py" in complete(kagura, "%%p")[0]
    assert complete(kagura, "%%kagura --grant ")[0] == []
    assert any(one.endswith("upper") for one in complete(kagura, "%%kagura -i big=string.digits.upp")[0])
    assert "%kagura" not in (inspect(kagura, "Just words") or "")
    assert "budget" in inspect(kagura, "%%kagura --budget 1", 12)
    assert "Stop runs" in inspect(kagura, "/kill")
    assert "int" in inspect(kagura, "%%py\nsalt")


def test_interrupting_stops_the_run_and_the_kernel_goes_on(kagura):
    request = kagura.execute("bash: sleep 86415")
    wait_until(lambda: processes_with("sleep\x0086415"))
    kagura.interrupt()
    assert failed(kagura.follow(request)) == ["RunKilled"]
    assert "2" in shown(kagura.run("%%py\n1 + 1"))
    wait_until(lambda: not processes_with("sleep\x0086415"))
