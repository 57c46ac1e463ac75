"""`kagura-kernel`: finds the command and runs it.

Exit codes: 0 all is well; 1 what was looked at needs somebody; 2 wrong usage, wrong configuration, or what was asked
for failed; 3 the machine is not set up for it; 130 interrupted. An expected error, wrong usage among them, is
`CODE: message` on standard error.

What can be typed is the cockpit's list of commands. A command's module has `run(arguments) -> int` and is imported when
it is called, so that `--help` and every other command stay fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace

from kagura_kernel import __version__
from kagura_kernel.cli.printing import for_terminal
from kagura_kernel.cockpit.grammar import Surface
from kagura_kernel.cockpit.lines.parsing import parse_words
from kagura_kernel.domain.errors import (
    BrainNotConfigured,
    IsolationTooWeak,
    KaguraError,
    SandboxDied,
    SandboxUnavailable,
    UsageError,
)

PROGRAM = "kagura-kernel"
OK, FOUND, FAILED, NOT_SET_UP, INTERRUPTED = 0, 1, 2, 3, 130

MODULES = {
    "help": "kagura_kernel.cli.guiding",
    "status": "kagura_kernel.cli.status",
    "runs": "kagura_kernel.cli.runs",
    "approvals": "kagura_kernel.cli.approvals",
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
    "graduation grant": "kagura_kernel.cli.trust",
    "graduation vouch": "kagura_kernel.cli.trust",
    "graduation revoke": "kagura_kernel.cli.trust",
    "plugin list": "kagura_kernel.cli.plugin",
    "plugin enable": "kagura_kernel.cli.plugin_enabling",
    "plugin disable": "kagura_kernel.cli.plugin",
    "plugin approve": "kagura_kernel.cli.plugin",
    "plugin unapprove": "kagura_kernel.cli.plugin",
    "plugin audit": "kagura_kernel.cli.plugin_enabling",
    "plugin scan": "kagura_kernel.cli.plugin_scan",
    "plugin config": "kagura_kernel.cli.plugin",
    "plugin logs": "kagura_kernel.cli.plugin",
    "plugin install": "kagura_kernel.cli.plugin_owning",
    "plugin remove": "kagura_kernel.cli.plugin_owning",
    "plugin sign": "kagura_kernel.cli.plugin_owning",
    "plugin trust": "kagura_kernel.cli.plugin_owning",
    "doctor": "kagura_kernel.cli.doctor",
    "route": "kagura_kernel.cli.route",
    "journal verify": "kagura_kernel.cli.journal",
    "journal rebuild": "kagura_kernel.cli.journal",
    "journal path": "kagura_kernel.cli.journal",
    "journal backup": "kagura_kernel.cli.journal",
    "images build": "kagura_kernel.cli.images",
    "images list": "kagura_kernel.cli.images",
    "images verify": "kagura_kernel.cli.images",
}
"""The module behind each command of a terminal, by its name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
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
    if words == ["--version"]:
        print(f"{PROGRAM} {__version__}")
        return OK
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
