"""The change card: what a run did to the project, by file, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple
from urllib.parse import quote, unquote

from kagura_kernel.domain.approval_content import marked
from kagura_kernel.domain.commits import CommittedBranch
from kagura_kernel.domain.kit import MARKER
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.notebook import split_cell_path
from kagura_kernel.domain.outcome import BothSides, FileChange, by_path, seal_of
from kagura_kernel.domain.visible import visible
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.diff import counts, lines_of_hunk
from kagura_kernel.render.escape import one_line, shown_path
from kagura_kernel.render.figures import counted, data_size
from kagura_kernel.views.previews import (
    ID_SHOWN,
    Previews,
    binary_words,
    notebook_cells,
    preview_blocks,
    table_change,
)


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known beside the changes of files, most of it by their paths."""

    previews: Previews = field(default_factory=dict)
    before: Previews = field(default_factory=dict)  # What was there before
    sides: Mapping[str, BothSides] = field(default_factory=dict)  # Of files in conflict
    stuck: Mapping[str, str] = field(default_factory=dict)  # Why what was applied cannot be taken back any more
    branches: Mapping[str, CommittedBranch] = field(default_factory=dict)  # What was committed, by the branch's name


_SIGNS = {"added": ("A", "good"), "modified": ("M", "busy"), "deleted": ("D", "bad")}
_STATES = {
    "proposed": ("", "proposed"),
    "applied": ("good", "applied"),
    "discarded": ("soft", "discarded"),
    "conflict": ("bad", "conflict: the project’s file changed meanwhile and was left alone"),
    "handed": ("soft", "handed to the run that it works for"),
    "protected": ("warn", "protected: this path is never written"),
}
_OPEN_BELOW = 60
_DIFF_LINES = 400
_FLAT_FILES = 20
_OPEN_FILES = 3
_SHOWN_FILES = 200
_BEGINNING = 80
NOTHING = Beside()

_BACK = "The project has again what it had before, and the change waits again"

UNSEEN = "Where a mark stands for what looks like a secret, you apply what you do not see here"

RUNS = "runs by itself"
"""The badge of a file that somebody would run, or obey, whom nobody asked to."""


_PLAIN = "/ !#$&'()*+,:;=?@[]~"


def path_word(path: str) -> str:
    """A path as a button bears it: signs that a page would show otherwise, or change, are percent-encoded.

    What a button does must never depend on how a name is shown.
    """
    return quote(path, safe=_PLAIN, errors="surrogatepass")


def path_of(word: str) -> str:
    """The path that a button bears; what none of ours bears stays as it is."""
    try:
        return unquote(word, errors="surrogatepass")
    except UnicodeDecodeError:
        return word


def changes_blocks(
    changes: Mapping[str, FileChange],
    *,
    live: bool,
    told: str = "",
    beside: Beside = NOTHING,
    how: str = "",
    commits: ui.Blocks = (),
) -> ui.Blocks:
    """The card's inside. A live one can be applied, discarded and taken back, as a whole, by folder and by file.

    `how` is what to type for that where nothing can be pressed, `commits` what stands above the files.
    """
    total = [counts(change.diff) for change in changes.values()]
    figures = plus_minus(sum(plus for plus, _ in total), sum(minus for _, minus in total))
    alone = len(changes) == 1
    buttons = _buttons("", list(changes.values()), beside.stuck, alone=alone) if live else ()
    top = ui.head(changed(changes.values()), figures, ui.soft(summary(changes)), ui.SPRING, *buttons)
    short = len(changes) <= _FLAT_FILES and sum(map(sum, total)) <= _OPEN_BELOW
    few = short or len(changes) <= _OPEN_FILES
    shown = first_what_runs(changes)[:_SHOWN_FILES]
    draw = _Drawing(beside, live=live, alone=alone, few=few)
    files: ui.Blocks = tuple(_file(change, draw) for change in shown)
    if len(changes) > _FLAT_FILES:
        files = _by_folder(list(changes.values()), shown, draw)
    more: ui.Blocks = ()
    if left := len(changes) - len(shown):
        too = ", which the buttons above are about too" if live else ""
        where = (ui.code(".changes"), "of the cell’s value holds all of them.")
        more = (ui.label(f"… and {counted(left, 'more file')}{too}:", *where),)
    if how and waits(changes):
        # A live card needs it as soon as its kernel is gone, and with it the buttons.
        more += (ui.Line((ui.Span(how, "prose"),), "label without-kernel" if live else "label"),)
    listed = (top, *commits, ui.Group((*files, *more), "files")) if changes else commits
    return (*listed, ui.Told(told))


def waits(changes: Mapping[str, FileChange]) -> bool:
    """Whether any of them waits for a word."""
    return any(change.state == "proposed" for change in changes.values())


def never_written(changes: Iterable[FileChange]) -> list[str]:
    """Paths of files that no decision brings into the project."""
    return [change.path for change in changes if change.state == "protected"]


def _by_folder(every: Sequence[FileChange], shown: Sequence[FileChange], draw: _Drawing) -> ui.Blocks:
    """Files of many, folded by the folder that they lie in; those of none, and those that run by themselves, first."""
    above = folder_of(every)
    folders: dict[str, list[FileChange]] = {}
    for change in every:
        folders.setdefault(_folder(change.path, above), []).append(change)
    top = [_file(change, draw) for change in shown if not _folder(change.path, above)]
    folded = []
    for folder, those in sorted(folders.items(), key=lambda one: not any(change.runs for change in one[1])):
        if folder:
            folded.append(_fold_of(folder, those, [one for one in shown if one in those], draw))
    return (*top, *folded)


def folder_of(changes: Sequence[FileChange]) -> str:
    """The folder whose folders files are folded by: the deepest that holds all, or the one above where it has none."""
    folders = [change.path.split("/")[:-1] for change in changes]
    common = [names[0] for names in takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))]
    if all(len(names) == len(common) for names in folders):
        common = common[:-1]
    return "".join(f"{name}/" for name in common)


def _folder(path: str, above: str) -> str:
    name, slash, _ = path.removeprefix(above).partition("/")
    return f"{above}{name}/" if slash else ""


def _fold_of(folder: str, those: Sequence[FileChange], shown: Sequence[FileChange], draw: _Drawing) -> ui.Group:
    total = [counts(change.diff) for change in those]
    runs = next((change.runs for change in those if change.runs), "")
    line: ui.Words = (
        ui.code(shown_path(folder), "path"),
        plus_minus(sum(plus for plus, _ in total), sum(minus for _, minus in total)),
        ui.soft(f"{changed(those)}, {summary(by_path(those))}"),
        *([ui.chip(RUNS, "warn", runs)] if runs else []),
    )
    files: list[ui.Block] = [_file(change, draw) for change in shown]
    if left := len(those) - len(shown):
        files.append(ui.label(f"… and {counted(left, 'more file')}, which the folder’s buttons are about too."))
    fold = ui.Fold(
        line, (ui.Group(tuple(files), "files"),), f"folder:{path_word(folder)}", is_open=bool(runs), is_bare=True
    )
    buttons = _buttons(folder, those, draw.beside.stuck) if draw.live else ()
    whole: ui.Blocks = (fold, *([ui.Line(buttons, "acts")] if buttons else []))
    return ui.Group(
        whole, "file", shown_path(folder) if draw.live else "", {"of": path_word(folder)} if draw.live else {}
    )


def changes_text(changes: Mapping[str, FileChange], most: int = _SHOWN_FILES) -> str:
    """The card in text, with as many files as the card shows."""
    lines = [f"[{changed(changes.values())}: {summary(changes)}]"]
    for change in first_what_runs(changes)[:most]:
        figures = f"  {words}" if (words := _figures(change)) else ""
        badge = f"  [{RUNS}: {visible(change.runs)}]" if change.runs else ""
        why = f": {visible(change.reason)}" if change.reason and change.state == "protected" else ""
        state = "" if change.state == "proposed" else f"  ({state_word(change.state)}{why})"
        note = f"  [{visible(change.reason)}]" if change.reason and not why else ""
        note += f"  [{said}]" if (said := unseen(change.diff)) else ""
        note += f"  [{parts}]" if (parts := _parts_words(change)) else ""
        lines.append(f"{change.status[:1].upper()} {shown_path(change.path)}{figures}{badge}{note}{state}")
    if (left := len(changes) - most) > 0:
        lines.append(f"… and {counted(left, 'more file')}")
    return "\n".join(lines)


def _figures(change: FileChange) -> str:
    """How much of a file is other, or why nothing says so; empty for one that is added empty."""
    added, removed = counts(change.diff)
    if added or removed:
        return f"+{added} -{removed}"
    if change.binary or change.diff:
        return f"{data_size(change.size)}, no difference shown" if change.size else "no difference shown"
    return "content as before" if change.status == "modified" and change.kind == "file" else ""


def changed(changes: Collection[FileChange]) -> str:
    """`2 changed files`, `1 changed cell`, or both."""
    cells = sum(change.is_cell for change in changes)
    files = len(changes) - cells
    parts = [
        counted(files, "changed file") if files or not cells else "",
        counted(cells, "changed cell") if cells else "",
    ]
    return " and ".join(filter(None, parts))


def first_what_runs(changes: Mapping[str, FileChange]) -> list[FileChange]:
    """The changes in their order, but those that somebody would run unasked stand first."""
    return sorted(changes.values(), key=lambda change: not change.runs)


def summary(changes: Mapping[str, FileChange]) -> str:
    """`2 applied, 1 conflict`; what waits is named as not yet in the project."""
    states = Counter(change.state for change in changes.values())
    waiting = states.pop("proposed", 0)
    words = [
        counted(number, state) if state == "conflict" else f"{number:,} {state_word(state)}"
        for state, number in states.items()
    ]
    if waiting:
        where = "notebook" if all(change.is_cell for change in changes.values()) else "project"
        words.insert(0, f"not in the {where} yet" if waiting == len(changes) else f"{waiting:,} not in the {where} yet")
    return ", ".join(words)


def state_word(state: str) -> str:
    """What became of a file, in as few words as say it."""
    return "handed to the run that it works for" if state == "handed" else state


def plus_minus(added: int, removed: int) -> ui.Span:
    """`+12 −3`, coloured."""
    return ui.Span((ui.Span(f"+{added}", look="plus"), ui.Span(f"−{removed}", look="minus")), look="pm")


class _Drawing(NamedTuple):
    """What all files of one card are drawn with."""

    beside: Beside
    live: bool
    alone: bool  # Whether the whole is one file, whose buttons stand in the head
    few: bool  # Whether what waits is open


def _file(change: FileChange, draw: _Drawing) -> ui.Group:
    sign, tone = _SIGNS.get(change.status, ("?", "soft"))
    state_tone, state = _STATES.get(change.state, ("soft", change.state))
    if change.reason and change.state == "protected":
        state = f"{change.state}: {change.reason}"
    if change.is_cell and change.state == "conflict":
        state = "conflict: the cell was changed meanwhile and was left alone"
    added, removed = counts(change.diff)
    waits = change.state == "proposed" or change.path in draw.beside.sides
    is_open = draw.few and waits and added + removed <= _OPEN_BELOW
    line: ui.Words = (
        ui.Span(sign, look="sign", tone=tone, hint=change.status),
        ui.code(_label(change), "path"),
        *([ui.code(source, "arg")] if not is_open and (source := _begins(change)) else []),
        *([plus_minus(added, removed)] if added or removed else []),
        *([ui.figure(data_size(change.size))] if change.size and not change.is_cell else []),
        *([ui.chip(RUNS, "warn", change.runs)] if change.runs else []),
        *([ui.chip(state, state_tone)] if state_tone else []),
        *([ui.chip(parts)] if (parts := _parts_words(change)) else []),
    )
    fold = ui.Fold(line, _content(change, draw), f"file:{path_word(change.path)}", is_open=is_open, is_bare=True)
    # Buttons inside a summary could not be told from it by a screen reader.
    # Of a single file they stand in the card's head.
    buttons = _buttons(change.path, [change], draw.beside.stuck) if draw.live and not draw.alone else ()
    about = {"of": path_word(change.path)} if draw.live else {}
    whole: ui.Blocks = (fold, *([ui.Line(buttons, "acts")] if buttons else []))
    return ui.Group(whole, "file", _label(change) if draw.live else "", about)


def _label(change: FileChange) -> str:
    """What a change is called: a path, or a cell by its notebook and the beginning of its id."""
    if not change.is_cell:
        return shown_path(change.path)
    notebook, cell = split_cell_path(change.path)
    return f"{shown_path(notebook)} · {change.kind} cell {visible(cell[:ID_SHOWN])}"


def _begins(change: FileChange) -> str:
    """The first line of a cell that is new or gone: its id tells a person nothing."""
    sign = "-" if change.status == "deleted" else "+"
    _, _, hunks = change.diff.partition("\n@@") if change.is_cell else ("", "", "")
    lines = (line[1:] for line in hunks.split("\n") if line.startswith(sign))
    return one_line(next(filter(str.strip, lines), ""), _BEGINNING)


def _content(change: FileChange, draw: _Drawing) -> ui.Blocks:
    data, before = draw.beside.previews.get(change.path, b""), draw.beside.before.get(change.path, b"")
    why = _remarks(change, draw.beside.stuck.get(change.path, ""))
    told = notebook_cells(change, data) or table_change(change, data, before)
    if told and change.path not in draw.beside.sides:
        text = _hunks(change, live=draw.live) if change.hunks else (ui.Diff(change.diff),)
        return (*why, *told, ui.Fold(("As text",), text, f"text:{path_word(change.path)}", "as-text", is_bare=True))
    preview = preview_blocks(change, data, before) if data or before else ()
    if (both := draw.beside.sides.get(change.path)) is not None:
        return (*why, *preview, *_both_sides(change, both, live=draw.live))
    if change.hunks and (change.state == "proposed" or change.applied_hunks or change.discarded_hunks):
        return (*why, *preview, *_hunks(change, live=draw.live))
    if change.diff:
        return (*why, *preview, ui.Diff(change.diff))
    if preview:
        return (*why, *preview)
    if change.binary:
        what = binary_words(change, data)
    elif change.kind == "link":
        what = "A symbolic link."
    else:
        what = "No change of content." if change.status == "modified" else "An empty file."
    return (*why, ui.label(what))


def unseen(*diffs: str) -> str:
    """What to know of differences of which one has a mark in it; empty where none has."""
    return UNSEEN if any(map(MARKER.search, diffs)) else ""


def _remarks(change: FileChange, stuck: str) -> ui.Blocks:
    """What is to be known of a change before it is looked at, each a line."""
    said = [
        f"Look at it before you apply it: {change.runs}" if change.runs else "",
        f"{change.reason[:1].upper()}{change.reason[1:]}" if change.state != "protected" else "",
        unseen(change.diff),
        f"It cannot be taken back any more: {stuck}" if stuck else "",
    ]
    return tuple(ui.label(f"{one}.") for one in said if one)


def _both_sides(change: FileChange, both: BothSides, *, live: bool) -> ui.Blocks:
    """What each side did to a file in conflict, and the ways out of it."""
    path, of = change.path, shown_path(change.path)
    mine, theirs = "In the project since the run began", "What the run changed"
    shown: list[ui.Block] = []
    if both.yours:
        shown.append(ui.Group((ui.label(mine), ui.Diff(both.yours)), "piece", f"{mine}, {of}"))
    if both.theirs:
        what = theirs if both.yours or not both.why else "What taking the run’s would change"
        shown.append(ui.Group((ui.label(what), ui.Diff(both.theirs)), "piece", f"{what}, {of}"))
    if both.why:
        shown.append(ui.label(both.why))

    def button(word: str, how: str, label: str, hint: str = "") -> ui.Button:
        return ui.Button(
            word, "apply", {"path": path_word(path), "id": f"{how}:{both.seen}"}, "small", f"{label} {of}", hint
        )

    ways: list[ui.Inline] = [
        ui.Button("Keep mine", "discard", {"path": path_word(path)}, "small", f"Keep mine, the project’s {of}"),
        button("Take theirs", "theirs", "Take theirs, the run’s"),
    ]
    if both.can_merge and both.overlaps:
        hint = "Both changed the same lines: there both stand, between markers"
        ways.append(button("Merge with markers", "markers", "Merge with markers of conflict", hint))
    elif both.can_merge:
        ways.append(button("Merge", "merge", "Merge both changes of"))
    return (*([ui.Line(tuple(ways), "piece-head")] if live else []), *shown)


def sides_text(change: FileChange, both: BothSides) -> str:
    """Both sides of a conflict in text."""
    parts = [("in the project since the run began", both.yours), ("what the run changed", both.theirs)]
    said = [f"{shown_path(change.path)}, {what}:\n{marked(diff)}" for what, diff in parts if diff]
    return "\n".join([*said, *([both.why] if both.why else [])])


def part_of(change: FileChange, number: int) -> str:
    """What a button of one part bears: its number, and of which content it is a part."""
    return f"{number}:{change.new_sha256[:12]}"


def numbered(change: FileChange) -> str:
    """The difference to be read, with the number of each part that can be decided by itself, and what became of it."""
    parts = change.hunks
    if not parts:
        return marked(change.diff)
    said = []
    for number, part in enumerate(parts, 1):
        first, _, rest = part.partition("\n")
        state = _part_state(change, number)
        said.append(f"{first} hunk {number}{f' ({state})' if state else ''}\n{rest}")
    return marked(change.diff[: -len("".join(parts))] + "".join(said))


def _parts_words(change: FileChange) -> str:
    """`2 applied, 1 discarded of 5 hunks`; empty where no part was decided by itself."""
    counts = {"applied": len(change.applied_hunks), "discarded": len(change.discarded_hunks)}
    said = [f"{count} {word}" for word, count in counts.items() if count]
    return f"{', '.join(said)} of {len(change.hunks)} hunks" if said else ""


def _part_state(change: FileChange, number: int) -> str:
    if number in change.applied_hunks:
        return "applied"
    if number in change.discarded_hunks:
        return "discarded"
    return "" if change.state == "proposed" else change.state


def _hunks(change: FileChange, *, live: bool) -> ui.Blocks:
    """The parts of a difference, each of which can be decided by itself, as far as there is room."""
    parts = change.hunks
    shown: list[ui.Block] = []
    room = _DIFF_LINES
    for number, part in enumerate(parts, 1):
        room -= part.count("\n")
        if shown and room < 0:
            more = counted(len(parts) - len(shown), "more hunk")
            shown.append(ui.label("There are", f"{more}: the file’s own buttons are about them too."))
            break
        where, state = lines_of_hunk(part), _part_state(change, number)
        what = f"{where} of {shown_path(change.path)}"
        about = {"path": path_word(change.path), "id": part_of(change, number)}
        buttons = (
            ui.Button("Apply", "apply", about, "small", f"Apply hunk {number}, {what}"),
            ui.Button("Discard", "discard", about, "quiet small", f"Discard hunk {number}, {what}"),
        )
        head = ui.Line(
            (
                ui.soft(f"Hunk {number} of {len(parts)}, {where}"),
                *([ui.chip(state, _STATES[state][0])] if state else []),
                *((ui.SPRING, *buttons) if live and not state else ()),
            ),
            "piece-head",
        )
        shown.append(ui.Group((head, ui.Diff(part)), "piece", f"Hunk {number}, {what}"))
    return tuple(shown)


def _buttons(path: str, changes: Sequence[FileChange], stuck: Container[str], *, alone: bool = False) -> ui.Words:
    """For one file, or with an empty path for all; `alone` when the whole is one file."""
    about = {"path": path_word(path)} if path else {}
    # A run that goes on may propose something else just before the button is pressed.
    sealed = {"id": f":{seal_of(changes)}", **about}
    of, all_of = (shown_path(path), "") if path else ("all changes", "" if alone else " all")
    first, second = ("small", "quiet small") if path else ("primary", "quiet")
    waits = any(change.state == "proposed" for change in changes)
    # Of all of them what was applied is taken back once nothing waits any more.
    written = [change.path for change in changes if change.written]
    comes_back = written and not any(one in stuck for one in written) and (path or alone or not waits)
    return (
        *([ui.Button(f"Apply{all_of}", "apply", sealed, first, f"Apply {of}")] if waits else []),
        *([ui.Button(f"Discard{all_of}", "discard", about, second, f"Discard {of}")] if waits else []),
        *([ui.Button(f"Undo{all_of}", "undo", about, second, f"Undo {of}", _BACK)] if comes_back else []),
    )
