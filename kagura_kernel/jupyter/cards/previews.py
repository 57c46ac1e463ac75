"""What a changed file looks like: images small, tables by their first rows, anything else by its kind.

Only formats are read that Python's own modules read, and only their beginning: what a run wrote is hostile until
somebody has looked at it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from kagura_kernel.domain.events import ChangeRow
from kagura_kernel.render.escape import escaped, one_line
from kagura_kernel.render.figures import data_size
from kagura_kernel.render.foreign import picture_html
from kagura_kernel.render.images import NoImageError, image_of

Previews = Mapping[str, bytes]
"""By path, the beginning of what a file holds now: as much as `wanted` asked for."""

IMAGE_BYTES = 500_000
"""Of one image, all of which goes into the card."""
TABLE_BYTES = 64_000
_KIND_BYTES = 64
_ROWS = 8
_COLUMNS = 8
_CELL = 40

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


def wanted(change: ChangeRow) -> int:
    """How many bytes of a file's beginning its preview takes; 0 when it has none."""
    if change.status == "deleted" or change.kind != "file" or not change.size:
        return 0
    suffix = _suffix(change.path)
    if suffix in _IMAGES:
        return change.size if change.size <= IMAGE_BYTES else _KIND_BYTES
    if suffix in _SEPARATED or suffix in _RECORDS:
        return min(change.size, TABLE_BYTES)
    return _KIND_BYTES if change.binary else 0


def preview_html(change: ChangeRow, data: bytes) -> str:
    """The preview of one file; empty where its diff says enough."""
    suffix = _suffix(change.path)
    if suffix in _IMAGES and len(data) >= change.size:
        return _image(change, data)
    rows = _rows(suffix, data, whole=len(data) >= change.size)
    return _table(rows) if rows else ""


def binary_words(change: ChangeRow, data: bytes) -> str:
    """What is said of a file that is no text: `Binary file, 1,234 bytes: PDF document`."""
    kind = next((words for begins, words in _BEGINNINGS if data.startswith(begins)), "")
    return f"Binary file, {change.size:,} bytes{f': {kind}' if kind else ''}."


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


def _image(change: ChangeRow, data: bytes) -> str:
    try:
        image = image_of(data)
    except NoImageError as why:
        return f'<div class="kg-label">No preview: {escaped(str(why))}.</div>'
    about = f"{image.width:,} × {image.height:,}, {data_size(len(data))}"
    shown = picture_html(image, f"Preview of {one_line(change.path, 80)}, {about}")
    return f'<div class="kg-preview">{shown}<div class="kg-label">{escaped(about)}</div></div>'


def _rows(suffix: str, data: bytes, *, whole: bool) -> list[list[str]]:
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
        return _separated(text, "\t" if suffix == ".tsv" else ",")
    if suffix in _RECORDS:
        return _records(text, lines=suffix != ".json")
    return []


def _separated(text: str, between: str) -> list[list[str]]:
    first = text.partition("\n")[0]
    if between == "," and first.count(";") > first.count(","):
        between = ";"
    try:
        rows = [row for row in islice(csv.reader(io.StringIO(text), delimiter=between), _ROWS + 1) if row]
    except csv.Error:
        return []
    return rows if len(rows) > 1 and len(rows[0]) > 1 else []


def _records(text: str, *, lines: bool) -> list[list[str]]:
    try:
        found: Any = [json.loads(line) for line in text.splitlines()[:_ROWS] if line] if lines else json.loads(text)
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


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    below = "".join(f"<tr>{_cells('td', row)}</tr>" for row in body)
    more = ", more columns left out" if max(len(row) for row in rows) > _COLUMNS else ""
    return (
        '<div class="kg-preview"><div class="kg-rich"><div class="kg-sideways" role="group" tabindex="0" '
        f'aria-label="First rows"><table><thead><tr>{_cells("th", head)}</tr></thead>'
        f"<tbody>{below}</tbody></table></div></div>"
        f'<div class="kg-label">First rows{more}</div></div>'
    )


def _cells(tag: str, row: Iterable[str]) -> str:
    return "".join(f"<{tag}>{escaped(one_line(cell, _CELL))}</{tag}>" for cell in islice(row, _COLUMNS))
