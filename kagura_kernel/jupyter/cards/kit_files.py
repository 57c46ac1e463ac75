"""A staged kit to look into: its files, and one of them opened, where every redaction is a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from kagura_kernel.domain.kit import StagedFile
from kagura_kernel.domain.visible import printed
from kagura_kernel.render.escape import escaped, one_line, reachable, shown_path
from kagura_kernel.render.figures import counted, data_size
from kagura_kernel.render.html import words_of
from kagura_kernel.views.kit import SHOWN_LEFT_OUT, Staged, counts, redacted, whose

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


def kit_head_html(kit: Staged) -> str:
    """Whose kit it is, and the counts."""
    name = whose(kit)
    said = counts(kit) or "Nothing is staged"
    return (
        f'<div class="kg-head"><div class="kg-top"><strong class="kg-name">{escaped(name[:1].upper() + name[1:])}'
        f'</strong> <span class="kg-soft">{escaped(said)}</span></div></div>'
    )


def files_html(kit: Staged, files: Sequence[StagedFile], opened: str = "", *, live: bool) -> str:
    """All files, by skill; a live list has a button for each.

    Args:
        kit: What was staged.
        files: The files that are there.
        opened: The place of the one that is open.
        live: Whether a click opens one.
    """
    shown = sorted(files[:LISTED], key=lambda one: (_group(one.target), one.target))
    groups = [_folder(name, list(found), opened, live=live) for name, found in groupby(shown, _group_of)]
    left = len(files) - len(shown)
    more = f'<div class="kg-label">… and {counted(left, "more file")}.</div>' if left > 0 else ""
    return f'<div class="kg-kit-files">{"".join(groups)}{more}{_elsewhere(kit)}{_left_out(kit)}</div>'


def file_html(file: OpenedFile | None) -> str:
    """The file that is open; a hint where none is."""
    if file is None:
        return '<div class="kg-soft kg-kit-hint">Choose a file. What was redacted stands in it as a block.</div>'
    head = (
        f'<div class="kg-kit-file-top"><code class="kg-path">{escaped(shown_path(file.target))}</code> '
        f'<span class="kg-size">{data_size(file.size)}</span> {_redacted(file)}</div>'
    )
    if not file.is_text:
        return f'{head}<div class="kg-soft">It is no text, and no picture of it is made here.</div>'
    whole = len(file.text) <= SHOWN and not file.cut
    more = "" if whole else '<div class="kg-label">Only its beginning is shown.</div>'
    return f'{head}<pre class="kg-pre kg-staged"{reachable(file.text)}>{"".join(_pieces(file))}</pre>{more}'


def file_text(file: OpenedFile) -> str:
    """The same in plain text: markers stand as they are."""
    marked = counted(len(file.blocks), "redaction")
    head = f"{shown_path(file.target)} ({data_size(file.size)}, {marked})"
    if not file.is_text:
        return f"{head}\nIt is no text."
    more = "" if len(file.text) <= SHOWN and not file.cut else "\n… Only its beginning is shown."
    return f"{head}\n{printed(file.text[:SHOWN])}{more}"


def _pieces(file: OpenedFile) -> Iterator[str]:
    """The text, each redaction as a block that says of what kind it is."""
    end = min(len(file.text), SHOWN)
    at = 0
    for begin, stop, kind in file.blocks:
        if stop > end or begin < at:
            break
        yield escaped(file.text[at:begin])
        about = f"Redacted: {kind}"
        yield f'<mark class="kg-redacted" title="{escaped(about)}">{escaped(file.text[begin:stop])}</mark>'
        at = stop
    yield escaped(file.text[at:end])


def _redacted(file: OpenedFile) -> str:
    if not file.blocks:
        return ""
    kinds = tuple(sorted({kind for _, _, kind in file.blocks}))
    lines = list(dict.fromkeys(_lines(file)))
    chips = words_of(redacted(len(file.blocks), kinds))
    if not lines:
        return chips
    named = ", ".join(f"{line:,}" for line in lines[:_LINES_NAMED])
    more = " and more" if len(lines) > _LINES_NAMED else ""
    where = f'<span class="kg-soft">in {"line" if len(lines) == 1 else "lines"} {named}{more}</span>'
    return f"{chips} {where}"


def _lines(file: OpenedFile) -> Iterator[int]:
    """Numbers of the lines of its redactions, as far as it is shown."""
    line, at = 1, 0
    for begin, stop, _ in file.blocks:
        if stop > min(len(file.text), SHOWN):
            break
        line, at = line + file.text.count("\n", at, begin), begin
        yield line


def _group(target: str) -> tuple[int, str]:
    """Skills by name first, then prompt files, then sub-agents."""
    name = _folder_of(target)
    return (list(_GROUPS).index(name) + 1 if name in _GROUPS else 0), name


def _group_of(file: StagedFile) -> str:
    return _folder_of(file.target)


def _folder_of(target: str) -> str:
    first, _, rest = target.partition("/")
    return f"{first}/{rest.partition('/')[0]}" if first == "skills" else first


def _folder(name: str, files: Sequence[StagedFile], opened: str, *, live: bool) -> str:
    marked = sum(one.redactions for one in files)
    title = _GROUPS.get(name) or name.removeprefix("skills/")
    chip = f' <span class="kg-chip kg-warn">{counted(marked, "redaction")}</span>' if marked else ""
    rows = "".join(_row(one, one.target.removeprefix(f"{name}/"), opened, live=live) for one in files)
    is_open = " open" if live or any(one.target == opened for one in files) else ""
    return (
        f'<details class="kg-kit-folder" data-keep="{escaped(f"folder:{name}")}"{is_open}><summary>'
        f'<strong class="kg-tool">{escaped(shown_path(title))}</strong> '
        f'<span class="kg-soft">{counted(len(files), "file")}</span>{chip}</summary><ul>{rows}</ul></details>'
    )


def _row(file: StagedFile, place: str, opened: str, *, live: bool) -> str:
    name = f'<code class="kg-path">{escaped(shown_path(place))}</code>'
    here = ' aria-current="true"' if file.target == opened else ""
    if live:
        name = (
            f'<button type="button" class="kg-kit-open" data-act="open" data-id="{escaped(file.target)}"{here}>'
            f"{name}</button>"
        )
    mark = ""
    if file.redactions:
        about = escaped(", ".join(file.kinds))
        mark = f'<span class="kg-chip kg-warn" title="{about}">{file.redactions:,} redacted</span>'
    return f'<li>{name} <span class="kg-size">{data_size(file.size)}</span> {mark}</li>'


def _elsewhere(kit: Staged) -> str:
    """What the box sees in its workspace as it is, and what is therefore no file of the kit."""
    names = [skill.name for skill in kit.skills if not skill.files]
    names += [prompt.name for prompt in kit.prompt_files if prompt.place == "workspace"]
    listed = ", ".join(f'<code class="kg-path">{escaped(shown_path(name))}</code>' for name in names)
    return f'<div class="kg-label">As it is in the workspace: {listed}</div>' if names else ""


def _left_out(kit: Staged) -> str:
    rows = "".join(
        f'<li><code class="kg-path">{escaped(shown_path(one.target))}</code> '
        f'<span class="kg-soft">{escaped(one_line(one.reason, _REASON))}</span></li>'
        for one in kit.left_out[:SHOWN_LEFT_OUT]
    )
    left = max(0, len(kit.left_out) - SHOWN_LEFT_OUT) + kit.omitted
    more = f"<li>… and {left:,} more</li>" if left else ""
    if not rows and not more:
        return ""
    return (
        f'<details class="kg-kit-folder" data-keep="left-out"><summary><strong class="kg-tool">Left out</strong> '
        f'<span class="kg-soft">{len(kit.left_out) + kit.omitted:,}</span></summary><ul>{rows}{more}</ul></details>'
    )
