"""Whether a box could reach hosts, for a person who asks beforehand. Connects to nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kagura_kernel.membrane.egress.gate import Explanation, SystemResolver, explain
from kagura_kernel.membrane.egress.hosts import HTTPS, NONE, Target, parse_target, parse_url
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.grant import host_sets


async def explain_targets(
    targets: Sequence[str], net: Sequence[str], mirrors: Mapping[str, Sequence[str]], *, resolve: bool
) -> list[Explanation]:
    """The decision on each target, in their order. `mirrors` are the settings' hosts that stand in for sets.

    Raises:
        HostNotUnderstood: a target or a mirror is none.
        ConfigurationError: a grant is none.
    """
    policy = parse_grants(_granted(net), host_sets(mirrors))
    wanted = [read_target(text) for text in targets]
    resolver = SystemResolver() if resolve else None
    return list(await asyncio.gather(*(explain(policy, target, resolver) for target in wanted)))


def read_target(text: str) -> Target:
    """A target as a person writes it.

    Raises:
        HostNotUnderstood: it is neither HOST[:PORT] nor a URL.
    """
    return parse_url(text) if "://" in text else parse_target(text, HTTPS)


def _granted(net: Sequence[str]) -> list[str]:
    """The words as a cell reads them: `none` takes back those before it."""
    words = list(net)
    while NONE in words:
        del words[: words.index(NONE) + 1]
    return words
