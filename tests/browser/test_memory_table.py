"""The list of memories in a real JupyterLab: promoted, pinned and forgotten where it is read, and as it stays."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from kagura_kernel.jupyter.memories import LABEL, MEMORIES_MIME, MemoryLine, memories_blocks
from kagura_kernel.render.html import framed, html_of
from tests.browser.test_accessibility import THEMES, faults
from tests.support import gallery

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(300)]

BEGIN = """\
%load_ext kagura_kernel
import os, tempfile
os.environ["KAGURA_MEMORY"] = os.path.join(tempfile.mkdtemp(), "memory.sqlite3")
from kagura_kernel import open_memory
from kagura_kernel.domain.memory import Author, Draft, Source, Tier
agent = Source(Author.AGENT, "default", "run-1")
with open_memory() as memory:
    memory.remember(Draft("Deploys <img src=x onerror=alert(1)> happen on Fridays.\\nAlways.", agent, id="mem-a"))
    memory.remember(Draft("A deploy needs a migration.", Source(Author.HUMAN, "ada"), Tier.TRUSTED, id="mem-b"))"""
LIST = "%kagura recall deploy"
NOW = 'table = %kagura memory list\nprint(dict(zip(table.index, table["tier"])))'


def test_a_memory_is_promoted_and_forgotten_where_it_is_read(open_notebook):
    notebook = open_notebook(BEGIN, LIST, NOW)
    notebook.done(0)
    card = notebook.done(1)
    rows = card.get_by_role("group", name="mem-")
    expect(rows).to_have_count(2)
    left = card.get_by_role("group", name="mem-a")
    expect(left.get_by_text("not trusted")).to_be_visible()
    expect(left).to_contain_text("<img src=x onerror=alert(1)>")
    assert faults(notebook.page) == []
    notebook.picture("memory-list", cell=1)

    left.get_by_role("button", name="Promote mem-a").click()
    expect(left.get_by_text("not trusted")).to_have_count(0)
    expect(left.get_by_role("button", name="Demote mem-a")).to_be_enabled()
    pin = left.get_by_role("button", name="Pin mem-a")
    pin.focus()
    notebook.page.keyboard.press("Enter")
    expect(left.get_by_text("pinned", exact=True)).to_be_visible()
    other = card.get_by_role("group", name="mem-b")
    other.get_by_role("button", name="Forget mem-b").click()
    expect(other.get_by_role("button", name="Restore mem-b")).to_be_enabled()
    expect(notebook.done(2)).to_contain_text("{'mem-a': 'trusted'}")

    # What is saved says how it is now, and needs no kernel.
    notebook.wait_kept(1, "forgotten")
    saved = notebook.save()
    kept = next(output.data for output in saved.cells[1].outputs if MEMORIES_MIME in output.get("data", {}))
    assert {one["id"]: one["tier"] for one in kept[MEMORIES_MIME]["memories"]} == {
        "mem-a": "trusted",
        "mem-b": "trusted",
    }
    assert "<button" not in json.dumps(kept["text/html"])


@pytest.mark.parametrize("theme", THEMES)
def test_the_list_can_be_read_in_every_theme(blank, theme):
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    left = MemoryLine(
        "mem-a", "quarantine", "note", "agent default, run-1", now - timedelta(3), "Deploys.", "Deploys.\nAlways."
    )
    note = MemoryLine("mem-b", "trusted", "note", "human ada", now, "Sales.", "Sales.", pinned=True, score=0.5, why="a")
    gone = MemoryLine("mem-c", "trusted", "fix", "human ada", now, "Old.", "Old.", gone=True, forgotten=True)
    blank.set_content(
        gallery.document(framed(html_of(memories_blocks([left, note, gone], now, live=True)), LABEL), theme)
    )
    assert faults(blank) == []
