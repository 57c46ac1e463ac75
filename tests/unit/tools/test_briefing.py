from __future__ import annotations

from kagura_kernel.domain.policy import PermissionMode, SandboxPolicy, SandboxPolicyType, WriteMode
from kagura_kernel.domain.tools import ToolSpec
from kagura_kernel.tools.briefing import system_prompt

SPECS = [ToolSpec("bash", "", {}), ToolSpec("ask_user", "", {})]


def test_a_brain_learns_where_it_is():
    text = system_prompt(SPECS, "demo", SandboxPolicy())
    for fact in (
        "'demo'",
        "no network",
        "/workspace",
        "copy-on-write",
        "sees the diff",
        ".git",
        "host=true",
        "ask_user",
    ):
        assert fact in text


def test_each_write_mode_says_what_becomes_of_changes():
    texts = {mode: system_prompt(SPECS, "demo", SandboxPolicy(), write_mode=mode) for mode in WriteMode}
    assert "as you go" in texts[WriteMode.THROUGH]
    assert "thrown away" in texts[WriteMode.NONE]


def test_a_read_only_workspace_is_told():
    text = system_prompt(SPECS, "demo", SandboxPolicy(SandboxPolicyType.READ_ONLY))
    assert "/workspace is read-only" in text
    assert "copy-on-write" not in text


def test_headless_runs_are_told_that_nobody_answers():
    text = system_prompt(SPECS, "demo", SandboxPolicy(), headless=True)
    assert "refused at once" in text
    assert "with ask_user" not in text


def test_without_a_box_nothing_is_said_of_one():
    text = system_prompt(SPECS, "demo", SandboxPolicy(), sandboxed=False)
    assert "There is no sandbox" in text
    assert "copy-on-write" not in text
    full = system_prompt(SPECS, "demo", SandboxPolicy(), sandboxed=False, mode=PermissionMode.FULL_CONTROL)
    assert "cannot be taken back" in full


def test_it_stays_short():
    assert len(system_prompt(SPECS, "demo", SandboxPolicy())) < 2000
