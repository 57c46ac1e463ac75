"""The sealed brain before it thinks: what it needs, what it is told, what it is refused."""

import os
import shutil
from pathlib import Path

import pytest

from kagura_kernel.brain import claude_auth
from kagura_kernel.brain.claude import ClaudeBrain
from kagura_kernel.brain.in_box import ThinksInside
from kagura_kernel.brain.openai_compatible import Key
from kagura_kernel.brain.provider import BrainDone, Turn, choose
from kagura_kernel.brain.sealed import SealedBrain, shown_folder
from kagura_kernel.brain.sealed_command import PLACEHOLDER, box_environ, command_line
from kagura_kernel.domain.errors import BrainNotConfigured, SecretUnavailable
from kagura_kernel.domain.policy import PROGRAM_DIR
from kagura_kernel.domain.tools import ToolCall, ToolResult, ToolSpec
from kagura_kernel.runs.sealed_run import SealedPlace, check_service, model_api, offered

KEY = "sk-test-never-real"


async def nobody(_call: ToolCall) -> ToolResult:
    return ToolResult("")


def turn(**more: object) -> Turn:
    return Turn(task="t", system="s", tools=more.pop("tools", ()), call_tool=nobody, **more)  # type: ignore[arg-type]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "claude"
    path.parent.mkdir()
    path.write_bytes(b"\x7fELF and more")
    (path.parent / "private.txt").write_text("of the person")
    return path


def brain(tmp_path: Path, program: Path | None, **environ: str) -> SealedBrain:
    return SealedBrain(environ, tmp_path / "state", program=program)


async def test_a_key_and_a_program_are_all_it_needs(tmp_path, program):
    ready = brain(tmp_path, program, ANTHROPIC_API_KEY=KEY)
    auth, needs = ready.resolve_auth(), ready.sealed_needs()
    assert (auth.ready, auth.reason) == (True, "ANTHROPIC_API_KEY is set, and stays outside of the box")
    assert (needs.place, needs.url, needs.header) == (PROGRAM_DIR, "https://api.anthropic.com", "x-api-key")
    assert await needs.key() == KEY
    assert KEY not in repr(needs)
    assert isinstance(ready, ThinksInside)
    assert not isinstance(ClaudeBrain({}, tmp_path), ThinksInside)


async def test_a_token_goes_where_tokens_go(tmp_path, program):
    gateway = brain(tmp_path, program, ANTHROPIC_AUTH_TOKEN=KEY, ANTHROPIC_BASE_URL="https://gateway.example/api")
    api = await model_api(gateway.sealed_needs())
    assert (api.url, api.header) == ("https://gateway.example/api", "authorization")
    assert KEY not in repr(api)


async def test_a_key_of_the_keychain_is_read_outside_when_the_way_opens_and_after_a_variable(tmp_path, program):
    async def read() -> str:
        if locked:
            raise SecretUnavailable("claude_key_keyring", "the keychain does not open")
        return KEY

    locked, key = False, Key("claude_key_keyring", read)
    kept = SealedBrain({}, tmp_path / "state", key=key, program=program)
    assert kept.resolve_auth().reason == "key from claude_key_keyring, and stays outside of the box"
    api = await model_api(kept.sealed_needs())
    assert (api.header, api.key.reveal()) == ("x-api-key", KEY)
    own = SealedBrain({"ANTHROPIC_AUTH_TOKEN": "another"}, tmp_path / "state", key=key, program=program)
    api = await model_api(own.sealed_needs())
    assert (api.header, api.key.reveal()) == ("authorization", "another")
    locked = True
    with pytest.raises(BrainNotConfigured, match=r"The sealed brain cannot think: .*the keychain does not open"):
        await model_api(kept.sealed_needs())


def test_a_sign_in_alone_is_not_lent_to_a_box(tmp_path, program):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    signed_in = brain(tmp_path, program, HOME=str(tmp_path))
    assert ClaudeBrain({"HOME": str(tmp_path)}, tmp_path, program=program).resolve_auth().ready
    assert not signed_in.resolve_auth().ready
    with pytest.raises(BrainNotConfigured, match="sign-in of the Claude program is not lent to a box"):
        signed_in.sealed_needs()


def test_a_program_that_cannot_run_in_a_box_is_told_of(tmp_path, program):
    program.write_text("#!/usr/bin/env node\n")
    assert "does not run by itself" in brain(tmp_path, program, ANTHROPIC_API_KEY=KEY).resolve_auth().reason
    missing = brain(tmp_path, tmp_path / "nowhere", ANTHROPIC_API_KEY=KEY)
    assert "the Claude program is missing: install it with `pip" in missing.resolve_auth().reason


@pytest.mark.parametrize("kind", [ClaudeBrain, SealedBrain])
def test_a_program_without_the_sdk_is_of_no_use(tmp_path, program, monkeypatch, kind):
    monkeypatch.setattr(claude_auth, "find_spec", lambda _: None)
    state = kind({"ANTHROPIC_API_KEY": KEY}, tmp_path, program=program).resolve_auth()
    expected = "the Claude Agent SDK is missing: install it with `pip install 'kagura-kernel[claude]'`"
    assert (state.ready, state.reason) == (False, expected)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://gateway.example", "must be https"),
        ("https://me:pw@gateway.example", "name or password"),
        ("x", "no URL"),
    ],
)
def test_a_key_is_sent_to_no_place_where_others_could_read_it(tmp_path, program, url, why):
    needs = brain(tmp_path, program, ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=url).sealed_needs()
    with pytest.raises(BrainNotConfigured, match=why) as refused:
        check_service(needs)
    assert "pw" not in str(refused.value)
    assert KEY not in str(refused.value)


def test_only_a_folder_with_nothing_private_is_shown(tmp_path, program):
    folder = shown_folder(program, tmp_path / "state")
    assert [path.name for path in folder.iterdir()] == ["claude"]
    assert folder.parent == (tmp_path / "state").resolve()
    assert (folder / "claude").read_bytes() == program.read_bytes()
    assert shown_folder(program, tmp_path / "state") == folder, "it is copied once"
    program.write_bytes(b"\x7fELF of another version")
    assert shown_folder(program, tmp_path / "state") != folder


def test_copies_of_earlier_programs_go_and_one_in_use_stays(tmp_path, program):
    state = tmp_path / "state"
    before = shown_folder(program, state)
    program.write_bytes(b"\x7fELF of another version")
    for folder in (before, shown_folder(program, state)):
        os.utime(folder, (0, 0))
    now = shown_folder(program, state)
    assert list(state.iterdir()) == [now]


def test_two_runs_may_copy_the_program_at_once(tmp_path, program, monkeypatch):
    copied = shutil.copyfile

    def slowly(source: Path, goal: Path) -> Path:
        monkeypatch.undo()
        shown_folder(source, tmp_path / "state")
        return copied(source, goal)

    monkeypatch.setattr(shutil, "copyfile", slowly)
    folder = shown_folder(program, tmp_path / "state")
    assert (folder / "claude").read_bytes() == program.read_bytes()
    assert list(folder.parent.iterdir()) == [folder]


def test_nobody_is_sealed_who_has_not_asked_for_it(tmp_path, program):
    sealed = brain(tmp_path, program, ANTHROPIC_API_KEY=KEY)
    brains = {"sealed": sealed, "claude": ClaudeBrain({"ANTHROPIC_API_KEY": KEY}, tmp_path, program=program)}
    assert choose("auto", brains)[0].name == "claude"
    assert choose("sealed", brains)[0] is sealed
    with pytest.raises(BrainNotConfigured):
        choose("auto", {"sealed": sealed})


def test_the_program_is_told_of_rounds_and_not_of_a_budget():
    line = command_line(turn(model="m-1", max_turns=3, budget_usd=1.0))
    assert line[0] == f"{PROGRAM_DIR}/claude"
    assert "--model=m-1" in line
    assert "--max-turns=3" in line
    assert not [word for word in line if "budget" in word]
    assert "--setting-sources=" in line


@pytest.mark.parametrize(
    ("header", "variable", "other"),
    [
        ("x-api-key", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        ("authorization", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"),
    ],
)
def test_the_box_gets_a_placeholder_where_the_program_wants_a_key(header, variable, other):
    place = SealedPlace(None, None, "http://127.0.0.1:5", {"MINE": "1"}, root=True, folder="x")  # type: ignore[arg-type]
    environ = box_environ(place, header, max_retries=4)
    assert environ[variable] == PLACEHOLDER
    assert other not in environ
    assert environ["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:5"
    assert (environ["MINE"], environ["IS_SANDBOX"]) == ("1", "1")
    assert not {"PATH", "HOME"} & set(environ), "the box has its own"


def test_our_tools_for_files_are_left_out_where_the_program_has_its_own():
    names = ["bash", "python", "read_file", "edit_file", "grep", "ask_user", "recall"]
    specs = [ToolSpec(name, "", {}) for name in names]
    assert [spec.name for spec in offered(specs)] == ["bash", "python", "ask_user", "recall"]


async def test_it_thinks_nowhere_but_in_a_box(tmp_path, program):
    sealed = brain(tmp_path, program, ANTHROPIC_API_KEY=KEY)
    with pytest.raises(BrainNotConfigured, match="thinks in the box of a run"):
        async for _ in sealed.run(turn()):
            pass


async def test_a_turn_without_rounds_is_over_at_once(tmp_path, program):
    place = SealedPlace(None, None, "http://127.0.0.1:5", {}, root=False, folder="/tmp/x")  # type: ignore[arg-type]
    sealed = brain(tmp_path, program, ANTHROPIC_API_KEY=KEY)
    assert [event async for event in sealed.run(turn(max_turns=0, inside=place))] == [BrainDone(stopped="turns")]
