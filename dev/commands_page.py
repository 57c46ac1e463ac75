"""Writes docs/commands.md from the list of commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kagura_kernel.cockpit.commands import CELL_MAGICS, COMMANDS, GROUPS
from kagura_kernel.domain.grammar import CellMagic, Command, Option, Surface

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"

_TOP = """\
# Commands

This page is made from the list of commands by `dev/commands_page.py`; help, completion and error messages come from
the same list. A command of a notebook is typed as `%kagura WORD …` in any IPython kernel and as `/WORD …` in the kagura
kernel; a command of a terminal as `kagura-kernel WORD …`. `help WORD` says more about each, wherever it is typed.

`RUN` may be the end of a run's id, or `last`: this notebook's newest run, in a terminal that of the folder; `ID` the
end of an approval's; `LEASE` the end of a lease's, or `PROVIDER:SCOPE`. Words are quoted as in a shell. In the option
line of a cell and in a command nothing is replaced: braces and dollar signs are themselves, except in a cell with
`--fmt`.

In a terminal, what prints data takes `--json`, and what reads or writes the journal takes `--dir DIRECTORY` or
`--url URL` (PostgreSQL) for another journal than the one in use.
"""
_SHARED = frozenset({"--json", "--dir", "--url"})
"""Flags that the top of the page tells for all commands."""
_PLACES = {
    frozenset({Surface.NOTEBOOK}): "notebook",
    frozenset({Surface.TERMINAL}): "terminal",
    frozenset({Surface.NOTEBOOK, Surface.TERMINAL}): "notebook, terminal",
}


def commands_page() -> str:
    """The whole page."""
    blocks = [_TOP, "## Cells\n"]
    blocks += [block for magic in CELL_MAGICS for block in _cell(magic)]
    for group in GROUPS:
        blocks.append(f"## {group[:1].upper()}{group[1:]}\n")
        for command in COMMANDS:
            if command.group == group:
                blocks += _command(command)
    return "\n".join(blocks)


def _cell(magic: CellMagic) -> Iterator[str]:
    words = " ".join([magic.typed, *(argument.usage for argument in magic.arguments), "[options]"])
    yield f"### `{magic.typed}`\n"
    yield f"```\n{words}\nthe {magic.body}, in as many lines as you like\n```\n"
    yield f"{_sentence(magic.summary)}\n"
    rows = [(_code(argument.shown), argument.help, "") for argument in magic.arguments]
    rows += [_option(option) for option in magic.options]
    yield _table(("option", "what it does", "without it"), rows)
    yield _examples(f"%%{example}" for example in magic.examples)


def _command(command: Command) -> Iterator[str]:
    yield f"### `{command.name}`\n"
    detail = f" {command.detail}" if command.detail else ""
    yield f"{_sentence(command.summary)}{detail} ({_PLACES[command.surfaces]})\n"
    rows = [*_slots(command)]
    if rows:
        yield _table(("", "what it is", "without it"), rows)
    yield _examples(
        f"{surface.prefix}{example}"
        for surface in Surface
        if surface in command.surfaces
        for example in command.examples
    )


def _slots(command: Command) -> Iterator[tuple[str, str, str]]:
    seen: set[tuple[str, str]] = set()
    for surface in Surface:
        for argument in command.arguments_on(surface) if surface in command.surfaces else ():
            if (argument.name, argument.help) not in seen:
                seen.add((argument.name, argument.help))
                alike = [one for one in command.arguments if (one.name, one.help) == (argument.name, argument.help)]
                where = _only(argument.surfaces, command) if len(alike) == 1 else ""
                yield _code(argument.usage), argument.help + where, ""
    for option in command.options:
        if _SHARED.isdisjoint(option.flags):
            written, does, without = _option(option)
            yield written, does + _only(option.surfaces, command), without


def _only(surfaces: frozenset[Surface] | None, command: Command) -> str:
    return "" if surfaces is None or surfaces == command.surfaces else f" ({_PLACES[surfaces]})"


def _option(option: Option) -> tuple[str, str, str]:
    return ", ".join(_code(f"{flag} {option.value}".rstrip()) for flag in option.flags), option.help, option.without


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _examples(lines: Iterable[str]) -> str:
    return "```\n" + "\n".join(lines) + "\n```\n"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


if __name__ == "__main__":
    PAGE.write_text(commands_page(), "utf-8")
    print(f"{PAGE} was written.")
