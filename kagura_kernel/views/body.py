"""The body of a run's card, part by part: passages, tool calls, notes, output, results of the box, and how it ended.

Each part stands in text too: for terminals, for diffs, for readers without HTML, and for nbval. Nothing in its text
differs between two runs of the same thing: no ids, times or durations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kagura_kernel.domain.clock import covered
from kagura_kernel.domain.events import ResultShown
from kagura_kernel.domain.images import RASTER, Image, NoImageError
from kagura_kernel.domain.tools import NO_OUTPUT
from kagura_kernel.domain.visible import printed, settled, visible
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import counted, data_size, seconds
from kagura_kernel.render.foreign import rich_html
from kagura_kernel.render.images import MIMES, SVG, decoded, image_of
from kagura_kernel.render.text import Bounded, bounded, lines_of
from kagura_kernel.views import status
from kagura_kernel.views.approvals import ask_block, ask_text
from kagura_kernel.views.messages import said_block, said_blocks
from kagura_kernel.views.parts import (
    Ask,
    Call,
    Check,
    Item,
    Note,
    Part,
    Passage,
    Printout,
    Result,
    Said,
    Withheld,
    image_words,
)
from kagura_kernel.views.run import RunView

FROM_THE_BOX = "Output of the box"
"""Stands over every result, so that nothing in one can be taken for a card's own words."""

_KINDS = {"text/html": "HTML", "text/markdown": "Markdown", "text/plain": "text", SVG: "drawing"}
_MARKDOWN = 60_000
_GROWING = 24_000
_FOLLOWED = 60
"""Lines of what a program prints that are shown while it runs."""
_GLIMPSED = 3
"""Lines of it that stand below the line of a call that nobody has opened; `_WIDE` characters of each."""
_WIDE = 200

_TAG = re.compile(r"<[^>]*>")

# The argument that says most about a call, by preference.
_TELLING = ("command", "code", "path", "file_path", "pattern", "question", "url", "source", "name", "cell")


def item_blocks(item: Item, view: RunView, *, live: bool) -> ui.Blocks:
    """One part of the body."""
    match item:
        case Passage():
            return (ui.Rich(_latest(item), "growing" if item.growing else ""),)
        case Call():
            # One that did nothing but ask the person is shown by the question's own card.
            asked = any(ask.request.subject == "question" for ask in view.asks_of(item))
            return () if asked else (call_block(item, view), *_latest_lines(item, view))
        case Ask():
            return (ask_block(item, view.calls, view.now, can_answer=live and view.finished is None),)
        case Said():
            return said_blocks(item, live=live and view.finished is None)
        case Printout():
            return _output(item.text, item.spill, following=view.finished is None)
        case _:
            return (_told(item, steady=view.repeatable and not live),)


def item_text(item: Item) -> str:
    """The same in text."""
    match item:
        case Passage():
            return visible(item.text.rstrip())
        case Call():
            return _call_text(item)
        case Ask():
            return ask_text(item)
        case Printout():
            return printed(bounded(settled(item.text), lines=200, characters=40_000).whole(item.spill))
        case _:
            return "\n".join(lines_of([_told(item, steady=True)]))


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


def call_block(call: Call, view: RunView) -> ui.Fold:
    """A tool call, folded: its line always, its arguments and output on demand.

    What left the box stands open: a person who allowed it sees what came of it.
    """
    asked, finished = call.asked, call.finished
    about = ui.code(telling_argument(asked.arguments, _WIDE), "arg")
    line = (ui.Span(asked.tool, look="tool"), about, ui.Span(_chips(call, view), look="chips"))
    inside: list[ui.Block] = []
    for name, value in asked.arguments.items():
        inside += [ui.label(name), ui.Pre(_pieces(bounded(_argument(value), lines=200)))]
    text = finished.text if finished is not None else call.printed
    inside += _output(text, finished.spill if finished else None, following=finished is None)
    inside += [ui.label(f"Seen by the model: {image_words(one)}") for one in call.images]
    inside += [ui.label(status.OUT_OF_MEMORY)] if finished and status.was_killed(finished.exit_code) else []
    is_open = finished is not None and finished.route == "host"
    return ui.Fold(line, tuple(inside), call.key, "call", is_open=is_open)


def _latest_lines(call: Call, view: RunView) -> ui.Blocks:
    """The last lines that a call has printed while it goes on, for whoever has not opened it."""
    if call.finished is not None or view.finished is not None:
        return ()
    lines = [line for line in settled(call.printed).split("\n") if line.strip()]
    tail = "\n".join(line if len(line) <= _WIDE else one_line(line, _WIDE) for line in lines[-_GLIMPSED:])
    return (ui.Pre(tail, "glimpse", is_output=True),) if tail else ()


def end_blocks(view: RunView) -> ui.Blocks:
    """Why a run did not end well, and how to go on with it; nothing when it did."""
    finished = view.finished
    if finished is None or status.good(view):
        return ()
    why, how, named = status.end_words(view), status.resume_blocks(view), status.end_code(view)
    if not (why or how):
        return ()
    words: ui.Words = (*([ui.Span(named, look="code")] if named else []), ui.Span(why, "prose"))
    tone = "warn" if finished.status in {"stopped", "killed", "denied"} else "bad"
    return (ui.Group((ui.Line(words), *how), f"end {tone}", plain=f"{named}: {why}".lstrip(": ") if why else ""),)


def telling_argument(arguments: Mapping[str, Any], limit: int) -> str:
    """What a call is about, from its arguments, on one line of at most `limit` characters; `↵` is the end of a line."""
    telling = (value for name in _TELLING if isinstance(value := arguments.get(name), str) and value.strip())
    text = next(telling, "") or (_argument(dict(arguments)) if arguments else "")
    # Two commands, one on each line, would read as one with more arguments.
    return one_line(" ↵ ".join(filter(str.strip, text.splitlines())), limit)


def _argument(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _latest(passage: Passage) -> str:
    """What is shown of a passage: all of it, or while it grows very long its latest part, which is drawn often."""
    if not passage.growing or len(passage.text) <= _GROWING:
        return passage.text
    end = passage.text[-_GROWING // 2 :]
    return f"… what came before is shown when it is whole …\n\n{end[end.find(chr(10)) + 1 :]}"


def _told(item: Note | Said | Result | Withheld | Check | Part, *, steady: bool) -> ui.Block:
    """What says in text what it says on the card."""
    match item:
        case Note():
            return ui.Line(
                (ui.Span(item.text, "prose"),), f"note{' grave' if item.grave else ''}", plain=f"! {item.text}"
            )
        case Said():
            return said_block(item)
        case Result():
            return result_block(item.said)
        case Withheld():
            return ui.Line((withheld_words(item),), "note", plain=f"! {withheld_words(item)}")
        case _:
            return status.told_block(item, steady=steady)


def _chips(call: Call, view: RunView) -> ui.Words:
    finished = call.finished
    if finished is None:
        return (_meanwhile(call, view),)
    shown: list[ui.Span] = []
    if call.place:
        shown.append(ui.chip(call.place, "" if call.place == "sandbox" else "host"))
    if finished.exit_code is not None:
        shown.append(ui.chip(f"exit {finished.exit_code}", "good" if finished.exit_code == 0 else "bad"))
    elif word := status.failure_word(call):
        shown.append(ui.chip(word, "bad"))
    if call.images:
        shown.append(ui.chip(counted(len(call.images), "image")))
    if not view.repeatable:
        shown.append(ui.Span(seconds(max(0.0, finished.duration - _waited(call, view))), look="took"))
    return tuple(shown)


def _waited(call: Call, view: RunView) -> float:
    """Seconds in which a call waited for a person's answers."""
    answers = filter(None, (ask.decision for ask in view.asks_of(call)))
    return covered((one.at - timedelta(seconds=one.waited), one.at) for one in answers)


def _meanwhile(call: Call, view: RunView) -> ui.Span:
    """What a call without an answer is doing."""
    if view.finished is not None:
        return ui.chip("unfinished", "warn")
    asks = any(ask.request.call_id == call.asked.call_id for ask in view.pending)
    return ui.chip("waiting for you", "warn") if asks else ui.chip("running", "busy")


def _call_text(call: Call) -> str:
    finished = call.finished
    ending = "unfinished"
    if finished is not None:
        exit_code = "" if finished.exit_code is None else f"exit {finished.exit_code}"
        how = exit_code or status.failure_word(call)
        if why := status.failure_reason(call):
            how = f"{how}: {why}"
        ending = ", ".join(filter(None, [call.place, how]))
    # A brain may call a tool that there is not, by whatever name.
    tool = one_line(call.asked.tool, 60)
    line = f"> {tool}: {telling_argument(call.asked.arguments, 90)}  ({ending or 'ok'})"
    if finished is None or finished.route != "host" or finished.text.strip() in ("", NO_OUTPUT):
        return line
    # A person allowed it, and wants to see what came of it.
    answer = printed(bounded(settled(finished.text), lines=6, characters=600).whole(finished.spill))
    return "\n".join([line, *(f"  {part}".rstrip() for part in answer.rstrip("\n").split("\n"))])


def _output(text: str, spill: str | None, *, following: bool) -> ui.Blocks:
    if not text:
        return ()
    text = settled(text)
    if following:
        tail = "\n".join(text.rstrip("\n").split("\n")[-_FOLLOWED:])
        return (ui.Pre(tail, "out", is_output=True, is_followed=True),)
    return (ui.Pre(_pieces(bounded(text), spill), "out", is_output=True),)


def _pieces(part: Bounded, where: str | None = None) -> ui.Pieces:
    """Beginning, remark and end, each on lines of its own."""
    remark = part.remark(where)
    shown: list[str | ui.Span] = [part.head, ui.Span(remark, look="more") if remark else "", part.tail]
    return tuple(piece for one in shown if one for piece in (one, "\n"))[:-1]


# ---------------------------------------------------------------- results of a box


def withheld_words(rest: Withheld) -> str:
    """How many results a card does not show."""
    return f"{counted(rest.count, 'more result')} of the box, {data_size(rest.bytes)}, not shown."


def result_block(said: ResultShown) -> ui.Group:
    """A result in a frame that says whose it is.

    It is the box's word. It is shown as what its bytes are, whatever it calls itself, and nothing in it can act.
    """
    kind, inside, remarks = _shown(said)
    words = " · ".join(filter(None, [kind, *remarks]))
    top = (ui.Span(FROM_THE_BOX, look="from"), *([ui.Span(words, look="of")] if words else []))
    name = f"{FROM_THE_BOX}: {kind}".rstrip(": ")
    return ui.Group(
        (ui.Line(top, "result-top"), ui.Group(inside, "result-body")), "result", name, plain=result_text(said)
    )


def result_text(said: ResultShown) -> str:
    """A result for readers without pictures: `[image 640×480, 23 kB]`, or its plain form."""
    if said.mime in MIMES and said.data:
        try:
            image = _image(said)
        except NoImageError as why:
            return f"[image not shown: {why}]"
        return f"[image {image.width}×{image.height}, {data_size(len(image.data))}]"
    plain = said.data if said.mime in {"text/plain", "text/markdown"} else said.text
    if plain.strip():
        return printed(bounded(plain, lines=200, characters=40_000).whole())
    if not said.data:
        return f"[{_not_shown(said)}]"
    return f"[{_kind(said)}, {_size(said)}]"


def _shown(said: ResultShown) -> tuple[str, ui.Blocks, list[str]]:
    """What it is in a word, how it looks, and what is to be said of it."""
    if not said.data:
        return "" if said.note else _kind(said), _pre(said.text), [_not_shown(said)]
    remarks = [one_line(said.note)]
    if said.mime in MIMES:
        try:
            image = _image(said)
        except NoImageError as why:
            return _kind(said), _pre(said.text), [_size(said), f"not shown: {why}"]
        about = one_line(said.text, 200) or f"Image from the box, {image.width} by {image.height} pixels"
        measures = f"{image.width:,} × {image.height:,}, {data_size(len(image.data))}"
        return _kind(said), (ui.Picture(image, about),), [measures, *remarks]
    match said.mime:
        case "text/html":
            kind, inside, left_out = _html(said)
            return kind, inside, [left_out, *remarks]
        case "text/markdown":
            cut = f"its last {len(said.data) - _MARKDOWN:,} characters left out" if len(said.data) > _MARKDOWN else ""
            return "Markdown", (ui.Rich(said.data[:_MARKDOWN]),), [cut, *remarks]
        case _:
            return _kind(said), _pre(said.data if said.mime == "text/plain" else said.text), remarks


def _html(said: ResultShown) -> tuple[str, ui.Blocks, str]:
    """The like, for HTML; in the place of a chart that only scripts would draw, its plain form."""
    inside, left_out = rich_html(said.data)
    if "<script" in said.data.lower() and "<img" not in inside and not _TAG.sub("", inside).strip():
        return "formatted text", _pre(said.text), "drawn by scripts, which do not run here: show it as PNG or SVG"
    kind = "table" if "<table>" in inside else "formatted text"
    return kind, (ui.Rich(said.data, is_html=True),), f"left out: {left_out}" if left_out else ""


def _image(said: ResultShown) -> Image:
    """The image that it is, of the kind that it says: a drawing never comes as a photograph."""
    image = image_of(decoded(said.data) if said.mime in RASTER else said.data.encode("utf-8", "replace"))
    if (said.mime == SVG) != (image.mime == SVG):
        raise NoImageError(f"it is not what it says, {said.mime}")
    return image


def _pre(text: str) -> ui.Blocks:
    return (ui.Pre(bounded(text).whole(), "out", is_output=True),) if text.strip() else ()


def _not_shown(said: ResultShown) -> str:
    """Why there is nothing to look at; whoever left it out said so in a sentence."""
    return one_line(said.note, 300) or f"{_kind(said)}, empty"


def _kind(said: ResultShown) -> str:
    return "image" if said.mime in RASTER else _KINDS.get(said.mime) or one_line(said.mime, 60)


def _size(said: ResultShown) -> str:
    return data_size(said.bytes or len(said.data))
