"""Commands of a program's own, where the rules of runs say, with an approver of its own."""

from datetime import UTC, datetime
from pathlib import Path

from kagura_kernel.domain.approvals import ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.policy import SandboxPermission
from kagura_kernel.runtime.host import HostRunner
from kagura_kernel.runtime.router import Runtime, use_approver
from kagura_kernel.runtime.routing import Routing, decide_route
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend


class OnlyVersions:
    """Says yes to `… --version` on the host, and no to everything else."""

    async def approve(self, request: ApprovalRequest) -> Decision:
        asked = str(request.arguments["command"])
        verdict = Verdict.ALLOW if asked.endswith(" --version") else Verdict.DENY
        return Decision(request.id, verdict, "the house's rule", "program", datetime.now(UTC))


async def versions(project: Path) -> str:
    """What Python the box has, and what git the host has."""
    backend = BubblewrapBackend()
    runtime = Runtime(await backend.start(BoxSpec(workspace=project)), HostRunner(project))
    try:
        with use_approver(OnlyVersions()):
            in_box = await runtime.run("python3 --version")
            on_host = await runtime.run("git --version", permission=SandboxPermission.REQUIRE_ESCALATED)
    finally:
        await runtime.close()
        await backend.close()
    return in_box.result.stdout.text + on_host.result.stdout.text


def why(command: str) -> tuple[str, ...]:
    """Where a command would run in the strict order, and by which rules; runs nothing."""
    decision = decide_route(command, SandboxPermission.AUTO, Routing(strict=True))
    return (decision.route.value, *decision.reasons)
