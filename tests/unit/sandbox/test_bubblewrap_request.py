from pathlib import Path

import pytest

from kagura_kernel.domain.policy import BoxLimits, SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import BoxSpec, ShownPath
from kagura_kernel.sandbox.boot import GuestConfig
from kagura_kernel.sandbox.bubblewrap.request import fitting, guest_config, request_for, uncounted_notes
from kagura_kernel.sandbox.python_view import PythonView

VIEW = PythonView(python="/env/bin/python", env=(("PYTHONUSERBASE", "/u"),), path=("/env/bin",))
PROJECT = Path("/project")
READ_ONLY = SandboxPolicy(type=SandboxPolicyType.READ_ONLY)


def asked(spec: BoxSpec, *, copy: bool = False) -> dict:
    return request_for(spec, spec.limits, "/usr/bin/bwrap", VIEW, copy=copy)


def configured(spec: BoxSpec, *, copy: bool = False) -> GuestConfig:
    return guest_config(spec, VIEW, writable=asked(spec)["writable"], copy=copy)


@pytest.mark.parametrize(
    ("policy", "writable", "parts"),
    [
        (SandboxPolicy(), True, []),
        (READ_ONLY, False, []),
        (SandboxPolicy(writable_roots=()), False, []),
        (SandboxPolicy(writable_roots=("/workspace/a", "/workspace/b/c")), True, ["a", "b/c"]),
        (SandboxPolicy(writable_roots=("/workspace/a", "/workspace")), True, []),
        (SandboxPolicy(writable_roots=("/workspaces", "/etc")), False, []),
        (SandboxPolicy(type=SandboxPolicyType.DANGER_FULL), True, []),
    ],
)
def test_what_may_be_written_follows_the_policy(policy: SandboxPolicy, writable: bool, parts: list[str]) -> None:
    request = asked(BoxSpec(workspace=PROJECT, policy=policy))
    assert (request["writable"], request["writable_parts"]) == (writable, parts)


@pytest.mark.parametrize(
    ("spec", "copy", "overlay"),
    [
        (BoxSpec(workspace=PROJECT), False, True),
        (BoxSpec(workspace=PROJECT), True, False),
        (BoxSpec(), False, False),
        (BoxSpec(workspace=PROJECT, policy=READ_ONLY), False, False),
    ],
)
def test_the_guest_looks_for_changes_where_there_is_an_overlay(spec: BoxSpec, copy: bool, overlay: bool) -> None:
    config = configured(spec, copy=copy)
    assert (config.upper is not None) is overlay
    assert (config.lower is not None) is overlay


def test_what_is_shown_as_it_is_travels_in_order() -> None:
    shown = (ShownPath(Path("/a"), "/plugin/read/0"), ShownPath(Path("/b"), "/plugin/write/0", writable=True))
    assert asked(BoxSpec(shown=shown))["shown"] == [["/a", "/plugin/read/0", False], ["/b", "/plugin/write/0", True]]


def test_the_environment_is_small_and_the_specs_word_is_last() -> None:
    spec = BoxSpec(env={"LANG": "de_DE.UTF-8", "EXTRA": "1"})
    env = configured(spec).env
    assert env["PATH"].split(":")[:2] == ["/env/bin", "/run/kagura/bin"]
    assert env["HOME"] == "/home/agent"
    assert env["PYTHONUSERBASE"] == "/u"
    assert (env["LANG"], env["EXTRA"]) == ("de_DE.UTF-8", "1")


def test_nothing_of_the_environment_stands_in_the_request() -> None:
    spec = BoxSpec(env={"EXTRA": "visible-nowhere"})
    assert "visible-nowhere" not in repr(asked(spec))


def test_ordinary_limits_fit_and_greedy_ones_are_cut_and_told() -> None:
    small = BoxLimits(memory_bytes=2**20, workspace_bytes=2**18, scratch_bytes=2**18)
    assert fitting(small) == (small, [])
    fitted, notes = fitting(BoxLimits(memory_bytes=2**28, workspace_bytes=2**40, scratch_bytes=2**40))
    assert (fitted.workspace_bytes, fitted.scratch_bytes) == (2**27, 2**26)
    assert len(notes) == 1


def test_each_limit_that_cannot_be_set_has_its_note() -> None:
    assert uncounted_notes(()) == []
    assert len(uncounted_notes(("memory", "pids", "cpu"))) == 3


def test_a_writable_root_takes_half_of_the_memory_and_the_rest_is_shared_as_ever() -> None:
    limits = BoxLimits(memory_bytes=2**30)
    ordinary, _ = fitting(limits)
    rooted, notes = fitting(limits, writable_root=True)
    assert (rooted.workspace_bytes, rooted.scratch_bytes) == (
        ordinary.workspace_bytes // 2,
        ordinary.scratch_bytes // 2,
    )
    assert notes
    spec = BoxSpec(limits=rooted, writable_root=True)
    request = asked(spec)
    assert request["writable_root"] is True
    assert request["root_bytes"] == 2**29
    assert request["root_bytes"] + request["workspace_bytes"] + request["scratch_bytes"] <= 2**30
    assert asked(BoxSpec())["writable_root"] is False


def test_commands_on_a_writable_root_know_that_they_are_root_and_that_nobody_answers() -> None:
    spec = BoxSpec(writable_root=True, env={"DEBIAN_FRONTEND": "readline"})
    env = configured(spec).env
    assert (env["USER"], env["LOGNAME"], env["DEBIAN_FRONTEND"]) == ("root", "root", "readline")
    assert configured(BoxSpec()).env["USER"] == "agent"


@pytest.mark.parametrize("network", [True, False])
def test_a_python_that_can_be_installed_into_comes_with_the_network(network: bool) -> None:
    assert asked(BoxSpec(policy=SandboxPolicy(network_access=network)))["python_layer"] is network


def test_programs_of_the_users_own_packages_are_found() -> None:
    assert "/home/agent/.local/bin" in configured(BoxSpec()).env["PATH"].split(":")
