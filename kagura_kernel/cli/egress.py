"""`kagura-kernel egress`: explains whether a box could reach a host, and why; lists what boxes asked for.

Connects to nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from kagura_kernel.cli import egress_log
from kagura_kernel.membrane.egress.explaining import Explanation, explain
from kagura_kernel.membrane.egress.hostsets import HOST_SETS, NONE, HostSets
from kagura_kernel.membrane.egress.names import HTTPS, Target, parse_target, parse_url
from kagura_kernel.membrane.egress.policy import EgressPolicy, parse_grants

ALL_ALLOWED, SOME_REFUSED = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`check`, with the grants to check against and the targets; and `log`."""
    parts = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = parts.add_parser(
        "check",
        help="explain the decision on each target; exit code 1 if one is refused",
        description="Explains for each target whether a box with these grants could connect to it, and why. Looks the "
        "names up on this machine and connects to nothing. Exit code 0 if all are allowed, 1 if not, 2 on wrong usage.",
        epilog=f"host sets: {', '.join(HOST_SETS)}",
    )
    check.add_argument(
        "--net",
        metavar="HOST[:PORT]",
        action="append",
        default=[],
        help="a grant: a host (port 443), HOST:PORT, a host set, or `ask`; several with commas between; `none` takes "
        "back those before it",
    )
    check.add_argument("--json", action="store_true", help="print one JSON array")
    check.add_argument("--no-resolve", action="store_true", help="look no name up; addresses are then not judged")
    check.add_argument("target", nargs="+", metavar="TARGET", help="HOST:PORT or URL; a host alone means port 443")
    log = parts.add_parser(
        "log",
        help="what boxes asked to connect to, what was decided, and what went through",
        description="Lists the connections that boxes asked for, the newest first, from the journal: the decision, the "
        "bytes each way, and how each ended. A refusal that a run got again and again is listed the 1st, 2nd, 4th, 8th "
        "time.",
    )
    egress_log.add_arguments(log)


def run(arguments: argparse.Namespace) -> int:
    """Print the explanations or the log; 1 when a target to explain is refused, otherwise 0.

    Raises:
        UsageError: as `egress_log.run` does.
        HostNotUnderstood: a target is none.
        ConfigurationError: a grant is none, or the settings, which may hold mirrors, are wrong.
    """
    if arguments.action == "log":
        return egress_log.run(arguments)
    policy = parse_grants(_words(arguments.net), _sets())
    targets = [read_target(text) for text in arguments.target]
    explanations = asyncio.run(_explain_all(policy, targets, resolve=not arguments.no_resolve))
    if arguments.json:
        print(json.dumps([_as_json(one) for one in explanations], ensure_ascii=False))
    else:
        print("\n".join(_as_text(one) for one in explanations))
    return ALL_ALLOWED if all(one.allowed for one in explanations) else SOME_REFUSED


def read_target(text: str) -> Target:
    """A target as a person writes it.

    Raises:
        HostNotUnderstood: it is neither HOST[:PORT] nor a URL.
    """
    return parse_url(text) if "://" in text else parse_target(text, HTTPS)


def _sets() -> HostSets:
    """The sets of hosts as a run knows them: a person's mirrors stand in."""
    from kagura_kernel.assembly import load_settings
    from kagura_kernel.membrane.grant import host_sets

    return host_sets(load_settings(os.environ).mirrors)


def _words(texts: Sequence[str]) -> list[str]:
    """The words after `--net` as a cell reads them."""
    words: list[str] = []
    for word in (word.strip() for text in texts for word in text.split(",")):
        if word == NONE:
            words.clear()
        else:
            words.append(word)
    return words


async def _explain_all(policy: EgressPolicy, targets: Sequence[Target], *, resolve: bool) -> list[Explanation]:
    from kagura_kernel.membrane.egress.resolving import SystemResolver

    resolver = SystemResolver() if resolve else None
    return list(await asyncio.gather(*(explain(policy, target, resolver) for target in targets)))


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
