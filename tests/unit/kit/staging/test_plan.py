import json
import shutil
from dataclasses import replace

import pytest

from kagura_kernel.domain.errors import KitGone
from kagura_kernel.kit.definitions.references import AgentPlaces, resolve_agent
from kagura_kernel.kit.staging import plan as planning, stage
from kagura_kernel.kit.staging.plan import plan_kit
from kagura_kernel.kit.staging.planned import kit_places
from kagura_kernel.kit.staging.stage import Block, build_kit, read_staged, staged_files
from tests.support.kit_rig import SECRET


def test_a_plan_says_what_why_from_where_and_how_large_and_shows_no_content(rig):
    rig.skill("csv-tools", {"scripts/read.py": "x" * 2048, "notes.txt": SECRET})
    rig.write(rig.project / "AGENTS.md", f"the password is {SECRET}")
    rig.write(rig.home / "CLAUDE.md", "hello")
    (rig.home / ".agents/skills/csv-tools/away").symlink_to("/etc/passwd")
    plan = rig.plan(agents={"reviewer": {"name": "reviewer", "system_prompt": SECRET}})
    size = (rig.home / ".agents/skills/csv-tools/SKILL.md").stat().st_size
    assert plan.shown() == [
        "Kit of the agent tester",
        f"  skill csv-tools: ~/.agents/skills/csv-tools, 3 files, {(2048 + len(SECRET) + size) / 1024:.1f} KiB",
        f"    SKILL.md  {size} B",
        f"    notes.txt  {len(SECRET)} B",
        "    scripts/read.py  2.0 KiB",
        "  prompt file AGENTS.md: ./AGENTS.md, 30 B, asked for by add_prompt_files, read in the workspace, not copied",
        "  prompt file CLAUDE.md: ~/CLAUDE.md, 5 B, asked for by add_prompt_files, as prompt_files/CLAUDE.md",
        "  sub-agent reviewer: as agents/reviewer.yaml",
        "  left out skills/csv-tools/away: it is a link that leads out of its directory",
        "  in all 4 files, 2.1 KiB, before redaction",
    ]
    assert SECRET not in repr(plan)


def test_a_plan_is_a_value_that_follows_from_what_is_there(rig):
    rig.skill("one")
    assert rig.plan() == rig.plan()
    before = rig.plan()
    rig.skill("one", {"more.txt": "more"})
    assert rig.plan() != before
    assert rig.plan().key == before.key


def test_kits_are_kept_apart_by_agent_and_by_project(rig):
    elsewhere = rig.home / "elsewhere"
    elsewhere.mkdir()
    agent = rig.agent()
    keys = {
        plan_kit(agent, rig.where).key,
        plan_kit(rig.agent(name="other"), rig.where).key,
        plan_kit(agent, kit_places(elsewhere, home=rig.home, config=rig.where.config)).key,
        plan_kit(replace(agent, kind="file"), rig.where).key,
    }
    assert len(keys) == 4
    assert all(len(key) == 32 for key in keys)


def test_planning_changes_nothing_and_an_agent_that_needs_nothing_has_an_empty_plan(rig):
    rig.write(rig.project / "AGENTS.md", "live")
    agent = rig.agent(skills=False)
    before = sorted(path.stat().st_mtime_ns for path in rig.root.parents[1].rglob("*"))
    plan = plan_kit(agent, rig.where)
    assert sorted(path.stat().st_mtime_ns for path in rig.root.parents[1].rglob("*")) == before
    assert plan.empty
    assert plan.shown()[-1] == "  nothing is copied: a box needs no kit"
    assert not rig.root.exists()


def test_a_place_that_is_not_there_or_cannot_be_listed_is_no_mistake(rig, tmp_path):
    rig.write(rig.home / ".agents/skills", "a file where a place should be")
    (rig.home / ".claude").symlink_to(tmp_path)
    assert rig.plan().notes == (
        "Skills in ~/.agents/skills are passed over: it is no directory.",
        "Skills in ~/.claude/skills are passed over: it is a link that leads out of its directory.",
    )
    nowhere = kit_places(tmp_path / "gone", home=tmp_path / "no-home", config=tmp_path / "no-config")
    assert plan_kit(rig.agent(), nowhere).empty


def test_skills_that_do_not_fit_into_one_kit_are_left_out_whole(rig, monkeypatch):
    rig.skill("big", {f"{number}.txt": "x" for number in range(8)})
    rig.skill("small", {"a.txt": "x"})
    monkeypatch.setattr(planning, "MAX_FILES", 9)
    plan = rig.plan()
    assert [skill.name for skill in plan.skills] == ["big"]
    assert [(one.target, one.reason) for one in plan.left_out] == [
        ("skills/small", "a kit holds at most 9 files and 256 MiB")
    ]


def test_a_skill_that_lies_in_the_project_is_seen_there_wherever_it_was_found(rig):
    rig.skill("mine", place=".agents/skills")
    where = kit_places(rig.home / ".agents/skills/mine", home=rig.home, config=rig.where.config)
    [skill] = plan_kit(rig.agent(), where).skills
    assert (skill.place, skill.root) == ("workspace", "/workspace")


def foreign(rig, **fields):
    """An agent that says this in a file of the project, which the person need not have written."""
    path = rig.write(rig.project / "agent.yaml", json.dumps({"name": "odd"} | fields))
    return resolve_agent(str(path), AgentPlaces(rig.project, rig.agents, rig.root.parent / "cache"))


def asked(rig, agent) -> tuple[str, ...]:
    return plan_kit(agent, rig.where).asked_skills


@pytest.mark.parametrize(
    ("skills", "names"),
    [
        (True, ("csv-tools", "git-tools")),
        (["*-tools"], ("csv-tools", "git-tools")),
        (["git-tools", "csv-*"], ("csv-tools",)),
        (["git-tools"], ()),
        (None, ()),
        (False, ()),
    ],
)
def test_skills_of_the_person_that_a_strangers_definition_takes_without_naming_them_are_asked_about(rig, skills, names):
    rig.skill("csv-tools")
    rig.skill("git-tools")
    rig.skill("our-tools", place="code/project/.agents/skills")
    fields = {} if skills is None else {"skills": skills}
    assert asked(rig, foreign(rig, **fields)) == names
    plan = plan_kit(foreign(rig, **fields), rig.where)
    assert tuple(line.split()[1].rstrip(":") for line in plan.shown() if "and asked about" in line) == names
    assert rig.plan(**fields).asked_skills == ()


def test_a_trusted_agent_below_a_strangers_is_no_word_of_the_person(rig):
    rig.skill("csv-tools")
    rig.write(rig.home / "notes.txt", "mine")
    rig.agent(name="mine", add_prompt_files=["notes.txt"])
    below = foreign(rig, agents={"a": "skilled", "b": "mine"})
    assert asked(rig, below) == ("csv-tools",)
    assert plan_kit(below, rig.where).asked_files == ("~/notes.txt",)
    rig.write(
        rig.agents / "boss.yaml", "name: boss\nskills: true\nagents: {odd: ../../home/agent/code/project/agent.yaml}\n"
    )
    boss = resolve_agent("boss", AgentPlaces(rig.project, rig.agents, rig.root.parent / "cache"))
    assert asked(rig, boss) == ()


@pytest.fixture
def kit(rig):
    wide = f"größe: {SECRET}\n".encode("utf-16")
    rig.skill("one", {"a.env": f"A={SECRET}\nB={SECRET}\n", "wide.txt": wide, "logo.png": b"\x89PNG\0"})
    with build_kit(rig.plan(), rig.root, rig.redactor) as kit:
        yield kit


def test_every_staged_file_is_listed_with_its_redactions(rig, kit):
    assert [(file.target, file.redactions) for file in staged_files(rig.root, kit.digest)] == [
        ("skills/one/SKILL.md", 0),
        ("skills/one/a.env", 2),
        ("skills/one/logo.png", 0),
        ("skills/one/wide.txt", 1),
    ]


def test_a_text_is_read_with_its_redactions_as_blocks(rig, kit):
    read = read_staged(rig.root, kit.digest, "skills/one/a.env")
    assert read.text == "A=[REDACTED:password]\nB=[REDACTED:password]\n"
    assert read.blocks == (Block(2, 21, "password"), Block(24, 43, "password"))
    assert [read.text[block.start : block.end] for block in read.blocks] == ["[REDACTED:password]"] * 2
    wide = read_staged(rig.root, kit.digest, "skills/one/wide.txt")
    assert wide.text == "größe: [REDACTED:password]\n"
    assert '"name": "tester"' in read_staged(rig.root, kit.digest, "manifest.json").text
    picture = read_staged(rig.root, kit.digest, "skills/one/logo.png")
    assert (picture.is_text, picture.text, picture.size) == (False, "", 5)


def test_a_marker_that_a_file_brings_along_is_no_redaction(rig):
    rig.skill("fake", {"fake.txt": "[REDACTED:password]\n"})
    with build_kit(rig.plan(), rig.root, rig.redactor) as kit:
        read = read_staged(rig.root, kit.digest, "skills/fake/fake.txt")
    assert (read.text, read.blocks) == ("[REDACTED:password]\n", ())


def test_of_a_large_text_the_beginning_is_shown(rig, kit, monkeypatch):
    monkeypatch.setattr(stage, "MAX_SHOWN", 5)
    read = read_staged(rig.root, kit.digest, "skills/one/wide.txt")
    assert (read.text, read.cut) == ("g", True)


@pytest.mark.parametrize("target", ["skills/one/none", "../state.json", "/etc/passwd", "skills/../../x", "", "skills"])
def test_what_is_not_in_the_kit_is_not_read(rig, kit, target):
    with pytest.raises(KitGone, match="has no file"):
        read_staged(rig.root, kit.digest, target)


@pytest.mark.parametrize("digest", ["", "..", "0" * 64, "../../x"])
def test_a_kit_that_is_not_there_is_told(rig, kit, digest):
    with pytest.raises(KitGone, match="not kept any more"):
        staged_files(rig.root, digest)
    with pytest.raises(KitGone, match="not kept any more"):
        staged_files(rig.root / "nowhere", kit.digest)


def test_a_kit_that_was_taken_away_in_the_middle_is_told(rig, kit):
    (kit.directory / "skills/one/a.env").unlink()
    with pytest.raises(KitGone, match="is gone"):
        read_staged(rig.root, kit.digest, "skills/one/a.env")
    shutil.rmtree(kit.directory / "skills")
    (kit.directory / "manifest.json").unlink()
    with pytest.raises(KitGone, match="not kept any more"):
        read_staged(rig.root, kit.digest, "skills/one/a.env")
