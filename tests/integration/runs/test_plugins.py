"""Programs in real boxes call plugins, in every way in which an agent or a cell runs a program."""

import asyncio
import json

import pytest

from kagura_kernel.domain.events import EgressDecided, Noted, ToolFinished
from kagura_kernel.domain.policy import CommandLimits, SandboxPolicy, SandboxPolicyType
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.egress.proxy import PROXY_PORT, proxy_variables
from kagura_kernel.membrane.grant import RunGrant
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.approver import ScriptedApprover
from kagura_kernel.testing.brain import Ask, FakeBrain
from tests.support.plugins import FakePlugin, FakePlugins

TEXT = "from kagura_host import words; print(words.upper('abc'))"


def upper(text: str, *, twice: bool = False) -> dict[str, str]:
    """In capitals.

    More about it.
    """
    return {"text": text.upper() * (1 + twice)}


def fail(text: str = "no such word") -> None:
    raise LookupError(text)


@pytest.fixture
def plugin():
    return FakePlugin("words-plugin", {"words": {"upper": upper, "fail": fail, "echo": lambda value: value}})


@pytest.fixture
def plugins(plugin):
    return FakePlugins(plugin)


async def test_a_cell_calls_a_plugin_and_the_call_is_a_row(runs, plugins, plugin):
    ended = await runs.cell(plugins, "from kagura_host import words\nwords.upper('abc', twice=True)")
    assert ended.text == "{'text': 'ABCABC'}\n"
    [row] = ended.calls
    assert (row.plugin, row.module, row.function, row.ok) == ("words-plugin", "words", "upper", True)
    assert (row.bytes_in, row.bytes_out) == (87, 44)
    assert plugin.calls == [("words", "upper", ["abc"], {"twice": True})]
    [stored] = runs.journal.events(kinds=["plugin.called"])
    assert stored.event == row


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", TEXT),
        ("python", f"import subprocess, sys; _ = subprocess.run([sys.executable, '-c', {TEXT!r}])"),
        ("python", f"import os; os.environ.pop('KAGURA_SHOW'); _ = os.system('''python3 -c \"{TEXT}\"''')"),
        ("python", "import kagura_host; print(kagura_host.words.upper('abc'))"),
        ("python", "import kagura_host.words; from kagura_host.words import upper; print(upper('abc'))"),
        ("bash", f'python3 -c "{TEXT}"'),
        ("bash", f'echo "{TEXT}" > s.py; python3 s.py; rm s.py'),
        ("bash", f'mkdir d; cd d; echo "{TEXT}" | python3 -; cd ..; rmdir d'),
        ("bash", f'python3 -m venv /tmp/env && . /tmp/env/bin/activate && python -c "{TEXT}"'),
        ("bash", f'sh -c \'echo "import runpy" > /tmp/x.py; exec python3 -c "$0"\' "{TEXT}"'),
        ("bash", f'bash -lc \'python3 -c "$0"\' "{TEXT}"'),
        ("bash", f'cd /tmp && setsid --wait python3 -S -c "{TEXT}"'),
    ],
)
async def test_every_python_of_the_box_finds_the_package(runs, plugins, language, code):
    ended = await runs.cell(plugins, code, language)
    assert ended.text == "{'text': 'ABC'}\n"
    assert [row.ok for row in ended.calls] == [True]
    assert ended.outcome.changes == ()


@pytest.mark.parametrize(
    "line",
    [
        "kagura-host words upper '[\"abc\"]'",
        'kagura-host words upper \'{"text": "abc"}\'',
        "kagura-host words upper '\"abc\"'",
        "echo '[\"abc\"]' | kagura-host words upper -",
        "bash -lc 'kagura-host words upper \"$0\"' '[\"abc\"]'",
        'cd /tmp; env -i "PATH=$PATH" kagura-host words upper \'["abc"]\'',
        "python3 -m venv /tmp/env; . /tmp/env/bin/activate; kagura-host words upper '[\"abc\"]'",
        'python3 -c \'import subprocess; subprocess.run(["kagura-host", "words", "upper", "[\\"abc\\"]"])\'',
        "python3 -m kagura_host words upper '[\"abc\"]'",
    ],
)
async def test_a_shell_calls_by_name(runs, plugins, line):
    ended = await runs.cell(plugins, line, "bash")
    assert ended.text == '{"text": "ABC"}\n'


async def test_a_shell_learns_what_there_is_and_what_went_wrong(runs, plugins):
    ended = await runs.cell(
        plugins,
        "kagura-host --list; kagura-host words fail; echo $?; kagura-host words nope 2>&1; echo $?; "
        "kagura-host other x 2>&1; echo $?; kagura-host words upper abc 2>&1; echo $?; "
        "kagura-host words echo '[\"a\\u00e9\"]' --raw; echo; kagura-host words 2>/dev/null; echo $?",
        "bash",
    )
    out = ended.text.splitlines()
    assert out[:3] == [
        "words upper(text: str, *, twice: bool = False) -> dict[str, str]  In capitals.",
        "words fail(text: str = 'no such word') -> None",
        "words echo(value)",
    ]
    assert out[3:5] == ["1", "kagura-host: words has no function 'nope'; it has: upper, fail, echo."]
    assert out[5] == "2"
    assert out[6].startswith("kagura-host: no plugin that is enabled in this session has a module 'other'; there is: ")
    assert out[7] == "2"
    assert out[8].startswith("kagura-host: the arguments are no JSON")
    assert out[9:] == ["2", "aé", "2", "kagura-host: ERR_PLUGIN_FAILED: LookupError: no such word"]


async def test_the_tools_of_an_agent_find_it(runs, plugins):
    def told(results):
        return json.dumps([one.text for one in results])

    brain = FakeBrain(
        [
            Ask("python", {"code": TEXT}),
            Ask("bash", {"command": "kagura-host words upper '[\"abc\"]'"}),
            Ask("bash", {"command": f'python3 -c "{TEXT}"'}),
            told,
        ]
    )
    ended = await runs.brain(plugins, brain)
    texts = [event.text.strip() for event in ended.events if isinstance(event, ToolFinished)]
    assert texts == ["{'text': 'ABC'}", '{"text": "ABC"}', "{'text': 'ABC'}"]
    assert len(ended.calls) == 3


async def test_a_run_that_only_plans_calls_no_plugin_and_asks_for_no_host(runs, plugins, plugin):
    fetch = "import urllib.request; urllib.request.urlopen('http://a.example/')"
    brain = FakeBrain(
        [
            Ask("python", {"code": TEXT}),
            Ask("python", {"code": fetch}),
            lambda results: "\n".join(one.text for one in results),
        ]
    )
    person = ScriptedApprover()
    grant = RunGrant(net=("ask",), egress=parse_grants(["ask"]))
    spec = BoxSpec(
        workspace=runs.project, policy=SandboxPolicy(network_access=True), env=dict(proxy_variables(PROXY_PORT))
    )
    ended = await runs.brain(plugins, brain, plans_only=True, grant=grant, spec=spec, headless=False, approver=person)
    assert "upper was not called: this run only plans" in ended.outcome.text
    assert [(one.host, one.allowed) for one in ended.events if isinstance(one, EgressDecided)] == [("a.example", False)]
    assert "this run only plans" in next(one.reason for one in ended.events if isinstance(one, EgressDecided))
    assert (person.requests, plugin.calls) == ([], [])


@pytest.mark.parametrize("by", ["cell", "tool"])
async def test_a_program_is_not_stopped_for_its_silence_while_a_person_thinks(runs, plugins, by):
    class Slow(ScriptedApprover):
        async def approve(self, request):
            await asyncio.sleep(2.5)
            return await super().approve(request)

    fetch = "urllib.request.urlopen('http://a.example/')"
    code = f"import urllib.request\ntry: {fetch}\nexcept OSError as error: print(error)"
    more = {
        "grant": RunGrant(net=("ask",), egress=parse_grants(["ask"])),
        "spec": BoxSpec(runs.project, SandboxPolicy(network_access=True), env=dict(proxy_variables(PROXY_PORT))),
        "headless": False,
        "approver": Slow(),
        "limits": CommandLimits(2.0, 1.5),
    }
    if by == "cell":
        ended = await runs.cell(plugins, code, **more)
    else:
        brain = FakeBrain([Ask("python", {"code": code}), lambda results: results[0].text])
        ended = await runs.brain(plugins, brain, **more)
    assert "403: a.example:80 was not approved: script said no" in ended.text
    assert ended.outcome.status == "done"


async def test_what_a_project_calls_by_the_same_name_does_not_stand_in_its_place(runs, plugins, project):
    (project / "kagura_host.py").write_text("print('not this one')\n")
    (project / "kagura_host").mkdir()
    (project / "kagura_host" / "__init__.py").write_text("print('nor this one')\n")
    (project / "sitecustomize.py").write_text("print('the sitecustomize of the project')\n")
    (project / "script.py").write_text(TEXT)
    code = f'python3 script.py; python3 -c "{TEXT}"; python3 -m script; PYTHONPATH=$PYTHONPATH:. python3 script.py'
    ended = await runs.cell(plugins, code, "bash")
    lines = ended.text.splitlines()
    assert lines[:3] == ["{'text': 'ABC'}"] * 3
    # What was searched before is searched still, so that it runs where Python would have run it.
    assert lines[3:] == ["the sitecustomize of the project", "{'text': 'ABC'}"]
    ended = await runs.cell(plugins, TEXT)
    assert ended.text.splitlines()[-1] == "{'text': 'ABC'}"


async def test_what_the_settings_say_about_paths_stands(runs, plugins, project):
    (project / "lib").mkdir()
    (project / "lib" / "own.py").write_text("x = 1\n")
    spec = BoxSpec(workspace=project, env={"PYTHONPATH": "/workspace/lib"})
    code = f"{TEXT}\nimport own; print(own.__file__)"
    ended = await runs.cell(plugins, code, spec=spec)
    assert ended.text.splitlines()[-1] == "/workspace/lib/own.py"
    ended = await runs.cell(plugins, "echo $PYTHONPATH; echo $PATH; python3 -c 'import own'", "bash", spec=spec)
    python_path, path = ended.text.splitlines()
    assert python_path == "/tmp/kagura/host/lib:/workspace/lib"
    assert path.startswith("/tmp/kagura/host/bin:")
    assert path.endswith("/bin")


@pytest.mark.parametrize("policy", [SandboxPolicyType.READ_ONLY, SandboxPolicyType.WORKSPACE_WRITE])
@pytest.mark.parametrize("writable_root", [False, True])
async def test_every_kind_of_box_can_call(runs, plugins, project, policy, writable_root):
    spec = BoxSpec(workspace=project, policy=SandboxPolicy(policy), writable_root=writable_root)
    ended = await runs.cell(plugins, f"kagura-host words upper '[1]' 2>&1; python3 -c \"{TEXT}\"", "bash", spec=spec)
    assert ended.text.splitlines()[-1] == "{'text': 'ABC'}"
    assert "AttributeError" in ended.text


async def test_an_error_comes_back_with_the_words_of_the_plugin(runs, plugins):
    code = """
import pickle
from kagura_host import PluginError, words
try:
    words.fail("lost\\nin a place")
except PluginError as error:
    print(repr(str(error)), error.code, error.kind, error.function)
    again = pickle.loads(pickle.dumps(error))
    print(again.kind, again.code)
"""
    ended = await runs.cell(plugins, code)
    assert ended.text == (
        "'lost\\nin a place' ERR_PLUGIN_FAILED LookupError words.fail\nLookupError ERR_PLUGIN_FAILED\n"
    )
    [row] = ended.calls
    assert (row.ok, row.error_code, row.error) == (False, "ERR_PLUGIN_FAILED", "LookupError: lost\nin a place")


async def test_an_error_that_nobody_catches_ends_the_cell_with_its_words(runs, plugins):
    ended = await runs.cell(plugins, "from kagura_host import words\nwords.fail()")
    assert ended.outcome.status == "failed"
    assert ended.text.splitlines()[-1].endswith("PluginError: no such word")


@pytest.mark.parametrize(
    "line",
    ["from kagura_host import nope", "import kagura_host.nope", "import kagura_host; kagura_host.nope"],
)
async def test_a_module_that_is_not_enabled_says_which_are(runs, plugins, line):
    ended = await runs.cell(plugins, line)
    last = ended.text.splitlines()[-1]
    assert "has a module 'nope'; there is: words. A person can enable a plugin" in last
    assert last.startswith("AttributeError" if ";" in line else "ModuleNotFoundError")
    assert ended.calls == []


async def test_modules_explain_themselves(runs, plugins):
    code = """
import kagura_host
from kagura_host import words
print([name for name in dir(kagura_host) if not name.startswith("_")])
print(words.__all__, words.upper.__name__, words.upper.__module__)
print(words.upper.__doc__)
try:
    words.lower
except AttributeError as error:
    print(error)
"""
    ended = await runs.cell(plugins, code)
    assert ended.text.splitlines() == [
        "['PluginError', 'words']",
        "['upper', 'fail', 'echo'] upper kagura_host.words",
        "upper(text: str, *, twice: bool = False) -> dict[str, str]",
        "",
        "In capitals.",
        "",
        "More about it.",
        "words has no function 'lower'; it has: upper, fail, echo",
    ]


async def test_what_json_has_crosses_and_nothing_else(runs, plugins):
    code = """
from pathlib import Path
from kagura_host import words, PluginError
value = {"a": [1, 2.5, None, True, "é\\u2028\\ud800"], "": {}, "big": 10**300}
assert words.echo(value) == value
assert words.echo((1, 2)) == [1, 2]
assert words.echo(Path("a/b")) == "a/b"
assert words.echo("x" * 3_000_000) == "x" * 3_000_000
for bad in (b"x", {1, 2}, float("nan"), object()):
    try:
        words.echo(bad)
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error)
try:
    words.echo("x" * 5_000_000)
except PluginError as error:
    print(error)
deep = []
for _ in range(100):
    deep = [deep]
try:
    words.echo(deep)
except PluginError as error:
    print(error)
"""
    ended = await runs.cell(plugins, code)
    lines = ended.text.splitlines()
    assert lines[0].startswith("TypeError bytes are nothing that JSON has; give text, or base64")
    assert lines[1] == "TypeError a value of type set is nothing that JSON has"
    assert lines[2].startswith("ValueError Out of range float values")
    assert lines[3] == "TypeError a value of type object is nothing that JSON has"
    assert "words.echo: its arguments are 50000" in lines[4]
    assert "nested" in lines[5]
    assert ended.outcome.status == "done"


async def test_threads_forks_and_pools_call_at_the_same_time(runs, plugins):
    code = """
import os, threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from kagura_host import words

def one(number):
    return words.echo(number)

with ThreadPoolExecutor(20) as pool:
    assert list(pool.map(one, range(200))) == list(range(200))
with ProcessPoolExecutor(4, get_context("fork")) as pool:
    assert list(pool.map(one, range(40))) == list(range(40))
for number in range(5):
    pid = os.fork()
    if not pid:
        os._exit(0 if one(number) == number else 1)
    assert one("parent") == "parent"
    assert os.waitpid(pid, 0)[1] == 0
print("all")
"""
    ended = await runs.cell(plugins, code)
    assert ended.text == "all\n"
    assert len(ended.calls) == 250


async def test_without_plugins_nothing_is_in_the_box(runs):
    ended = await runs.cell(FakePlugins(), "ls /tmp/kagura; echo $PYTHONPATH; command -v kagura-host; ls -A ~", "bash")
    assert "host" not in ended.text
    assert ended.text.splitlines()[-1] == "calls" or "kagura" not in ended.text


@pytest.mark.parametrize(("line", "told"), [("from kagura_host import words", 1), ("import nothing_here", 0)])
async def test_a_program_that_looks_for_a_plugin_where_none_is_enabled_is_told_how_to_get_one(runs, line, told):
    ended = await runs.cell(FakePlugins(), line)
    notes = [event.text for event in ended.events if isinstance(event, Noted)]
    assert ["plugin enable" in note for note in notes].count(True) == told


async def test_what_has_become_of_plugins_is_said_before_the_box_starts(runs, plugins, project):
    plugins.notes = ["fs-read has changed and is off"]
    ended = await runs.cell(plugins, "True")
    assert plugins.refreshed == [("ses-1", project)]
    kinds = [event.kind for event in ended.events]
    [note] = [event for event in ended.events if isinstance(event, Noted)]
    assert note.text == "fs-read has changed and is off"
    assert kinds.index("run.noted" if "run.noted" in kinds else note.kind) < kinds.index("box.started")


async def test_a_brain_is_told_of_its_plugins_and_only_then(runs, plugins):
    heard = []

    class Listening(FakeBrain):
        def run(self, turn):
            heard.append(turn.system)
            return super().run(turn)

    await runs.brain(plugins, Listening(["Done."]))
    await runs.brain(FakePlugins(), Listening(["Done."]))
    assert "from kagura_host import words" in heard[0]
    assert '<plugin name="words-plugin" version="1.0.0">' in heard[0]
    assert "kagura_host" not in heard[1]
    assert heard[0].startswith(heard[1])


async def test_the_end_of_a_run_cuts_its_calls(runs):
    begun = asyncio.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    plugin = FakePlugin("slow", {"slow": {"forever": forever}})
    run = runs.make(FakePlugins(plugin), "from kagura_host import slow; slow.forever()", "python")
    ending = asyncio.ensure_future(runs.listened(run))
    await asyncio.wait_for(begun.wait(), 60)
    run.kill("the test")
    ended = await ending
    assert ended.outcome.status == "killed"
    assert plugin.cut == 1
    [row] = ended.calls
    assert (row.ok, row.error_code) == (False, "ERR_PLUGIN_CALL")
    assert [event.kind for event in ended.events][-1] == "run.finished"
