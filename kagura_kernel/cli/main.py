"""`kagura-kernel`: finds the command and runs it.

Exit codes: 0 all is well; 1 the answer to what was asked is no, or somebody has to look (each command says so); 2 wrong
usage, wrong configuration, or what was asked for failed, a run among it; 3 the machine is not set up for it; 4 the
doctor found a failure; 75 what `serve` needs is away, which may pass; 130 interrupted by Ctrl-C. An expected error,
wrong usage among them, is `CODE: message` on standard error.

What can be typed is the cockpit's list of commands. A command `a b` is the function `a_b(arguments) -> int` of a file
here, which is imported when it is called, so that `--help` and every other command stay fast.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import SimpleNamespace

from kagura_kernel import __version__
from kagura_kernel.cli.output import drop_output, flush_output, for_terminal, guard_streams
from kagura_kernel.cockpit.lines.parser import Parsed, parse_words
from kagura_kernel.domain.errors import KaguraError, OutputUnwritable, UsageError
from kagura_kernel.domain.grammar import Surface

PROGRAM = "kagura-kernel"
OK, FOUND, FAILED, NOT_SET_UP, DOCTOR_FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 130

_GARBAGE = 250_000
"""Objects made before garbage is looked for, in the program: more than a run makes; Python's own figure is 700."""

_HOMES = {
    word: home
    for home, words in (
        ("brain", ("models",)),
        ("changes", ("apply", "commits", "discard", "undo")),
        ("approvals", ("approve", "deny")),
        ("runs", ("cost", "kill", "say", "sessions")),
        ("trust", ("graduation",)),
        ("memory", ("lessons", "recall")),
        ("completion", ("help",)),
        ("plugin_enable", ("plugin audit", "plugin enable")),
        ("leases", ("revoke",)),
    )
    for word in words
}
"""The file of a command, or of all that begin with a word, where it is not called like that word."""


_REDACTING = frozenset({"repl", "run"})
"""Commands that always show something of a box or of a brain."""
_STARTING = _REDACTING | {"doctor"}
"""Commands that start a box in any case."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        # Most of a command is imports, which leave no garbage: looking for it takes a tenth of the time.
        gc.set_threshold(_GARBAGE)
        guard_streams()
    code = OK
    try:
        code = _answered(words)
        flush_output()
    except OutputUnwritable as error:
        drop_output()
        print(told(error), file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # The reader (`head`) has what it wanted.
        drop_output()
    finally:
        if argv is None:
            # The process ends, and Python would look through all that was imported for garbage, several times.
            gc.freeze()
    return code


def _answered(words: list[str]) -> int:
    """The exit code; an expected error is told, but for an output that takes nothing, which is told at one place."""
    try:
        return _run(words)
    except OutputUnwritable:
        raise
    except KaguraError as error:
        print(told(error), file=sys.stderr)
        return exit_code(error)
    except FileNotFoundError:
        if _is_somewhere():
            raise
        print(told(UsageError("The working directory is gone: go to another one first.")), file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _is_somewhere() -> bool:
    """Whether the working directory is still there: paths without it are found nowhere."""
    try:
        return bool(os.getcwd())  # noqa: PTH109 - pathlib is imported by what needs it
    except FileNotFoundError:
        return False


def told(error: KaguraError) -> str:
    """An error as it is printed: a message may hold anybody's words, and none of them steers the terminal."""
    from kagura_kernel.domain.visible import visible

    return f"{error.code}: {visible(for_terminal(error.message))}"


def exit_code(error: KaguraError) -> int:
    """3 when something has to be installed, configured or reachable first, otherwise 2."""
    from kagura_kernel.cli.run_outcome import error_exit_code

    return error_exit_code(error.code)


def _run(words: list[str]) -> int:
    if words == ["--version"]:
        print(f"{PROGRAM} {__version__}")
        return OK
    if words[:1] == ["__complete"]:
        return int(import_module("kagura_kernel.cli.completion").complete_line(words[1:]))
    if words and words[0].startswith("-") and words[0] not in {"--help", "-h"}:
        raise UsageError(f"{PROGRAM}: There is no option {words[0]!r} here. `{PROGRAM} --help` lists the commands.")
    parsed = parse_words(words, Surface.TERMINAL)
    code = call(parsed)
    if not words:
        raise UsageError("No command was given; the help lists them.")
    return code


def call(parsed: Parsed) -> int:
    """Call a command's function; the exit code."""
    name = parsed.command.name
    values = SimpleNamespace(**parsed.values, action=name.split()[-1])
    if name not in _STARTING:
        return handler_of(name)(values)
    warming = import_module("kagura_kernel.cli.warm_up")
    # What begins here works beside the imports of all else.
    if name in _REDACTING:
        # The first words of a run wait for the rules of redaction.
        warming.warm()
    with warming.prepared_box():
        return handler_of(name)(values)


def handler_of(name: str) -> Callable[[SimpleNamespace], int]:
    """The function of a command; its file is imported."""
    first = name.split(maxsplit=1)[0]
    home = _HOMES.get(name) or _HOMES.get(first, first)
    handler: Callable[[SimpleNamespace], int] = getattr(
        import_module(f"kagura_kernel.cli.{home}"), name.replace(" ", "_")
    )
    return handler


if __name__ == "__main__":
    sys.exit(main())
