"""What is wrong with several fields of a definition together, which models tell only when each is right by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from kagura_kernel.domain.kit import AGENT_NAME
from kagura_kernel.kit.definitions.problems import place_of, problems_of
from kagura_kernel.kit.definitions.toolsets import MAX_TOOLSETS, LspToolset, McpToolset, lsp_conflicts, mcp_conflicts

_CONFLICTS = {"mcp": mcp_conflicts, "lsp": lsp_conflicts}


def problems_together(found: Mapping[str, Any], within: Sequence[int | str] = ()) -> Iterator[str]:
    """Each as one line with its place; what is of another kind than it should be is passed over.

    Args:
        found: A definition, as it was read.
        within: Where it stands in its document.
    """
    toolsets = found.get("toolsets")
    given = list(enumerate(toolsets))[:MAX_TOOLSETS] if isinstance(toolsets, list) else []
    names: list[str] = []
    for at, one in given:
        if isinstance(one, Mapping):
            yield from _of_toolset(one, (*within, "toolsets", at))
            name = one.get("name")
            names += [name] if isinstance(name, str) and AGENT_NAME.fullmatch(name) else []
    if why := names_twice(names):
        yield _line(within, why)
    agents = found.get("agents")
    for key, one in agents.items() if isinstance(agents, Mapping) else ():
        if isinstance(one, Mapping):
            yield from problems_together(one, (*within, "agents", str(key)))


def names_twice(names: Sequence[str]) -> str:
    """What is wrong with the names of a definition's toolsets; empty when each stands once."""
    twice = sorted({name for name in names if names.count(name) > 1})
    return f"toolsets must have names of their own, and these stand more than once: {', '.join(twice)}" if twice else ""


def _of_toolset(given: Mapping[str, Any], within: Sequence[int | str]) -> Iterator[str]:
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in _CONFLICTS:
        # It is looked at as what it seems to be, so that a wrong word hides nothing else that is wrong.
        kind = "lsp" if "languages" in given else "mcp"
        yield from _of_fields({**given, "type": kind}, LspToolset if kind == "lsp" else McpToolset, within)
    yield from (_line(within, why) for why in _CONFLICTS[kind](given))


def _of_fields(
    given: Mapping[str, Any], model: type[McpToolset | LspToolset], within: Sequence[int | str]
) -> Iterator[str]:
    try:
        model.model_validate(given)
    except ValidationError as error:
        yield from problems_of(error, [model], within)


def _line(within: Sequence[int | str], why: str) -> str:
    return f"{place_of(within)}: {why}" if within else why
