"""Blocks as HTML. Every text goes through `element`, which makes odd characters visible and escapes; nothing else may.

`Markup` is what template engines take for safe. It is made here, and by the cleaners of Markdown and of foreign HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, singledispatch
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kagura_kernel.domain.approval_content import marked
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.diff import diff_rows
from kagura_kernel.render.escape import escaped, escaped_output, escaped_prose, reachable
from kagura_kernel.render.figures import clock_face
from kagura_kernel.render.foreign import MARKDOWN_CHARACTERS, markdown_html, picture_html, rich_html
from kagura_kernel.render.text import lines_of

_BEFORE_BLANK = re.compile(r"\n(?=[ \t]*\n)")

_TAGS = {
    "item": "span",
    "code": "code",
    "strong": "b",
    "title": "strong",
    "pill": "strong",
    "name": "strong",
    "quote": "q",
    "mark": "mark",
}
_CLASSED = frozenset({"soft", "chip", "pill", "name"})


def html_of(blocks: Iterable[ui.Block]) -> str:
    """These blocks, one after the other."""
    return str(_blocks(blocks))


def _blocks(blocks: Iterable[ui.Block]) -> Markup:
    return Markup("").join(map(_block, blocks))


def element(tag: str, inside: str | Markup = "", /, **attributes: str | bool | None) -> Markup:
    """An element; attributes that are None or False are left out, and those that are True have no value.

    An underscore in the name of an attribute stands for a hyphen, one at its end for nothing.
    """
    said = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escaped(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{tag}{said}>{safe(inside)}</{tag}>")  # noqa: S704  # all of it was escaped


def _void(tag: str, **attributes: str | bool | None) -> Markup:
    return Markup(str(element(tag, **attributes)).removesuffix(f"</{tag}>"))  # noqa: S704  # made by `element`


def safe(text: str | Markup) -> Markup:
    """A text escaped, with odd characters visible; markup as it is."""
    return text if isinstance(text, Markup) else Markup(escaped(text))  # noqa: S704  # it was escaped


def prose(text: str) -> Markup:
    """A text of ours escaped, with what stands between backticks set as code."""
    return Markup(escaped_prose(text))  # noqa: S704  # it was escaped


def classes(*looks: str, tone: str = "") -> str | None:
    """The value of a `class`; None for none."""
    names = [f"kg-{name}" for look in (*looks, tone) for name in look.split()]
    return " ".join(names) or None


def words_of(words: ui.Words) -> Markup:
    """Words with a blank between them."""
    return Markup("").join(ui.joined(words, _inline))


def _inline(one: ui.Inline) -> Markup:  # noqa: PLR0911 - one for each kind
    match one:
        case str():
            return safe(one)
        case ui.Button():
            return _button(one)
        case ui.Choice(words=words, about=about):
            here = "true" if one.is_current else None
            open_it = {"data_act": "open", "data_id": about, "aria_current": here}
            return element("button", words_of(words), type="button", class_="kg-kit-open", **open_it)
        case ui.Clock():
            return _clock(one)
        case ui.Entry():
            return _entry(one)
        case ui.Meter():
            bar = element("i", style=f"width: {100 * one.share:.1f}%")
            return element("span", bar, class_="kg-bar", role="img", aria_label=one.about)
    look = classes(one.kind if one.kind in _CLASSED else "", one.look, tone=one.tone)
    if not isinstance(one.words, str):
        inside = words_of(one.words)
    else:
        inside = prose(one.words) if one.kind == "prose" else safe(one.words)
    if not (inside or one.look):
        return Markup("")
    if not (look or one.hint or one.kind in _TAGS):
        return inside
    role = "status" if one.is_status else None
    facts = {"title": one.hint or None, "role": role, "data_final": one.is_last_word}
    return element(_TAGS.get(one.kind, "span"), inside, class_=look, **facts)


def _button(button: ui.Button) -> Markup:
    data = {f"data_{name}": value or True for name, value in button.data.items()}
    return element(
        "button",
        button.word,
        type="button",
        class_=classes("btn", button.look),
        data_act=button.act,
        **data,
        aria_label=button.label or None,
        title=button.hint or None,
    )


def _clock(clock: ui.Clock) -> Markup:
    if clock.counts == "elapsed":
        ticking = f"{clock.seconds:.1f}" if clock.ticks else None
        return element("span", clock.face, class_="kg-tick", data_elapsed=ticking, title="Elapsed")
    face = element("span", clock.face, class_="kg-face", data_expires=f"{clock.seconds:.1f}")
    left = element("span", "left", class_="kg-soft")
    return element("span", Markup(" ").join([face, left]), class_="kg-timer", role="timer", aria_label="Time left")


def _entry(entry: ui.Entry) -> Markup:
    typed = {"type": "text", "placeholder": entry.placeholder}
    if not entry.is_budget:
        return _void(
            "input", class_="kg-input", aria_label=entry.label, maxlength=str(entry.longest or "") or None, **typed
        )
    field = _void(
        "input", class_="kg-input kg-short", data_budget=True, inputmode="decimal", value=entry.value, **typed
    )
    return element("label", safe(f"{entry.label} ") + field, class_="kg-soft")


@singledispatch
def _block(block: ui.Block) -> Markup:
    raise TypeError(f"No block: {block!r}")


@_block.register
def _line(line: ui.Line) -> Markup:
    return element("div", words_of(line.words), class_=classes(line.look, tone=line.tone))


@_block.register
def _pairs(pairs: ui.Pairs) -> Markup:
    tones = pairs.tones or [""] * len(pairs.rows)
    rows = [
        element("dt", name) + element("dd", words_of(words), class_=classes(tone=tone))
        for (name, words), tone in zip(pairs.rows, tones, strict=True)
    ]
    return element("dl", Markup("").join(rows), class_="kg-pairs")


@_block.register
def _bullets(bullets: ui.Bullets) -> Markup:
    return element("ul", Markup("").join(element("li", words_of(row)) for row in bullets.rows))


@_block.register
def _pre(pre: ui.Pre) -> Markup:
    inside = Markup("").join(_inline(one) if isinstance(one, ui.Span) else _raw(one, pre) for one in pre.pieces)
    inside += element("i", data_end=True) if pre.has_end else ""
    scrolls = pre.is_followed or reachable("".join(one for one in pre.pieces if isinstance(one, str)))
    facts = {"data_follow": pre.is_followed, "tabindex": "0" if scrolls else None}
    return element("pre", inside, class_=classes("pre", pre.look), **facts)


def _raw(text: str, pre: ui.Pre) -> Markup:
    return Markup(escaped_output(text)) if pre.is_output else safe(text)  # noqa: S704  # escaped


@_block.register
def _rich(rich: ui.Rich) -> Markup:
    if rich.is_html:
        return element("div", Markup(rich_html(rich.text)[0]), class_=classes("rich", rich.look))  # noqa: S704  # cleaned
    # JupyterLab draws it anew from its source, with formulas and coloured code; everywhere else this form stays.
    source = rich.text if len(rich.text) <= MARKDOWN_CHARACTERS else None
    inside = Markup(markdown_html(rich.text))  # noqa: S704  # cleaned
    return element("div", inside, class_=classes("prose", rich.look), data_markdown=source)


@_block.register
def _picture(picture: ui.Picture) -> Markup:
    return Markup(picture_html(picture.image, picture.about))  # noqa: S704  # escaped


@_block.register
def _group(group: ui.Group) -> Markup:
    data = {f"data_{name}": value or True for name, value in group.data.items()}
    named = {"role": "group", "aria_label": group.name} if group.name else {}
    return element("div", _blocks(group.inside), class_=classes(group.look), **data, **named)


@_block.register
def _fold(fold: ui.Fold) -> Markup:
    inside = _blocks(fold.inside)
    inside = inside if fold.is_bare else element("div", inside, class_="kg-inside")
    whole = element("summary", words_of(fold.line)) + inside
    return element("details", whole, class_=classes(fold.look), data_keep=fold.key, open=fold.is_open)


@_block.register
def _told(told: ui.Told) -> Markup:
    return element("div", prose(told.words), class_="kg-told", role="status")


@_block.register
def _question(question: ui.Question) -> Markup:
    state = "open" if question.is_open else "closed"
    look = classes("ask", state, "brief" if question.is_brief else "")
    # The first stop of the keyboard is the question itself, never one of its buttons.
    reach: dict[str, str | bool] = {"tabindex": "0", "data_block": True, "data_approval": question.about}
    inside = _blocks(question.inside)
    more = reach if question.is_open else {}
    return element("blockquote", inside, class_=look, role="group", aria_label=question.name, **more)


@_block.register
def _field(field: ui.Field) -> Markup:
    about, wrong = f"{field.key}-help", f"{field.key}-wrong"
    facts = {"id": field.key, "data_field": field.name}
    facts |= {"aria_describedby": f"{about} {wrong}" if field.problem else about}
    facts |= {"aria_required": "true"} if field.is_needed else {}
    facts |= {"aria_invalid": "true"} if field.problem else {}
    if field.options:
        options = [element("option", word, value=key, selected=key == field.value) for key, word in field.options]
        typed = element("select", Markup("").join(options), class_="kg-input", **facts)
    else:
        # A number too: a number field of a browser hides what it does not understand, and a person's words with it.
        kind = {"inputmode": "decimal"} if field.is_number else {"spellcheck": "false"}
        kind |= {"type": "password", "autocomplete": "new-password"} if field.is_secret else {"type": "text"}
        kind.setdefault("autocomplete", "off")
        typed = _void("input", **kind, value=field.value, class_="kg-input", **facts)
    inside = element("label", field.name, for_=field.key) + element(
        "div", words_of(field.about), class_="kg-help", id=about
    )
    inside += typed + (element("div", field.problem, class_="kg-wrong", id=wrong) if field.problem else "")
    return element("div", inside, class_="kg-field")


@_block.register
def _countdown(count: ui.Countdown) -> Markup:
    face = element("span", clock_face(count.left), class_="kg-face")
    share = 100 * count.left / count.total if count.total else 0
    bar = (
        element("span", element("i", style=f"width:{share:.0f}%"), class_="kg-bar") + " " if count.meaning else safe("")
    )
    left = element("span", face + safe(f" left, {count.meaning}" if count.meaning else " left"))
    facts = {"data_left": f"{count.left:.1f}", "data_total": f"{count.total:.1f}"}
    return element("div", bar + left, class_="kg-count", **facts)


@_block.register
def _table(table: ui.Table) -> Markup:
    head = Markup("")
    if table.head:
        names = Markup(" ").join(element("th", name) for name in table.head)
        head = element("thead", element("tr", names))
    first = "th" if table.has_names else "td"
    rows = Markup("").join(
        element("tr", Markup(" ").join(_cell(cell, "td" if number else first) for number, cell in enumerate(row)))
        for row in table.rows
    )
    whole = head + element("tbody", rows)
    if table.of_file:
        facts = {"role": "group", "tabindex": "0", "aria_label": table.of_file}
        sideways = element("div", element("table", whole), class_="kg-sideways", **facts)
        return element("div", sideways, class_="kg-rich")
    drawn = element("table", whole, class_=classes("table", table.look))
    return element("div", drawn, class_="kg-wide") if table.is_wide else drawn


def _cell(words: ui.Cell, tag: str) -> Markup:
    # A cell of one text in a tone is coloured as a whole.
    match words:
        case (ui.Span(words=str(text), kind="", look="", tone=tone),) if tone:
            return element(tag, text, class_=classes(tone=tone))
    drawn = ui.joined(words, lambda one: _inline(one) if isinstance(one, ui.Inline) else _block(one))
    return element(tag, Markup("").join(drawn))


@_block.register
def _diff(diff: ui.Diff) -> Markup:
    rows = []
    for kind, old, new, line in diff_rows(diff.text):
        numbers = element("span", f"{old:>4} {new:>4} ", class_="kg-no", aria_hidden="true")
        shown = element("span", marked(line) or " ", class_="kg-line")
        rows.append(element("span", numbers + shown + "\n", class_=f"kg-row {kind}"))
    inside = Markup("").join(rows)
    return element("pre", inside, class_="kg-diff", role="figure", aria_label="Difference", tabindex="0")


Bundle = tuple[dict[str, Any], dict[str, Any]]
"""MIME data and metadata, as displays take them."""


def drawn(blocks: Iterable[ui.Block], label: str) -> dict[str, Any]:
    """Plain text and HTML of a card, which a screen reader calls by its label."""
    whole = tuple(blocks)
    return {"text/plain": "\n".join(lines_of(whole)), "text/html": framed(html_of(whole), label)}


_STYLE_FILE = Path(__file__).with_name("style.css")

NO_FORMULAS = "tex2jax_ignore mathjax_ignore"
"""Classes of what is no Markdown: two prices would otherwise be taken for a formula between dollar signs."""


def without_formulas(html: str) -> str:
    """Something else than a card, in which no text is taken for a formula."""
    return f'<div class="{NO_FORMULAS}">{html}</div>'


@cache
def style() -> str:
    """The style sheet of all cards, without comments and line ends."""
    text = re.sub(r"/\*.*?\*/", "", _STYLE_FILE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s*([{}:;,>])\s*", r"\1", " ".join(text.split())).strip()


def framed(inside: str, label: str) -> str:
    """A card with its style, complete in itself, and in a file of Markdown too.

    There HTML ends at a blank line, and that of a style sheet with the line that the sheet ends in.
    """
    card = f'<div class="kg-card {NO_FORMULAS}" role="region" aria-label="{label}">{inside}</div>'
    return f"<style>{style()}</style>\n{_BEFORE_BLANK.sub('&#10;', card)}"


def bare(data: Mapping[str, Any]) -> dict[str, Any]:
    """A card without its style, for a page where another one has it."""
    plain = dict(data)
    if isinstance(html := plain.get("text/html"), str):
        plain["text/html"] = html.removeprefix(f"<style>{style()}</style>\n")
    return plain
