"""From a line to what it does: parsed by the one list, carried out by the table of executors."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.lines.parsing import Parsed, parse_line
from kagura_kernel.domain.grammar import Surface
from kagura_kernel.jupyter.steering import answering, brain, kit, looking, memory, plugins, trust, working
from kagura_kernel.jupyter.steering.asked import Asked
from kagura_kernel.jupyter.surface import Surface as Place
from kagura_kernel.jupyter.surface import surface_of

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit

EXECUTORS: Mapping[str, Callable[[Asked], Any]] = {
    "help": looking.help_text,
    "status": looking.status,
    "runs": looking.runs,
    "sessions": looking.sessions,
    "approvals": looking.approvals,
    "brain": brain.listed,
    "cost": looking.cost,
    "leases": looking.leases,
    "egress log": looking.egress_log,
    "egress check": looking.egress_check,
    "watch": looking.watch,
    "chart cost": looking.chart_cost,
    "chart timeline": looking.chart_timeline,
    "chart egress": looking.chart_egress,
    "approve": answering.approve,
    "deny": answering.deny,
    "kill": answering.kill,
    "revoke": answering.revoke,
    "extend": answering.extend,
    "attach": working.attach,
    "changes": working.changes,
    "apply": working.apply,
    "discard": working.discard,
    "export": working.export,
    "kit plan": kit.plan,
    "kit build": kit.build,
    "kit show": kit.show,
    "kit agents": kit.agents,
    "kit redact": kit.redact,
    "recall": memory.recall,
    "lessons": memory.lessons,
    "memory list": memory.listed,
    "memory show": memory.show,
    "memory add": memory.add,
    "memory promote": memory.changing("promote"),
    "memory demote": memory.changing("demote"),
    "memory pin": memory.changing("pin"),
    "memory unpin": memory.changing("unpin"),
    "memory forget": memory.forget,
    "memory restore": memory.changing("restore"),
    "memory explore": memory.explore,
    "memory import": memory.take_in,
    "memory export": memory.export,
    "memory counts": memory.counts,
    "graduation": trust.listed,
    "graduation chart": trust.chart_trust,
    "graduation grant": trust.grant,
    "graduation vouch": trust.vouch,
    "graduation revoke": trust.revoke,
    "plugin list": plugins.listed,
    "plugin disable": plugins.disable,
    "plugin approve": plugins.approve,
    "plugin unapprove": plugins.unapprove,
    "plugin scan": plugins.scan,
    "plugin config": plugins.config,
    "plugin logs": plugins.logs,
    "plugin install": plugins.install,
    "plugin remove": plugins.remove,
    "plugin trust": plugins.trust,
}
"""What carries each command of a notebook out, by its name."""

WAITING: Mapping[str, Callable[[Asked], Coroutine[Any, Any, Any]]] = {
    "plugin enable": plugins.enable,
    "plugin audit": plugins.audit,
}
"""Likewise for those that ask a person and wait; see `transformer.waits`."""


def run_line(shell: Any, line: str, *, prefix: str = "%kagura ") -> Any:
    """Carry a line out; returns its value, if it has one. The cockpit is made only by commands that need it.

    Args:
        shell: IPython.
        line: Without its prefix.
        prefix: How commands begin here: `%kagura ` or `/`.

    Raises:
        KaguraError: it cannot be understood, or cannot be done.
    """
    return _carry_out(Asked(shell, {}, _cockpit, prefix=prefix), parse_line(line, Surface.NOTEBOOK, prefix=prefix))


async def run_awaited(shell: Any, line: str, *, prefix: str = "%kagura ") -> Any:
    """The same for a line that is awaited: a person can be asked meanwhile."""
    parsed = parse_line(line, Surface.NOTEBOOK, prefix=prefix)
    asked = Asked(shell, parsed.values, _cockpit, prefix=prefix)
    if (waiting := WAITING.get(parsed.command.name)) is None:
        return _carry_out(asked, parsed)
    return await waiting(asked)


def steer(cockpit: Cockpit, shell: Any, line: str) -> Any:
    """The same for a cockpit of one's own."""
    return _carry_out(Asked(shell, {}, lambda: cockpit), parse_line(line, Surface.NOTEBOOK))


def _carry_out(asked: Asked, parsed: Parsed) -> Any:
    asked.values = parsed.values
    if (waiting := WAITING.get(parsed.command.name)) is None:
        return EXECUTORS[parsed.command.name](asked)
    from kagura_kernel.jupyter.own_loop import wait_in_thread

    asked.blocked = surface_of(asked.shell) is Place.NOTEBOOK
    return wait_in_thread(waiting(asked), "kagura plugin")


def _cockpit() -> Cockpit:
    from kagura_kernel.assembly import get_cockpit

    return get_cockpit()
