"""All cards on one page, and a live card without a notebook around it: for looking at them, and for tests of looks.

The page is a bare one with the variables of a JupyterLab theme; the cards, their style and their script are the real
ones.
"""

from __future__ import annotations

import base64
import html
import json
import struct
import sys
import zlib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.commits import Commit, CommittedBranch, Moved
from kagura_kernel.domain.events import (
    ChangesCollected,
    Event,
    ImageSent,
    OutputStreamed,
    ResultShown,
    TextStreamed,
    VariableCrossed,
)
from kagura_kernel.domain.outcome import BothSides, FileChange, Written, by_path
from kagura_kernel.domain.plugins import PluginAudit
from kagura_kernel.jupyter.widgets.live_card import LiveCard
from kagura_kernel.membrane.changes import unified_diff
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.html import drawn, framed, html_of, style
from kagura_kernel.views.audit_card import audit_html
from kagura_kernel.views.boards import BudgetLine, RunLine, Sum, board_blocks, costs_blocks, plugins_blocks
from kagura_kernel.views.changes import Beside, changes_blocks
from kagura_kernel.views.commits import commits_blocks
from kagura_kernel.views.kit import file_blocks, files_block, kit_head
from kagura_kernel.views.leases import lease_board, line_of
from kagura_kernel.views.record import run_html
from kagura_kernel.views.run import RunView
from tests.support.card_page import live_parts
from tests.support.sample_audit import SampleAudit, fooled, sample_plugins
from tests.support.sample_kit import FILES, SampleKit, opened
from tests.support.sample_learned import SampleLearned
from tests.support.sample_run import SampleRun

LIGHT, DARK, CONTRAST = "theme-light-extension", "theme-dark-extension", "theme-dark-high-contrast-extension"
NAMES = {LIGHT: "JupyterLab Light", DARK: "JupyterLab Dark", CONTRAST: "JupyterLab Dark High Contrast"}

FRAME = (
    "<div><style scoped>.dataframe tbody tr th {vertical-align: top;}</style>"
    '<table border="1" class="dataframe"><thead>'
    '<tr style="text-align: right;"><th></th><th>day</th><th>region</th><th>amount</th></tr></thead><tbody>'
    + "".join(
        f"<tr><th>{row}</th><td>2026-01-{row + 3:02d}</td><td>{region}</td><td>{amount:,.2f}</td></tr>"
        for row, (region, amount) in enumerate([("north", 120.5), ("south", 88.0), ("north", 61.25), ("east", 40.0)])
    )
    + "</tbody></table><p>4 rows × 3 columns</p></div>"
)
DIFF = """\
--- a/totals.py
+++ b/totals.py
@@ -1,3 +1,4 @@
 import csv

-print(sum(amounts))
+total = sum(amounts)
+print(f"{total:,.2f}")
"""
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="320" height="90" viewBox="0 0 320 90">'
    '<rect x="10" y="30" width="50" height="50" fill="#1976d2"/><rect x="80" y="12" width="50" height="68" '
    'fill="#388e3c"/><rect x="150" y="52" width="50" height="28" fill="#e87a00"/></svg>'
)


def png(width: int, height: int, *, claims: tuple[int, int] | None = None) -> bytes:
    """A PNG with a slope of grey; with `claims` its head declares another size than its data has."""
    rows = b"".join(b"\x00" + bytes((x + y) * 255 // (width + height) for x in range(width)) for y in range(height))
    head = struct.pack(">IIBBBBB", *(claims or (width, height)), 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


def shown(mime: str, data: str | bytes, **fields: Any) -> ResultShown:
    """A result of a box; bytes are an image's."""
    text = base64.b64encode(data).decode("ascii") if isinstance(data, bytes) else data
    sample = SampleRun()
    facts: dict[str, Any] = {"run_id": sample.run_id, "session_id": sample.session_id, "at": sample.at}
    facts |= {"call_id": "call-1"}
    return ResultShown(**{**facts, "mime": mime, "data": text, "bytes": len(data)} | fields)


def sent_image(call_id: str, name: str = "") -> ImageSent:
    """An image that the model was shown."""
    sample = SampleRun()
    facts: dict[str, Any] = {"run_id": sample.run_id, "session_id": sample.session_id, "at": sample.at}
    facts |= {"width": 1500, "height": 480, "bytes": 9, "tokens": 960, "sha256": "ab" * 32}
    return ImageSent(**facts, call_id=call_id, name=name, mime="image/png")


def crossed(name: str, direction: str, **fields: Any) -> VariableCrossed:
    """A variable that went in or came out."""
    sample = SampleRun()
    facts: dict[str, Any] = {"run_id": sample.run_id, "session_id": sample.session_id, "at": sample.at}
    return VariableCrossed(**facts | {"name": name, "direction": direction} | fields)


def story(*, live: bool = False) -> list[Event]:
    """A run with something of everything; a live one waits for three answers."""
    sample = SampleRun()
    base: dict[str, Any] = {"run_id": sample.run_id, "session_id": sample.session_id, "at": sample.at}
    called, answered = sample.tool()
    events: list[Event] = [
        sample.started(brain_reason="a key of your account is set", model="m-1"),
        sample.granted(by="ada"),
        sample.boxed(),
        crossed("sales", "in", form="frame", summary="DataFrame, 1,000 rows × 4 columns"),
        sample.said("I add the amounts up **by region** first. See [the manual](https://example.org/manual)."),
        called,
        answered,
        shown("image/png", png(320, 120), text="A slope"),
        shown("text/html", FRAME),
        shown("image/svg+xml", DRAWING),
        shown("text/markdown", "**North leads** with 181.75:\n\n| region | total |\n|---|---:|\n| north | 181.75 |\n"),
        shown("text/plain", "a plain result\nin two lines"),
        sample.lease(),
        sample.used(),
        *sample.reached(),
        sample.refused("example.com", times=3),
        sample.counted(),
    ]
    if live:
        events += [
            sample.asked(),
            sample.egress_asked("api.github.com", number=1),
            sample.egress_asked("bücher.example", number=2),
            sample.tool(2)[0],
            OutputStreamed(**base, call_id="call-2", stream="stdout", text="counting …\n" * 40),
            TextStreamed(**base, text="While I wait, three things about `sales.csv`:\n\n1. One amount is mis"),
        ]
        return events
    return [
        *events,
        crossed("totals", "out", form="json", summary="dict with 3 items"),
        crossed("model", "out", error="A `Regressor` is neither a table nor a plain value: it stays in the box."),
        sample.asked(),
        sample.decided(),
        ChangesCollected(**base, changes=tuple(changes().values())),
        sample.lease("released", why="the run is over"),
        sample.finished(text="**North leads.**", reported_usd=0.0132, input_tokens=12_400, output_tokens=810),
    ]


def changes() -> dict[str, FileChange]:
    """Files of every kind that a change card tells apart."""
    rows = [
        FileChange(path="totals.py", status="modified", diff=DIFF, size=87),
        FileChange(path="plot.png", status="added", binary=True, size=len(png(320, 120))),
        FileChange(path="report.pdf", status="added", binary=True, size=48_213),
        FileChange(
            path="rows.csv", status="added", size=64, diff=_added("day,amount\n2026-01-03,120.5\n2026-01-04,88\n")
        ),
        FileChange(path="old.txt", status="deleted", diff="@@ -1 +0,0 @@\n-gone\n", state="conflict"),
    ]
    return {row.path: row for row in rows}


def reviewed() -> ui.Blocks:
    """Many changes that a person is at: hunks, a conflict, and a table and an image beside what they were."""
    table = (b"day,amount\n2026-01-03,120.5\n2026-01-04,88\n", b"day,amount\n2026-01-03,121\n2026-01-05,40\n")
    steps = [f"step {number}\n" for number in range(30)]
    after = ["first\n", *steps[1:15], *steps[16:-1]]
    diff = unified_diff("steps.txt", "".join(steps).encode(), "".join(after).encode())
    wrote = Written("steps.txt", "a" * 64, "b" * 64, "file", hunks=(2,))
    rows = [
        FileChange(
            "steps.txt", "modified", size=200, diff=diff, applied_hunks=(2,), discarded_hunks=(3,), written=(wrote,)
        ),
        FileChange("notes.md", "modified", size=9, diff=diff, state="conflict"),
        FileChange("rows.csv", "modified", size=len(table[1]), diff=_added(table[1].decode()), old_sha256="c" * 64),
        FileChange("plot.png", "modified", size=len(png(320, 120)), binary=True, old_sha256="d" * 64),
        *(FileChange(f"docs/{number}.md", "added", size=2, diff=_added("x")) for number in range(20)),
    ]
    sides = {"notes.md": BothSides(diff, diff, can_merge=True, overlaps=True, seen="e" * 12)}
    return changes_blocks(
        by_path(rows),
        live=True,
        beside=Beside(
            {"rows.csv": table[1], "plot.png": png(320, 120)}, {"rows.csv": table[0], "plot.png": png(300, 100)}, sides
        ),
        commits=commits_blocks({one.name: one for one in committed()}, live=True),
    )


def committed() -> list[CommittedBranch]:
    """Branches with commits: one that waits, one that was applied, one that cannot be."""
    files = (
        FileChange("notes.md", "added", diff=_added("x")),
        FileChange("conftest.py", "added", diff=_added("y"), runs="pytest runs it before any test"),
        FileChange("plot.png", "modified", binary=True),
    )
    message = "Say how often each is counted\n\nOf all that is in stock."
    commit = Commit("3f" * 20, "kagura agent <agent@kagura.invalid>", message, files, files_left=2)
    merge = Commit("a7" * 20, "Ada <ada@example.org>", "Take over main", merges=True)
    moved = Moved("refs/heads/tidy", "", "a7" * 20)
    return [
        CommittedBranch("main", "3f" * 20, "b" * 64, (commit, merge), left=3, runs=("Makefile",)),
        CommittedBranch("tidy", "a7" * 20, "b" * 64, (commit,), state="applied", moved=moved),
        CommittedBranch("", "a7" * 20, reason="it holds a leased credential"),
    ]


def previews() -> dict[str, bytes]:
    """What the previews of these files are made from."""
    return {
        "plot.png": png(320, 120),
        "report.pdf": b"%PDF-1.7",
        "rows.csv": b"day,amount\n2026-01-03,120.5\n2026-01-04,88\n",
    }


def cards() -> dict[str, str]:
    """Each card as it stays in a notebook, by name."""
    told = RunView().apply_all(story())
    now = told.now or SampleRun().at
    held = [line_of(lease_id, lease) for lease_id, lease in RunView().apply_all(story(live=True)).leases.items()]
    failed = RunView().apply_all(
        [
            *story()[:5],
            SampleRun().finished(status="failed", error_code="ERR_BRAIN", error="The brain does not answer."),
        ]
    )
    return {
        "run": run_html(told),
        "failed run": run_html(failed),
        "run with a kit": run_html(kitted_run()),
        "run that has learned": run_html(learned_run()),
        "kit": framed(kit_inside(), "Kit"),
        "changes": framed(html_of(changes_blocks(changes(), live=True, beside=Beside(previews()))), "Changes of a run"),
        "reviewed changes": framed(html_of(reviewed()), "Changes of a run"),
        "leases": framed(html_of(lease_board(held, now + timedelta(seconds=60), live=True)), "Leases"),
        "runs": framed(html_of(board_blocks(_board(), now + timedelta(seconds=60), live=True)), "Runs"),
        "costs": framed(
            html_of(
                costs_blocks(
                    [Sum("Today", 1.24, 1, 12), Sum("This notebook", None, 2, 2)], BudgetLine("run-1", 0.5, 0.42)
                )
            ),
            "Costs",
        ),
        "panel": framed(PANEL, "Panel"),
        "plugin audit": audit_html(_enabling().enabled()),
        "refused plugin": audit_html(_enabling(fooled()).failed()),
        "plugins": drawn(plugins_blocks(sample_plugins()), "Plugins")["text/html"],
    }


def kitted_run() -> RunView:
    """A run whose agent brought everything that one can bring, and of whose toolsets one is gone."""
    sample, kit = SampleRun(), SampleKit()
    staged = kit.staged(unresolved=(kit.unresolved(),))
    events = [
        sample.started(),
        staged,
        sample.boxed(),
        kit.started(),
        kit.ended(),
        sample.said("Done."),
        sample.finished(),
    ]
    return RunView().apply_all(events)


def learned_run(*, live: bool = False) -> RunView:
    """A run that goes on from another one, knows what such runs cost, and hands a part on; a live one asks first."""
    sample, learned = SampleRun(), SampleLearned()
    before = [sample.started(brain_reason="a key of your account is set"), learned.seen(), learned.shown()]
    view = RunView().apply_all([*before, learned.planned()])
    if live:
        plan = {"detail": "5 similar runs, 1 of them failed.\nBudget proposed: $0.80", "reason": "", "call_id": ""}
        title = "Plan: about $0.42 ($0.30 to $0.61), 3 min"
        return view.apply_all(
            [sample.asked(kind=ApprovalKind.PLAN, title=title, arguments={"budget_usd": 0.8}, **plan)]
        )
    done = [sample.boxed(), learned.resumed(), *sample.tool(), learned.child(), learned.child_ended()]
    ends = [learned.verified(), learned.verified(passed=False, exit_code=1, text="E  assert 1 == 2"), learned.trusted()]
    last = sample.finished(status="killed", error="It was stopped by ada.", error_code="ERR_RUN_KILLED")
    return view.apply_all([*done, *ends, learned.checkpointed(), last])


def kit_inside() -> str:
    """A kit to look into, with a file of it open."""
    staged, file = SampleKit().staged(), opened()
    return (
        f'{html_of([kit_head(staged)])}<div class="kg-body kg-browse">'
        f"<div>{html_of([files_block(staged, FILES, file.target, live=True)])}</div>"
        f"<div>{html_of(file_blocks(file))}</div></div>"
    )


def _enabling(report: PluginAudit | None = None) -> SampleAudit:
    sample = SampleAudit()
    sample.asked(report)
    sample.decided()
    return sample


def _board() -> list[RunLine]:
    sample = SampleRun()
    long_ago = sample.at - timedelta(hours=1)
    return [
        RunLine("run-1", "claude m-1", "count the rows", "waiting", sample.at, asks=(sample.asked(),), live=True),
        RunLine("run-2", "Sandbox", "make -j8", "running", sample.at, usd=0.02, where="sales.ipynb", live=True),
        RunLine("run-3", "claude m-1", "plot them", "failed", long_ago, duration=12.5, usd=0.4),
    ]


PANEL = (
    '<div class="kg-head"><div class="kg-top"><strong class="kg-name">Costs</strong> '
    '<span class="kg-soft">7 days</span></div></div><div class="kg-tiles">'
    '<div class="kg-tile"><span class="kg-tile-name">Today</span><span class="kg-tile-figure">$1.24</span>'
    '<span class="kg-tile-more">12 runs</span></div>'
    '<div class="kg-tile"><span class="kg-tile-name">Budget of the run</span><span class="kg-tile-figure">$0.42</span>'
    '<span class="kg-meter kg-warn"><i style="width:84%"></i></span>'
    '<span class="kg-tile-more">84 % of $0.50</span></div></div>'
    '<div class="kg-part"><span class="kg-part-name">By brain</span><table class="kg-table"><thead><tr><th>brain</th>'
    '<th class="kg-number">cost</th></tr></thead><tbody><tr><td>claude</td><td class="kg-number">$1.24</td></tr>'
    "</tbody></table></div>"
)
"""A panel made of the classes that every card may use."""


def document(body: str, theme: str = LIGHT) -> str:
    """A whole page in the colours of one of JupyterLab's themes."""
    sheet = Path(sys.prefix, "share", "jupyter", "lab", "themes", "@jupyterlab", theme, "index.css").read_text("utf-8")
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Cards</title><style>{sheet}</style>'
        "<style>body{margin:16px;background:var(--jp-layout-color1);font-family:sans-serif}</style></head>"
        f'<body data-jp-theme-name="{NAMES[theme]}"><main>{body}</main></body></html>'
    )


def live_document(parts: Mapping[str, str], theme: str = LIGHT, label: str = "Agent run") -> str:
    """A page with one live card.

    `window.model` stands for the kernel: `deliver(message)` is what it sends, `sent` what the card sent to it.
    """
    script = f"{LiveCard._esm}".replace("export default () =>", "const widget = () =>")  # as anywidget does
    state = html.escape(json.dumps({"parts": dict(parts), "label": label}), quote=True)
    page = document(f'<style>{style()}</style><div id="here" data-state="{state}"></div>', theme)
    return page.replace("</body>", f'<script type="module">{script}\n{_MOUNT}</script></body>')


def live_story_parts() -> dict[str, str]:
    return live_parts(RunView().apply_all(story(live=True)))


def _added(text: str) -> str:
    lines = text.splitlines()
    return f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)


_MOUNT = """
const here = document.getElementById("here");
const state = JSON.parse(here.dataset.state);
const listeners = [];
window.model = {
  sent: [],
  get: (name) => state[name],
  on: (name, listener) => name === "msg:custom" && listeners.push(listener),
  off: () => {},
  send: (message) => window.model.sent.push(message),
  deliver: (message) => listeners.forEach((listener) => listener(message)),
};
const card = widget();
card.initialize({ model: window.model });
card.render({ model: window.model, el: here });
"""
