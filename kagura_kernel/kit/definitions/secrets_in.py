"""A definition holds no secret: what it starts and asks is seen by brains, journals and boxes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kagura_kernel.kit.definitions.given import given_texts
from kagura_kernel.kit.definitions.problems import shown_key

if TYPE_CHECKING:
    from kagura_kernel.kit.redaction.redactor import Redactor

_ADVICE = (
    "what stands in a definition is shown and enters the box: name a credential in place of a secret, as in "
    "`grants: {credentials: [github:read]}`, and the run leases it for its box"
)


def secret_problems(found: Mapping[str, Any], redactor: Redactor) -> list[str]:
    """The secrets that a definition hands to toolsets, each by its place alone, and what to do; empty without any.

    Args:
        found: A definition, as it was read; what is of another kind than it should be is passed over.
        redactor: Is waited for where there is anything to look through, and otherwise not asked.

    Raises:
        RedactionUnavailable: secrets cannot be looked for.
    """
    problems = [f"{place}: it holds a secret ({kinds})" for place, kinds in _found(found, redactor, "")]
    return [*problems, _ADVICE] if problems else []


def _found(found: Mapping[str, Any], redactor: Redactor, where: str) -> Iterator[tuple[str, str]]:
    toolsets, agents = found.get("toolsets"), found.get("agents")
    for at, toolset in enumerate(toolsets if isinstance(toolsets, list) else ()):
        for place, said in _handed(toolset) if isinstance(toolset, Mapping) else ():
            if kinds := redactor.redact(said).kinds:
                yield f"{where}toolsets[{at}].{place}", ", ".join(kinds)
    for key, sub in agents.items() if isinstance(agents, Mapping) else ():
        if isinstance(sub, Mapping):
            yield from _found(sub, redactor, f"{where}agents.{shown_key(str(key))}.")


def _handed(toolset: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each text that a toolset is started or asked with: its place, and itself as it is written where it is used."""
    arguments = []
    for place, name, text in given_texts(toolset):
        if place.startswith("env."):
            yield place, f"{name}={text}"
        elif place.startswith("headers."):
            yield place, f"{name}: {text}"
        elif place.startswith("args["):
            arguments.append(text)
        else:
            yield place, text
    if arguments:
        yield "args", " ".join((str(toolset.get("command", "")), *arguments))
