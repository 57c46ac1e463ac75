"""The record of a run beside its card: data for programs, in the notebook file.

`data` says what the same run would say again, so that a notebook can be compared; what differs every time (ids, times,
durations, this machine's reasons) stands in `metadata`, which comparisons leave out.

The part of a run's record that tells what it was given and what crossed its wall.

As in the rest of the record: what the same run would say again, and apart from it what differs every time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kagura_kernel.domain.events import ChangeRow
from kagura_kernel.jupyter.cards.audited import audit_record
from kagura_kernel.jupyter.cards.frame import changes_card_html, run_html
from kagura_kernel.jupyter.cards.previews import Previews
from kagura_kernel.jupyter.cards.results import shown_record
from kagura_kernel.jupyter.cards.text import changes_text, run_text
from kagura_kernel.render.bundle import Bundle
from kagura_kernel.views.approvals import asked
from kagura_kernel.views.kit import Kitted, redactions
from kagura_kernel.views.leases import LeaseLine
from kagura_kernel.views.network import by_name
from kagura_kernel.views.parts import Ask, Call, Check, Note, Part, Passage, Result, Withheld
from kagura_kernel.views.run import RunView


def crossings_record(view: RunView) -> dict[str, Any]:
    """`grant`, `egress` and `leases`; each empty when there was nothing beyond an ordinary run."""
    granted = view.granted
    grant: dict[str, Any] = {}
    if granted is not None and granted.beyond:
        grant = {"egress": list(granted.egress), "credentials": list(granted.credentials), "image": granted.image}
        grant |= {"ask": granted.ask, "writable_root": granted.writable_root}
        grant["mounts"] = [{"target": mount.target, "mode": mount.mode} for mount in granted.mounts]
    refused = [
        {"host": one.host, "port": one.port, "why": one.short, "net": one.net} for one in by_name(view.network.denied)
    ]
    unreached = [{"host": one.host, "port": one.port, "why": one.short} for one in by_name(view.network.unreached)]
    reached = [{"host": one.host, "port": one.port, "rule": one.rule} for one in by_name(view.network.stood)]
    leases = [
        {"provider": held.said.provider, "scope": held.said.scope, "way": held.said.way, "end": held.end}
        | {"given_back": held.end in {"given back", "revoked"}}
        for held in view.leases.values()
    ]
    egress: dict[str, Any] = {"refused": refused, "reached": reached} if view.network else {}
    egress |= {"not_reached": unreached} if unreached else {}
    return {"grant": grant, "egress": egress, "leases": leases}


def crossings_metadata(view: RunView) -> dict[str, Any]:
    """Figures, times, ids, paths and people."""
    granted = view.granted
    grant: dict[str, Any] = {}
    if granted is not None and granted.beyond:
        grant = {"beyond": list(granted.beyond), "by": granted.by, "at": granted.at.isoformat()}
        grant["sources"] = [mount.source for mount in granted.mounts]
    refused = [{"place": one.place, "times": one.times, "reason": one.reason} for one in by_name(view.network.denied)]
    unreached = [
        {"place": one.place, "times": one.times, "reason": one.reason} for one in by_name(view.network.unreached)
    ]
    reached = [
        {
            "place": one.place,
            "connections": one.connections,
            "bytes_in": one.bytes_in,
            "bytes_out": one.bytes_out,
            "seconds": round(one.seconds, 3),
            "ended": dict(one.ended),
        }
        for one in by_name(view.network.stood)
    ]
    more = {"refusals": view.network.more_refused, "connections": view.network.more_reached}
    egress: dict[str, Any] = {"refused": refused, "reached": reached, "not_told_apart": more} if view.network else {}
    egress |= {"not_reached": unreached} if unreached else {}
    leases = [
        {
            "lease_id": lease_id,
            "place": held.said.place,
            "since": held.since.isoformat(),
            "held": round(held.seconds, 3),
            "renewals": held.renewals,
            "requests": held.requests,
            "why": held.said.why,
        }
        for lease_id, held in view.leases.items()
    ]
    return {"grant": grant, "egress": egress, "leases": leases}


def kit_record(kit: Kitted) -> dict[str, Any]:
    """What would be the same again; empty where there is nothing to say."""
    if not kit:
        return {}
    staged = kit.staged
    facts: dict[str, Any] = (
        {}
        if staged is None
        else {
            "agent": staged.agent,
            "skills": [
                {
                    "name": one.name,
                    "files": [{"place": file.target, "redactions": file.redactions} for file in one.files],
                }
                for one in staged.skills
            ],
            "prompt_files": [
                {"name": one.name, "place": one.place, "redactions": one.redactions} for one in staged.prompt_files
            ],
            "agents": list(staged.agents),
            "redactions": redactions(staged),
            "left_out": [{"place": one.target, "reason": one.reason} for one in staged.left_out],
            "omitted": staged.omitted,
            "tool_hosts": list(staged.tool_hosts),
            "unresolved": [one.toolset for one in staged.unresolved],
        }
    )
    facts["toolsets"] = [{"name": one.toolset, "tools": list(one.tools)} for one in kit.started.values()]
    facts["gone"] = [{"name": one.toolset, "reason": one.reason} for one in kit.ended.values()]
    return {name: value for name, value in facts.items() if value}


def kit_metadata(kit: Kitted) -> dict[str, Any]:
    """What is of this machine and this time; empty where there is nothing to say."""
    staged = kit.staged
    if not kit or staged is None:
        return {}
    facts: dict[str, Any] = {"reference": staged.reference, "definition": staged.definition, "digest": staged.digest}
    facts |= {"unchanged": staged.unchanged, "seconds": round(staged.seconds, 3)}
    installed = {one.toolset: one.installed for one in kit.started.values() if one.installed}
    return facts | ({"installed": installed} if installed else {})


def learned_record(view: RunView) -> dict[str, Any]:
    """What would be the same again: how many memories of which kind, and what the plan rested on; no ids, no times."""
    learned = view.learned
    facts: dict[str, Any] = {}
    steady = view.repeatable
    planned = learned.planned if learned.tells_plan(steady=steady) else None
    if planned is not None and (estimate := planned.estimate) is not None:
        facts["plan"] = {"runs": estimate.runs, "failed": estimate.failed, "lessons": len(planned.lessons)}
    if learned.tells_memories(steady=steady):
        facts["shown"] = dict(Counter(f"{memory.type}, {memory.tier}" for _, memory in learned.seen.values()))
    return facts


def told_record(item: Check | Part) -> dict[str, Any]:
    """How the work was tried out, or what became of a part that was handed on."""
    if isinstance(item, Check):
        return {"kind": "verification", "command": item.event.command, "passed": item.event.passed}
    return {"kind": "child", "status": item.ended.status if item.ended is not None else "running"}


def learned_metadata(view: RunView) -> dict[str, Any]:
    """Ids and figures."""
    learned = view.learned
    facts: dict[str, Any] = {
        "seen": [{"id": memory.id, "how": how, "tier": memory.tier} for how, memory in learned.seen.values()],
        "left": [event.memory_id for event in learned.written],
    }
    if learned.planned is not None and learned.planned.estimate is not None:
        facts["expected_usd"] = learned.planned.estimate.usd
        facts["expected_seconds"] = learned.planned.estimate.seconds
    return {name: value for name, value in facts.items() if value}


RUN_MIME = "application/vnd.kagura.run+json"
CHANGES_MIME = "application/vnd.kagura.changes+json"
LEASES_MIME = "application/vnd.kagura.leases+json"

_OUTPUT_KEPT = 4000
_TEXT_KEPT = 100_000
_STEPS_KEPT = 1000


def run_bundle(view: RunView) -> Bundle:
    """A run for a display slot."""
    data = {"text/plain": run_text(view), "text/html": run_html(view), RUN_MIME: run_record(view)}
    return data, {"kagura": run_metadata(view)}


def changes_bundle(
    changes: Mapping[str, ChangeRow], told: str = "", run_id: str = "", previews: Previews | None = None
) -> Bundle:
    """A change card for a display slot."""
    rows = [{key: getattr(change, key) for key in ("path", "status", "state", "diff")} for change in changes.values()]
    data = {
        "text/plain": changes_text(changes),
        "text/html": changes_card_html(changes, told, previews),
        CHANGES_MIME: clean({"version": 1, "changes": rows}),
    }
    return data, {"kagura": {"run_id": run_id}}


def leases_record(lines: Sequence[LeaseLine]) -> dict[str, Any]:
    """The board of leases for programs."""
    rows = [
        {
            "lease_id": line.lease_id,
            "name": line.name,
            "state": line.state,
            "expires_at": line.expires_at.isoformat() if line.expires_at else None,
            "budget_left": line.budget_left,
            "renewals_left": line.renewals_left,
            "way": line.way,
            "place": line.place,
        }
        for line in lines
    ]
    return {LEASES_MIME: clean({"version": 1, "leases": rows})}


def run_record(view: RunView) -> dict[str, Any]:
    """What happened, in order, without anything that differs from time to time."""
    started, finished = view.started, view.finished
    record: dict[str, Any] = {
        "version": 1,
        "flavour": started.flavour if started else "agent",
        "task": started.task if started else "",
        "brain": started.brain if started else "",
        "status": finished.status if finished else "running",
        "error_code": finished.error_code if finished else "",
        "exit_code": finished.exit_code if finished else None,
        "text": finished.text if finished else "",
        "steps": _steps(view),
        "changed_files": list(view.changes),
    }
    # What an ordinary run has none of is left out, so that its record stays as short as it is.
    record |= {name: facts for name, facts in crossings_record(view).items() if facts}
    record |= {"kit": kit} if (kit := kit_record(view.kit)) else {}
    record |= {"audit": audit_record(view.audit)} if view.audit else {}
    record |= {"learned": learned} if (learned := learned_record(view)) else {}
    record |= {"variables": crossed} if (crossed := variables_record(view)) else {}
    cleaned: dict[str, Any] = clean(record)
    return cleaned


def run_metadata(view: RunView) -> dict[str, Any]:
    """Ids, times, money and the machine."""
    started, box, finished = view.started, view.box, view.finished
    facts: dict[str, Any] = {}
    if started is not None:
        facts |= {"run_id": started.run_id, "session_id": started.session_id, "started_at": started.at.isoformat()}
        facts |= {"brain_reason": started.brain_reason, "write_mode": started.write_mode}
    if box is not None:
        facts |= {"box": box.backend, "isolation": box.isolation, "box_reason": box.reason, "image": box.image}
        facts["box_notes"] = list(box.notes)
    if finished is not None:
        facts |= {"duration": round(finished.duration, 3), "model": finished.model, "turns": finished.turns}
        facts |= {"input_tokens": finished.input_tokens, "output_tokens": finished.output_tokens}
    facts["cost_usd"] = view.usd
    facts |= {"children": view.children, "children_usd": view.children_usd} if view.children else {}
    facts |= {"kit": kit} if (kit := kit_metadata(view.kit)) else {}
    facts |= {name: found for name, found in crossings_metadata(view).items() if found}
    facts |= {"learned": learned} if (learned := learned_metadata(view)) else {}
    facts["approvals"] = [_approval(item) for item in view.items if isinstance(item, Ask)]
    cleaned: dict[str, Any] = clean(facts)
    return cleaned


def _approval(ask: Ask) -> dict[str, Any]:
    request, decision = ask.request, ask.decision
    facts: dict[str, Any] = {"id": request.approval_id, "hash": request.content_hash}
    facts["directory"] = asked(request).directory
    if decision is not None:
        facts |= {"by": decision.by, "at": decision.at.isoformat(), "waited": round(decision.waited, 3)}
    return facts


def _steps(view: RunView) -> list[dict[str, Any]]:
    """The parts in order: the first ones of very many, and how many they were."""
    steps = [step for item in view.items[:_STEPS_KEPT] if (step := _step(item))]
    left = len(view.items) - _STEPS_KEPT
    return [*steps, {"kind": "note", "text": f"{left:,} more steps"}] if left > 0 else steps


def _step(item: object) -> dict[str, Any] | None:  # noqa: PLR0911 - one for each kind of part
    match item:
        case Passage():
            return {"kind": "text", "text": item.text}
        case Call():
            step: dict[str, Any] = {"kind": "tool", "tool": item.asked.tool, "arguments": dict(item.asked.arguments)}
            if item.finished is not None:
                step |= {"route": item.finished.route, "exit_code": item.finished.exit_code}
                step |= {"is_error": item.finished.is_error, "output": item.finished.text[:_OUTPUT_KEPT]}
            return step
        case Ask():
            decision, parts = item.decision, asked(item.request)
            return {
                "kind": "approval",
                "subject": item.request.subject,
                "detail": parts.subject,
                **({"stdin": parts.stdin} if parts.stdin else {}),
                **({"answer": decision.answer} if decision and decision.answer in item.request.options else {}),
                "reason": item.request.reason,
                "verdict": decision.verdict if decision else "",
                "via": decision.via if decision else "",
            }
        case Note():
            return {"kind": "note", "text": item.text}
        case Result() | Withheld():
            return shown_record(item)
        case Check() | Part():
            return told_record(item)
    return None


def clean(value: Any) -> Any:
    """The value as JSON that every notebook file can hold: lone surrogates and odd types replaced."""
    match value:
        case str():
            whole = value.encode("utf-8", "replace").decode("utf-8")
            cut = f"… {len(whole) - _TEXT_KEPT:,} more characters"
            return whole if len(whole) <= _TEXT_KEPT else whole[:_TEXT_KEPT] + cut
        case bool() | int() | float() | None:
            return value
        case dict():
            return {str(clean(key)): clean(inner) for key, inner in value.items()}
        case list() | tuple():
            return [clean(inner) for inner in value]
        case _:
            return str(value)


def variables_record(view: RunView) -> list[dict[str, Any]]:
    """For programs: what crossed, as what, and what could not."""
    return [
        {name: getattr(crossed, name) for name in ("name", "direction", "form", "summary", "error")}
        for crossed in view.variables.values()
    ]
