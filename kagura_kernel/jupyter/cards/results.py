"""Results that a box's program wants to be looked at: in a frame that says whose they are, as text, and as a record.

A result is the box's word. It is shown as what its bytes are, whatever it calls itself, and nothing in it can act.
"""

from __future__ import annotations

from typing import Any

from kagura_kernel.domain.events import ResultShown
from kagura_kernel.domain.visible import printed
from kagura_kernel.render.bounded import bounded
from kagura_kernel.render.escape import escaped, escaped_output, one_line, reachable
from kagura_kernel.render.figures import counted, data_size
from kagura_kernel.render.foreign import picture_html, rich_html
from kagura_kernel.render.images import MIMES, RASTER, SVG, Image, NoImageError, decoded, image_of
from kagura_kernel.render.markdown import markdown_html
from kagura_kernel.views.parts import Result, Withheld

FROM_THE_BOX = "Output of the box"
"""Stands over every result, so that nothing in one can be taken for a card's own words."""

_KINDS = {"text/html": "HTML", "text/markdown": "Markdown", "text/plain": "text", SVG: "drawing"}
_MARKDOWN = 60_000
_RECORDED = 2000


def shown_html(item: Result | Withheld) -> str:
    """A result in its frame, or one line for all that a card does not show."""
    if isinstance(item, Withheld):
        return f'<div class="kg-note">{escaped(_withheld_words(item))}</div>'
    return result_html(item.said)


def shown_text(item: Result | Withheld) -> str:
    """The same for readers without pictures."""
    return f"! {_withheld_words(item)}" if isinstance(item, Withheld) else result_text(item.said)


def shown_record(item: Result | Withheld) -> dict[str, Any]:
    """For programs: what it was, without the data, which the card holds."""
    if isinstance(item, Withheld):
        return {"kind": "note", "text": _withheld_words(item)}
    said = item.said
    plain = said.text or (said.data if said.mime in {"text/plain", "text/markdown"} else "")
    facts = {"kind": "result", "mime": said.mime[:100], "bytes": said.bytes or len(said.data)}
    return facts | {"text": plain[:_RECORDED], "note": said.note[:_RECORDED]}


def result_html(said: ResultShown) -> str:
    """A result in its frame."""
    kind, inside, remarks = _shown(said)
    words = " · ".join(filter(None, [kind, *remarks]))
    facts = f' <span class="kg-of">{escaped(words)}</span>' if words else ""
    return (
        f'<div class="kg-result" role="group" aria-label="{escaped(f"{FROM_THE_BOX}: {kind}".rstrip(": "))}">'
        f'<div class="kg-result-top"><span class="kg-from">{FROM_THE_BOX}</span>{facts}</div>'
        f'<div class="kg-result-body">{inside}</div></div>'
    )


def result_text(said: ResultShown) -> str:
    """A result for readers without pictures: `[image 640×480, 23 kB]`, or its plain form."""
    if said.mime in MIMES and said.data:
        try:
            image = image_of(_bytes(said))
        except NoImageError as why:
            return f"[image not shown: {why}]"
        return f"[image {image.width}×{image.height}, {data_size(len(image.data))}]"
    plain = said.data if said.mime in {"text/plain", "text/markdown"} else said.text
    if plain.strip():
        return printed(bounded(plain, lines=200, characters=40_000).whole())
    if not said.data:
        return f"[{_not_shown(said)}]"
    return f"[{_kind(said)}, {_size(said)}]"


def _withheld_words(rest: Withheld) -> str:
    return f"{counted(rest.count, 'more result')} of the box, {data_size(rest.bytes)}, not shown."


def _shown(said: ResultShown) -> tuple[str, str, list[str]]:
    """What it is in a word, its HTML, and what is to be said of it."""
    if not said.data:
        return "" if said.note else _kind(said), _instead(said), [_not_shown(said)]
    remarks = [one_line(said.note)]
    if said.mime in MIMES:
        try:
            image = image_of(_bytes(said))
        except NoImageError as why:
            return _kind(said), _instead(said), [_size(said), f"not shown: {why}"]
        about = one_line(said.text, 200) or f"Image from the box, {image.width} by {image.height} pixels"
        return _kind(said), picture_html(image, about), [_measures(image), *remarks]
    match said.mime:
        case "text/html":
            inside, left_out = rich_html(said.data)
            missing = f"left out: {left_out}" if left_out else ""
            kind = "table" if "<table>" in inside else "formatted text"
            return kind, f'<div class="kg-rich">{inside}</div>', [missing, *remarks]
        case "text/markdown":
            cut = f"its last {len(said.data) - _MARKDOWN:,} characters left out" if len(said.data) > _MARKDOWN else ""
            return "Markdown", f'<div class="kg-prose">{markdown_html(said.data[:_MARKDOWN])}</div>', [cut, *remarks]
        case _:
            plain = said.data if said.mime == "text/plain" else said.text
            return _kind(said), _pre(plain), remarks


def _bytes(said: ResultShown) -> bytes:
    """What an image holds, and that it is one of the kind it says: a drawing never comes as a photograph."""
    data = decoded(said.data) if said.mime in RASTER else said.data.encode("utf-8", "replace")
    if (said.mime == SVG) != (image_of(data).mime == SVG):
        raise NoImageError(f"it is not what it says, {said.mime}")
    return data


def _instead(said: ResultShown) -> str:
    return _pre(said.text) if said.text.strip() else ""


def _pre(text: str) -> str:
    return f'<pre class="kg-pre kg-out"{reachable(text)}>{escaped_output(bounded(text).whole())}</pre>' if text else ""


def _not_shown(said: ResultShown) -> str:
    """Why there is nothing to look at; whoever left it out said so in a sentence."""
    return one_line(said.note, 300) or f"{_kind(said)}, empty"


def _kind(said: ResultShown) -> str:
    return "image" if said.mime in RASTER else _KINDS.get(said.mime) or one_line(said.mime, 60)


def _size(said: ResultShown) -> str:
    return data_size(said.bytes or len(said.data))


def _measures(image: Image) -> str:
    return f"{image.width:,} × {image.height:,}, {data_size(len(image.data))}"
