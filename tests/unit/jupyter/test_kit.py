"""`%kagura kit …`: what each command shows, and what its value is."""

import json
import re
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from kagura_kernel.assembly import kits
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.grammar import Kind
from kagura_kernel.domain.kit import LeftOut, StagedFile, StagedPrompt, StagedSkill, marker
from kagura_kernel.domain.settings import Settings
from kagura_kernel.jupyter import kit as kit_module
from kagura_kernel.jupyter.completion.names import ShellNames
from kagura_kernel.jupyter.kit import KIT_MIME, KitBrowser
from kagura_kernel.jupyter.slots import Slot
from kagura_kernel.jupyter.terminal import TerminalDisplay
from kagura_kernel.render.html import html_of
from kagura_kernel.views import card
from kagura_kernel.views.card import run_text
from kagura_kernel.views.kit import SHOWN, OpenedFile, built_lines, file_blocks, file_text, files_block, kit_text
from kagura_kernel.views.record import RUN_MIME, run_bundle
from kagura_kernel.views.run import RunView
from tests.support.redactors import shared_redactor
from tests.support.sample_kit import FILES, SECRET, SampleKit, lay_out, opened
from tests.support.sample_run import SampleRun
from tests.support.steering import steer

KEYS = "skills/csv-tools/references/keys.md"


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Carries a line out in a project with an agent of its own."""
    home, project = lay_out(tmp_path)
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KAGURA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("KAGURA_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setattr(kits, "redactor_of", lambda _home: shared_redactor())
    environ = {"HOME": str(home), "KAGURA_HOME": str(tmp_path / "data")}
    cockpit = SimpleNamespace(kits=kits.make_kits(environ, Settings()))
    return lambda line: steer(cockpit, SimpleNamespace(), line)


def test_named_agents_and_files_of_a_kit_are_data(asked):
    agents = asked("kit agents")
    assert isinstance(agents, pd.DataFrame)
    assert list(agents.columns) == ["agent", "from", "description"]
    assert set(agents["agent"]) >= {"default", "reviewer", "skilled"}
    files = asked("kit show ./analyst.yaml").files
    assert list(files[files["redactions"] > 0]["file"]) == [KEYS]


def test_problems_of_named_agents_have_a_column_where_there_are_any(asked, tmp_path):
    own = tmp_path / "data" / "agents"
    own.mkdir(parents=True)
    (own / "broken.yaml").write_text("name: broken\nbudget: {usd: 0}\n")
    problems = asked("kit agents").set_index("agent")["problem"].dropna()
    assert list(problems.index) == ["broken"]
    assert problems["broken"].endswith("budget.usd: must be more than 0")


def test_a_plan_is_its_text_with_the_plan_behind_it(asked):
    value = asked("kit plan ./analyst.yaml")
    assert repr(value).startswith("agent data-analyst (a file)\n")
    assert value.plan.kit.agent == "data-analyst"


def test_a_build_says_what_was_staged(asked, capsys):
    assert asked("kit build ./analyst.yaml") is None
    asked("kit build ./analyst.yaml")
    first, again = [line for line in capsys.readouterr().out.splitlines() if line.startswith("kit of")]
    assert first.startswith("kit of data-analyst (staged): 2 skills")
    assert again == first.replace("(staged)", "(as it was)")


def test_a_shown_kit_is_a_card_that_stays_in_the_notebook_without_a_secret(asked, monkeypatch):
    written = []
    monkeypatch.setattr(kit_module, "write_once", written.append)
    value = asked(f"kit show ./analyst.yaml --file {KEYS}")
    value._ipython_display_()  # as IPython calls it
    [(data, metadata)] = written
    assert data["text/html"].count('<mark class="kg-redacted"') == 1
    assert "<button" not in data["text/html"]
    assert KEYS in [one["place"] for one in data[KIT_MIME]["files"]]
    assert metadata["kagura"]["digest"] == value.kit.digest
    assert SECRET not in str(written) + repr(value) + value.read(KEYS)
    assert "[REDACTED:" in value.read(KEYS)
    with pytest.raises(UsageError, match="no file"):
        asked("kit show ./analyst.yaml --file none.md")


def test_a_kit_without_files_says_so(asked, tmp_path):
    (tmp_path / "home" / "CLAUDE.md").unlink()
    value = asked("kit show")
    assert repr(value).startswith("[kit: 1 skill, AGENTS.md]\nskill house-style (in the workspace)")
    assert value.files.empty


def test_a_file_is_redacted_for_reading(asked, tmp_path):
    folder = tmp_path / "home" / ".agents" / "skills" / "csv-tools"
    value = asked(f"kit redact {folder / 'references' / 'keys.md'}")
    assert SECRET not in value.text + repr(value) + value._repr_html_()  # as IPython calls it
    assert len(value.findings) == 1
    archive = tmp_path / "a.zip"
    archive.write_bytes(b"PK\x03\x04" + bytes(100))
    left_out = asked(f"kit redact {archive}")
    assert left_out.text == ""
    assert left_out.reason in repr(left_out)
    assert left_out._repr_html_() is None  # as IPython calls it
    with pytest.raises(UsageError):
        asked(f"kit redact {folder / 'pipe'}")


def test_agents_and_files_of_the_staged_kit_are_completed_without_staging_one(asked, tmp_path):
    known = ShellNames(None, blink=60)
    names = [one.text for one in known.names(Kind.AGENT, "", ("kit", "show"))]
    assert {"default", "reviewer", "skilled", "analyst.yaml"} <= set(names)
    assert [one.text for one in known.names(Kind.AGENT, "./an", ("kit", "show"))] == ["./analyst.yaml"]
    line = ("kit", "show", "./analyst.yaml")
    assert known.names(Kind.KIT_FILE, "", line) == []
    assert not (tmp_path / "data" / "kits").exists()
    asked("kit build ./analyst.yaml")
    staged = {one.text: one.summary for one in known.names(Kind.KIT_FILE, "", line)}
    assert staged[KEYS] == "1 redaction"


def test_a_file_that_is_gone_when_it_is_clicked_is_told_and_the_card_stays(asked, monkeypatch):
    slots = []

    class Remembering(Slot):
        """A slot whose front end is a list."""

        def __init__(self) -> None:
            super().__init__()
            self.said: list[object] = []
            slots.append(self)

        def open(self, label, text, parts, pressed, still=None):
            self.press = pressed
            self.said.append((label, bool(text), set(parts), still is not None))

        def show(self, changed):
            self.said.append(set(changed))

        def tell(self, text, about=""):
            self.said.append(about or text)

    monkeypatch.setattr(kit_module, "Slot", Remembering)
    kit = asked("kit show ./analyst.yaml").kit
    KitBrowser(kit, live=True)._ipython_display_()  # as IPython calls it
    [slot] = slots
    slot.press({"act": "open", "id": KEYS})
    slot.press({"act": "open", "id": "skills/csv-tools/none.md"})
    slot.press({"act": "allow", "id": KEYS})
    opened, changed, freed, told = slot.said
    assert (opened, changed, freed) == (("Kit", True, {"head", "files", "file"}, True), {"files", "file"}, "")
    assert "none.md" in str(told)


COUNTS = "2 skills, AGENTS.md and CLAUDE.md, 1 sub-agent, 4 redactions, 2 left out"
KIT, RUN = SampleKit(), SampleRun()
HOSTILE = '<img src=x onerror="alert(1)">\u202e'


def seen(*events):
    return RunView().apply_all([RUN.started(), *events])


def kit_html(view, *, live):
    return html_of(card.kit(view, live=live))


def plain(html):
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_a_run_whose_agent_brought_nothing_says_nothing_of_kits():
    view = seen(KIT.nothing(), RUN.finished())
    assert kit_html(view, live=True) == kit_html(view, live=False) == ""
    assert kit_text(view.kit) == []
    assert run_text(view) == run_text(seen(RUN.finished()))


def test_a_kit_is_one_line_and_opens_to_its_skills_prompt_files_and_what_was_left_out():
    html = kit_html(seen(KIT.staged(), KIT.started()), live=True)
    line, _, inside = html.partition("</summary>")
    assert plain(line) == (f"Kit of data-analyst: {COUNTS}, toolset time")
    assert " open" not in line
    assert "references/keys.md 2.3 kB 3 redactions aws-access-key, github, uri-password" in plain(inside)
    assert "house-style How charts of this project look in the workspace" in plain(inside)
    assert "skills/csv-tools/dump.fifo it is no file but a pipe" in plain(inside)
    assert "time mcp-time 2026.10.19 2 tools in the box" in plain(inside)
    assert "%kagura kit show --run run-1" in plain(inside)


def test_a_toolset_that_is_gone_stands_outside_of_what_is_folded():
    html = kit_html(seen(KIT.staged(unresolved=(KIT.unresolved(),)), KIT.started(), KIT.ended()), live=True)
    in_sight = plain(html.rpartition("</details>")[2])
    assert in_sight.startswith("Gone docs It sent 1,400 messages within a second, and was cut off. docs-server:")
    assert (
        "Not known lint Where lint-server is installed from could not be found out: no registry knows this command"
        in in_sight
    )


def test_the_words_name_each_skill_and_of_its_files_the_redacted_ones():
    view = seen(KIT.staged(), KIT.started(withheld=("time_set: its schema is no object",)), KIT.ended())
    assert kit_text(view.kit) == [
        f"= kit of data-analyst: {COUNTS}, toolsets time and docs",
        "  skill csv-tools (3 files)",
        "    references/keys.md (redacted 3 times: aws-access-key, github, uri-password)",
        "  skill house-style (in the workspace)",
        "  prompt file AGENTS.md (in the workspace)",
        "  prompt file CLAUDE.md (redacted: password)",
        "  sub-agent reviewer",
        "  left out: skills/csv-tools/dump.fifo: it is no file but a pipe",
        "  left out: skills/csv-tools/export.zip: it is an archive, whose content is not looked through",
        "  opened for installing toolsets: files.example.org, index.example.org",
        "= toolset time (mcp-time 2026.10.19): 2 tools, 1 withheld",
        "! toolset docs: It sent 1,400 messages within a second, and was cut off.",
        "    docs-server: listening on stdio",
    ]


def test_a_name_that_was_left_out_is_shown_as_the_plan_shows_it():
    staged = KIT.staged(left_out=(LeftOut("skills/x/a⟨U+202E⟩b.txt", "its name holds U+202E"),))
    assert "  left out: skills/x/a⟨U+202E⟩b.txt: its name holds U+202E" in kit_text(seen(staged).kit)
    assert "a⟨U+202E⟩b.txt" in kit_html(seen(staged), live=True)


def test_a_build_names_every_file_and_says_whether_anything_was_new():
    lines = built_lines(KIT.staged(), unchanged=True)
    assert lines[0].startswith("kit of data-analyst (as it was): 2 skills")
    assert "    scripts/clean.py" in lines
    assert built_lines(KIT.nothing(), unchanged=False) == ["kit: nothing has to be staged"]


def test_the_saved_card_of_a_replay_says_nothing_that_differs_from_time_to_time():
    def saved(kit, run):
        view = RunView().apply_all([run.started(brain="replay"), kit.staged(), kit.started(), run.finished()])
        return kit_html(view, live=False)

    assert saved(KIT, RUN) == saved(SampleKit("run-2"), SampleRun("run-2"))
    assert "2.4 s" in kit_html(seen(KIT.staged(), KIT.started()), live=False)
    assert "2.4 s" not in saved(KIT, RUN)


def test_the_record_holds_the_kit_and_what_differs_stands_in_the_metadata():
    data, metadata = run_bundle(seen(KIT.staged(), KIT.started(), KIT.ended(), RUN.finished()))
    kit = data[RUN_MIME]["kit"]
    assert [one["name"] for one in kit["skills"]] == ["csv-tools", "house-style"]
    assert (kit["redactions"], kit["toolsets"][0]["name"], kit["gone"][0]["name"]) == (4, "time", "docs")
    assert "e" * 64 not in json.dumps(data[RUN_MIME])
    told = metadata["kagura"]["kit"]
    assert (told["digest"], told["seconds"]) == ("e" * 64, 0.21)
    assert told["installed"] == {"time": "mcp-server-time 2026.10.19"}
    plain_data, plain_metadata = run_bundle(seen(KIT.nothing(), RUN.finished()))
    assert "kit" not in plain_data[RUN_MIME]
    assert "kit" not in plain_metadata["kagura"]


def test_names_and_reasons_of_others_cannot_become_part_of_the_page():
    skill = StagedSkill(HOSTILE, HOSTILE, "/kagura/kit/skills/x", (StagedFile(f"skills/x/{HOSTILE}", 1, 1, ("a",)),))
    prompt = StagedPrompt(HOSTILE, "kit", "/kagura/kit/prompt_files/x", 1, 1, ("a",))
    staged = KIT.staged(skills=(skill,), prompt_files=(prompt,), left_out=(LeftOut(HOSTILE, HOSTILE),))
    html = kit_html(seen(staged, KIT.started(server=HOSTILE), KIT.ended(reason=HOSTILE, stderr=HOSTILE)), live=True)
    html += html_of([files_block(staged, skill.files, live=True)]) + html_of(
        file_blocks(OpenedFile(HOSTILE, HOSTILE, (), 1))
    )
    assert "<img" not in html
    assert "\u202e" not in html
    assert html.count("⟨U+202E⟩") >= 9
    assert "\u202e" not in "\n".join(kit_text(seen(staged).kit))


def test_an_open_file_shows_each_redaction_as_a_block_that_says_of_what_kind_it_was():
    html = html_of(file_blocks(opened()))
    blocks = re.findall(r'<mark class="kg-redacted" title="([^"]*)">([^<]*)</mark>', html)
    assert blocks == [(f"Redacted: {kind}", marker(kind)) for kind in ("uri-password", "aws-access-key", "github")]
    assert "3 redactions aws-access-key, github, uri-password in lines 3, 4, 6" in plain(html)
    assert file_text(opened()).splitlines()[0] == "skills/csv-tools/references/keys.md (229 B, 3 redactions)"


def test_a_text_that_only_looks_like_a_marker_is_no_block():
    html = html_of(file_blocks(OpenedFile("a.md", f"write {marker('password')} by hand", (), 10)))
    assert "<mark" not in html
    assert marker("password") in html


def test_of_a_long_file_the_beginning_is_shown_and_no_block_is_cut():
    text = "x" * (SHOWN - 5) + marker("token")
    html = html_of(file_blocks(OpenedFile("a", text, ((SHOWN - 5, len(text), "token"),), len(text))))
    assert "Only its beginning is shown." in html
    assert "<mark" not in html
    assert "1 redaction token" in plain(html)
    assert "in line" not in html


def test_what_is_no_text_is_said_to_be_none():
    image = OpenedFile("skills/x/logo.png", "", (), 4_000, is_text=False)
    assert "<pre" not in html_of(file_blocks(image))
    assert "It is no text" in html_of(file_blocks(image))
    assert file_text(image).endswith("It is no text.")


@pytest.mark.parametrize("live", [True, False])
def test_the_list_of_files_goes_by_skill_and_has_buttons_only_while_it_is_live(live):
    html = html_of([files_block(KIT.staged(), FILES, "skills/csv-tools/SKILL.md", live=live)])
    assert re.findall(r"<strong[^>]*>([^<]*)", html) == ["csv-tools", "Prompt files", "Left out"]
    targets = [one.target for one in FILES]
    assert sorted(re.findall(r'data-id="([^"]*)"', html)) == (sorted(targets) if live else [])
    assert html.count('aria-current="true"') == live
    assert "As it is in the workspace: house-style , AGENTS.md" in plain(html)


def test_a_terminal_is_told_of_the_kit_at_the_end_of_the_run(capsys):
    display: Any = TerminalDisplay(None, "run-1")  # type: ignore[arg-type]  # nothing is asked there
    display.finish(seen(KIT.staged(), KIT.ended(), RUN.finished()))
    told = capsys.readouterr().out.splitlines()
    assert f"= kit of data-analyst: {COUNTS}, toolset docs" in told
    assert "! toolset docs: It sent 1,400 messages within a second, and was cut off." in told


def test_a_live_card_is_told_of_the_kit_once_it_is_there():
    view = seen()
    view.take_dirty()
    view.apply(KIT.staged())
    assert view.take_dirty() == {"kit"}
    view.apply(KIT.ended())
    assert view.take_dirty() == {"kit"}


def test_two_prompt_files_of_one_name_are_counted():
    twice = (
        StagedPrompt("AGENTS.md", "workspace", "/workspace/AGENTS.md", 940),
        StagedPrompt("AGENTS.md", "kit", "/kagura/kit/prompt_files/AGENTS.md", 20),
    )
    assert kit_text(seen(KIT.staged(prompt_files=twice)).kit)[0] == (
        "= kit of data-analyst: 2 skills, 2 × AGENTS.md, 1 sub-agent, 3 redactions, 2 left out"
    )
