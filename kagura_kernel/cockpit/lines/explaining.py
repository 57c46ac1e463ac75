"""What stands at a cursor, in words: an option, a command, or what a name is the name of. Never raises."""

from __future__ import annotations

import re

from kagura_kernel.cockpit.grammar import Argument, Command, Kind, Option, Surface
from kagura_kernel.cockpit.lines.cursor import OnLine, Standing, locate, standing
from kagura_kernel.cockpit.lines.helping import argument_help, cell_help, command_help, option_help, overview
from kagura_kernel.cockpit.lines.lookup import Names
from kagura_kernel.cockpit.lines.words import Word, words_of

_ANY_AT = re.compile(r"@(?:\"(?P<quoted>[^\"\n]+)\"?|(?P<bare>[^\s\"@]+))")


def explain(text: str, cursor: int, names: Names, *, prompt: bool) -> str | None:
    """What stands at the cursor, in words; None where the cell is not ours there, or there is nothing to say.

    Args:
        text: The whole cell.
        cursor: Characters before the cursor.
        names: Looked up for values alone.
        prompt: Whether a plain cell is a prompt, as in the kagura kernel.
    """
    place = locate(text, cursor, prompt=prompt)
    if place is None:
        return None
    if not isinstance(place, OnLine):
        return _file_at(text, cursor, names)
    words = [word._replace(start=word.start + place.begin) for word in words_of(text[place.begin : place.end])]
    at = next((number for number, word in enumerate(words) if word.start <= cursor <= word.end), None)
    if at is None or cursor < place.begin:
        return _whole(standing([word for word in words if word.end < cursor], place.magic), place)
    return _word(standing(words[:at], place.magic), words[at], words, place, names)


def _file_at(text: str, cursor: int, names: Names) -> str | None:
    for found in _ANY_AT.finditer(text):
        if found.start() <= cursor <= found.end():
            path = found["quoted"] or found["bare"]
            return _summary(names, Kind.FILE, path, ())
    return None


def _whole(state: Standing, place: OnLine) -> str:
    if place.magic is not None:
        return cell_help(place.magic)
    if isinstance(state.form, Command):
        return command_help(state.form, Surface.NOTEBOOK, prefix=place.prefix)
    return overview(Surface.NOTEBOOK, prefix=place.prefix)


def _word(before: Standing, word: Word, words: list[Word], place: OnLine, names: Names) -> str | None:
    slot: Option | Argument | None = before.option
    value = word.text
    if slot is None and not before.ended:
        flag, sign, behind = word.raw.partition("=")
        option = next((one for one in before.options if flag in one.flags), None)
        if option is not None and not sign:
            return _of_option(option, before)
        if option is not None:
            slot, value = option, behind
    if slot is None and before.form is None:
        return _whole(standing(words, place.magic), place)
    slot = slot or before.argument
    if slot is None:
        return _whole(before, place)
    kind = slot.kind or Kind.TEXT
    if kind is Kind.EXPRESSION:
        value = value.partition("=")[2] or value
    if kind is Kind.PAIR:
        # What can be said there, not what was: the sign belongs to its name, and nothing behind it is looked up.
        value = value.partition("=")[0]
        known = (one for one in names.names(kind, value, before.words) if one.text == f"{value}=")
        return next((f"{value}: {one.summary}" for one in known), None) or _of_slot(slot, before)
    told = None if kind in (Kind.CHOICE, Kind.TEXT) else _summary(names, kind, value, before.words)
    return told or _of_slot(slot, before)


def _of_slot(slot: Option | Argument, state: Standing) -> str:
    return _of_option(slot, state) if isinstance(slot, Option) else argument_help(slot)


def _of_option(option: Option, state: Standing) -> str:
    form = state.form
    examples = form.examples if form is not None else ()
    percent = "%kagura " if isinstance(form, Command) else "%%"
    fitting = [f"  {percent}{one}" for one in examples if not set(one.split()).isdisjoint(option.flags)]
    return "\n".join([option_help(option), *(["examples", *fitting] if fitting else [])])


def _summary(names: Names, kind: Kind, value: str, given: tuple[str, ...]) -> str | None:
    found = list(names.names(kind, value, given))
    exact = [name for name in found if name.text == value]
    ending = [name for name in found if value and name.text.endswith(value)] if kind is not Kind.FILE else []
    for name in exact or (ending if len(ending) == 1 else []):
        return f"{name.text}: {name.summary}" if name.summary else name.text
    return None
