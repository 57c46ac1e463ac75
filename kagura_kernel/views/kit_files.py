"""A staged kit to look into: its files, and one of them opened, where every redaction is a block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from kagura_kernel.domain.kit import StagedFile
from kagura_kernel.domain.visible import printed
from kagura_kernel.render.blocks import (
    Block,
    Blocks,
    Bullets,
    Choice,
    Fold,
    Group,
    Inline,
    Line,
    Pre,
    Span,
    Words,
    chip,
    figure,
    head,
    label,
    listed,
    soft,
)
from kagura_kernel.render.escape import one_line, shown_path
from kagura_kernel.render.figures import counted, data_size
from kagura_kernel.views.kit import SHOWN_LEFT_OUT, Staged, counts, left_out_count, path, redacted, whose

LISTED = 2000
"""Files that a list shows."""

SHOWN = 200_000
"""Characters of a file that a card shows."""

_LINES_NAMED = 20
_REASON = 200
_GROUPS = {"prompt_files": "Prompt files", "agents": "Sub-agents"}


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """One file as it is shown."""

    target: str  # Its place in the kit
    text: str = field(repr=False)  # What is in it; empty for what is no text
    # Where redactions stand in the text: begin and end in characters, and of what kind
    blocks: Sequence[tuple[int, int, str]] = ()
    size: int = 0  # Bytes of the file
    is_text: bool = True  # Whether it is one
    cut: bool = False  # Whether `text` is only its beginning


def kit_head(kit: Staged) -> Group:
    """Whose kit it is, and the counts."""
    name = whose(kit)
    return head(name[:1].upper() + name[1:], soft(counts(kit) or "Nothing is staged"))


def files_block(kit: Staged, files: Sequence[StagedFile], opened: str = "", *, live: bool) -> Group:
    """All files, by skill; a live list has a button for each.

    Args:
        kit: What was staged.
        files: The files that are there.
        opened: The place of the one that is open.
        live: Whether a click opens one.
    """
    shown = sorted(files[:LISTED], key=lambda one: (_folder_of(one), one.target))
    groups = [_folder(name, list(found), opened, live=live) for (_, name), found in groupby(shown, _folder_of)]
    left = len(files) - len(shown)
    more = [label(f"… and {counted(left, 'more file')}.")] if left > 0 else []
    return Group((*groups, *more, *_elsewhere(kit), *_left_out(kit)), "kit-files")


def file_blocks(file: OpenedFile | None) -> Blocks:
    """The file that is open; a hint where none is."""
    if file is None:
        return (Line(("Choose a file. What was redacted stands in it as a block.",), "soft kit-hint"),)
    top = Line((path(file.target), figure(data_size(file.size)), *_redacted(file)), "kit-file-top")
    if not file.is_text:
        return (top, Line(("It is no text, and no picture of it is made here.",), "soft"))
    whole = len(file.text) <= SHOWN and not file.cut
    more = [] if whole else [label("Only its beginning is shown.")]
    return (top, Pre(tuple(_pieces(file)), "staged"), *more)


def file_text(file: OpenedFile) -> str:
    """The same in plain text: markers stand as they are."""
    marked = counted(len(file.blocks), "redaction")
    top = f"{shown_path(file.target)} ({data_size(file.size)}, {marked})"
    if not file.is_text:
        return f"{top}\nIt is no text."
    more = "" if len(file.text) <= SHOWN and not file.cut else "\n… Only its beginning is shown."
    return f"{top}\n{printed(file.text[:SHOWN])}{more}"


def _pieces(file: OpenedFile) -> Iterator[str | Span]:
    """The text, each redaction as a block that says of what kind it is."""
    end = min(len(file.text), SHOWN)
    at = 0
    for begin, stop, kind in file.blocks:
        if stop > end or begin < at:
            break
        yield file.text[at:begin]
        yield Span(file.text[begin:stop], "mark", "redacted", hint=f"Redacted: {kind}")
        at = stop
    yield file.text[at:end]


def _redacted(file: OpenedFile) -> Words:
    chips = redacted(len(file.blocks), tuple(sorted({kind for _, _, kind in file.blocks})))
    lines = list(dict.fromkeys(_lines(file)))
    if not lines:
        return chips
    named = ", ".join(f"{line:,}" for line in lines[:_LINES_NAMED])
    more = " and more" if len(lines) > _LINES_NAMED else ""
    return (*chips, soft(f"in {'line' if len(lines) == 1 else 'lines'} {named}{more}"))


def _lines(file: OpenedFile) -> Iterator[int]:
    """Numbers of the lines of its redactions, as far as it is shown."""
    line, at = 1, 0
    for begin, stop, _ in file.blocks:
        if stop > min(len(file.text), SHOWN):
            break
        line, at = line + file.text.count("\n", at, begin), begin
        yield line


def _folder_of(file: StagedFile) -> tuple[int, str]:
    """Its folder, in order: skills by name first, then prompt files, then sub-agents."""
    first, _, rest = file.target.partition("/")
    name = f"{first}/{rest.partition('/')[0]}" if first == "skills" else first
    return (list(_GROUPS).index(name) + 1 if name in _GROUPS else 0), name


def _folder(name: str, files: Sequence[StagedFile], opened: str, *, live: bool) -> Fold:
    marked = redacted(sum(one.redactions for one in files), ())
    title = Span(shown_path(_GROUPS.get(name) or name.removeprefix("skills/")), "title", "tool")
    rows = [_row(one, one.target.removeprefix(f"{name}/"), opened, live=live) for one in files]
    is_open = live or any(one.target == opened for one in files)
    line = (title, soft(counted(len(files), "file")), *marked)
    return Fold(line, (Bullets(rows),), f"folder:{name}", "kit-folder", is_open=is_open, is_bare=True)


def _row(file: StagedFile, place: str, opened: str, *, live: bool) -> Words:
    name: Inline = path(place)
    if live:
        name = Choice((name,), file.target, is_current=file.target == opened)
    mark = [chip(f"{file.redactions:,} redacted", "warn", ", ".join(file.kinds))] if file.redactions else []
    return (name, figure(data_size(file.size)), *mark)


def _elsewhere(kit: Staged) -> Iterable[Block]:
    """What the box sees in its workspace as it is, and what is therefore no file of the kit."""
    names = [skill.name for skill in kit.skills if not skill.files]
    names += [prompt.name for prompt in kit.prompt_files if prompt.place == "workspace"]
    if names:
        yield label("As it is in the workspace:", *listed([path(name) for name in names]))


def _left_out(kit: Staged) -> Iterable[Block]:
    shown = kit.left_out[:SHOWN_LEFT_OUT]
    rows: list[Words] = [(path(one.target), soft(one_line(one.reason, _REASON))) for one in shown]
    count = left_out_count(kit)
    rows += [(f"… and {count - len(shown):,} more",)] if count > len(shown) else []
    if rows:
        line = (Span("Left out", "title", "tool"), soft(f"{count:,}"))
        yield Fold(line, (Bullets(rows),), "left-out", "kit-folder", is_bare=True)
