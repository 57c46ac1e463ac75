"""`kagura-kernel route`: explains where a shell command would run, and why. Runs nothing."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from types import SimpleNamespace

from kagura_kernel.cockpit.agents import handed_routing
from kagura_kernel.domain.policy import PermissionMode, SandboxPermission
from kagura_kernel.runtime.routing import Explanation, explain


def route(arguments: SimpleNamespace) -> int:
    """Print the explanation; always 0, a command that needs an approval is no failure."""
    from kagura_kernel.assembly.settings import load_settings

    set_to = handed_routing(load_settings(os.environ), None)
    routing = replace(
        set_to,
        mode=PermissionMode(arguments.mode) if arguments.mode else set_to.mode,
        strict=set_to.strict or arguments.strict,
        preapproved=(*set_to.preapproved, *arguments.preapproved),
        safe=(*set_to.safe, *arguments.safe),
    )
    permission = SandboxPermission.REQUIRE_ESCALATED if arguments.escalated else SandboxPermission.AUTO
    explanation = explain(" ".join(arguments.command), permission, routing, missing_box=arguments.no_sandbox)
    print(json.dumps(asdict(explanation), ensure_ascii=False) if arguments.json else _text(explanation))
    return 0


def _text(explanation: Explanation) -> str:
    approval = "an approval is needed" if explanation.approval_needed else "no approval needed"
    reasons = "\n".join(f"  - {reason}" for reason in explanation.reasons)
    return f"{explanation.route}, {approval}\n{reasons}"
