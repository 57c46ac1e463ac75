"""Help from the one list: all commands of a surface, one command, one kind of cell. Pure text, no colours."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from kagura_kernel.cockpit.commands import CELL_MAGICS, COMMANDS, GROUPS
from kagura_kernel.domain.errors import UnknownName
from kagura_kernel.domain.grammar import Argument, CellMagic, Command, Option, Surface

WIDTH = 100
"""Columns where nobody says how many there are."""

_LEFT = 30
_TIED = "\u00a0"
_NOTES = """\
RUN may be `last`, `last everywhere`, or the end of a run's id; LEASE also PROVIDER:SCOPE. While a run goes on it is \
steered from another notebook, or from its own where it was started with `--bg`.
`{prefix}help WORD` says more about one; `%%kagura --help` and `%%sandbox --help` list the options of cells."""


def overview(surface: Surface, *, prefix: str | None = None, width: int = WIDTH) -> str:
    """All commands that can be typed there, under their headings; in a notebook the cells too."""
    begin = surface.prefix if prefix is None else prefix
    blocks: list[str] = []
    if surface is Surface.NOTEBOOK:
        rows = [(f"{magic.typed} [options]", magic.summary) for magic in CELL_MAGICS]
        blocks.append(f"cells\n{_columns(rows, width)}")
    for group in GROUPS:
        here = [command for command in COMMANDS if command.group == group and surface in command.surfaces]
        rows = [_command_row(one, surface, begin) for one in here]
        if rows:
            blocks.append(f"{group}\n{_columns(rows, width)}")
    if surface is Surface.TERMINAL:
        blocks.append(f"`{begin}help COMMAND` or `{begin}COMMAND --help` says more about one.")
    else:
        notes = _NOTES.replace("{prefix}", begin).splitlines()
        blocks.append("\n".join(textwrap.fill(note, width, break_on_hyphens=False) for note in notes))
    return "\n\n".join(blocks)


def command_help(command: Command, surface: Surface, *, prefix: str | None = None, width: int = WIDTH) -> str:
    """What one command does, how it is written, a line for each argument and option, and examples.

    One that cannot be typed there is told as it is where it can.
    """
    blocks: list[str] = []
    if surface not in command.surfaces:
        blocks.append(f"Not here: a command of the {command.home.value}.")
        surface, prefix = command.home, None
    begin = surface.prefix if prefix is None else prefix
    text = _sentence(command.summary) + (f" {command.detail}" if command.detail else "")
    blocks += [usage_lines(command, surface, begin, width=width), textwrap.fill(text, width)]
    rows = [
        *((argument.shown, argument.help) for argument in command.arguments_on(surface)),
        *map(_option_row, command.options_on(surface)),
    ]
    # An option of cells and commands alike speaks of the notebook's commands.
    rows = [(shown, help_.replace("`%kagura ", f"`{begin}")) for shown, help_ in rows]
    if rows:
        blocks.append(_columns(rows, width))
    if command.examples:
        blocks.append("\n".join(["examples", *(f"  {begin}{example}" for example in command.examples)]))
    return "\n\n".join(blocks)


def cell_help(magic: CellMagic, *, width: int = WIDTH) -> str:
    """What a kind of cell does, its usage, a line for each option, and examples."""
    rows = [*((argument.shown, argument.help) for argument in magic.arguments), *map(_option_row, magic.options)]
    examples = [f"  %%{example}" for example in magic.examples]
    return "\n\n".join(
        [usage_lines(magic), _sentence(magic.summary), _columns(rows, width), "\n".join(["examples", *examples])]
    )


def help_for(words: Sequence[str], surface: Surface, *, prefix: str | None = None, width: int = WIDTH) -> str:
    """What `help` answers: everything without a word; a command, a list of those that begin so, or a kind of cell.

    Raises:
        UnknownName: there is no such thing; says what was probably meant.
    """
    if not words:
        return overview(surface, prefix=prefix, width=width)
    name = " ".join(words)
    for magic in CELL_MAGICS:
        if name in (magic.typed, magic.name):
            return cell_help(magic, width=width)
    found = [one for one in COMMANDS if name in (one.name, *one.aliases)]
    further = [one for one in COMMANDS if one.name.startswith(f"{name} ")]
    if not found and not further:
        known = [one.name for one in COMMANDS if surface in one.surfaces]
        raise UnknownName("command", name, [*known, *(magic.typed for magic in CELL_MAGICS)])
    blocks = [command_help(one, surface, prefix=prefix, width=width) for one in found]
    if further:
        begin = surface.prefix if prefix is None else prefix
        rows = [_command_row(one, surface, begin) for one in further]
        note = textwrap.fill(f"`{begin}help WORDS` says more about one.", width)
        blocks.append(f"commands that begin with `{begin}{name}`\n{_columns(rows, width)}\n\n{note}")
    return "\n\n\n".join(blocks)


def usage_lines(
    form: Command | CellMagic, surface: Surface = Surface.NOTEBOOK, prefix: str | None = None, *, width: int = 118
) -> str:
    """How it is written: `usage: …`, going on below its own beginning."""
    if isinstance(form, CellMagic):
        first, below = f"usage: {form.typed}", f"\n       the {form.body}, in the lines below"
        arguments, options = form.arguments, form.options
    else:
        begin = surface.prefix if prefix is None else prefix
        first, below = f"usage: {begin}{form.name}", ""
        arguments, options = form.arguments_on(surface), form.options_on(surface)
    places = [argument.usage for argument in arguments]
    taken = [*places, *_bracketed(options)] if isinstance(form, CellMagic) else [*_bracketed(options), *places]
    return _wrapped(" ".join([first, *(word.replace(" ", _TIED) for word in taken)]), len(first) + 1, width) + below


def option_help(option: Option) -> str:
    """One option: how it is written, what it does, and what holds without it."""
    without = f" Without it: {option.without}." if option.without else ""
    return f"{_flags(option)}\n  {_sentence(option.help)}{without}"


def argument_help(argument: Argument) -> str:
    """One argument: what stands for it, and what it is."""
    return f"{argument.shown}\n  {_sentence(argument.help)}"


def _command_row(command: Command, surface: Surface, begin: str) -> tuple[str, str]:
    """One command for a list; one that cannot be typed there as it is where it can."""
    if surface not in command.surfaces:
        surface, begin = command.home, command.home.prefix
    return " ".join([f"{begin}{command.name}", *(one.usage for one in command.arguments_on(surface))]), command.summary


def _option_row(option: Option) -> tuple[str, str]:
    without = f" (without it: {option.without})" if option.without else ""
    return _flags(option), option.help + without


def _flags(option: Option) -> str:
    return f"{', '.join(option.flags)} {option.value}".rstrip()


def _bracketed(options: Iterable[Option]) -> list[str]:
    """Each in brackets; those that exclude each other together."""
    left = list(options)
    words: list[str] = []
    while left:
        first = left.pop(0)
        rivals = [option for option in left if not set(option.flags).isdisjoint(first.excludes)]
        for rival in rivals:
            left.remove(rival)
        words.append(f"[{' | '.join(option.usage for option in (first, *rivals))}]")
    return words


def _columns(rows: Iterable[tuple[str, str]], width: int) -> str:
    """Rows of two columns; one whose first is long has its second below it."""
    rows = list(rows)
    left = min(max((len(first) for first, _ in rows), default=0), _LEFT)
    lines: list[str] = []
    for first, second in rows:
        begin = f"  {first:<{left}}  "
        indent = " " * (left + 4)
        if len(first) > left:
            lines.append(begin.rstrip())
            begin = indent
        lines.append(_wrapped(begin + second, left + 4, width, indent))
    return "\n".join(lines)


def _wrapped(text: str, hang: int, width: int, indent: str | None = None) -> str:
    if len(text) <= width:
        return text.replace(_TIED, " ")
    head, rest = text[:hang], text[hang:]
    filled = textwrap.wrap(rest, max(width - hang, 20), break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * hang if indent is None else indent}".join([head + filled[0], *filled[1:]]).replace(_TIED, " ")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
