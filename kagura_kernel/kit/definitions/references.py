"""From a reference to an agent: a file, a name, an https URL, or an OCI artifact that is pinned by its digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import AgentInvalid, AgentNotFound
from kagura_kernel.kit.definitions.definition import AgentDefinition, as_yaml, digest_of, parse_definition, said
from kagura_kernel.kit.definitions.origins import (
    DEFAULT_AGENT,
    AgentPlaces,
    Kind,
    Source,
    Sources,
    built_in_names,
    own_names,
)
from kagura_kernel.kit.definitions.pinned import sha256

if TYPE_CHECKING:
    from kagura_kernel.kit.definitions.fetching import Fetcher
    from kagura_kernel.kit.redaction.redactor import Redactor

__all__ = ["DEFAULT_AGENT", "AgentPlaces", "ResolvedAgent", "known_agents", "resolve_agent", "usual_places"]

MAX_SUB_DEPTH = 3
MAX_SUB_AGENTS = 16


@dataclass(frozen=True, slots=True)
class ResolvedAgent:
    """A definition and where it comes from.

    Attributes:
        definition: As it was read.
        reference: In its normal form: an absolute path, a name, a URL without a pin, or `oci://…@sha256:…`. Holds
            places of the host: never for a box, a brain, or a manifest.
        kind: What sort of reference it is; `inline` for a sub-agent that its parent defines.
        base: The directory that its own relative references begin at; None where there are none.
        trusted: Whether the person wrote it for themselves, or we did: its grants are as if typed.
        digest: SHA-256 over what it and all its sub-agents say.
        document: SHA-256 of the document's bytes: what a pin says; empty for an inline one.
        agents: Its sub-agents, by the names under which it knows them.
    """

    definition: AgentDefinition
    reference: str
    kind: Kind
    base: Path | None
    trusted: bool
    digest: str
    document: str = ""
    agents: Mapping[str, ResolvedAgent] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def name(self) -> str:
        """Its name, as it says itself."""
        return self.definition.name

    def to_yaml(self) -> str:
        """It and its sub-agents as one document without references and places."""
        return as_yaml(self.said())

    def said(self) -> dict[str, Any]:
        """What it and its sub-agents say, as plain values without references."""
        values = said(self.definition)
        return values | ({"agents": {key: agent.said() for key, agent in self.agents.items()}} if self.agents else {})


def usual_places(environ: Mapping[str, str], cwd: Path) -> AgentPlaces:
    """The places of one person on this machine; nothing is made."""
    from kagura_kernel.journal.place import data_home

    home = data_home(environ)
    return AgentPlaces(cwd=cwd, own=home / "agents", cache=home / "agent-cache", environ=environ)


def resolve_agent(
    reference: str, places: AgentPlaces, *, fetch: Fetcher | None = None, redactor: Redactor | None = None
) -> ResolvedAgent:
    """The agent that a reference leads to, with its sub-agents. Blocks: not for a loop.

    Args:
        reference: As a person wrote it; empty is the usual agent.
        places: Where it is looked for.
        fetch: What carries requests; None is the network.
        redactor: Looks for secrets in what definitions hand to toolsets; None looks for none.

    Raises:
        AgentNotFound: there is nothing at its end.
        AgentUnavailable: it cannot be fetched or read, or is not what was pinned.
        AgentInvalid: what is there is no definition, holds a secret, or its sub-agents go round in a circle.
        RedactionUnavailable: secrets cannot be looked for.
    """
    from kagura_kernel.kit.definitions.fetching import Fetcher

    return _Resolving(places, fetch or Fetcher(), redactor).agent(reference.strip() or DEFAULT_AGENT)


def known_agents(places: AgentPlaces) -> tuple[str, ...]:
    """Names that lead to an agent, sorted: built-in ones and the person's own."""
    return tuple(sorted({*built_in_names(), *own_names(places)}))


class _Resolving:
    """One walk from a reference down to the last sub-agent."""

    def __init__(self, places: AgentPlaces, fetch: Fetcher, redactor: Redactor | None) -> None:
        self._redactor = redactor
        self._sources = Sources(places, fetch)
        self._count = 0

    def agent(self, reference: str) -> ResolvedAgent:
        return self._resolve(self._sources.find(reference), ())

    def _resolve(self, source: Source, above: tuple[str, ...]) -> ResolvedAgent:
        if source.reference in above:
            raise AgentInvalid(source.shown, ["its sub-agents lead back to it: a definition cannot hold itself"])
        definition = parse_definition(source.data, source.document_name, self._redactor)
        return self._whole(definition, source, (*above, source.reference), sha256(source.data))

    def _whole(
        self, definition: AgentDefinition, source: Source, above: tuple[str, ...], document: str = ""
    ) -> ResolvedAgent:
        if definition.agents and len(above) > MAX_SUB_DEPTH:
            raise AgentInvalid(source.shown, [f"sub-agents lie at most {MAX_SUB_DEPTH} deep in one another"])
        self._count += len(definition.agents)
        if self._count > MAX_SUB_AGENTS:
            raise AgentInvalid(source.shown, [f"an agent has at most {MAX_SUB_AGENTS} sub-agents, theirs counted too"])
        agents = {key: self._sub(key, agent, source, above) for key, agent in definition.agents.items()}
        return ResolvedAgent(
            definition,
            source.reference,
            source.kind if document else "inline",
            source.base,
            source.trusted,
            _digest(definition, agents),
            document,
            MappingProxyType(agents),
        )

    def _sub(self, key: str, agent: str | AgentDefinition, source: Source, above: tuple[str, ...]) -> ResolvedAgent:
        if not isinstance(agent, str):
            return self._whole(agent, source, (*above, f"{above[-1]}#{key}"))
        try:
            found = self._sources.find_from(agent, source)
        except AgentNotFound as error:
            raise AgentInvalid(source.shown, [f"agents.{key}: there is no agent {error.reference!r}"]) from error
        return self._resolve(found, above)


def _digest(definition: AgentDefinition, agents: Mapping[str, ResolvedAgent]) -> str:
    """SHA-256 over what a definition says, each sub-agent by its own digest, wherever it was written."""
    return digest_of(said(definition) | {"agents": {key: agent.digest for key, agent in agents.items()}})
