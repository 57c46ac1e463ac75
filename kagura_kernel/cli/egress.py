"""`kagura-kernel egress check` and `egress log`: whether a box could reach a host, and what boxes asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kagura_kernel.cli.journal_access import read_log
from kagura_kernel.cli.output import moment, size, span, tell_rows
from kagura_kernel.cockpit.next_commands import NO_CONNECTIONS, at_limit
from kagura_kernel.journal import views

if TYPE_CHECKING:
    from kagura_kernel.journal.rows import EgressRow
    from kagura_kernel.membrane.egress.gate import Explanation


ALL_ALLOWED, SOME_REFUSED = 0, 1


def egress_check(arguments: SimpleNamespace) -> int:
    """Print the explanations; 1 when a target is refused, otherwise 0.

    Raises:
        HostNotUnderstood: a target is none.
        ConfigurationError: a grant is none, or the settings, which may hold mirrors, are wrong.
    """
    import asyncio

    from kagura_kernel.assembly import load_settings
    from kagura_kernel.cockpit.egress_check import explain_targets

    mirrors = load_settings(os.environ).mirrors
    explaining = explain_targets(arguments.target, arguments.net, mirrors, resolve=not arguments.no_resolve)
    explanations = asyncio.run(explaining)
    if arguments.json:
        print(json.dumps([_as_json(one) for one in explanations], ensure_ascii=False))
    else:
        print("\n".join(_as_text(one) for one in explanations))
    return ALL_ALLOWED if all(one.allowed for one in explanations) else SOME_REFUSED


def _as_json(explanation: Explanation) -> Mapping[str, Any]:
    return {
        "target": str(explanation.target),
        "host": explanation.target.host,
        "port": explanation.target.port,
        "allowed": explanation.allowed,
        "verdict": explanation.ruling.verdict.value,
        "rule": explanation.ruling.rule,
        "reason": explanation.reason,
        "advice": explanation.advice,
        "addresses": [
            {"address": address, "allowed": why is None, "why": why or "public"}
            for address, why in explanation.addresses
        ],
    }


def _as_text(explanation: Explanation) -> str:
    lines = [f"{explanation.target}: {'allowed' if explanation.allowed else 'refused'}", f"  - {explanation.reason}"]
    lines += [f"  - {address}: {why or 'may be reached'}" for address, why in explanation.addresses]
    lines += [f"  - {explanation.advice}"] if explanation.advice else []
    return "\n".join(lines)


def egress_log(arguments: SimpleNamespace) -> int:
    """Print them; 0 whatever they are like. Raises as `read_log`."""
    refused = arguments.refused
    rows = read_log(
        arguments,
        lambda journal, run_id, since, limit: views.egress(
            journal, run_id=run_id, since=since, refused_only=refused, limit=limit
        ),
    )
    head = ("at", "run", "target", "decision", "times", "by", "out", "in", "took", "end")
    whole = ("at", "run", "decision", "times", "out", "in", "took")
    cells = [_cells(row) for row in rows]
    more = at_limit(len(rows), arguments.limit)
    return tell_rows(arguments, list(map(asdict, rows)), head, cells, whole=whole, none=NO_CONNECTIONS, further=more)


def _cells(row: EgressRow) -> tuple[object, ...]:
    host = f"[{row.host}]" if ":" in row.host else row.host
    start = (moment(row.at), row.run_id, f"{host}:{row.port}")
    if not row.allowed:
        return (*start, "refused", row.times, "-", "-", "-", "-", row.reason)
    end = " ".join(filter(None, (row.ended, row.detail))) or "-"
    return (*start, "allowed", "-", row.rule, size(row.bytes_out), size(row.bytes_in), span(row.duration), end)
