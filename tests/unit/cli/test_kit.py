"""`kagura-kernel kit agents`, `plan`, `build` and `show`, as they are typed."""

import json
from pathlib import Path

import pytest

from kagura_kernel.assembly import kits
from kagura_kernel.cli.main import main
from kagura_kernel.journal.store import Journal
from tests.support.redactors import shared_redactor
from tests.support.sample_kit import SECRET, SampleKit, lay_out
from tests.support.sample_run import SampleRun

KEYS = "skills/csv-tools/references/keys.md"


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    """Types a command in the project, and gives its exit code and what it printed."""
    home, project = lay_out(tmp_path)
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("KAGURA_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setattr(kits, "redactor_of", lambda _home: shared_redactor())

    def run(*words):
        code = main(["kit", *words])
        told = capsys.readouterr()
        assert SECRET not in told.out + told.err
        return code, told.out, told.err

    return run


def test_agents_that_have_a_name_are_listed(typed):
    code, out, _ = typed("agents")
    assert code == 0
    assert out.splitlines()[0].split() == ["agent", "from", "what", "it", "does"]
    listed = json.loads(typed("agents", "--json")[1])
    assert {"default", "reviewer", "skilled"} <= {one["name"] for one in listed}


def test_a_plan_is_shown_and_one_with_problems_is_exit_code_1(typed, tmp_path):
    code, out, _ = typed("plan", "./analyst.yaml")
    assert code == 0
    assert out.startswith("agent data-analyst (a file)\n  Looks at tables\n")
    assert not (tmp_path / "data" / "kits").exists()
    assert json.loads(typed("plan", "--json", "./analyst.yaml")[1])["agent"] == "data-analyst"
    (tmp_path / "home" / "sales" / "picky.yaml").write_text("name: picky\nskills: [csv-tols]\n")
    assert typed("plan", "picky.yaml")[0] == 1


def test_a_kit_is_built_and_shown_file_by_file(typed, tmp_path):
    code, out, _ = typed("build", "./analyst.yaml")
    assert code == 0
    assert out.startswith("kit of data-analyst (staged): 2 skills, AGENTS.md and CLAUDE.md, 1 sub-agent, 1 redaction")
    assert "    references/keys.md (redacted: " in out
    path = json.loads(typed("build", "./analyst.yaml", "--json")[1])["path"]
    assert out.splitlines()[-1] == path
    assert path.startswith(str(tmp_path / "data" / "kits"))
    code, out, _ = typed("show", "./analyst.yaml")
    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "agents/checker.yaml",
        "prompt_files/CLAUDE.md",
        "skills/csv-tools/SKILL.md",
        KEYS,
        "skills/csv-tools/scripts/clean.py",
    ]
    code, out, _ = typed("show", "./analyst.yaml", "--file", KEYS)
    assert (code, out.splitlines()[0]) == (0, "# Where the data is")
    assert "[REDACTED:" in out


def test_an_agent_that_needs_nothing_has_an_empty_kit_and_no_path(typed, tmp_path):
    (tmp_path / "home" / "CLAUDE.md").unlink()
    assert typed("show")[1].startswith("There is no file in this kit")
    assert json.loads(typed("build", "--json")[1])["path"] is None


def test_what_a_run_was_given_is_found_by_its_name(typed, tmp_path):
    digest = json.loads(typed("build", "./analyst.yaml", "--json")[1])["digest"]
    journal = Journal.open(tmp_path / "data")
    run = SampleRun()
    journal.append(run.started(project=str(Path.cwd())))
    journal.append(SampleKit().staged(digest=digest))
    journal.close()
    assert KEYS in typed("show", "--run", "last")[1]
    code, _, err = typed("show", "default", "--run", "last")
    assert (code, "not both" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan", "reviwer"), "ERR_AGENT_NOT_FOUND: There is no agent 'reviwer'. Did you mean 'reviewer'?"),
        (
            ("show", "./analyst.yaml", "--file", "keys.md"),
            f"ERR_USAGE: The kit has no file 'keys.md'. Did you mean '{KEYS}'?",
        ),
        (("show", "--run", "run-9"), "ERR_"),
        (("plan", "./analyst.yaml", "--project", "nowhere"), "ERR_"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(typed, words, said):
    code, out, err = typed(*words)
    assert (code, out) == (2, "")
    assert err.startswith(said)
    assert "Traceback" not in err
