"""What a person asks of agents and kits."""

import re
import shutil
import unicodedata
from dataclasses import replace

import pytest

from kagura_kernel.cockpit.kits import KitDesk, KitServices, one_of, plan_lines, plan_record
from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.errors import (
    AgentInvalid,
    AgentNotFound,
    ConfigurationError,
    KitGone,
    KitRefused,
    RunUnknown,
    UsageError,
)
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.store import Journal
from kagura_kernel.kit.packages.hosts import ToolHosts
from tests.support.redactors import shared_redactor
from tests.support.sample_kit import SECRET, SampleKit, lay_out
from tests.support.sample_run import SampleRun

KEYS = "skills/csv-tools/references/keys.md"


@pytest.fixture
def make_desk(tmp_path, monkeypatch):
    """A desk in a project with an agent of its own, beside a home with a skill that holds a secret."""
    home, project = lay_out(tmp_path)
    monkeypatch.chdir(project)

    def make(environ=None, **settings):
        return KitDesk(
            KitServices(
                settings=Settings(**settings),
                environ={"HOME": str(home), "KAGURA_HOME": str(tmp_path / "data")} | (environ or {}),
                home=tmp_path / "data",
                clock=SystemClock(),
                check_project=lambda path: path,
                redactor=shared_redactor,
            )
        )

    return make


def test_kits_and_the_home_of_skills_lie_where_the_settings_say(make_desk, tmp_path):
    other = tmp_path / "other"
    (other / ".agents" / "skills" / "knitting").mkdir(parents=True)
    (other / ".agents" / "skills" / "knitting" / "SKILL.md").write_text(
        "---\nname: knitting\ndescription: Knits.\n---\nKnit.\n"
    )
    desk = make_desk(kit_folder=str(tmp_path / "shelf"), skills_home=str(other))
    assert {one.name for one in desk.plan("skilled").kit.skills} >= {"knitting"}
    assert "knitting" not in {one.name for one in make_desk().plan("skilled").kit.skills}
    desk.build("skilled")
    assert any((tmp_path / "shelf").iterdir())
    assert not (tmp_path / "data" / "kits").exists()
    with pytest.raises(ConfigurationError, match="kit_folder: 'here' is no absolute path"):
        _ = make_desk(kit_folder="here").folder


def test_a_plan_stages_nothing_and_names_what_why_and_from_where(make_desk, tmp_path):
    desk = make_desk()
    plan = desk.plan("./analyst.yaml")
    assert not (tmp_path / "data").exists()
    lines = "\n".join(plan_lines(plan))
    assert lines.startswith("agent data-analyst (a file)\n  Looks at tables\n")
    for part in ("~/.agents/skills/csv-tools", "references/keys.md", "house-style", "CLAUDE.md", "pipe", "checker"):
        assert part in lines
    assert "it asks to reach python-packages, which you are asked about before the run starts" in lines
    assert "it stops after 0.5 USD, unless the cell says otherwise" in lines
    assert SECRET not in lines
    installing = replace(plan, tools=ToolHosts(needed=True, hosts=("pypi.org",)))
    told = "opened so that toolsets can be installed: pypi.org, which you are asked about before the run starts"
    assert plan_lines(installing)[-1] == told
    record = plan_record(plan)
    assert record["trusted"] is False
    assert KEYS in [one["target"] for one in record["files"]]
    assert SECRET not in str(record)


TOKEN = "AKIAQYLPMN5HFIQR7XYA"
WIDE = "".join(chr(ord(letter) + 0xFEE0) for letter in TOKEN)


@pytest.mark.parametrize("name", [TOKEN, WIDE, f"{TOKEN[:4]} {TOKEN[4:]}", f"x {WIDE[:9]}\u3000{WIDE[9:]}"[2:]])
@pytest.mark.parametrize("by", ["its folder", "its front matter"])
def test_a_token_in_a_name_is_in_no_plan_and_no_kit_however_it_is_spelt(make_desk, tmp_path, name, by):
    skill = tmp_path / "home" / ".agents" / "skills" / (name if by == "its folder" else "plain")
    skill.mkdir()
    (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\nDo it.\n")
    beside = tmp_path / "home" / ".agents" / "skills" / "csv-tools" / f"{TOKEN}.md"
    beside.write_text("here")
    desk = make_desk()
    plan = desk.plan("./analyst.yaml")
    told = [*plan_lines(plan), str(plan_record(plan)), *plan.kit.asked_skills]
    kit = desk.build("./analyst.yaml")
    told += [str(kit.skills), str(kit.left_out), *(one.target for one in kit.files())]
    seen = re.sub(r"[\s-]", "", unicodedata.normalize("NFKC", "".join(told))).upper()
    assert TOKEN not in seen
    assert [one.name for one in kit.skills] == ["csv-tools", "house-style"]
    assert any(one.reason == "its name holds what looks like a secret" for one in kit.left_out)


def test_what_an_own_agent_asks_for_is_as_if_it_was_typed(make_desk, tmp_path):
    agents = tmp_path / "data" / "agents"
    agents.mkdir(parents=True)
    (agents / "analyst.yaml").write_bytes((tmp_path / "home" / "sales" / "analyst.yaml").read_bytes())
    (agents / "broken.yaml").write_text("name: Broken Name\nwhat: ever\n")
    (agents / "asker.yaml").write_text("name: asker\ngrants: {net: [example.org, ask]}\n")
    desk = make_desk()
    asked = "it asks to reach example.org, any other host after a question, which is as if you had typed it"
    assert asked in plan_lines(desk.plan("asker"))
    lines = plan_lines(desk.plan("analyst"))
    assert lines[0] == "agent data-analyst (one of your agents)"
    assert "it asks to reach python-packages, which is as if you had typed it" in lines
    named = {one.name: one for one in desk.named()}
    assert (named["analyst"].origin, named["analyst"].problem) == ("yours", None)
    assert named["default"].origin == "the package"
    assert "what" in (named["broken"].problem or "")


def test_skills_beside_a_named_file_of_settings_are_none_and_those_in_the_configuration_directory_are(
    make_desk, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name, place in (("mine", tmp_path / "config" / "kagura-kernel"), ("odd", tmp_path / "etc")):
        (place / "skills" / name).mkdir(parents=True)
        (place / "skills" / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\n")
    plan = make_desk({"KAGURA_CONFIG": str(tmp_path / "etc" / "settings.toml")}).plan("skilled")
    assert {"mine", "odd"} & {one.name for one in plan.kit.skills} == {"mine"}


def test_a_definition_with_a_secret_for_a_toolset_is_refused_when_it_is_read_and_listed_with_the_reason(
    make_desk, tmp_path
):
    token = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
    text = f"name: hub\ntoolsets: [{{type: mcp, name: hub, command: hub-server, env: {{GITHUB_TOKEN: {token}}}}}]\n"
    agents = tmp_path / "data" / "agents"
    agents.mkdir(parents=True)
    (agents / "hub.yaml").write_text(text)
    desk = make_desk()
    for ask in (desk.resolve, desk.plan, desk.build, desk.latest):
        with pytest.raises(AgentInvalid) as refused:
            ask("hub")
        problem, advice = refused.value.problems
        assert problem.startswith("toolsets[0].env.GITHUB_TOKEN: it holds a secret (")
        assert "grants: {credentials: [" in advice
        assert token not in str(refused.value)
    told = {one.name: one.problem for one in desk.named()}["hub"] or ""
    assert "toolsets[0].env.GITHUB_TOKEN: it holds a secret" in told
    assert token not in told
    assert not (tmp_path / "data" / "kits").exists()


def test_a_plan_names_the_hosts_of_the_agents_own_toolsets_as_a_run_opens_them(make_desk, tmp_path):
    (tmp_path / "home" / "sales" / "team.yaml").write_text(
        "name: team\nagents: {odd: {toolsets: [{type: mcp, name: o, command: nobody-knows-it}]}}\n"
    )
    assert not make_desk().plan("./team.yaml").tools.needed


@pytest.mark.parametrize(("locked", "opened"), [((), {"pypi.org", "github.com"}), (("net",), {"pypi.org"})])
def test_installers_reach_no_more_than_an_administrator_has_locked(make_desk, tmp_path, locked, opened):
    (tmp_path / "home" / "sales" / "odd.yaml").write_text(
        "name: odd\ntoolsets: [{type: mcp, name: o, command: nobody-knows-it}]\n"
    )
    hosts = make_desk(net=("pypi.org", "none"), locked=locked).plan("./odd.yaml").tools.hosts
    assert opened == {"pypi.org", "github.com"} & {*hosts}


def test_a_build_is_read_file_by_file_with_blocks_where_secrets_were(make_desk):
    desk = make_desk()
    kit = desk.build("./analyst.yaml")
    assert (kit.agent, kit.unchanged, kit.agents) == ("data-analyst", False, ("checker",))
    assert {one.name: bool(one.files) for one in kit.skills} == {"csv-tools": True, "house-style": False}
    keys = {one.target: one for one in kit.files()}[KEYS]
    assert keys.redactions == 1
    opened = kit.read(KEYS)
    assert SECRET not in opened.text
    (block,) = opened.blocks
    assert opened.text[block.start : block.end] == f"[REDACTED:{block.kind}]"
    assert (block.kind,) == keys.kinds
    again = desk.build("./analyst.yaml")
    assert (again.unchanged, again.digest, again.link) == (True, kit.digest, kit.link)
    for typed, hint in ((KEYS.rpartition("/")[2], f"Did you mean '{KEYS}'?"), ("none", "`kit show` lists them.")):
        with pytest.raises(UsageError) as refused:
            kit.read(typed)
        assert str(refused.value).endswith(hint)
    assert kit.read("manifest.json").is_text
    shutil.rmtree(kit.root)
    with pytest.raises(KitGone):
        kit.read(KEYS)


def test_the_kit_that_is_there_is_found_without_staging_one(make_desk):
    desk = make_desk()
    assert desk.latest("./analyst.yaml") is None
    built = desk.build("./analyst.yaml")
    latest = desk.latest("./analyst.yaml")
    assert latest is not None
    assert (latest.digest, latest.files()) == (built.digest, built.files())


def test_the_usual_agent_of_a_project_that_has_all_it_needs_stages_nothing(make_desk, tmp_path):
    (tmp_path / "home" / "CLAUDE.md").unlink()
    kit = make_desk().build()
    assert (kit.agent, kit.digest, kit.files()) == ("default", "", ())
    assert [prompt.place for prompt in kit.prompt_files] == ["workspace"]


def test_the_settings_name_the_agent_of_whoever_names_none(make_desk):
    assert make_desk(agent="./analyst.yaml").resolve().name == "data-analyst"
    assert make_desk().resolve().name == "default"
    with pytest.raises(AgentNotFound, match="'reviewer'"):
        make_desk().resolve("reviwer")


def test_a_kit_that_would_not_be_right_is_planned_and_never_built(make_desk, tmp_path):
    (tmp_path / "home" / "sales" / "picky.yaml").write_text("name: picky\nskills: [csv-tols]\n")
    desk = make_desk()
    assert any("csv-tools" in problem for problem in desk.plan("./picky.yaml").kit.problems)
    with pytest.raises(KitRefused, match="csv-tools"):
        desk.build("./picky.yaml")


def test_a_run_tells_which_kit_it_was_given(make_desk, tmp_path):
    desk = make_desk()
    built = desk.build("./analyst.yaml")
    run, kit = SampleRun(), SampleKit()
    journal = Journal.open(tmp_path / "journal")
    try:
        journal.append(run.started())
        with pytest.raises(UsageError, match="was given no kit"):
            desk.of_run(journal, "run-1")
        journal.append(kit.staged(digest=built.digest, skills=built.skills))
        told = desk.of_run(journal, "run-1")
        assert (told.skills, told.files()) == (built.skills, built.files())
        with pytest.raises(RunUnknown):
            desk.of_run(journal, "run-9")
    finally:
        journal.close()


def test_an_agent_and_a_run_are_never_one_kit():
    one_of("default", None)
    one_of(None, "last")
    with pytest.raises(UsageError, match="not both"):
        one_of("default", "last")


def test_a_file_is_redacted_as_a_kit_would_hold_it_and_stays_as_it_is(make_desk, tmp_path):
    desk = make_desk()
    path = tmp_path / "home" / ".agents" / "skills" / "csv-tools" / "references" / "keys.md"
    before = path.read_bytes()
    redacted = desk.redact_file(path)
    assert redacted.data is not None
    assert SECRET.encode() not in redacted.data
    assert path.read_bytes() == before
    with pytest.raises(UsageError, match="no such file"):
        desk.redact_file(tmp_path / "none")
    with pytest.raises(UsageError, match="no ordinary file"):
        desk.redact_file(path.parents[1] / "pipe")
