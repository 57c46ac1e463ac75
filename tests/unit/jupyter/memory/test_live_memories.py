"""The live list of memories: what its buttons do, and what it says when they cannot."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from kagura_kernel.cockpit.memory import MemoryDesk, MemorySurroundings
from kagura_kernel.domain.memory import Author, Draft, Recalled, Source, Tier
from kagura_kernel.journal.store import Journal
from kagura_kernel.jupyter import memories
from kagura_kernel.jupyter.memories import MEMORIES_MIME, MemoryList, memories_table, show_memories
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.memory import FakeMemory
from tests.support.card_page import Page


class Shown:
    """A slot that keeps what it is told."""

    def __init__(self) -> None:
        self.html = ""
        self.told: list[str] = []
        self.still = None

    def open(self, _label, _text, parts, pressed, still):
        self.html, self.pressed, self.still = parts["all"], pressed, still

    def show(self, parts):
        self.html = parts["all"]

    def tell(self, text, _about=""):
        self.told.append(text)

    def keep(self, still, *, at_once):
        assert at_once
        self.still = still()

    def acts(self):
        """What can be pressed, of which memory."""
        return [(button["data-act"], button["data-id"]) for button in Page(self.html).buttons]


@pytest.fixture
def memory():
    return FakeMemory(clock=FakeClock())


@pytest.fixture
def journal(tmp_path):
    journal = Journal.open(tmp_path / "home", clock=FakeClock())
    yield journal
    journal.close()


@pytest.fixture
def slot(memory, journal, tmp_path, monkeypatch):
    """A list of one memory that an agent left; buttons act at once."""
    shown = Shown()
    monkeypatch.setattr(memories, "Slot", lambda: shown)
    monkeypatch.setattr(memories, "aside", lambda work: work())
    memory.remember(Draft("Deploy on <b>Fridays</b>.", Source(Author.AGENT, "default"), id="mem-a"))
    desk = MemoryDesk(MemorySurroundings(lambda: memory, lambda: journal, FakeClock(), tmp_path / "home"))
    found = [Recalled(memory.reference("mem-a"), 0.5, ("deploy",))]
    MemoryList(lambda: desk, memories_table(found, datetime.now(UTC)).lines())
    return shown


def test_each_row_has_the_buttons_that_fit_it(slot):
    assert slot.acts() == [("promote", "mem-a"), ("pin", "mem-a"), ("forget", "mem-a")]
    assert Page(slot.html).open == []
    assert "<b>Fridays" not in slot.html
    assert all(button["aria-label"].endswith("mem-a") for button in Page(slot.html).buttons)
    data, _ = slot.still
    assert "<button" not in data["text/html"]
    assert data[MEMORIES_MIME]["memories"][0]["tier"] == "quarantine"


def test_a_button_changes_the_memory_and_the_row_says_so(slot, memory, journal):
    slot.pressed({"act": "promote", "id": "mem-a"})
    assert memory.reference("mem-a").tier is Tier.TRUSTED
    assert slot.acts() == [("demote", "mem-a"), ("pin", "mem-a"), ("forget", "mem-a")]
    slot.pressed({"act": "pin", "id": "mem-a"})
    assert slot.acts()[1] == ("unpin", "mem-a")
    slot.pressed({"act": "forget", "id": "mem-a"})
    assert slot.acts() == [("restore", "mem-a")]
    assert ">forgotten<" in slot.html
    slot.pressed({"act": "restore", "id": "mem-a"})
    rows = [row.event for row in journal.events(kinds=("memory.changed",))]
    assert [(row.change, row.via) for row in rows] == [
        (change, "table") for change in ("promoted", "pinned", "forgotten", "restored")
    ]
    assert slot.told == [""] * 4
    data, _ = slot.still
    assert data[MEMORIES_MIME]["memories"][0]["tier"] == "trusted"


def test_what_cannot_be_done_is_told_and_the_row_stays(slot, memory):
    memory.broken = "the disk is gone"
    slot.pressed({"act": "promote", "id": "mem-a"})
    assert "the disk is gone" in slot.told[-1]
    assert slot.acts()[0] == ("promote", "mem-a")


def test_a_memory_that_somebody_has_erased_meanwhile_loses_its_buttons(slot, memory):
    memory.erase("mem-a")
    slot.pressed({"act": "promote", "id": "mem-a"})
    assert "not there any more" in slot.html
    assert slot.acts() == []
    assert slot.told == [""]


@pytest.mark.parametrize(
    "content",
    [{"act": "erase", "id": "mem-a"}, {"act": "promote", "id": "mem-b"}, {}],
    ids=["another act", "another memory", "nothing"],
)
def test_what_a_front_end_makes_up_does_nothing(slot, memory, content):
    before = slot.html
    slot.pressed(content)
    assert (slot.html, slot.told) == (before, [])
    assert memory.reference("mem-a").tier is Tier.QUARANTINE


def test_where_nobody_can_press_there_is_no_live_list(monkeypatch):
    assert show_memories([]) is False
    monkeypatch.setattr(memories, "_shell", lambda: SimpleNamespace(kernel=None))
    assert show_memories([]) is False
