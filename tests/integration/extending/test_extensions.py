"""What other packages bring, from the entry point to the run: used by name, told when broken, never by accident."""

import json
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.assembly import brain_names, check_settings_text, load_registry, make_cockpit
from kagura_kernel.assembly.boxes import Boxes
from kagura_kernel.assembly.extensions import (
    brain_chooser,
    extension_status,
    extensions,
    tool_makers as load_tools,
)
from kagura_kernel.assembly.transports import make_transport
from kagura_kernel.cli.doctor_rows import chats
from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import ConfigurationError, ExtensionBroken, UnknownName
from kagura_kernel.domain.errors.memory import MemoryUnavailable
from kagura_kernel.domain.extensions import BRAINS, CREDENTIALS, MEMORIES, TOOLS, TRANSPORTS
from kagura_kernel.domain.memory import Author, Draft, Source
from kagura_kernel.domain.settings import Settings
from kagura_kernel.memory.location import open_memory, problem_with
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask, FakeBrain
from kagura_kernel.testing.installed import installed_package
from kagura_kernel.testing.patience import wait_until
from tests.integration.extending.conftest import EXAMPLES
from tests.support.kernel import kernel_environ

BROKEN = """
raise RuntimeError("no licence for this machine")
"""
ODD = """
from kagura_kernel.assembly.chats import ChatKind
from kagura_kernel.brain.provider import AuthContext, BrainCapabilities, BrainText

def make(*given):
    return object()

def leak(settings, tokens):
    raise RuntimeError(tokens["bot_token"].reveal())

class Crashing:
    name = "crashing"

    def resolve_auth(self):
        return AuthContext(ready=True, method="none needed", reason="it is here")

    def capabilities(self):
        return BrainCapabilities()

    async def run(self, turn):
        yield BrainText("Hm.")
        raise KeyError("a secret")

LEAKY = ChatKind(leak, tokens=("bot_token",))
OTHER = ChatKind(make)
"""


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[None]:
    """A package of which nothing works."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "broken_parts.py").write_text(BROKEN)
    (modules / "odd_parts.py").write_text(ODD)
    parts = {group: {"broken": "broken_parts:make", "odd": "odd_parts:make"} for group in (BRAINS, CREDENTIALS)}
    parts |= {MEMORIES: {"broken": "broken_parts:make", "odd": "odd_parts:make"}}
    parts |= {TOOLS: {"broken": "broken_parts:make", "odd": "odd_parts:make", "Wrong Name": "odd_parts:make"}}
    parts |= {"kagura_kernel.backends": {"broken": "broken_parts:make"}}
    parts |= {TRANSPORTS: {"broken": "broken_parts:make", "odd": "odd_parts:make", "slack": "odd_parts:make"}}
    parts[TRANSPORTS] |= {"leaky": "odd_parts:LEAKY", "other": "odd_parts:OTHER"}
    parts[BRAINS] |= {"claude": "odd_parts:make", "crashing": "odd_parts:Crashing"}
    with installed_package(tmp_path / "broken-site", parts, modules, name="broken"):
        yield


@pytest.fixture
def cockpit_of(tmp_path: Path) -> Iterator[Callable[..., Cockpit]]:
    made: list[Cockpit] = []

    def make(**settings: str) -> Cockpit:
        made.append(make_cockpit(kernel_environ(tmp_path / "home", KAGURA_NET="none", **settings)))
        return made[-1]

    yield make
    for cockpit in made:
        cockpit.close()


def launch(project: Path, **more: Any) -> RunRequest:
    return RunRequest(task="How many words?", project=project, box="bubblewrap", headless=True, **more)


# ------------------------------------------------------------------------- the page


def test_the_page_quotes_every_example_as_it_is():
    text = (EXAMPLES.parents[1] / "extending.md").read_text("utf-8")
    quoted = re.findall(r"```(?:python|json|toml)\n(.*?)```", text, re.DOTALL)
    # The README of the plugin stands beside it, and is not repeated.
    files = [path for path in EXAMPLES.rglob("*") if path.is_file() and path.suffix in (".py", ".json", ".toml")]
    missing = [path.name for path in files if "__pycache__" not in path.parts and path.read_text("utf-8") not in quoted]
    assert missing == []


async def test_a_program_has_its_commands_routed_and_asked_about(house, project):
    asking = house("asking_runtime")
    assert re.fullmatch(r"Python 3\..*\ngit version .*\n", await asking.versions(project))
    assert asking.why("ls -l") == ("sandbox", "command is safe and runs in the sandbox")
    assert asking.why("rm -r x") == ("host", "command 'rm' is not in the safe list")


# ----------------------------------------------------------------------- the brains


@pytest.mark.usefixtures("house")
def test_a_brain_of_another_package_thinks_when_it_is_named(cockpit_of, project):
    outcome = cockpit_of().launch(launch(project, brain="small")).result(60)
    assert (outcome.status, outcome.text) == ("done", "You said: How many words?")
    assert "small" in brain_names()


@pytest.mark.usefixtures("house")
def test_no_brain_of_another_package_is_taken_by_itself():
    from kagura_kernel.domain.errors import BrainNotConfigured

    choose = brain_chooser({"fake": FakeBrain(ready=False, name="fake")})
    with pytest.raises(BrainNotConfigured):
        choose("auto")
    brain, reason = choose("small")
    assert brain.name == "small"
    assert "house-extensions 1.0" in reason
    assert choose("small")[0] is brain


@pytest.mark.usefixtures("house")
def test_a_slip_in_the_name_of_a_brain_is_told_with_those_of_other_packages():
    with pytest.raises(UnknownName, match="Did you mean 'small'"):
        brain_chooser({"fake": FakeBrain()})("smal")


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(("name", "why"), [("broken", "no licence for this machine"), ("odd", "AttributeError")])
def test_a_broken_brain_is_told_and_nothing_takes_its_place(name, why, cockpit_of, project):
    with pytest.raises(ExtensionBroken, match=why) as told:
        cockpit_of().launch(launch(project, brain=name))
    assert told.value.code == "ERR_EXTENSION_BROKEN"
    assert "broken 1.0" in told.value.message


@pytest.mark.usefixtures("broken")
def test_what_goes_wrong_inside_a_brain_of_another_package_is_told_as_that_brain_s(cockpit_of, project):
    outcome = cockpit_of().launch(launch(project, brain="crashing")).result(60)
    assert (outcome.status, outcome.error_code) == ("failed", "ERR_BRAIN_LOST")
    assert "The crashing brain was lost: KeyError in its code; the log has the details." in outcome.error
    assert "secret" not in outcome.error


@pytest.mark.usefixtures("broken")
def test_a_name_of_ours_cannot_be_taken():
    found = {one.name: one for one in extensions() if one.group == BRAINS}
    assert "built in" in found["claude"].problem
    brain, _ = brain_chooser({"claude": FakeBrain(name="claude")})("claude")
    assert isinstance(brain, FakeBrain)


# ------------------------------------------------------------------------ the tools


@pytest.mark.usefixtures("house")
def test_a_tool_of_another_package_works_in_the_box(cockpit_of, project):
    cockpit = cockpit_of(KAGURA_OWN_TOOLS="word-count")
    read: list[Any] = []
    script = [
        Ask("word_count", {"path": "poem.txt"}),
        Ask("word_count", {"path": "none.txt"}),
        Ask("word_count", {"file": "poem.txt"}),
        lambda results: read.extend(results) or "Four.",
    ]
    choices = cockpit._parts.choices
    brain = FakeBrain(script)
    object.__setattr__(choices, "choose_brain", lambda _name: (brain, "the test says so"))
    outcome = cockpit.launch(launch(project)).result(60)
    assert outcome.text == "Four."
    assert [(one.text, one.is_error) for one in read[:1]] == [("4", False)]
    assert read[1].is_error
    assert "No such file" in read[1].text
    assert "was not called" in read[2].text
    assert "word_count" in [spec.name for spec in brain.turns[0].tools]


@pytest.mark.usefixtures("house")
def test_a_tool_that_nobody_has_named_is_not_there_and_is_not_even_imported(cockpit_of, project):
    brain = FakeBrain(["Done."])
    cockpit = cockpit_of()
    object.__setattr__(cockpit._parts.choices, "choose_brain", lambda _name: (brain, "the test says so"))
    cockpit.launch(launch(project)).result(60)
    assert "word_count" not in [spec.name for spec in brain.turns[0].tools]
    assert "word_count_tool" not in sys.modules


@pytest.mark.usefixtures("broken")
def test_a_run_does_not_begin_without_a_tool_that_the_settings_name(cockpit_of, project):
    cockpit = cockpit_of(KAGURA_OWN_TOOLS="broken")
    object.__setattr__(cockpit._parts.choices, "choose_brain", lambda _name: (FakeBrain(), "the test says so"))
    with pytest.raises(ExtensionBroken, match="no licence"):
        cockpit.launch(launch(project))
    # A cell's own code has no tools.
    cell = RunRequest(task="true", language="bash", project=project, box="bubblewrap")
    assert cockpit.launch(cell).result(60).status == "done"


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(("name", "why"), [("none", "There is no tool"), ("Wrong Name", "small letters")])
def test_a_tool_that_cannot_be_is_told_by_its_name(name, why):
    with pytest.raises((UnknownName, ExtensionBroken), match=why):
        load_tools(Settings(own_tools=(name,)))()


@pytest.mark.usefixtures("broken")
def test_what_makes_no_tool_ends_the_run_with_words(cockpit_of, project):
    cockpit = cockpit_of(KAGURA_OWN_TOOLS="odd")
    object.__setattr__(cockpit._parts.choices, "choose_brain", lambda _name: (FakeBrain(), "the test says so"))
    outcome = cockpit.launch(launch(project)).result(60)
    assert (outcome.status, outcome.error_code) == ("failed", "ERR_EXTENSION_BROKEN")
    assert "The tool 'odd' of broken 1.0 cannot be used: " in outcome.error


# ------------------------------------------------------------------- the back-ends


@pytest.mark.usefixtures("house")
def test_a_back_end_of_another_package_starts_boxes_when_it_is_named(cockpit_of, project):
    cell = RunRequest(task="cat poem.txt", language="bash", project=project, box="modest")
    cockpit = cockpit_of()
    outcome = cockpit.launch(cell).result(60)
    assert outcome.text.startswith("one two three")
    [started] = [row.event for row in cockpit.journal.events(run_id=outcome.run_id) if row.event.kind == "box.started"]
    assert started.backend == "modest"


@pytest.mark.usefixtures("broken")
def test_a_broken_back_end_is_told_by_its_package_and_only_when_it_is_named(cockpit_of, project, tmp_path):
    boxes = Boxes(kernel_environ(tmp_path / "home"), Settings(), "me")
    assert "broken" not in boxes.names
    cell = RunRequest(task="true", language="bash", project=project, box="broken")
    with pytest.raises(ExtensionBroken, match=r"The back-end 'broken' of broken 1.0 cannot be used: .*no licence"):
        cockpit_of().launch(cell)


# ----------------------------------------------------------------- the credentials


def credentials(tmp_path: Path, text: str) -> dict[str, str]:
    environ = kernel_environ(tmp_path / "home")
    (tmp_path / "home" / "credentials.toml").write_text(text)
    return environ


@pytest.mark.usefixtures("house")
def test_a_provider_of_another_package_is_configured_like_ours(tmp_path):
    environ = credentials(
        tmp_path,
        '[providers.house]\nkind = "house_tokens"\nurl = "https://tokens.example"\nkey_env = "HOUSE_KEY"\n'
        '[providers.house.scopes.read]\nrights = ["read"]\n',
    )
    registry = load_registry(environ)
    provider = registry.providers["house"]
    assert (provider.name, provider.kind, provider.scopes) == ("house", "house_tokens", {"read"})


@pytest.mark.usefixtures("house")
def test_its_settings_are_checked_like_ours_and_a_key_in_them_is_refused(tmp_path):
    environ = credentials(
        tmp_path, '[providers.house]\nkind = "house_tokens"\nurl = "http://tokens.example"\nkey = "hunter2"\n'
    )
    with pytest.raises(ConfigurationError) as told:
        load_registry(environ)
    assert "must be https" in told.value.message
    assert "hunter2" not in told.value.message


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(("name", "why"), [("broken", "no licence"), ("odd", "it is no `Kind`"), ("none", "one of")])
def test_a_broken_provider_is_a_problem_of_the_configuration(tmp_path, name, why):
    environ = credentials(tmp_path, f'[providers.house]\nkind = "{name}"\n')
    with pytest.raises(ConfigurationError, match=why):
        load_registry(environ)


# ----------------------------------------------------------------------- memories


@pytest.mark.usefixtures("house")
def test_a_memory_of_another_package_is_opened_by_its_scheme(tmp_path, monkeypatch):
    monkeypatch.setenv("TEAM_MEMORIES", str(tmp_path))
    assert problem_with("team://orchids", setting=True) == ""
    store = open_memory("team://orchids", tmp_path / "home", {})
    store.remember(Draft(text="Water on Mondays.", source=Source(Author.HUMAN, "Ada")))
    store.close()
    assert (tmp_path / "orchids.sqlite3").exists()


@pytest.mark.usefixtures("house")
def test_a_memory_that_refuses_says_why(tmp_path, monkeypatch):
    monkeypatch.delenv("TEAM_MEMORIES", raising=False)
    with pytest.raises(MemoryUnavailable, match="TEAM_MEMORIES"):
        open_memory("team://orchids", tmp_path, {}, clock=SystemClock())


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("name", ["broken", "odd"])
def test_a_broken_memory_is_unavailable_and_no_other_one_takes_its_place(tmp_path, name):
    with pytest.raises(MemoryUnavailable):
        open_memory(f"{name}://x", tmp_path / "home", {})
    assert not (tmp_path / "home").exists()


def test_a_scheme_that_nobody_brings_is_a_wrong_setting():
    assert "nothing is kept behind" in problem_with("nowhere://x", setting=True)


# --------------------------------------------------------------------------- chats

FOLDER = """
brain = "small"
box = "bubblewrap"
net = ["none"]
[transports.folder]
folder = "{folder}"
operators = ["ann"]
project = "{project}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the example, with one of ann's and one of eve's in it."""
    for who in ("ann", "eve"):
        (tmp_path / "folder" / "people" / who).mkdir(parents=True)
    return tmp_path / "folder"


def posts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("threads/*/*.json"))]


@pytest.mark.usefixtures("house")
def test_a_chat_of_another_package_is_served_beside_ours_by_the_real_command(folder, project, tmp_path):
    environ = kernel_environ(tmp_path / "home", PYTHONPATH=str(tmp_path / "site"))
    Path(environ["KAGURA_CONFIG"]).write_text(FOLDER.format(folder=folder, project=project))
    for who, text in (("eve", "Let me in"), ("ann", "How many words?")):
        (folder / "people" / who / "1.json").write_text(json.dumps({"thread": "words", "text": text}))
    command = [sys.executable, "-m", "kagura_kernel.cli.main", "serve"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, cwd=project) as serving:
        try:
            wait_until(
                lambda: serving.poll() is not None or any("You said" in post["theirs"] for post in posts(folder))
            )
        finally:
            serving.terminate()
            _, said = serving.communicate()
    assert serving.returncode == 0, said
    assert b"Serving folder." in said
    [answer] = posts(folder)
    assert answer["ours"].startswith("Done")
    assert answer["theirs"] == "You said: How many words?"
    assert list(folder.glob("people/*/*")) == []


@pytest.mark.usefixtures("house")
def test_settings_that_name_a_chat_of_another_package_are_checked_without_loading_it():
    check_settings_text('[transports.folder]\nfolder = "/srv/kagura"\noperators = ["ann"]\n', "config.toml")
    with pytest.raises(ConfigurationError, match=r"transports\.folder\.operators"):
        check_settings_text('[transports.folder]\noperators = "ann"\n', "config.toml")
    with pytest.raises(ConfigurationError, match="one of slack, discord, folder"):
        check_settings_text("[transports.flder]\n", "config.toml")
    assert "folder_chat" not in sys.modules


@pytest.mark.usefixtures("house")
async def test_what_a_chat_of_another_package_may_be_told_is_checked_like_ours():
    with pytest.raises(ConfigurationError) as told:
        await make_transport("folder", {"folder": 3, "colour": "hunter2"}, {})
    assert len(told.value.problems) == 2
    assert "hunter2" not in told.value.message


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken", "no licence for this machine"),
        ("odd", "it is no `ChatKind`"),
        ("leaky", r"it cannot be made \(RuntimeError\)"),
        ("other", r"it cannot be made \(AttributeError\)"),
    ],
)
async def test_a_broken_chat_is_told_and_never_with_its_token(name, why):
    table = {"bot_token_env": "BOT"} if name == "leaky" else {}
    token = "hunter" * 2
    with pytest.raises(ExtensionBroken, match=why) as told:
        await make_transport(name, table, {"BOT": token})
    assert "broken 1.0" in told.value.message
    assert token not in "".join(traceback.format_exception(told.value))
    assert token not in str(told.value.__context__)


@pytest.mark.usefixtures("broken")
def test_a_chat_of_ours_cannot_be_replaced():
    from kagura_kernel.assembly.chats import CHATS
    from kagura_kernel.assembly.transports import chat_kind

    assert chat_kind("slack") == (CHATS["slack"], "")
    assert "built in" in {one.name: one for one in extensions() if one.group == TRANSPORTS}["slack"].problem


@pytest.mark.usefixtures("house", "broken")
def test_doctor_tells_of_chats_of_other_packages_that_the_settings_name(tmp_path, folder):
    tables = {"folder": {"folder": str(folder), "operators": ["ann"]}, "broken": {}, "none": {}}
    rows = {row.name: row for row in chats(Settings(transports=tables), kernel_environ(tmp_path / "home"))}
    assert rows["chat folder"].state == "ok"
    assert (rows["chat broken"].state, rows["chat none"].state) == ("fail", "fail")
    assert "no licence for this machine" in rows["chat broken"].said


# ------------------------------------------------------------------------ showing


@pytest.mark.usefixtures("house", "broken")
def test_status_lists_what_is_installed_and_runs_none_of_it(cockpit_of):
    shown = {part.name: part for part in cockpit_of().status().others}
    assert shown["brain small"].ok
    assert shown["brain small"].reason == "of house-extensions 1.0"
    assert shown["transport folder"].ok
    assert not shown["brain claude"].ok
    assert "small_brain" not in sys.modules
    assert {part.name for part in extension_status()} == set(shown)


@pytest.mark.usefixtures("house", "broken")
def test_the_terminal_s_doctor_has_a_row_for_each():
    from kagura_kernel.cli.doctor_rows import brains, extension_findings

    assert [(row.name, row.state) for row in brains(Settings(brain="small"), {})] == [("brain", "ok")]
    rows = {row.name: row for row in extension_findings(Settings())}
    assert rows["brain small"].state == "ok"
    assert rows["brain broken"].state == "warn"
    assert "uninstall broken" in rows["brain broken"].then
    assert rows["telemetry"].said == "off"
    settings = Settings(own_tools=("broken",), brain="broken", transports={"broken": {}})
    named = {row.name: row for row in extension_findings(settings)}
    assert (rows["transport broken"].state, named["transport broken"].state) == ("warn", "fail")
    assert named["tool broken"].state == "fail"
    assert named["brain broken"].state == "fail"
    assert rows["log"].said == "warning and above, to standard error"
