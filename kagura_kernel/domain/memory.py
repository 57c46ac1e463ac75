"""What is said about memories: what was remembered, by whom, how far it is trusted, and how it was found again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import PurePath

MEMORY_TYPE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.ASCII)
"""What a type of memory and a tag may be called: kebab-case, at most 48 characters."""

NOTE, LESSON, FIX, OUTCOME, TASK, DECISION = "note", "lesson", "fix", "outcome", "task", "decision"
"""Types that have a meaning to the engine; others are whatever somebody calls them."""

OTHER = "other"
"""What every type of somebody's own is called where nothing can be erased."""

_OURS = frozenset({NOTE, LESSON, FIX, OUTCOME, TASK, DECISION, "handoff"})

PREVENTS, FIXES, SUPPORTS, CONTRADICTS, FOLLOWS, CAME_FROM, RELATED = (
    "prevents",
    "fixes",
    "supports",
    "contradicts",
    "follows",
    "came-from",
    "related",
)
"""Types of edges. What came from a memory is erased with it."""

EDGE_TYPES = (PREVENTS, FIXES, SUPPORTS, CONTRADICTS, FOLLOWS, CAME_FROM, RELATED)

MOST_TEXT = 64 * 1024
"""Characters of one memory."""
MOST_SUMMARY = 500
MOST_TAGS = 32


def project_scope(root: PurePath) -> str:
    """The scope of a project: its folder's name, and a mark of where that lies, since others may have the same name."""
    mark = hashlib.sha256(str(root).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"project:{root.name[:80].encode('utf-8', 'replace').decode()}-{mark}"


def known_type(kind: str) -> str:
    """A memory's type as a row of the journal holds it: one that we know, or `OTHER`.

    A type is a word of its author's, and may say something by itself; what stands in the journal stays there.
    """
    return kind if kind in _OURS else OTHER


class Tier(StrEnum):
    """How far a memory is trusted."""

    TRUSTED = "trusted"
    """A person wrote or promoted it, or an outcome that nobody could forge."""
    QUARANTINE = "quarantine"
    """An agent, or something that an agent read, said so; it never widens what a run may do."""


class Author(StrEnum):
    """Who said it."""

    HUMAN = "human"
    AGENT = "agent"
    ENGINE = "engine"
    """The engine itself, of what it measured: exit codes, costs, decisions."""
    IMPORT = "import"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a memory comes from.

    Attributes:
        author: Who said it.
        by: The person's name, or the agent's; empty where there is none.
        run_id: The run that it was said in; empty outside of runs.
        uri: What it was read from, such as an address or a file; empty where there is nothing.
    """

    author: Author
    by: str = ""
    run_id: str = ""
    uri: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to be remembered.

    Attributes:
        text: What; 1 to `MOST_TEXT` characters, not blank.
        source: Who says so.
        tier: How far it is trusted.
        type: `MEMORY_TYPE`.
        summary: One line, at most `MOST_SUMMARY` characters; empty takes the beginning of the text.
        tags: Each `MEMORY_TYPE`, at most `MOST_TAGS`; kept sorted, each once.
        importance: 0 to 1.
        scope: Whom it concerns: empty for everybody, otherwise such as `project:…` or `session:…`.
        thread: The conversation that it is one turn of; its neighbours there help to find it. Empty for none.
        speaker: Who speaks in that turn; helps to find it.
        at: When it happened, aware; None is now.
        expires_at: When it is forgotten by itself, aware; None is never.
        pinned: Whether every run starts with it.
        data: Further facts, as JSON values; not searched.
        id: Its id where it has one already (import, children of a run); empty makes one.
    """

    text: str
    source: Source
    tier: Tier = Tier.QUARANTINE
    type: str = NOTE
    summary: str = ""
    tags: tuple[str, ...] = ()
    importance: float = 0.5
    scope: str = ""
    thread: str = ""
    speaker: str = ""
    at: datetime | None = None
    expires_at: datetime | None = None
    pinned: bool = False
    data: Mapping[str, object] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory, as it is kept.

    Attributes:
        id: `mem-…`.
        text, source, tier, type, summary, tags, importance, scope, thread: See `Draft`.
        speaker, expires_at, pinned, data: Likewise.
        at: When it happened, aware, UTC.
        created_at: When it was remembered, aware, UTC.
        promoted_by: Who said that it may be trusted; empty where nobody had to.
        helped: How often it was said to have helped.
        misled: How often it was said to have misled.
        forgotten_at: When it was forgotten; such a memory is found by its id alone, until it is erased.
    """

    id: str
    text: str
    source: Source
    tier: Tier
    type: str
    summary: str
    tags: tuple[str, ...]
    importance: float
    scope: str
    thread: str
    speaker: str
    at: datetime
    created_at: datetime
    expires_at: datetime | None = None
    pinned: bool = False
    data: Mapping[str, object] = field(default_factory=dict)
    promoted_by: str = ""
    helped: int = 0
    misled: int = 0
    forgotten_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """One memory has to do with another.

    Attributes:
        source: Id of the memory that it begins at.
        target: Id of the memory that it leads to: `source` prevents `target`, came from `target`.
        type: One of `EDGE_TYPES`.
        weight: 0 to 1.
    """

    source: str
    target: str
    type: str = RELATED
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a memory.

    Attributes:
        text: In words; empty lists the newest that fit.
        k: How many at most, 1 to 1,000.
        types: Of these types alone; empty for any.
        tags: With these tags.
        all_tags: Whether every one of them, or any.
        tier: Of this tier alone; None for any.
        scopes: Of these scopes alone; None for any. What concerns everybody has the scope "".
        since, until: That happened from `since` on and before `until`, aware.
        min_importance: 0 to 1.
    """

    text: str
    k: int = 10
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    all_tags: bool = False
    tier: Tier | None = None
    scopes: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    min_importance: float = 0.0


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that was found.

    Attributes:
        memory: It.
        score: Greater is better; of one answer alone comparable, between 0 and 1.
        why: What matched, the strongest first: words of the question, `neighbour`, `meaning`, `tag: …`.
    """

    memory: Memory
    score: float
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What lies around a memory.

    Attributes:
        memories: The one asked for first, then the others by their distance.
        edges: Between them.
    """

    memories: tuple[Memory, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure removed.

    Attributes:
        memories: Ids, the one that was named first, then what came from it.
        edges: How many.
    """

    memories: tuple[str, ...]
    edges: int


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """How much is remembered.

    Attributes:
        memories: Those that can be recalled.
        quarantined: Of them, how many are not trusted.
        forgotten: Forgotten and not erased yet.
        edges: All of them.
    """

    memories: int
    quarantined: int
    forgotten: int
    edges: int


@dataclass(frozen=True, slots=True)
class SeenMemory:
    """A memory that a run was shown, without what it says.

    Attributes:
        id: Which.
        type: Its type, as `known_type` says it.
        tier: How far it was trusted then.
        author: Who said it.
        score: How well it fitted; None where it was not searched for.
    """

    id: str
    type: str
    tier: str
    author: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """The same with its first line, for live displays.

    Attributes:
        id, tier, author, score: See `SeenMemory`.
        type: Its type, whatever its author calls it.
        summary: One line, redacted.
        why: What matched.
    """

    id: str
    type: str
    tier: str
    author: str
    summary: str
    score: float | None = None
    why: tuple[str, ...] = ()
