"""Draws docs/images/architecture.svg: the package's rooms in the layers that the contracts in pyproject.toml hold."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "architecture.svg"

# What each room is for, in two lines.
_ROOMS = {
    "cli": ("the terminal’s command", ""),
    "testing": ("fakes and conformance suites", "for us and for extensions"),
    "jupyter": ("magics, cards, tables; server/ for the sidebar", "reads rows and leaves words"),
    "assembly": ("the one place that names concrete parts,", "and joins them to a cockpit"),
    "cockpit": ("commands, sessions, waiting approvals, chats;", "turns an intent into an order"),
    "views": ("a run’s events folded into one value,", "and the sections of its card"),
    "render": ("kinds of block, drawn", "as HTML and text"),
    "runs": ("one run, from its order to its last event:", "prepare, launch, converse, settle"),
    "patterns": ("estimates, lessons,", "earned trust; pure"),
    "brain": ("what thinks: Claude, a service", "with OpenAI’s API, a cassette"),
    "tools": ("what a brain", "can ask for"),
    "plugins": ("functions of the host,", "scanned and jailed"),
    "kit": ("what an agent brings;", "redaction"),
    "memory": ("what is remembered,", "and found again"),
    "runtime": ("where a command", "runs"),
    "membrane": ("what crosses the wall and for how long:", "grant, egress, leases, changes"),
    "sandbox": ("boxes, and the pipe", "to each"),
    "journal": ("a chained row for each fact;", "the mailbox"),
    "telemetry": ("traces, metrics,", "the log"),
    "domain": ("values, events, errors, settings;", "no I/O"),
}

_WIDTH, _SIDE, _ROW, _GAP, _TOP = 960, 60, 62, 10, 44
_STYLE = (
    "text{font:12px system-ui,sans-serif}.name{font-weight:600;font-size:13px;fill:#24292f}.soft{fill:#57606a}"
    "rect{fill:#f6f8fa;stroke:#8c959f}.line{stroke:#57606a;fill:none}marker path{fill:#57606a}"
    "@media(prefers-color-scheme:dark){.name{fill:#e6edf3}.soft{fill:#9da7b3}rect{fill:#161b22;stroke:#6e7681}"
    ".line{stroke:#9da7b3}marker path{fill:#9da7b3}}"
)
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 8 4 0 8z"/></marker></defs>'
)


def layers() -> list[list[str]]:
    """The rooms of each layer, the uppermost first, as the contract has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    held = next(one for one in contracts if one["type"] == "layers" and one["containers"] == ["kagura_kernel"])
    return [[room.strip() for room in layer.split("|")] for layer in held["layers"]]


def drawing() -> str:
    """The picture, SVG.

    Raises:
        KeyError: a room is in the contract and not here.
    """
    rows = layers()
    height = 2 * _TOP + len(rows) * (_ROW + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="title">',
        '<title id="title">The rooms of kagura-kernel; each imports from rows below its own alone</title>',
        f"<style>{_STYLE}</style>",
        _TIP,
        _words(_WIDTH / 2, 26, "notebook · terminal · chat · sidebar"),
        *_arrow(_SIDE / 2, _TOP, height - _TOP - _GAP, "calls"),
        *_arrow(_WIDTH - _SIDE / 2, height - _TOP - _GAP, _TOP, "events, stored, then shown"),
    ]
    for number, row in enumerate(rows):
        parts += _row(_TOP + number * (_ROW + _GAP), row)
    parts.append(_words(_WIDTH / 2, height - 16, "a box: no network, no secret, and the pipe as its one tie"))
    return "\n".join([*parts, "</svg>", ""])


def _row(top: float, rooms: Sequence[str]) -> Iterator[str]:
    wide = (_WIDTH - 2 * _SIDE - (len(rooms) - 1) * _GAP) / len(rooms)
    for number, room in enumerate(rooms):
        left = _SIDE + number * (wide + _GAP)
        yield f'<rect x="{left:g}" y="{top:g}" width="{wide:g}" height="{_ROW}" rx="6"/>'
        yield _words(left + wide / 2, top + 20, room)
        for line, text in enumerate(filter(None, _ROOMS[room])):
            yield _words(left + wide / 2, top + 37 + 15 * line, text, "soft")


def _arrow(x: float, start: float, end: float, text: str) -> Iterator[str]:
    yield f'<path class="line" d="M{x:g} {start:g}V{end:g}" marker-end="url(#tip)"/>'
    middle = (start + end) / 2
    turned = f'transform="rotate(-90 {x - 8:g} {middle:g})"'
    yield f'<text class="soft" text-anchor="middle" {turned} x="{x - 8:g}" y="{middle:g}">{escape(text)}</text>'


def _words(x: float, y: float, text: str, look: str = "name") -> str:
    return f'<text class="{look}" text-anchor="middle" x="{x:g}" y="{y:g}">{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(drawing(), "utf-8")
    print(f"{PICTURE} was written.")
