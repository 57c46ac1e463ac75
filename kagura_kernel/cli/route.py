"""`kagura-kernel route`: explains where a shell command would run, and why. Runs nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import SimpleNamespace

from kagura_kernel.domain.policy import PermissionMode, SandboxPermission
from kagura_kernel.runtime.routing import Explanation, Routing, explain


def route(arguments: SimpleNamespace) -> int:
    """Print the explanation; always 0, a command that needs an approval is no failure."""
    explanation = explain(
        " ".join(arguments.command),
        SandboxPermission.REQUIRE_ESCALATED if arguments.escalated else SandboxPermission.AUTO,
        Routing(
            PermissionMode(arguments.mode),
            arguments.strict,
            tuple(arguments.preapproved),
            safe=tuple(arguments.safe),
        ),
        missing_box=arguments.no_sandbox,
    )
    print(json.dumps(asdict(explanation), ensure_ascii=False) if arguments.json else _text(explanation))
    return 0


def _text(explanation: Explanation) -> str:
    approval = "an approval is needed" if explanation.approval_needed else "no approval needed"
    reasons = "\n".join(f"  - {reason}" for reason in explanation.reasons)
    return f"{explanation.route}, {approval}\n{reasons}"
