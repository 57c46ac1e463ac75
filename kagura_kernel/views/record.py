"""The record of a run beside its card: data for programs, in the notebook file.

`data` says what the same run would say again, so that a notebook can be compared; what differs every time (ids, times,
durations, this machine's reasons) stands in `metadata`, which comparisons leave out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from kagura_kernel.domain.commits import CommittedBranch
from kagura_kernel.domain.events import ImageSent, ResultShown
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.domain.plugins import PluginAudit
from kagura_kernel.render.html import Bundle, framed, html_of
from kagura_kernel.views.approvals import asked
from kagura_kernel.views.body import withheld_words
from kagura_kernel.views.card import run_blocks, run_text
from kagura_kernel.views.changes import NOTHING, Beside, changes_blocks, changes_text, waits
from kagura_kernel.views.commits import commit_rows, commits_blocks, commits_text
from kagura_kernel.views.kit import Kitted, redactions
from kagura_kernel.views.leases import LeaseLine
from kagura_kernel.views.network import by_name
from kagura_kernel.views.parts import Ask, Call, Check, Note, Part, Passage, Result, Withheld
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import run_label


def picked(thing: object, *names: str, **renamed: str) -> dict[str, Any]:
    """Fields of a value under their own names, and others under the name that they have in the record."""
    return {name: getattr(thing, field) for name, field in ({one: one for one in names} | renamed).items()}


def crossings_record(view: RunView) -> dict[str, Any]:
    """`grant`, `egress` and `leases`; each empty when there was nothing beyond an ordinary run."""
    granted, network = view.granted, view.network
    grant: dict[str, Any] = {}
    if granted is not None and granted.beyond:
        grant = picked(granted, "egress", "credentials", "image", "ask", "writable_root")
        grant["mounts"] = [picked(mount, "target", "mode") for mount in granted.mounts]
    egress: dict[str, Any] = {}
    if network:
        egress["refused"] = [picked(one, "host", "port", "net", why="short") for one in by_name(network.denied)]
        egress["reached"] = [picked(one, "host", "port", "rule") for one in by_name(network.stood)]
    if network.unreached:
        egress["not_reached"] = [picked(one, "host", "port", why="short") for one in by_name(network.unreached)]
    leases = [
        picked(held.said, "provider", "scope", "way")
        | {"end": held.end, "given_back": held.end in {"given back", "revoked"}}
        for held in view.leases.values()
    ]
    return {"grant": grant, "egress": egress, "leases": leases}


def crossings_metadata(view: RunView) -> dict[str, Any]:
    """Figures, times, ids, paths and people."""
    granted, network = view.granted, view.network
    grant: dict[str, Any] = {}
    if granted is not None and granted.beyond:
        grant = picked(granted, "beyond", "by", "at")
        grant["sources"] = [mount.source for mount in granted.mounts]
    egress: dict[str, Any] = {}
    if network:
        egress["refused"] = [picked(one, "place", "times", "reason") for one in by_name(network.denied)]
        egress["reached"] = [
            picked(one, "place", "connections", "bytes_in", "bytes_out", "ended") | {"seconds": round(one.seconds, 3)}
            for one in by_name(network.stood)
        ]
        egress["not_told_apart"] = picked(network, refusals="more_refused", connections="more_reached")
    if network.unreached:
        egress["not_reached"] = [picked(one, "place", "times", "reason") for one in by_name(network.unreached)]
    leases = [
        {"lease_id": lease_id, "held": round(held.seconds, 3)}
        | picked(held, "since", "renewals", "requests")
        | picked(held.said, "place", "why")
        for lease_id, held in view.leases.items()
    ]
    return {"grant": grant, "egress": egress, "leases": leases}


def kit_record(kit: Kitted) -> dict[str, Any]:
    """What would be the same again; empty where there is nothing to say."""
    if not kit:
        return {}
    facts: dict[str, Any] = {}
    if (staged := kit.staged) is not None:
        facts = picked(staged, "agent", "agents", "omitted", "tool_hosts")
        facts["skills"] = [
            {"name": one.name, "files": [picked(file, "redactions", place="target") for file in one.files]}
            for one in staged.skills
        ]
        facts["prompt_files"] = [picked(one, "name", "place", "redactions") for one in staged.prompt_files]
        facts["redactions"] = redactions(staged)
        facts["left_out"] = [picked(one, "reason", place="target") for one in staged.left_out]
        facts["unresolved"] = [one.toolset for one in staged.unresolved]
    facts["toolsets"] = [picked(one, "tools", name="toolset") for one in kit.started.values()]
    facts["gone"] = [picked(one, "reason", name="toolset") for one in kit.ended.values()]
    return {name: value for name, value in facts.items() if value}


def kit_metadata(kit: Kitted) -> dict[str, Any]:
    """What is of this machine and this time; empty where there is nothing to say."""
    staged = kit.staged
    if not kit or staged is None:
        return {}
    facts = picked(staged, "reference", "definition", "digest", "unchanged") | {"seconds": round(staged.seconds, 3)}
    installed = {one.toolset: one.installed for one in kit.started.values() if one.installed}
    return facts | ({"installed": installed} if installed else {})


def audit_record(audit: PluginAudit) -> dict[str, Any]:
    """A plugin's audit, without ids, hashes and times."""
    facts = picked(audit, "plugin", "version", "risk", "verdict", "summary", "canaries")
    facts |= picked(audit, "description_accurate", "static_only", "remark")
    facts["findings"] = [picked(one, "severity", "rule", "message", "file", "line") for one in audit.findings]
    return facts | {"injections": [picked(one, "text", "why") for one in audit.injections]}


def learned_record(view: RunView) -> dict[str, Any]:
    """What would be the same again: how many memories of which kind, and what the plan rested on; no ids, no times."""
    learned = view.learned
    facts: dict[str, Any] = {}
    steady = view.repeatable
    planned = learned.planned if learned.tells_plan(steady=steady) else None
    if planned is not None and planned.estimate is not None:
        facts["plan"] = picked(planned.estimate, "runs", "failed") | {"lessons": len(planned.lessons)}
    if learned.tells_memories(steady=steady):
        facts["shown"] = dict(Counter(f"{memory.type}, {memory.tier}" for _, memory in learned.seen.values()))
    return facts


def learned_metadata(view: RunView) -> dict[str, Any]:
    """Ids and figures."""
    learned = view.learned
    facts: dict[str, Any] = {
        "seen": [picked(memory, "id", "tier") | {"how": how} for how, memory in learned.seen.values()],
        "left": [event.memory_id for event in learned.written],
    }
    if learned.planned is not None and learned.planned.estimate is not None:
        facts["expected_usd"] = learned.planned.estimate.usd
        facts["expected_seconds"] = learned.planned.estimate.seconds
    return {name: value for name, value in facts.items() if value}


RUN_MIME = "application/vnd.kagura.run+json"
LIVE_MIME = "application/vnd.kagura.live+json"
"""Marks an output that is a live card, for a front end that shows the form beside it where it is not live."""
LIVE = {"version": 1}
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
CHANGES_MIME = "application/vnd.kagura.changes+json"
LEASES_MIME = "application/vnd.kagura.leases+json"

_OUTPUT_KEPT = 4000
_RESULT_KEPT = 2000
_TEXT_KEPT = 100_000
_STEPS_KEPT = 1000


def run_bundle(view: RunView) -> Bundle:
    """A run for a display slot."""
    data = {"text/plain": run_text(view), "text/html": run_html(view), RUN_MIME: run_record(view)}
    return data, {"kagura": run_metadata(view)}


def live_bundle(view: RunView, run_id: str) -> Bundle:
    """A run that goes on, for a page that its kernel has written nothing into: with its live card, if there is one."""
    data, metadata = run_bundle(view)
    widget = {"version_major": 2, "version_minor": 0, "model_id": live_model(run_id)}
    return {LIVE_MIME: LIVE, WIDGET_MIME: widget, **data}, metadata


def live_model(run_id: str) -> str:
    """The id of the widget that is a run's live card, by which whoever knows the run finds it."""
    return sha256(f"the live card of {run_id}".encode()).hexdigest()[:32]


def run_html(view: RunView) -> str:
    """A run as it stays in the notebook."""
    return framed(html_of(run_blocks(view)), run_label(view))


def changes_bundle(
    changes: Mapping[str, FileChange],
    told: str = "",
    run_id: str = "",
    how: str = "",
    beside: Beside = NOTHING,
) -> Bundle:
    """A change card for a display slot; the rest is as `changes_blocks` takes it."""
    rows = [picked(change, "path", "status", "state", "diff") for change in changes.values()]
    branches = beside.branches
    committed = commits_blocks(branches, live=False)
    still = changes_blocks(changes, live=False, told=told, how=how, beside=beside, commits=committed)
    data = {
        "text/plain": all_text(changes, branches) + (f"\n{how}" if how and waits(changes) else ""),
        "text/html": framed(html_of(still), "Changes of a run"),
        CHANGES_MIME: clean({"version": 1, "changes": rows, **commits_record(branches)}),
    }
    return data, {"kagura": {"run_id": run_id}}


def all_text(changes: Mapping[str, FileChange], branches: Mapping[str, CommittedBranch]) -> str:
    """Commits and changed files in text."""
    return "\n".join(filter(None, (commits_text(branches.values()), changes_text(changes) if changes else "")))


def commits_record(branches: Mapping[str, CommittedBranch]) -> dict[str, Any]:
    """What was committed, without the ids, which have the time in them; nothing where nothing was."""
    rows = [picked(row, "branch", "subject", "author", "state") for row in commit_rows(branches)]
    return {"commits": rows} if rows else {}


def leases_record(lines: Sequence[LeaseLine], _now: datetime) -> dict[str, Any]:
    """The board of leases for programs."""
    names = ("lease_id", "name", "state", "expires_at", "budget_left", "renewals_left", "way", "place")
    rows = [picked(line, *names) for line in lines]
    return {LEASES_MIME: clean({"version": 1, "leases": rows})}


def run_record(view: RunView) -> dict[str, Any]:
    """What happened, in order, without anything that differs from time to time."""
    started, finished = view.started, view.finished
    record: dict[str, Any] = {
        "version": 1,
        "flavour": "agent",
        "task": "",
        "brain": "",
        "status": "running",
        "error_code": "",
        "exit_code": None,
        "text": "",
        "steps": _steps(view),
        "changed_files": list(view.changes),
    }
    record |= picked(started, "flavour", "task", "brain") if started else {}
    record |= picked(finished, "status", "error_code", "exit_code", "text") if finished else {}
    more = crossings_record(view) | {"kit": kit_record(view.kit), "learned": learned_record(view)}
    more["audit"] = audit_record(view.audit) if view.audit else {}
    crossed = view.variables.values()
    more["images"] = [image_record(one) for one in view.images]
    more["variables"] = [picked(one, "name", "direction", "form", "summary", "error") for one in crossed]
    # What an ordinary run has none of is left out, so that its record stays as short as it is.
    cleaned: dict[str, Any] = clean(record | {name: facts for name, facts in more.items() if facts})
    return cleaned


def run_metadata(view: RunView) -> dict[str, Any]:
    """Ids, times, money and the machine."""
    started, box, finished = view.started, view.box, view.finished
    facts: dict[str, Any] = {}
    if started is not None:
        facts = picked(started, "run_id", "session_id", "brain_reason", "write_mode", started_at="at")
    if box is not None:
        facts |= picked(box, "isolation", "image", box="backend", box_reason="reason", box_notes="notes")
    if finished is not None:
        facts |= picked(finished, "model", "turns", "input_tokens", "output_tokens")
        facts["duration"] = round(finished.duration, 3)
    facts["cost_usd"] = view.usd
    facts |= picked(view, "children", "children_usd") if view.children else {}
    more = crossings_metadata(view) | {"kit": kit_metadata(view.kit), "learned": learned_metadata(view)}
    facts |= {name: found for name, found in more.items() if found}
    facts["approvals"] = [_approval(item) for item in view.items if isinstance(item, Ask)]
    cleaned: dict[str, Any] = clean(facts)
    return cleaned


def _approval(ask: Ask) -> dict[str, Any]:
    request, decision = ask.request, ask.decision
    facts = picked(request, id="approval_id", hash="content_hash") | {"directory": asked(request).directory}
    if decision is not None:
        facts |= picked(decision, "by", "at") | {"waited": round(decision.waited, 3)}
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
            return _call_record(item)
        case Ask():
            decision, parts = item.decision, asked(item.request)
            return {
                "kind": "approval",
                "subject": item.request.subject,
                "detail": parts.subject,
                **({"stdin": parts.stdin} if parts.stdin else {}),
                **({"answer": decision.answer} if decision and decision.answer in item.request.options else {}),
                "reason": item.request.reason,
                **(picked(decision, "verdict", "via") if decision else {"verdict": "", "via": ""}),
            }
        case Note():
            return {"kind": "note", "text": item.text}
        case Result():
            return result_record(item.said)
        case Withheld():
            return {"kind": "note", "text": withheld_words(item)}
        case Check():
            return {"kind": "verification"} | picked(item.event, "command", "passed")
        case Part():
            return {"kind": "child", "status": item.ended.status if item.ended is not None else "running"}
    return None


def _call_record(call: Call) -> dict[str, Any]:
    step: dict[str, Any] = {"kind": "tool", "tool": call.asked.tool, "arguments": dict(call.asked.arguments)}
    if call.finished is not None:
        step |= picked(call.finished, "route", "exit_code", "is_error")
        step["output"] = call.finished.text[:_OUTPUT_KEPT]
    if call.images:
        step["images"] = [image_record(one) for one in call.images]
    return step


def image_record(sent: ImageSent) -> dict[str, Any]:
    """An image that the brain was shown; its bytes may differ from machine to machine."""
    return picked(sent, "name", "mime", "width", "height")


def result_record(said: ResultShown) -> dict[str, Any]:
    """What it was, without the data, which the card holds."""
    plain = said.text or (said.data if said.mime in {"text/plain", "text/markdown"} else "")
    facts = {"kind": "result", "mime": said.mime[:100], "bytes": said.bytes or len(said.data)}
    return facts | {"text": plain[:_RESULT_KEPT], "note": said.note[:_RESULT_KEPT]}


def clean(value: Any) -> Any:
    """The value as JSON that every notebook file can hold: lone surrogates replaced, times in ISO 8601."""
    match value:
        case str():
            whole = value.encode("utf-8", "replace").decode("utf-8")
            cut = f"… {len(whole) - _TEXT_KEPT:,} more characters"
            return whole if len(whole) <= _TEXT_KEPT else whole[:_TEXT_KEPT] + cut
        case bool() | int() | float() | None:
            return value
        case datetime():
            return value.isoformat()
        case dict():
            return {str(clean(key)): clean(inner) for key, inner in value.items()}
        case list() | tuple():
            return [clean(inner) for inner in value]
        case _:
            return str(value)
