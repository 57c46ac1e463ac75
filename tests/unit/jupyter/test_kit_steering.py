"""`%kagura kit …`: what each command shows, and what its value is."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from kagura_kernel.assembly import kits
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.grammar import Kind
from kagura_kernel.domain.settings import Settings
from kagura_kernel.jupyter import kit as kit_module
from kagura_kernel.jupyter.completion.names import ShellNames
from kagura_kernel.jupyter.kit import KIT_MIME, KitBrowser
from kagura_kernel.jupyter.slots import Slot
from kagura_kernel.jupyter.steering import steer
from tests.support.redactors import shared_redactor
from tests.support.sample_kit import SECRET, lay_out

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
