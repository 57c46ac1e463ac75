import os
from dataclasses import replace

import pytest

from kagura_kernel.kit.staging.home_files import skill_name
from kagura_kernel.kit.staging.plan import plan_kit
from kagura_kernel.kit.staging.skills import MAX_DESCRIPTION, MAX_PROMPT_BYTES, find_prompt_files, read_front_matter
from tests.support.kit_rig import KIND, KnownWords


def skill_text(name: str, description: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description or f'What {name} is for.'}\n---\n"


def left_out(plan) -> dict[str, str]:
    return {one.target: one.reason for one in plan.left_out}


@pytest.mark.parametrize(
    ("text", "name", "description"),
    [
        ("---\nname: csv-tools\ndescription: Reads tables.\n---\n# CSV\n", "csv-tools", "Reads tables."),
        ("---\r\nname: a\r\ndescription: Windows.\r\n---\r\n", "a", "Windows."),
        ('---\nname: "a"\ndescription: >\n  Two\n  lines.\nmetadata: {x: 1}\n---\n', "a", "Two lines."),
        ("---\nname: a\ndescription: Use when: asked, or: not\n---\n", "a", "Use when: asked, or: not"),
        ("---\nname: a\n---\n# Heading\n\nThe first\nparagraph.\n\nMore.\n", "a", "The first paragraph."),
        ("# Heading\n\nNo front matter: at all.\n", "", "No front matter: at all."),
        ("---\nname: a\ndescription: never ended\n", "", "--- name: a description: never ended"),
        ("---\nname: [1, 2]\ndescription: {a: b}\n---\nText.\n", "", "Text."),
        ("---\n- a\n- list\n---\nText.\n", "", "Text."),
        ("---\nname: &x a\ndescription: *x\n---\n", "&x a", "*x"),
        ("---\nname: a\ndescription: \u202egnp.exe\u200b\x07 seen\n---\n", "a", "gnp.exe seen"),
        (
            "---\nname: !!python/object/apply:os.system [id]\ndescription: d\n---\n",
            "",
            "d",
        ),
        ("", "", ""),
    ],
)
def test_front_matter_is_read_as_people_write_it(text, name, description):
    found = read_front_matter(text.encode())
    assert (found.name, found.description) == (name, description)


def test_front_matter_is_read_in_the_encodings_that_editors_save():
    text = "---\nname: käse\ndescription: Über Käse.\n---\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "latin-1"):
        assert read_front_matter(text.encode(encoding)).description == "Über Käse."
    assert read_front_matter(b"---\nname: a\ndescription: b\n---\n\xe2\x82").name == "a"  # cut within a character


@pytest.mark.parametrize(
    "value",
    ["[" * 20_000, "{a: " * 10_000, "- " * 20_000, "!!timestamp noon", "!!bool perhaps", "!!int _", f"0x{'f' * 5000}"],
)
def test_front_matter_that_would_break_its_reader_is_passed_over(value):
    assert read_front_matter(f"---\nodd: {value}\nname: a\ndescription: Counts\n---\n".encode()).name == "a"
    read_front_matter(f"---\nname: {value}\n---\n".encode())


def test_a_description_is_one_bounded_line():
    found = read_front_matter(skill_text("a", "very " * 1000).encode())
    assert len(found.description) == MAX_DESCRIPTION
    assert found.description.endswith("…")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("csv-tools", "csv-tools"),
        ("CSV Tools", "csv-tools"),
        ("csv_tools", "csv-tools"),
        ("ｃｓｖ", "csv"),
        ("../csv", ""),
        ("Käse", ""),
        ("1st", ""),
        ("", ""),
        ("a" * 65, ""),
        # No name is as long, and to look at one of 64 KiB of accents takes half a second.
        ("csv" + " " * 300 + "tools", ""),
    ],
)
def test_a_skills_name_becomes_kebab_case_or_none(written, name):
    assert skill_name(written) == name


def test_places_count_in_their_order_and_those_of_the_project_are_not_copied(rig):
    rig.write(rig.project / ".claude/skills/one/SKILL.md", skill_text("one"))
    rig.write(rig.home / "code/.agents/skills/two/SKILL.md", skill_text("two"))
    for place in (".agents/skills", ".claude/skills", ".config/kagura-kernel/skills"):
        for name in ("one", "two", "three"):
            rig.skill(name, place=place)
    rig.skill("four", place=".config/kagura-kernel/skills")
    plan = rig.plan()
    assert [(skill.name, skill.place, skill.where, skill.root) for skill in plan.skills] == [
        ("four", "kit", "~/.config/kagura-kernel/skills/four", "/kagura/kit/skills/four"),
        ("one", "workspace", "./.claude/skills/one", "/workspace/.claude/skills/one"),
        ("three", "kit", "~/.agents/skills/three", "/kagura/kit/skills/three"),
        ("two", "kit", "~/code/.agents/skills/two", "/kagura/kit/skills/two"),
    ]
    assert [file.target for file in plan.staged] == [f"skills/{name}/SKILL.md" for name in ("four", "three", "two")]
    assert "The skill 'one' of ~/.agents/skills is passed over for that in ./.claude/skills/one." in plan.notes
    assert plan.staged[0].why == "skill four of ~/.config/kagura-kernel/skills"


def test_the_working_directory_is_nearer_than_the_project_it_lies_in(rig):
    rig.write(rig.project / ".agents/skills/one/SKILL.md", skill_text("one", "far"))
    rig.write(rig.project / "deep/down/.agents/skills/one/SKILL.md", skill_text("one", "near"))
    from dataclasses import replace

    from kagura_kernel.kit.staging.plan import plan_kit

    plan = plan_kit(rig.agent(), replace(rig.where, cwd=rig.project / "deep/down"))
    assert [(skill.root, skill.description) for skill in plan.skills] == [
        ("/workspace/deep/down/.agents/skills/one", "near")
    ]


def test_what_an_agent_wants_decides_what_is_looked_at(rig):
    rig.write(rig.project / ".agents/skills/here/SKILL.md", skill_text("here"))
    for name in ("csv-read", "csv-write", "other"):
        rig.skill(name)
    (rig.home / ".agents/skills/broken").symlink_to("/nowhere")
    (rig.home / ".agents/skills/away").symlink_to("/etc")
    assert [skill.name for skill in rig.plan(skills="workspace").skills] == ["here"]
    assert rig.plan(skills="workspace").left_out == ()
    assert rig.plan(skills=False).skills == ()
    assert [skill.name for skill in rig.plan(skills=["csv-*"]).skills] == ["csv-read", "csv-write"]
    assert rig.plan(skills=["csv-*"]).left_out == ()
    assert list(left_out(rig.plan())) == ["skills/away", "skills/broken"]


def test_a_skill_that_is_asked_for_and_not_there_is_a_problem_with_a_hint(rig):
    rig.skill("csv-tools")
    assert rig.plan(skills=["csv-tool", "xml-*"]).problems == (
        "the skill 'csv-tool' is asked for and nowhere to be found, did you mean 'csv-tools'?",
        "the skill 'xml-*' is asked for and nowhere to be found",
    )
    assert rig.plan(skills=["csv-tools"]).problems == ()


def test_a_skill_of_an_odd_name_is_told(rig):
    rig.skill("plain", {"SKILL.md": skill_text("Other Name")})
    rig.skill("Käse", {"SKILL.md": "no front matter\n"})
    rig.skill("zwei", {"SKILL.md": skill_text("other-name")})
    plan = rig.plan()
    assert [skill.name for skill in plan.skills] == ["other-name"]
    assert "The skill in ~/.agents/skills/plain calls itself 'other-name'." in plan.notes
    assert left_out(plan) == {
        "skills/Käse": "its name cannot be made kebab-case of at most 64 characters",
        "skills/zwei": "another skill beside it has the same name",
    }


def test_a_skill_may_be_a_link_to_another_directory_of_home_and_to_none_elsewhere(rig, tmp_path):
    real = rig.skill("real", place="dotfiles")
    outside = rig.write(tmp_path / "elsewhere/SKILL.md", skill_text("evil")).parent
    skills = rig.home / ".claude/skills"
    skills.mkdir(parents=True)
    (skills / "relative").symlink_to("../../dotfiles/real")
    (skills / "absolute").symlink_to(real)
    (skills / "evil").symlink_to(outside)
    (skills / "upwards").symlink_to(os.path.relpath(outside, skills))
    plan = rig.plan()
    assert [skill.name for skill in plan.skills] == ["real"]
    assert left_out(plan) == {
        "skills/evil": "it is a link that leads out of its directory",
        "skills/relative": "another skill beside it has the same name",
        "skills/upwards": "it is a link that leads out of its directory",
    }


def test_what_somebody_else_put_above_a_project_outside_of_home_is_passed_over(rig, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("giving a file to somebody else takes root")
    from kagura_kernel.kit.staging.plan import plan_kit
    from kagura_kernel.kit.staging.planned import kit_places

    project = tmp_path / "shared/project"
    project.mkdir(parents=True)
    theirs = rig.write(tmp_path / "shared/.agents/skills/theirs/SKILL.md", skill_text("theirs")).parent
    rig.write(tmp_path / "shared/.agents/skills/ours/SKILL.md", skill_text("ours"))
    prompt = rig.write(tmp_path / "shared/AGENTS.md", "obey")
    os.chown(theirs, 12345, 12345)
    os.chown(prompt, 12345, 12345)
    plan = plan_kit(rig.agent(), kit_places(project, home=rig.home, config=rig.home / ".config"))
    assert [skill.name for skill in plan.skills] == ["ours"]
    assert left_out(plan) == {
        "prompt_files/AGENTS.md": "it belongs to somebody else",
        "skills/theirs": "it belongs to somebody else",
    }


@pytest.mark.parametrize("written", ["GLPAT-4711", "glpat-4711", "Glpat  4711", "\uff27lpat-4711"])
def test_a_name_that_only_becomes_a_secret_as_it_is_staged_is_none(rig, written):
    rig.skill("plain", {"SKILL.md": f"---\nname: {written}\ndescription: d\n---\n"})
    plan = plan_kit(rig.agent(), rig.where, KnownWords("glpat-4711"))
    assert plan.skills == ()
    assert left_out(plan) == {f"skills/[REDACTED:{KIND}]": "its name holds what looks like a secret"}


def seen(plan) -> list[tuple[str, str, str, str]]:
    return [(prompt.name, prompt.place, prompt.where, prompt.path) for prompt in plan.prompt_files]


def left_out_of_prompt_files(found) -> dict[str, str]:
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
    assert left_out_of_prompt_files(plan) == {"prompt_files/home-AGENTS.md": "its name is taken"}


def test_names_that_a_forgiving_file_system_would_mix_up_are_refused(rig):
    for name in ("STYLE.md", "style.md", "docs/a.md"):
        rig.write(rig.home / name, name)
    plan = rig.plan(add_prompt_files=["STYLE.md", "style.md", "docs/a.md"])
    assert [prompt.name for prompt in plan.prompt_files] == ["STYLE.md", "docs/a.md"]
    assert left_out_of_prompt_files(plan) == {
        "prompt_files/style.md": "its name differs from 'STYLE.md' by case or form only"
    }


def test_a_file_that_would_lie_in_another_is_refused(rig):
    rig.write(rig.home / "code/notes", "a file")
    rig.write(rig.home / "notes/more.md", "in a directory")
    plan = rig.plan(add_prompt_files=["notes", "notes/more.md"])
    assert [prompt.file.target for prompt in plan.prompt_files] == ["prompt_files/notes"]
    assert left_out_of_prompt_files(plan) == {
        "prompt_files/notes/more.md": "another prompt file has the name of its directory"
    }


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
    assert left_out_of_prompt_files(rig.plan(add_prompt_files=["STYLE.md"])) == {
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
    assert left_out_of_prompt_files(plan) == {
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
