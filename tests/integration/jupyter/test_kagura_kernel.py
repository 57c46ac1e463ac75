"""The kagura kernel as a front end sees it: what each kind of cell does, and what helps to write one."""

import ast
import itertools
import json
import sys

import pexpect
import pytest

from kagura_kernel.testing.conformance.load import processes_with
from kagura_kernel.testing.patience import wait_until
from tests.support.kernel import SPEC, kernel_environ
from tests.support.obedient import start_with_it

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
    assert "/etc/hosts?" in runs
    several = shown(kagura.run("/runs\n/status"))
    assert "/etc/hosts?" in several
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


def test_after_unloading_a_prompt_says_how_to_load_it_again(kagura):
    kagura.run("%unload_ext kagura_kernel")
    for cell in ("Are you there?", "/runs"):
        messages = kagura.run(cell)
        assert failed(messages) == ["UsageError"]
        assert "`%load_ext kagura_kernel`" in shown(messages)
        assert "Traceback" not in shown(messages)
    kagura.run("%load_ext kagura_kernel")
    messages = kagura.follow(kagura.execute("Are you there?", allow_stdin=True, metadata={"cellId": "a1"}))
    assert "You said: Are you there?" in shown(messages)
    assert "comm_open" in {message["msg_type"] for message in messages}


def test_only_the_cell_that_a_person_sent_can_be_a_prompt(kagura):
    kagura.run("%%py\nget_ipython().run_cell('inner = 1')\nexec(get_ipython().transform_cell('other = 2'))")
    kagura.reply(kagura.execute("probe = 3", silent=True, store_history=False))
    kagura.reply(kagura.execute("hidden = 4", store_history=False))
    assert value(kagura, "[inner, other, probe, hidden]") == [1, 2, 3, 4]
    assert "No run yet" in shown(kagura.run("/runs"))


def test_a_prompt_that_leaves_no_history_is_refused_with_the_way_to_send_it(kagura):
    messages = kagura.follow(kagura.execute("Just a prompt.", store_history=False))
    assert failed(messages) == ["UsageError"]
    assert "`%%kagura`" in shown(messages)
    assert "Traceback" not in shown(messages)


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
    # Where no place is named it is the end, as with completion.
    asked = {"code": "%%py\nsalt", "cursor_pos": None, "detail_level": 0}
    assert "int" in kagura.ask("inspect_request", asked, seconds=5)["data"]["text/plain"]
    assert "int" in inspect(kagura, "%%py\nsalt")


def test_interrupting_stops_the_run_and_the_kernel_goes_on(kagura):
    request = kagura.execute("bash: sleep 86415")
    wait_until(lambda: processes_with("sleep\x0086415"))
    kagura.interrupt()
    assert failed(kagura.follow(request)) == ["RunKilled"]
    assert "2" in shown(kagura.run("%%py\n1 + 1"))
    wait_until(lambda: not processes_with("sleep\x0086415"))


# Long enough for a card to open while it goes on.
AWHILE = "bash: sleep 1"


@pytest.fixture
def console(tmp_path, private_home):
    """`jupyter console --kernel kagura` in a project of its own."""
    project = tmp_path / "project"
    project.mkdir()
    kernels = tmp_path / "data" / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "kagura").symlink_to(SPEC)
    environ = kernel_environ(
        private_home, TERM="dumb", JUPYTER_PATH=str(kernels.parent), JUPYTER_CONFIG_DIR=str(tmp_path / "config")
    )
    start_with_it(environ)
    arguments = ["-m", "jupyter_console", "--kernel=kagura", "--simple-prompt"]
    child = pexpect.spawn(
        sys.executable, arguments, cwd=str(project), env=environ, encoding="utf-8", timeout=60, echo=False
    )
    child.project = project
    child.expect_exact("In [1]: ")
    try:
        yield child
    finally:
        child.sendline("%exit")
        child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=10)
        child.close(force=True)


@pytest.mark.parametrize(("answer", "words", "ran"), [("y", "Allowed by", True), ("n", "Denied by", False)])
def test_an_approval_is_answered_at_the_console(console, answer, words, ran):
    console.sendline("host: touch on-the-host")
    console.expect_exact("touch on-the-host")
    console.expect_exact("Allow it once? [y/N]")
    console.sendline(answer)
    console.expect_exact(words)
    console.expect_exact("RunOutcome(done")
    assert (console.project / "on-the-host").exists() is ran


def test_an_approval_decided_elsewhere_does_not_wait_for_the_console(kagura):
    request = kagura.execute("host: touch decided", allow_stdin=True)
    assert "[y/N]" in kagura.input_asked()
    subshell = kagura.ask("create_subshell_request", {})["subshell_id"]
    cell = (
        "%%py\n[waiting] = __import__('kagura_kernel').assembly.get_cockpit().pending()\n%kagura approve {waiting.id}"
    )
    given = {"silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
    assert kagura.ask("execute_request", {"code": cell} | given, subshell=subshell)["status"] == "ok"
    text = str(kagura.follow(request))
    assert "Answered elsewhere" in text
    assert "RunOutcome(done" in text
    assert (kagura.project / "decided").exists()
    kagura.ask("delete_subshell_request", {"subshell_id": subshell})


def test_a_front_end_with_cells_or_with_comms_gets_widgets(kagura):
    request = kagura.execute(AWHILE, allow_stdin=True, metadata={"cellId": "a1"})
    assert "comm_open" in {message["msg_type"] for message in kagura.follow(request)}
    request = kagura.execute(AWHILE, allow_stdin=True)
    assert "comm_open" not in {message["msg_type"] for message in kagura.follow(request)}
    kagura.ask("comm_info_request", {"target_name": "jupyter.widget"})
    request = kagura.execute(AWHILE, allow_stdin=True)
    assert "comm_open" in {message["msg_type"] for message in kagura.follow(request)}


class Debugger:
    """A front end's side of the debug adapter protocol."""

    def __init__(self, kernel):
        self._kernel = kernel
        self._numbers = itertools.count(1)

    def send(self, command, **arguments):
        request = {"type": "request", "command": command, "seq": next(self._numbers), "arguments": arguments}
        reply = self._kernel.ask("debug_request", request)
        assert reply["success"], reply
        return reply.get("body", {})

    def begin(self):
        # A debugger that was attached leaves its traces in every thread.
        self._kernel.spent = True
        self.send("initialize", clientID="test", adapterID="", pathFormat="path", linesStartAt1=True)
        self.send("attach")


def test_a_breakpoint_in_a_python_cell_stops_on_the_line_that_was_marked(kagura):
    cell = "\n%%py\ntotal = 0\nfor number in range(3):\n    total += number\ntotal"
    debugger = Debugger(kagura)
    debugger.begin()
    path = debugger.send("dumpCell", code=cell)["sourcePath"]
    marked = debugger.send("setBreakpoints", source={"path": path}, breakpoints=[{"line": 5}], sourceModified=False)
    assert [point["verified"] for point in marked["breakpoints"]] == [True]
    debugger.send("configurationDone")
    request = kagura.execute(cell)
    thread = kagura.event("stopped")["threadId"]
    frame = debugger.send("stackTrace", threadId=thread)["stackFrames"][0]
    assert (frame["line"], frame["source"]["path"]) == (5, path)
    debugger.send("setBreakpoints", source={"path": path}, breakpoints=[], sourceModified=False)
    debugger.send("continue", threadId=thread)
    messages = kagura.follow(request)
    assert [m["content"]["data"]["text/plain"] for m in messages if m["msg_type"] == "execute_result"] == ["3"]
    debugger.send("disconnect", restart=False, terminateDebuggee=False)


def test_a_subshell_answers_while_a_run_is_awaited(kagura):
    run = kagura.execute("bash: echo begun; sleep 3\nOver.", allow_stdin=True, metadata={"cellId": "a1"})
    kagura.follow(run, lambda message: message["msg_type"] == "comm_open" and "parts" in str(message))
    subshell = kagura.ask("create_subshell_request", {})["subshell_id"]
    given = {"silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
    reply = kagura.ask("execute_request", {"code": "/status"} | given, subshell=subshell)
    assert reply["status"] == "ok"
    reply = kagura.ask("execute_request", {"code": "%kagura kill last"} | given, subshell=subshell)
    assert reply["status"] == "ok"
    assert "RunKilled" in str(kagura.follow(run))
    kagura.ask("delete_subshell_request", {"subshell_id": subshell})
