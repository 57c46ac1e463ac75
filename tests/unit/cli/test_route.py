from __future__ import annotations

import json

import pytest

from kagura_kernel.cli.main import main


def explained(capsys, *words: str) -> str:
    assert main(["route", *words]) == 0
    return capsys.readouterr().out


def test_json_holds_every_key(capsys):
    told = json.loads(explained(capsys, "--json", "--", "ls; rm x"))
    assert told == {
        "command": "ls; rm x",
        "route": "sandbox",
        "approval_needed": False,
        "reasons": ["commands run in the sandbox without approval"],
        "safe": False,
        "meta": [";"],
    }


def test_several_words_are_one_line(capsys):
    told = json.loads(explained(capsys, "--json", "--strict", "--", "ls", "-la", "--color"))
    assert (told["command"], told["route"], told["safe"]) == ("ls -la --color", "sandbox", True)


def test_a_double_dash_of_the_command_itself_is_kept(capsys):
    assert json.loads(explained(capsys, "--json", "--", "grep", "--", "-x", "f"))["command"] == "grep -- -x f"


def test_escalated_strict_full_control_and_no_sandbox_change_the_answer(capsys):
    def ask(*words):
        told = json.loads(explained(capsys, "--json", *words, "--", "rm x"))
        return told["route"], told["approval_needed"]

    assert ask() == ("sandbox", False)
    assert ask("--escalated") == ("host", True)
    assert ask("--strict") == ("host", True)
    assert ask("--no-sandbox", "no bwrap") == ("host", True)
    assert ask("--mode", "full_control", "--no-sandbox", "no bwrap") == ("host", False)


def test_why_there_is_no_sandbox_is_passed_on(capsys):
    told = json.loads(explained(capsys, "--json", "--no-sandbox", "no bwrap", "--", "ls"))
    assert told["reasons"] == ["sandbox unavailable, host execution requires approval: no bwrap"]


def test_a_pre_approved_program_needs_no_approval(capsys):
    told = json.loads(explained(capsys, "--json", "--escalated", "--preapproved", "ls", "--", "ls"))
    assert (told["route"], told["approval_needed"]) == ("host", False)


def test_text_is_one_line_and_a_line_for_each_reason(capsys):
    assert explained(capsys, "--escalated", "--", "rm x").splitlines() == [
        "host, an approval is needed",
        "  - command requests host execution, which requires approval",
        "  - command 'rm' is not in the safe list",
    ]


@pytest.mark.parametrize("words", [[], ["--mode", "none", "--", "ls"], ["--bad", "--", "ls"]])
def test_wrong_usage_says_so_and_ends_with_2(words, capsys):
    assert main(["route", *words]) == 2
    assert capsys.readouterr().err.startswith("ERR_USAGE: ")
