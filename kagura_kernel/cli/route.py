"""`kagura-kernel route`: explains where a shell command would run, and why. Runs nothing."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from kagura_kernel.domain.policy import PermissionMode, SandboxPermission
from kagura_kernel.runtime.routing import Explanation, explain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--strict", action="store_true", help="what is not on the safe list leaves the sandbox")
    parser.add_argument("--escalated", action="store_true", help="the command asks for the host")
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in PermissionMode],
        default=PermissionMode.DEFAULT.value,
        help="how much was handed over (default: %(default)s)",
    )
    parser.add_argument("--no-sandbox", metavar="WHY", default=None, help="as if no sandbox could be had")
    parser.add_argument(
        "--preapproved", metavar="NAME", action="append", default=[], help="a program the settings pre-approve"
    )
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="a shell line, best after `--`")


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation; always 0, a command that needs an approval is no failure."""
    explanation = explain(
        " ".join(arguments.command),
        SandboxPermission.REQUIRE_ESCALATED if arguments.escalated else SandboxPermission.AUTO,
        mode=PermissionMode(arguments.mode),
        sandbox_ok=arguments.no_sandbox is None,
        sandbox_why=arguments.no_sandbox or "",
        strict=arguments.strict,
        preapproved=arguments.preapproved,
    )
    print(json.dumps(asdict(explanation), ensure_ascii=False) if arguments.json else _text(explanation))
    return 0


def _text(explanation: Explanation) -> str:
    approval = "an approval is needed" if explanation.approval_needed else "no approval needed"
    reasons = "\n".join(f"  - {reason}" for reason in explanation.reasons)
    return f"{explanation.route}, {approval}\n{reasons}"
