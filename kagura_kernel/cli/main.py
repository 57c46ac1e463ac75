"""`kagura-kernel`: finds the command and runs it.

Exit codes: 0 all is well; 1 what was looked at needs somebody; 2 wrong usage, wrong configuration, or what was asked
for failed; 3 the machine is not set up for it; 130 interrupted. An expected error, wrong usage among them, is
`CODE: message` on standard error.

A command is a module with `add_arguments(parser)` and `run(arguments) -> int`. It is imported when it is called, so
that `--help` and every other command stay fast.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, NoReturn

from kagura_kernel import __version__
from kagura_kernel.cli.printing import for_terminal
from kagura_kernel.domain.errors import (
    BrainNotConfigured,
    IsolationTooWeak,
    KaguraError,
    SandboxDied,
    SandboxUnavailable,
    UnknownName,
    UsageError,
)

PROGRAM = "kagura-kernel"
OK, FOUND, FAILED, NOT_SET_UP, INTERRUPTED = 0, 1, 2, 3, 130


class CommandEntry(NamedTuple):
    """One command: its word, its line in the help, and the module that is imported when it is called."""

    name: str
    help: str
    module: str


COMMANDS = (
    CommandEntry("doctor", "say what needs somebody: boxes, journal, leases, runs", "kagura_kernel.cli.doctor"),
    CommandEntry("egress", "explain whether a box could reach a host, or list connections", "kagura_kernel.cli.egress"),
    CommandEntry("images", "build, list or verify the images of Docker boxes", "kagura_kernel.cli.images"),
    CommandEntry("journal", "check, mend or copy the journal, or say where it lies", "kagura_kernel.cli.journal"),
    CommandEntry("kill", "stop runs of any process", "kagura_kernel.cli.contain"),
    CommandEntry(
        "leases", "list, revoke or sweep leased credentials, or what was done with them", "kagura_kernel.cli.leases"
    ),
    CommandEntry("route", "explain where a shell command would run", "kagura_kernel.cli.route"),
    CommandEntry("runs", "list the latest runs of every process, or some of them", "kagura_kernel.cli.runs"),
)


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like any other."""

    def error(self, message: str) -> NoReturn:
        """Never returns.

        Raises:
            UsageError: always, with argparse's own words.
        """
        text = f"{message[:1].upper()}{message[1:]}. `{self.prog} --help` says what can be asked for."
        raise UsageError(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. `--help` and `--version` leave with `SystemExit`."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except KaguraError as error:
        print(f"{error.code}: {for_terminal(error.message)}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`head`) has what it wanted; Python would complain again when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def exit_code(error: KaguraError) -> int:
    """3 when something has to be installed or configured first, otherwise 2."""
    missing = isinstance(error, (SandboxUnavailable, IsolationTooWeak, BrainNotConfigured))
    return NOT_SET_UP if missing and not isinstance(error, SandboxDied) else FAILED


def _run(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        parser = _overview()
        parser.parse_args(words)
        parser.print_help()
        raise UsageError("No command was given; the help lists them.")
    known = {entry.name: entry for entry in COMMANDS}
    if words[0] not in known:
        raise UnknownName("command", words[0], list(known))
    entry = known[words[0]]
    module = import_module(entry.module)
    parser = Parser(prog=f"{PROGRAM} {entry.name}", description=_sentence(entry.help))
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(words[1:])))


def _overview() -> argparse.ArgumentParser:
    width = max(len(entry.name) for entry in COMMANDS)
    listed = "\n".join(f"  {entry.name:<{width}}  {entry.help}" for entry in COMMANDS)
    parser = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [--help] [--version] COMMAND …",
        description="A Jupyter cell becomes an agent run that is safe by construction.",
        epilog=f"commands:\n{listed}\n\n`{PROGRAM} COMMAND --help` says more about one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


if __name__ == "__main__":
    sys.exit(main())
