from __future__ import annotations

import os
from dataclasses import replace

import pytest

from kagura_kernel.kit.staging.plan import plan_kit
from kagura_kernel.kit.staging.skills import MAX_PROMPT_BYTES, find_prompt_files
from tests.support.kit_rig import HomeRig


@pytest.fixture
def rig(tmp_path):
    return HomeRig(tmp_path)


def seen(plan) -> list[tuple[str, str, str, str]]:
    return [(prompt.name, prompt.place, prompt.where, prompt.path) for prompt in plan.prompt_files]


def left_out(found) -> dict[str, str]:
    return {one.target: one.reason for one in found.left_out}


def test_the_nearest_counts_and_then_that_of_home_and_those_of_the_workspace_are_not_copied(rig):
    for folder in (rig.project, rig.home / "code", rig.home):
        rig.write(folder / "AGENTS.md", f"of {folder.name}")
    rig.write(rig.home / "code/CLAUDE.md", "of work")
    plan = rig.plan()
    assert seen(plan) == [
        ("AGENTS.md", "workspace", "./AGENTS.md", "/workspace/AGENTS.md"),
        ("AGENTS.md", "kit", "~/AGENTS.md", "/kagura/kit/prompt_files/AGENTS.md"),
        ("CLAUDE.md", "kit", "~/code/CLAUDE.md", "/kagura/kit/prompt_files/CLAUDE.md"),
    ]
    assert [file.target for file in plan.staged] == ["prompt_files/AGENTS.md", "prompt_files/CLAUDE.md"]


def test_the_walk_begins_at_the_working_directory(rig):
    rig.write(rig.project / "AGENTS.md", "far")
    rig.write(rig.project / "deep/AGENTS.md", "near")
    plan = plan_kit(rig.agent(), replace(rig.where, cwd=rig.project / "deep/down"))
    assert seen(plan) == [("AGENTS.md", "workspace", "./deep/AGENTS.md", "/workspace/deep/AGENTS.md")]


def test_two_of_one_name_outside_of_the_workspace_lie_side_by_side(rig):
    rig.write(rig.home / "code/AGENTS.md", "of work")
    rig.write(rig.home / "AGENTS.md", "of home")
    rig.write(rig.home / "home-AGENTS.md", "named like the second")
    plan = rig.plan(add_prompt_files=["AGENTS.md", "home-AGENTS.md"])
    assert [prompt.file.target for prompt in plan.prompt_files] == [
        "prompt_files/AGENTS.md",
        "prompt_files/home-AGENTS.md",
    ]
    assert left_out(plan) == {"prompt_files/home-AGENTS.md": "its name is taken"}


def test_names_that_a_forgiving_file_system_would_mix_up_are_refused(rig):
    for name in ("STYLE.md", "style.md", "docs/a.md"):
        rig.write(rig.home / name, name)
    plan = rig.plan(add_prompt_files=["STYLE.md", "style.md", "docs/a.md"])
    assert [prompt.name for prompt in plan.prompt_files] == ["STYLE.md", "docs/a.md"]
    assert left_out(plan) == {"prompt_files/style.md": "its name differs from 'STYLE.md' by case or form only"}


def test_a_file_that_would_lie_in_another_is_refused(rig):
    rig.write(rig.home / "code/notes", "a file")
    rig.write(rig.home / "notes/more.md", "in a directory")
    plan = rig.plan(add_prompt_files=["notes", "notes/more.md"])
    assert [prompt.file.target for prompt in plan.prompt_files] == ["prompt_files/notes"]
    assert left_out(plan) == {"prompt_files/notes/more.md": "another prompt file has the name of its directory"}


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../secret", "docs/../../secret", "~/x", "C:\\x", "a\nb", "a\u202eb", "", "con", "NUL.md", "."],
)
def test_names_that_lead_elsewhere_or_hide_something_are_problems(rig, name):
    found = find_prompt_files([name], [], rig.where)
    assert len(found.problems) == 1
    assert found.prompts == []


def test_the_usual_names_go_without_saying_and_any_other_is_missed(rig):
    assert rig.plan().left_out == ()
    assert left_out(rig.plan(add_prompt_files=["STYLE.md"])) == {
        "prompt_files/STYLE.md": "there is no such file in the project, above it, or in the home directory"
    }


def test_what_is_no_plain_file_is_refused_and_nothing_further_away_stands_in_for_it(rig):
    rig.write(rig.home / "code/AGENTS.md", "further away")
    os.mkfifo(rig.project / "AGENTS.md")
    outside = rig.write(rig.home / "secret.txt", "outside of the project")
    (rig.project / "CLAUDE.md").symlink_to(outside)
    os.link(outside, rig.project / "HARD.md")
    with rig.write(rig.project / "LARGE.md", "").open("r+b") as file:
        file.truncate(MAX_PROMPT_BYTES + 1)
    (rig.project / "DIRECTORY.md").mkdir()
    names = ["AGENTS.md", "CLAUDE.md", "HARD.md", "LARGE.md", "DIRECTORY.md"]
    plan = rig.plan(add_prompt_files=names)
    assert plan.prompt_files == ()
    assert left_out(plan) == {
        "prompt_files/AGENTS.md": "it is a named pipe",
        "prompt_files/CLAUDE.md": "it is a link that leads out of its directory",
        "prompt_files/DIRECTORY.md": "there is no such file in the project, above it, or in the home directory",
        "prompt_files/HARD.md": "it is a hard link: it has another name elsewhere",
        "prompt_files/LARGE.md": "it is larger than 256 KiB",
    }


def test_a_link_within_the_project_is_read_as_the_file_it_leads_to(rig):
    rig.write(rig.project / "docs/AGENTS.md", "the text")
    (rig.project / "AGENTS.md").symlink_to("docs/AGENTS.md")
    (rig.project / "CLAUDE.md").symlink_to(rig.project / "AGENTS.md")
    assert [prompt.place for prompt in rig.plan().prompt_files] == ["workspace", "workspace"]


def test_what_sub_agents_ask_for_is_staged_and_not_read_to_the_agent(rig):
    for name in ("AGENTS.md", "STYLE.md", "REVIEW.md"):
        rig.write(rig.home / name, name)
    inner = {"name": "checker", "add_prompt_files": ["REVIEW.md"]}
    sub = {"name": "reviewer", "add_prompt_files": ["STYLE.md", "AGENTS.md"], "agents": {"checker": inner}}
    plan = rig.plan(add_prompt_files=["AGENTS.md"], agents={"reviewer": sub})
    assert [(prompt.name, prompt.own) for prompt in plan.prompt_files] == [
        ("AGENTS.md", True),
        ("STYLE.md", False),
        ("REVIEW.md", False),
    ]
