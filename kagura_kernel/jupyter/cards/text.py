"""Cards as plain text: for terminals, for diffs, for readers without HTML, and for nbval.

Nothing here differs between two runs of the same thing: no ids, times or durations.
"""

from __future__ import annotations

from collections.abc import Mapping

from kagura_kernel.domain.events import ChangeRow
from kagura_kernel.domain.tools import NO_OUTPUT
from kagura_kernel.domain.visible import printed, visible
from kagura_kernel.jupyter.cards.changes import RUNS, first_what_runs, state_word, summary
from kagura_kernel.jupyter.cards.items import telling_argument
from kagura_kernel.jupyter.cards.results import shown_text
from kagura_kernel.render.bounded import bounded
from kagura_kernel.render.diff import counts
from kagura_kernel.render.escape import one_line, shown_path
from kagura_kernel.render.figures import counted
from kagura_kernel.render.text import lines_of
from kagura_kernel.views import card
from kagura_kernel.views.approvals import ask_text
from kagura_kernel.views.endings import told_block
from kagura_kernel.views.failures import end_code, end_words, failure_reason, failure_word
from kagura_kernel.views.network import network_blocks
from kagura_kernel.views.parts import Ask, Call, Item, Note, Passage, Printout, Result, Withheld
from kagura_kernel.views.run import RunView


def run_text(view: RunView) -> str:
    """The whole card."""
    lines = [line for section in (card.head, card.kit, card.learned) for line in lines_of(section(view, live=False))]
    for item in view.items:
        text = item_text(item)
        lines.extend(["", *text.split("\n")] if text else [])
    crossed = crossings_text(view)
    lines.extend(["", *crossed] if crossed else [])
    if view.finished is not None and (why := end_words(view)):
        lines.extend(["", f"{end_code(view)}: {visible(why)}".lstrip(": ")])
    return _joined(lines)


def crossings_text(view: RunView) -> list[str]:
    """What crossed the wall: connections and leases, a line each."""
    return lines_of([*network_blocks(view.network, steady=True), *card.leases(view, live=False)])


def item_text(item: Item) -> str:  # noqa: PLR0911 - one for each kind of part
    """One part of it."""
    match item:
        case Passage():
            return visible(item.text.rstrip())
        case Call():
            return _call(item)
        case Ask():
            return ask_text(item)
        case Note():
            return f"! {visible(item.text)}"
        case Printout():
            part = bounded(item.text, lines=200, characters=40_000)
            return printed(part.whole(item.spill))
        case Result() | Withheld():
            return shown_text(item)
        case _:
            return "\n".join(lines_of([told_block(item, steady=True)]))


def is_whole(item: Item) -> bool:
    """Whether a part has said all that it will say. What code prints counts as whole: only its run's end tells."""
    match item:
        case Passage():
            return not item.growing
        case Call():
            return item.finished is not None
        case Ask():
            return item.decision is not None
        case _:
            return True


def changes_text(changes: Mapping[str, ChangeRow]) -> str:
    """The change card."""
    lines = [f"[{counted(len(changes), 'changed file')}: {summary(changes)}]"]
    for change in first_what_runs(changes):
        added, removed = counts(change.diff)
        figures = f"  +{added} -{removed}" if change.diff else ""
        badge = f"  [{RUNS}: {visible(change.runs)}]" if change.runs else ""
        why = f": {visible(change.reason)}" if change.reason and change.state == "protected" else ""
        state = "" if change.state == "proposed" else f"  ({state_word(change.state)}{why})"
        lines.append(f"{change.status[:1].upper()} {shown_path(change.path)}{figures}{badge}{state}")
    return "\n".join(lines)


def _call(call: Call) -> str:
    finished = call.finished
    ending = "unfinished"
    if finished is not None:
        exit_code = "" if finished.exit_code is None else f"exit {finished.exit_code}"
        how = exit_code or failure_word(call)
        if why := failure_reason(call):
            how = f"{how}: {why}"
        ending = ", ".join(filter(None, [finished.route, how]))
    line = f"> {call.asked.tool}: {one_line(telling_argument(call.asked.arguments), 90)}  ({ending or 'ok'})"
    if finished is None or finished.route != "host" or finished.text.strip() in ("", NO_OUTPUT):
        return line
    # A person allowed it, and wants to see what came of it.
    answer = printed(bounded(finished.text, lines=6, characters=600).whole(finished.spill))
    return "\n".join([line, *(f"  {part}".rstrip() for part in answer.rstrip("\n").split("\n"))])


def _joined(lines: list[str]) -> str:
    """Calls that follow each other stand close together; everything else has air."""
    kept: list[str] = []
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if not line and kept and kept[-1].startswith("> ") and after.startswith("> "):
            continue
        kept.append(line)
    return "\n".join(kept)
