"""`kagura-kernel egress check`: explains whether a box could reach a host, and why. Connects to nothing."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from kagura_kernel.cockpit.checking import explain_targets
from kagura_kernel.membrane.egress.gate import Explanation

ALL_ALLOWED, SOME_REFUSED = 0, 1


def run(arguments: SimpleNamespace) -> int:
    """Print the explanations; 1 when a target is refused, otherwise 0.

    Raises:
        HostNotUnderstood: a target is none.
        ConfigurationError: a grant is none, or the settings, which may hold mirrors, are wrong.
    """
    from kagura_kernel.assembly import load_settings

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
