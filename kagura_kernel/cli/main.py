"""`kagura-kernel`: finds the command and runs it.

Exit codes: 0 all is well; 1 the answer to what was asked is no, or somebody has to look (each command says so); 2 wrong
usage, wrong configuration, or what was asked for failed, a run among it; 3 the machine is not set up for it; 4 the
doctor found a failure; 75 what `serve` needs is away, which may pass; 130 interrupted by Ctrl-C. An expected error,
wrong usage among them, is `CODE: message` on standard error.

What can be typed is the cockpit's list of commands. A command's module has `run(arguments) -> int` and is imported when
it is called, so that `--help` and every other command stay fast.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace

from kagura_kernel import __version__
from kagura_kernel.cli.printing import for_terminal
from kagura_kernel.cli.streams import drop_output, flush_output, guard_streams
from kagura_kernel.cockpit.lines.parsing import parse_words
from kagura_kernel.domain.errors import (
    KaguraError,
    OutputUnwritable,
    UsageError,
)
from kagura_kernel.domain.grammar import Surface

PROGRAM = "kagura-kernel"
OK, FOUND, FAILED, NOT_SET_UP, DOCTOR_FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 130

_GARBAGE = 250_000
"""Objects made before garbage is looked for, in the program: more than a run makes; Python's own figure is 700."""

MODULES = {
    "help": "kagura_kernel.cli.guiding",
    "run": "kagura_kernel.cli.run",
    "repl": "kagura_kernel.cli.repl",
    "serve": "kagura_kernel.cli.serve",
    "status": "kagura_kernel.cli.status",
    "runs": "kagura_kernel.cli.runs",
    "sessions": "kagura_kernel.cli.sessions",
    "approvals": "kagura_kernel.cli.approvals",
    "brain": "kagura_kernel.cli.brain",
    "cost": "kagura_kernel.cli.cost",
    "leases": "kagura_kernel.cli.leases",
    "leases log": "kagura_kernel.cli.leases_log",
    "leases sweep": "kagura_kernel.cli.leases",
    "egress log": "kagura_kernel.cli.egress_log",
    "egress check": "kagura_kernel.cli.egress",
    "approve": "kagura_kernel.cli.deciding",
    "deny": "kagura_kernel.cli.deciding",
    "kill": "kagura_kernel.cli.contain",
    "revoke": "kagura_kernel.cli.leases",
    "changes": "kagura_kernel.cli.changes",
    "apply": "kagura_kernel.cli.changes",
    "discard": "kagura_kernel.cli.changes",
    "export": "kagura_kernel.cli.export",
    "kit plan": "kagura_kernel.cli.kit",
    "kit build": "kagura_kernel.cli.kit",
    "kit show": "kagura_kernel.cli.kit",
    "kit agents": "kagura_kernel.cli.kit",
    "kit redact": "kagura_kernel.cli.kit_redact",
    "recall": "kagura_kernel.cli.memory",
    "lessons": "kagura_kernel.cli.memory",
    "memory list": "kagura_kernel.cli.memory",
    "memory show": "kagura_kernel.cli.memory",
    "memory add": "kagura_kernel.cli.memory",
    "memory promote": "kagura_kernel.cli.memory",
    "memory demote": "kagura_kernel.cli.memory",
    "memory pin": "kagura_kernel.cli.memory",
    "memory unpin": "kagura_kernel.cli.memory",
    "memory forget": "kagura_kernel.cli.memory",
    "memory restore": "kagura_kernel.cli.memory",
    "memory explore": "kagura_kernel.cli.memory",
    "memory import": "kagura_kernel.cli.memory",
    "memory export": "kagura_kernel.cli.memory",
    "memory counts": "kagura_kernel.cli.memory",
    "graduation": "kagura_kernel.cli.trust",
    "graduation chart": "kagura_kernel.cli.trust",
    "graduation grant": "kagura_kernel.cli.trust",
    "graduation vouch": "kagura_kernel.cli.trust",
    "graduation revoke": "kagura_kernel.cli.trust",
    "plugin list": "kagura_kernel.cli.plugin",
    "plugin enable": "kagura_kernel.cli.plugin_enabling",
    "plugin disable": "kagura_kernel.cli.plugin",
    "plugin approve": "kagura_kernel.cli.plugin",
    "plugin unapprove": "kagura_kernel.cli.plugin",
    "plugin audit": "kagura_kernel.cli.plugin_enabling",
    "plugin scan": "kagura_kernel.cli.plugin",
    "plugin config": "kagura_kernel.cli.plugin",
    "plugin logs": "kagura_kernel.cli.plugin",
    "plugin install": "kagura_kernel.cli.plugin",
    "plugin remove": "kagura_kernel.cli.plugin",
    "plugin sign": "kagura_kernel.cli.plugin",
    "plugin trust": "kagura_kernel.cli.plugin",
    "doctor": "kagura_kernel.cli.doctor",
    "setup": "kagura_kernel.cli.setup",
    "completion": "kagura_kernel.cli.completion",
    "route": "kagura_kernel.cli.route",
    "journal verify": "kagura_kernel.cli.journal",
    "journal rebuild": "kagura_kernel.cli.journal",
    "journal path": "kagura_kernel.cli.journal",
    "journal backup": "kagura_kernel.cli.journal",
    "journal export": "kagura_kernel.cli.journal_export",
    "images build": "kagura_kernel.cli.images",
    "images list": "kagura_kernel.cli.images",
    "images verify": "kagura_kernel.cli.images",
}
"""The module behind each command of a terminal, by its name."""


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
    except KeyboardInterrupt:
        return INTERRUPTED


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
        return int(import_module("kagura_kernel.cli.completion_words").run(words[1:]))
    if words and words[0].startswith("-") and words[0] not in {"--help", "-h"}:
        raise UsageError(f"{PROGRAM}: There is no option {words[0]!r} here. `{PROGRAM} --help` lists the commands.")
    parsed = parse_words(words, Surface.TERMINAL)
    arguments = SimpleNamespace(**parsed.values, action=parsed.command.name.split()[-1])
    code = int(import_module(MODULES[parsed.command.name]).run(arguments))
    if not words:
        raise UsageError("No command was given; the help lists them.")
    return code


if __name__ == "__main__":
    sys.exit(main())
