"""Cells in a real kernel: what they publish, what they return, and what stops them."""

import contextlib
import json
import sqlite3
import subprocess
import sys

import pytest

from kagura_kernel.render.html import bare
from kagura_kernel.testing.conformance.load import processes_with
from kagura_kernel.testing.patience import wait_until

from .conftest import cassette

pytestmark = [pytest.mark.real_clock, pytest.mark.slow]

WIDGET = "application/vnd.jupyter.widget-view+json"
HOST = {"host": True, "reason": "the box cannot"}


def kinds(messages):
    return [message["msg_type"] for message in messages]


def plain(messages):
    """The plain text of everything shown."""
    return [
        m["content"]["data"]["text/plain"]
        for m in messages
        if "data" in m["content"] and "text/plain" in m["content"]["data"]
    ]


def shows_widget(message):
    return message["msg_type"] == "display_data" and WIDGET in message["content"]["data"]


def errors(messages):
    return [message["content"] for message in messages if message["msg_type"] == "error"]


def sent_parts(messages):
    """Every part that a live card was sent, in order."""
    parts = []
    for message in messages:
        data = message["content"].get("data", {})
        if message["msg_type"] == "comm_open" and "parts" in data.get("state", {}):
            parts.append(data["state"]["parts"])
        elif message["msg_type"] == "comm_msg" and data.get("method") == "custom":
            parts.append(data["content"].get("parts", {}))
    return parts


def test_without_a_person_each_slot_is_published_once_in_its_final_state(kernel):
    messages = kernel.run("%%sandbox bash\necho one; sleep 0.3; echo two > made.txt")
    assert "update_display_data" not in kinds(messages)
    assert "comm_open" not in kinds(messages)
    assert plain(messages) == [
        "[sandbox run: done]\n\none",
        "[1 changed file: not in the project yet]\nA made.txt  +1 -0",
        "RunOutcome(done, 1 changed file)",
    ]


def test_with_a_person_a_live_card_becomes_static_in_the_same_place(kernel):
    messages = kernel.run("%%sandbox bash\necho one; sleep 1", person=True)
    [card] = [message for message in messages if shows_widget(message)]
    last = [message for message in messages if message["msg_type"] == "update_display_data"][-1]
    assert last["content"]["transient"] == card["content"]["transient"]
    assert WIDGET not in last["content"]["data"]
    assert last["content"]["data"]["application/vnd.kagura.run+json"]["status"] == "done"
    assert "comm_close" in kinds(messages)


def test_live_and_headless_runs_leave_the_same_outputs(kernel):
    code = "%%sandbox python\nprint('“quotes” {braces} ünïcode')"
    # Which card of a kernel brings the style sheet of all is another matter.
    alone = [bare(m["content"]["data"]) for m in kernel.run(code) if m["msg_type"] == "display_data"]
    # A run that is over before a card could be drawn is shown once, in its final state.
    shown = {"display_data", "update_display_data"}
    watched = [bare(m["content"]["data"]) for m in kernel.run(code, person=True) if m["msg_type"] in shown]
    assert alone == watched[-1:]


def test_the_outcome_is_the_value_of_the_cell(kernel):
    kernel.run("%%sandbox bash\necho text")
    messages = kernel.run("print(_.status, repr(_.text), _.exit_code, _ is Out[max(Out)], '%%sandbox' in _ih[-2])")
    assert messages[2]["content"]["text"] == "done 'text\\n' 0 True False\n"
    raw = kernel.run("print(get_ipython().history_manager.input_hist_raw[2])")
    assert raw[2]["content"]["text"] == "%%sandbox bash\necho text\n"


def test_tab_and_shift_tab_know_our_magics_in_a_python_kernel(kernel):
    def at_the_end(kind, code):
        return kernel.ask(kind, {"code": code, "cursor_pos": len(code), "detail_level": 0})

    def completed(code):
        return at_the_end("complete_request", code)["matches"]

    kernel.run("word = 'text'")
    assert completed("%kagura sta") == ["status"]
    assert completed("%kagura revoke ") == []
    assert any(one.endswith("upper") for one in completed("%%kagura -i big=word.upp"))
    assert completed("%%kagura -i big=wor") == ["word"]
    assert "Stop runs" in at_the_end("inspect_request", "%kagura kill")["data"]["text/plain"]
    assert "USD" in at_the_end("inspect_request", "%%kagura --budget")["data"]["text/plain"]
    assert "str" in at_the_end("inspect_request", "word")["data"]["text/plain"]
    assert not at_the_end("inspect_request", "%kaguras")["found"]
    kernel.run("%unload_ext kagura_kernel")
    assert not at_the_end("inspect_request", "%kagura kill")["found"]


def test_the_body_reaches_the_box_as_it_was_written(kernel):
    body = (
        "print('''a {x} $HOME \\n \"b\" ''', 'é')\n# NBVAL_IGNORE_OUTPUT\nprint(open(__file__).read().count('NBVAL'))"
    )
    messages = kernel.run(f"%%sandbox python\n{body}")
    assert plain(messages)[0].splitlines()[2:] == ["a {x} $HOME ", ' "b"  é', "1"]


def test_a_variable_of_the_notebook_is_filled_into_the_options(kernel):
    kernel.run("language = 'bash'")
    assert "hello" in plain(kernel.run("%%sandbox {language} --fmt\necho hello"))[0]


@pytest.mark.parametrize(
    ("cell", "name", "part"),
    [
        ("%%kagura --bugdet 3\nx", "UsageError", "Did you mean --budget?"),
        ("%%kagura\n  ", "UsageError", "the cell is empty"),
        ("%%kagura --replay gone.jsonl\nx", "CassetteMissing", "There is no cassette"),
        ("%%kagura --brain cloude\nx", "UnknownName", "Did you mean 'claude'?"),
        ("%%kagura\nx", "BrainNotConfigured", "Four ways"),
        ("%%sandbox --box podman\nx", "UnknownName", "podman"),
        ("%kagura aprove x", "UnknownName", "Did you mean 'approve'?"),
        ("%kagura approve app-none", "ApprovalUnknown", "There is no approval"),
        ("%kagura kill run-none", "RunUnknown", "There is no run"),
        ("%kagura changes last", "RunUnknown", "which has none yet"),
        ("%%sandbox bash\nexit 3", "CellFailed", "exit code 3 and printed nothing."),
        ("%%sandbox bash\necho no >&2; exit 3", "CellFailed", "exit code 3; its output says why."),
    ],
)
def test_a_mistake_ends_in_one_calm_line(kernel, cell, name, part):
    [error] = errors(kernel.run(cell))
    assert error["ename"] == name
    assert part in error["evalue"]
    assert len(error["traceback"]) == 1
    assert "Traceback" not in error["traceback"][0]


def test_an_interrupt_stops_the_run_and_the_kernel_goes_on(kernel):
    request = kernel.send("%%sandbox bash\necho begun; sleep 600; touch too-late", person=True)
    kernel.follow(request, lambda message: "begun" in json.dumps(sent_parts([message])))
    kernel.interrupt()
    [error] = errors(kernel.follow(request))
    assert error["ename"] == "RunKilled"
    assert len(error["traceback"]) == 1
    assert "killed" in str(kernel.run("runs = %kagura runs\nprint(runs.status[0])"))
    assert not (kernel.project / "too-late").exists()


def test_a_click_on_allow_is_heard_while_the_cell_waits(kernel):
    cassette(kernel.project, ("bash", {"command": "touch allowed", **HOST}))
    request = kernel.send("%%kagura --replay c.jsonl\nGo.", person=True)
    opened = kernel.follow(request, lambda message: message["msg_type"] == "comm_open" and "parts" in str(message))
    asked = kernel.follow(request, lambda message: "Allow once" in json.dumps(sent_parts([message])))
    [approval] = {
        part.split('data-approval="')[1].split('"')[0]
        for parts in sent_parts(opened + asked)
        for part in parts.values()
        if "data-approval" in part
    }
    kernel.press(opened[-1]["content"]["comm_id"], act="allow", id=approval)
    messages = kernel.follow(request)
    assert (kernel.project / "allowed").exists()
    assert "Allowed by" in plain(messages)[-2]


def test_a_click_that_comes_too_late_is_told_and_harms_nothing(kernel):
    cassette(kernel.project, ("bash", {"command": "touch allowed", **HOST}))
    request = kernel.send("%%kagura --replay c.jsonl\nGo.", person=True)
    opened = kernel.follow(request, lambda message: message["msg_type"] == "comm_open" and "parts" in str(message))
    kernel.follow(request, lambda message: "Allow once" in json.dumps(sent_parts([message])))
    comm = opened[-1]["content"]["comm_id"]
    kernel.press(comm, act="allow", id="app-of-nobody")
    kernel.press(comm, act="dance")
    kernel.press(comm, nonsense=1)
    kernel.press(comm, act="stop")
    [error] = errors(kernel.follow(request))
    assert error["ename"] == "RunKilled"
    assert not (kernel.project / "allowed").exists()


def test_runs_in_the_background_can_be_steered_and_awaited(kernel):
    messages = kernel.run("%%sandbox bash --bg\necho begun; sleep 60", person=True)
    # The card may be drawn before or after the cell's value.
    assert any("BackgroundRun run-" in text for text in plain(messages))
    # The first run of a kernel is written down when its task can be looked through for secrets.
    wait_until(lambda: "running" in plain(kernel.run("%kagura status"))[0])
    kernel.run("%kagura kill last")
    [error] = errors(
        kernel.run(
            "await _1 if 1 in Out else await Out[max(Out)]"
            if False
            else "import time\nbg = [v for v in Out.values() if hasattr(v, 'kill')][-1]\nawait bg"
        )
    )
    assert error["ename"] == "RunKilled"


def test_the_magic_called_by_its_name_waits_and_asks_nobody(kernel):
    cassette(kernel.project, ("bash", {"command": "touch not-allowed", **HOST}))
    code = "outcome = get_ipython().run_cell_magic('kagura', '--replay c.jsonl', 'Go.')\nprint(outcome.status)"
    messages = kernel.run(code, person=True)
    assert "Denied by policy" in plain(messages)[0]
    assert not (kernel.project / "not-allowed").exists()


def test_after_unloading_nothing_is_left_and_it_can_be_loaded_again(kernel):
    kernel.run("%%sandbox bash --bg\nsleep 60")
    kernel.run("%unload_ext kagura_kernel")
    assert "`%kagura` not found" in str(kernel.run("%kagura runs"))
    kernel.run("%load_ext kagura_kernel")
    assert "killed" in str(kernel.run("runs = %kagura runs\nprint(runs.status[0])"))


def test_loading_the_extension_brings_nothing_heavy_in():
    heavy = ["pydantic", "pandas", "numpy", "ipywidgets", "anywidget", "docker", "sqlalchemy", "claude_agent_sdk"]
    code = f"""
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = set(sys.modules)
shell.run_line_magic("load_ext", "kagura_kernel")
print([name for name in {heavy} if name in set(sys.modules) - before])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_front_end_without_widgets_is_told_in_words_how_to_answer(kernel):
    cassette(kernel.project, ("bash", {"command": "touch allowed", **HOST}))
    request = kernel.send("%%kagura --replay c.jsonl\nGo.", person=True)
    messages = kernel.follow(request, lambda message: "No buttons here?" in str(plain([message])))
    [asked] = [message for message in messages if "No buttons here?" in str(plain([message]))]
    assert "touch allowed" in plain([asked])[0]
    kernel.interrupt()

    def is_answer(message):
        # Nobody is told any more how to answer what was answered.
        content = message["content"]
        told = content.get("data", {}).get("text/plain", "")
        is_there = content.get("transient") == asked["content"]["transient"]
        return is_there and "Called off" in told and "No buttons here?" not in told

    kernel.any(is_answer)


@pytest.mark.parametrize("person", [False, True])
def test_a_cell_below_another_magic_runs_to_its_end_and_says_why_nobody_is_asked(kernel, person):
    cassette(kernel.project, ("bash", {"command": "touch not-allowed", **HOST}))
    timed = kernel.run("%%time\n%%kagura --replay c.jsonl\nGo.", person=person)
    assert errors(timed) == []
    assert "comm_open" not in kinds(timed)
    why = "this cell runs inside another magic" if person else "nobody is here"
    assert f"Denied by policy: {why}" in plain(timed)[0]
    assert plain(timed)[-1] == "RunOutcome(done, $0.00)"
    assert not (kernel.project / "not-allowed").exists()
    captured = kernel.run("%%capture kept\n%%sandbox bash\necho hidden", person=person)
    assert errors(captured) == []
    assert plain(captured) == []
    assert "hidden" in str(kernel.run("print(kept.outputs[0].data['text/plain'])"))


@pytest.mark.parametrize("above", ["%%time", "%%capture"])
def test_an_error_below_another_magic_is_one_calm_line(kernel, above):
    [error] = errors(kernel.run(f"{above}\n%%sandbox bash\nexit 3", person=True))
    assert error["ename"] == "CellFailed"
    assert len(error["traceback"]) == 1
    [usage] = errors(kernel.run(f"{above}\n%%sandbox --nope\nx", person=True))
    assert "no option '--nope'" in usage["traceback"][0]


def test_an_interrupt_below_another_magic_stops_the_run(kernel):
    request = kernel.send("get_ipython().run_cell_magic('sandbox', 'bash', 'sleep 86411')", person=True)
    wait_until(lambda: processes_with("sleep\x0086411"))
    kernel.interrupt()
    messages = kernel.follow(request)
    [error] = errors(messages)
    assert error["ename"] == "RunKilled"
    assert len(error["traceback"]) == 1
    assert "stopped" in plain(messages)[0]


def test_with_write_through_every_file_is_shown_with_what_became_of_it(kernel):
    calls = [("write_file", {"path": name, "content": f"{name}\n"}) for name in ("a.txt", "b.txt", "c.txt")]
    cassette(kernel.project, *calls)
    messages = kernel.run("%%kagura --replay c.jsonl --write through\nGo.")
    assert plain(messages)[1].splitlines() == [
        "[3 changed files: 3 applied]",
        *(f"A {name}  +1 -0  (applied)" for name in ("a.txt", "b.txt", "c.txt")),
    ]
    assert plain(messages)[2] == "RunOutcome(done, 3 changed files, $0.00)"


def test_a_journal_that_cannot_be_written_leaves_one_calm_line_and_no_card(kernel, private_home):
    kernel.run("%%sandbox bash\necho first")
    with contextlib.closing(sqlite3.connect(private_home / "kagura" / "journal.db")) as journal:
        journal.execute("DROP TABLE journal_events")
    for person in (False, True):
        messages = kernel.run("%%sandbox bash\necho second", person=person)
        [error] = errors(messages)
        assert error["ename"] == "JournalUnwritable"
        assert len(error["traceback"]) == 1
        assert plain(messages) == []


def test_a_run_below_another_magic_may_go_on_in_the_background(kernel):
    begun = plain(kernel.run("%%time\n%%sandbox bash --bg\necho later", person=True))
    assert "<BackgroundRun run-" in begun[-1]
    assert "RunOutcome(done)" in plain(kernel.run("await Out[max(Out)]", person=True))


def test_an_interrupted_wait_says_in_one_line_that_the_run_goes_on(kernel):
    kernel.run("%%sandbox bash --bg\nsleep 60", person=True)
    # Said by the loop, so once the cell waits: an interrupt before that would be any cell's.
    waiting = "import asyncio\nasyncio.get_running_loop().call_soon(print, 'waiting')\nawait Out[max(Out)]"
    request = kernel.send(waiting, person=True)
    kernel.follow(request, lambda message: message["msg_type"] == "stream")
    kernel.interrupt()
    [error] = errors(kernel.follow(request))
    [line] = error["traceback"]
    assert "goes on. Stop it with `%kagura kill run-" in line
    assert "running" in plain(kernel.run("%kagura status"))[0]
    kernel.run("Out[max(Out)].kill()")


def test_a_wait_with_a_time_limit_of_its_own_still_ends_as_python_says(kernel):
    kernel.run("%%sandbox bash --bg\nsleep 60", person=True)
    code = (
        "import asyncio\nrun = Out[max(Out)]\ntry:\n    await asyncio.wait_for(run, 0.2)\n"
        "except TimeoutError:\n    print('too long')\nrun.kill()"
    )
    assert "too long" in str(kernel.run(code, person=True))


def test_without_a_person_a_run_in_the_background_shows_its_card_once(kernel):
    kernel.run("%%sandbox bash --bg\necho awaited; echo x > made.txt")
    cards = [text for text in plain(kernel.run("await Out[max(Out)]")) if "[" in text]
    assert cards == ["[sandbox run: done]\n\nawaited", "[1 changed file: not in the project yet]\nA made.txt  +1 -0"]
    assert plain(kernel.run("None")) == []
    kernel.run("%%sandbox bash --bg\necho left alone")
    until_over = "import time\nrun = Out[max(Out)]\nwhile not run.done: time.sleep(0.05)"
    shown = [text for cell in (until_over, "None", "None") for text in plain(kernel.run(cell))]
    assert shown == ["[sandbox run: done]\n\nleft alone"]


CELL = "%%sandbox bash --writable-root\ntouch started"


def test_a_start_that_nobody_can_allow_stops_run_all_with_one_calm_line(kernel):
    messages = kernel.run(CELL)
    [error] = errors(messages)
    assert error["ename"] == "RunDenied"
    [line] = error["traceback"]
    assert "ERR_RUN_DENIED" in line
    assert "ERR_APPROVAL" in line
    [card] = [message["content"]["data"] for message in messages if message["msg_type"] == "display_data"]
    assert "[sandbox run: denied]" in card["text/plain"]


def test_a_denied_run_in_the_background_raises_where_it_is_awaited(kernel):
    assert errors(kernel.run("%%sandbox bash --bg --writable-root\ntrue")) == []
    [error] = errors(kernel.run("await Out[max(Out)]"))
    assert error["ename"] == "RunDenied"
    assert len(error["traceback"]) == 1


def test_the_leases_can_be_worked_with_in_a_notebook(kernel):
    messages = kernel.run("leases = %kagura leases\nprint(len(leases), list(leases.columns)[:3])", person=True)
    assert errors(messages) == []
    [printed] = [message["content"]["text"] for message in messages if message["msg_type"] == "stream"]
    assert printed == "0 ['lease', 'provider', 'scope']\n"
    assert [message for message in messages if message["msg_type"] == "display_data"] == []
    shown = kernel.run("%kagura leases", person=True)
    assert [message["msg_type"] for message in shown if "data" in message["content"]] == ["display_data"]
    assert "no run holds a credential" in json.dumps(shown[-2]["content"])
