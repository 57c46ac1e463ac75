"""What a changed file looks like where that is more than its text: images and tables, as they were and as they are.

Images are shown small, tables by their first rows or by those that differ, anything else that is no text by its kind.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from kagura_kernel.domain.approval_content import marked
from kagura_kernel.domain.images import NoImageError
from kagura_kernel.domain.kit import MARKER
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.visible import visible
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import counted, data_size
from kagura_kernel.render.images import image_of

Previews = Mapping[str, bytes]
"""By path, the beginning of what a file holds now: as much as `wanted` asked for."""

IMAGE_BYTES = 500_000
"""Of one image, all of which goes into the card."""
TABLE_BYTES = 64_000
NOTEBOOK_BYTES = 2_000_000
_KIND_BYTES = 64
ID_SHOWN = 15
"""Characters of a cell's id."""
_ROWS = 8
_COMPARED = 1000
"""Rows up to which tables are compared."""
_PAIRS = 100_000
"""Of equal rows on either side, up to which they are compared."""
_CHANGED_ROWS = 40
_NEAR = 20
"""Rows among which the one is looked for that another has become."""

Row = tuple[str, ...]
_COLUMNS = 8
_CELL = 40
_CELL_LINES = 400
"""Of all cells of a new notebook."""

_IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg"})
_SEPARATED = frozenset({".csv", ".tsv"})
_RECORDS = frozenset({".json", ".jsonl", ".ndjson"})
_BEGINNINGS = (
    (b"%PDF-", "PDF document"),
    (b"PAR1", "Parquet table"),
    (b"ARROW1", "Arrow table"),
    (b"PK\x03\x04", "ZIP archive, or a document made of one"),
    (b"\x1f\x8b", "gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x7fELF", "program for Linux"),
    (b"\x89HDF\r\n\x1a\n", "HDF5 file"),
    (b"\x93NUMPY", "NumPy array"),
    (b"\x80\x04\x95", "Python pickle, which runs code when it is loaded"),
    (b"\x80\x05\x95", "Python pickle, which runs code when it is loaded"),
)

_NOT_READ = (
    " Its rows are not compared: what reads them is a large program, and nothing of a box goes into one outside."
)

# Only formats are read that Python's own modules read, and only their beginning: what a run wrote is hostile until
# somebody has looked at it.


def wanted(change: FileChange) -> int:
    """How many bytes of a file's beginning its preview takes; 0 when it has none."""
    if change.status == "deleted" or change.kind != "file" or not change.size:
        return 0
    if is_new_notebook(change):
        return change.size if change.size <= NOTEBOOK_BYTES else 0
    suffix = _suffix(change.path)
    if suffix in _IMAGES:
        return change.size if change.size <= IMAGE_BYTES else _KIND_BYTES
    if suffix in _SEPARATED or suffix in _RECORDS:
        # What redaction has taken out of the difference is in the file itself.
        return 0 if MARKER.search(change.diff) else min(change.size, TABLE_BYTES)
    return _KIND_BYTES if change.binary else 0


def is_new_notebook(change: FileChange) -> bool:
    """Whether its preview is its cells."""
    return change.status == "added" and change.kind == "file" and _suffix(change.path) == ".ipynb"


def wanted_before(change: FileChange) -> int:
    """How many bytes of what was there before are compared with its preview; 0 for none."""
    if change.status == "added" or change.kind != "file" or not change.old_sha256:
        return 0
    suffix = _suffix(change.path)
    if suffix in _SEPARATED:
        return 0 if MARKER.search(change.diff) else TABLE_BYTES + 1
    return IMAGE_BYTES + 1 if suffix in _IMAGES else 0


def preview_blocks(change: FileChange, data: bytes, before: bytes = b"") -> ui.Blocks:
    """The preview of one file; nothing where its diff says enough."""
    suffix = _suffix(change.path)
    if suffix in _IMAGES and len(data) >= change.size:
        return _images(change, data, before)
    rows = _rows(suffix, data, whole=len(data) >= change.size)
    return (_table(rows),) if rows else ()


def binary_words(change: FileChange, data: bytes) -> str:
    """What is said of a file that is no text, or is too large: `Binary file, 1,234 bytes: PDF document`."""
    kind = next((words for begins, words in _BEGINNINGS if data.startswith(begins)), "")
    if not kind and _begins_as_text(data):
        why = "they are too many, or not all of them are UTF-8"
        return f"{change.size:,} bytes that begin as text. No difference is shown: {why}."
    why = _NOT_READ if kind.endswith("table") else ""
    return f"Binary file, {change.size:,} bytes{f': {kind}' if kind else ''}.{why}"


def _begins_as_text(data: bytes) -> bool:
    try:
        # Where the beginning ends, a character may be cut.
        text = codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return text != "" and all(sign.isprintable() or sign.isspace() for sign in text)


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


def _images(change: FileChange, data: bytes, before: bytes) -> ui.Blocks:
    """The image, beside the one that it takes the place of."""
    if not before or len(before) > IMAGE_BYTES:
        return (ui.Group(_image(change, data, "Preview"), "preview"),) if data else ()
    sides = [ui.Group(_image(change, before, "Before"))]
    sides += [ui.Group(_image(change, data, "Afterwards"))] if data else []
    return (ui.Group(tuple(sides), "preview beside"),)


def _image(change: FileChange, data: bytes, what: str) -> ui.Blocks:
    try:
        image = image_of(data)
    except NoImageError as why:
        return (ui.label(f"{'No preview' if what == 'Preview' else what}: {why}."),)
    about = f"{image.width:,} × {image.height:,}, {data_size(len(data))}"
    shown = ui.Picture(image, f"{what} of {one_line(change.path, 80)}, {about}")
    return (shown, ui.label(about if what == "Preview" else f"{what}: {about}"))


def notebook_cells(change: FileChange, data: bytes) -> ui.Blocks:
    """The cells of a new notebook, as `ChangeDesk.new_cells` gives them; nothing where there are none."""
    cells, left = _cells(change, data)
    shown: list[ui.Block] = []
    for what, about, lines in cells:
        diff = f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)
        shown.append(ui.Group((ui.label(f"{what}{about}"), *([ui.Diff(diff)] if lines else [])), "piece", what))
    return (*shown, ui.label(left)) if left else tuple(shown)


def notebook_text(change: FileChange, data: bytes) -> str:
    """The same as text; empty where there are no cells."""
    cells, left = _cells(change, data)
    parts = ["\n".join((f"{what}{about}", *(f"+{marked(line)}" for line in lines))) for what, about, lines in cells]
    return "\n\n".join([*parts, left] if left else parts)


def _cells(change: FileChange, data: bytes) -> tuple[list[tuple[str, str, list[str]]], str]:
    """Each cell's name, what is said of it, and its lines, as far as there is room; and what is left out."""
    if not data or not is_new_notebook(change):
        return [], ""
    found = json.loads(data)
    shown: list[tuple[str, str, list[str]]] = []
    room = _CELL_LINES
    for number, cell in enumerate(found["cells"], 1):
        # By what ends a line of code, and nothing else that looks like it: a comment shall not look like code.
        source = cell["source"].replace("\r\n", "\n").removesuffix("\n")
        lines = source.split("\n") if source else []
        room -= len(lines)
        if shown and room < 0:
            break
        what = f"{visible(cell['kind'][:ID_SHOWN])} cell {visible(cell['id'][:ID_SHOWN]) or number}"
        shown.append((what, f"{', with outputs' if cell['outputs'] else ''}{'' if lines else ', empty'}", lines))
    left = found["count"] - len(shown)
    return shown, f"… and {counted(left, 'more cell')}." if left else ""


def table_change(change: FileChange, data: bytes, before: bytes) -> ui.Blocks:
    """How the rows of a table differ; nothing where that cannot be told, or the files are not small."""
    suffix = _suffix(change.path)
    if suffix not in _SEPARATED or change.status != "modified" or len(data) < change.size:
        return ()
    if not before or len(before) > TABLE_BYTES:
        return ()
    old, new = (_rows(suffix, side, whole=True, most=_COMPARED + 1) for side in (before, data))
    if not old or not new or old[0] != new[0] or max(len(old), len(new)) > _COMPARED or _is_too_alike(old, new):
        return ()
    rows, said = _row_changes(old[1:], new[1:])
    if not rows:
        return ()
    head = ["", *(one_line(name, _CELL) for name in new[0][:_COLUMNS])]
    more = [f"{len(rows) - _CHANGED_ROWS:,} more rows left out"] if len(rows) > _CHANGED_ROWS else []
    more += ["more columns left out"] if len(new[0]) > _COLUMNS else []
    shown = ui.Table(rows[:_CHANGED_ROWS], head, of_file="Rows that differ")
    return (ui.Group((shown, ui.label(", ".join([said, *more]))), "preview"),)


def _is_too_alike(old: Sequence[Sequence[str]], new: Sequence[Sequence[str]]) -> bool:
    """Whether so many rows are the same that comparing each with all of them would take seconds."""
    many = Counter(map(tuple, old))
    return sum(many[tuple(row)] for row in new) > _PAIRS


def _row_changes(old: Sequence[Sequence[str]], new: Sequence[Sequence[str]]) -> tuple[list[list[ui.Cell]], str]:
    """A line for each row that was added, removed or changed, and how many were."""
    before, after = [tuple(row) for row in old], [tuple(row) for row in new]
    lines: list[list[ui.Cell]] = []
    many = Counter[str]()
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for was, now in _paired(before[a:b], after[c:d]) if tag != "equal" else ():
            many["changed" if was and now else "added" if now else "removed"] += 1
            if was and now:
                lines.append(_changed_row(was, now))
            else:
                lines.append(_whole_row("+", "good", now) if now else _whole_row("−", "bad", was or ()))
    said = ", ".join(f"{many[word]:,} {word}" for word in ("added", "removed", "changed") if many[word])
    return lines, f"Rows: {said}"


def _paired(old: Sequence[Row], new: Sequence[Row]) -> Iterator[tuple[Row | None, Row | None]]:
    """Rows of either side, and those of both that have half of their cells in common."""
    at = 0
    for row in old:
        near = range(at, min(len(new), at + _NEAR))
        found = next((place for place in near if _is_alike(row, new[place])), -1)
        if found < 0:
            yield row, None
            continue
        yield from ((None, one) for one in new[at:found])
        yield row, new[found]
        at = found + 1
    yield from ((None, one) for one in new[at:])


def _is_alike(one: Row, other: Row) -> bool:
    same = sum(a == b for a, b in zip(one, other, strict=False))
    return same > 0 and max(len(one), len(other)) <= 2 * same


def _whole_row(sign: str, tone: str, row: Sequence[str]) -> list[ui.Cell]:
    return [(ui.Span(sign, tone=tone),), *((ui.Span(one_line(one, _CELL), tone=tone),) for one in row[:_COLUMNS])]


def _changed_row(old: Sequence[str], new: Sequence[str]) -> list[ui.Cell]:
    cells: list[ui.Cell] = [(ui.Span("~", tone="busy"),)]
    for at, now in enumerate(new[:_COLUMNS]):
        was = old[at] if at < len(old) else ""
        shown = one_line(now, _CELL)
        cells.append((shown,) if was == now else (ui.Span(f"{one_line(was, _CELL)} → {shown}", tone="busy"),))
    return cells


def _rows(suffix: str, data: bytes, *, whole: bool, most: int = _ROWS) -> list[list[str]]:
    """A head row and the first ones below it; empty when it is no table."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The beginning may end inside a character.
        if whole or error.start < len(data) - len("\U0010ffff".encode()):
            return []
        text = data[: error.start].decode("utf-8-sig", "replace")
    if not whole:
        text = text[: text.rfind("\n") + 1]
    if suffix in _SEPARATED:
        return _separated(text, "\t" if suffix == ".tsv" else ",", most)
    if suffix in _RECORDS:
        return _records(text, lines=suffix != ".json")
    return []


def _separated(text: str, between: str, most: int) -> list[list[str]]:
    first = text.partition("\n")[0]
    if between == "," and first.count(";") > first.count(","):
        between = ";"
    try:
        rows = [row for row in islice(csv.reader(io.StringIO(text), delimiter=between), most + 1) if row]
    except csv.Error:
        return []
    return rows if len(rows) > 1 and len(rows[0]) > 1 else []


def _records(text: str, *, lines: bool) -> list[list[str]]:
    try:
        first = [line for line in text.split("\n")[:_ROWS] if line.strip()]
        found: Any = [json.loads(line) for line in first] if lines else json.loads(text)
    # Too deep, too long a number, or no JSON: the diff shows what it is.
    except (ValueError, RecursionError):
        return []
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found[:_ROWS]):
        return []
    records: Sequence[Mapping[str, Any]] = found[:_ROWS]
    names = list(dict.fromkeys(name for record in records for name in record))[: _COLUMNS + 1]
    return [names, *([_plain(record.get(name, "")) for name in names] for record in records)] if names else []


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "…" if isinstance(value, dict | list) else json.dumps(value)


def _table(rows: Sequence[Sequence[str]]) -> ui.Group:
    first, *body = [[one_line(cell, _CELL) for cell in row[:_COLUMNS]] for row in rows]
    more = ", more columns left out" if max(len(row) for row in rows) > _COLUMNS else ""
    shown = ui.Table([[(cell,) for cell in row] for row in body], first, of_file="First rows")
    return ui.Group((shown, ui.label(f"First rows{more}")), "preview")
