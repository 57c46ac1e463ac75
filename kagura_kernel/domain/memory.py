"""What is said about memories: what was remembered, by whom, how far it is trusted, and how it was found again."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import PurePath

from kagura_kernel.domain.late_dataclass import dataclass, field

MEMORY_TYPE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.ASCII)
"""What a type of memory may be called: kebab-case, at most 48 characters."""

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
    """Where a memory comes from."""

    author: Author  # Who said it
    by: str = ""  # The person's name, or the agent's; empty where there is none
    run_id: str = ""  # The run that it was said in; empty outside of runs
    uri: str = ""  # What it was read from, such as an address or a file; empty where there is nothing


def as_tag(word: str) -> str:
    """A word as a tag, in small letters of whatever script, joined by dashes; as it is where it can be none."""
    tag = unicodedata.normalize("NFC", word).lower()
    return tag if all(map(_is_of_letters, tag.split("-"))) else word


def is_tag(word: str) -> bool:
    """Whether a word is a tag, but for its length."""
    return word == as_tag(word) and all(map(_is_of_letters, word.split("-")))


def _is_of_letters(part: str) -> bool:
    # Vowel signs and accents of their own are marks, and belong to the letter before them.
    return part[:1].isalnum() and all(one.isalnum() or unicodedata.category(one).startswith("M") for one in part)


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to be remembered."""

    text: str  # What; 1 to `MOST_TEXT` characters, not blank
    source: Source  # Who says so
    tier: Tier = Tier.QUARANTINE  # How far it is trusted
    type: str = NOTE  # `MEMORY_TYPE`
    summary: str = ""  # One line, at most `MOST_SUMMARY` characters; empty takes the beginning of the text
    tags: tuple[str, ...] = ()  # Each as `as_tag` has it, at most `MOST_TAGS`; kept sorted, each once
    importance: float = 0.5
    scope: str = ""  # Whom it concerns: empty for everybody, otherwise such as `project:…` or `session:…`
    thread: str = ""  # The conversation that it is one turn of; its neighbours there help to find it. Empty for none.
    speaker: str = ""  # Who speaks in that turn; helps to find it
    at: datetime | None = None  # When it happened, aware; None is now
    expires_at: datetime | None = None  # When it is forgotten by itself, aware; None is never
    pinned: bool = False  # Whether every run starts with it
    data: Mapping[str, object] = field(default_factory=dict)  # Further facts, as JSON values; not searched
    id: str = ""  # Its id where it has one already (import, children of a run); empty makes one

    def __post_init__(self) -> None:
        """Write its tags as they are kept."""
        object.__setattr__(self, "tags", tuple(map(as_tag, self.tags)))


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory, as it is kept."""

    id: str  # `mem-…`
    text: str  # See `Draft`
    source: Source
    tier: Tier
    type: str
    summary: str
    tags: tuple[str, ...]
    importance: float
    scope: str
    thread: str
    speaker: str  # Likewise
    at: datetime  # When it happened, aware, UTC
    created_at: datetime  # When it was remembered, aware, UTC
    expires_at: datetime | None = None
    pinned: bool = False
    data: Mapping[str, object] = field(default_factory=dict)
    promoted_by: str = ""  # Who said that it may be trusted; empty where nobody had to
    helped: int = 0  # How often it was said to have helped
    misled: int = 0  # How often it was said to have misled
    # When it was forgotten; such a memory is found by its id alone, until it is erased
    forgotten_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """One memory has to do with another."""

    source: str  # Id of the memory that it begins at
    target: str  # Id of the memory that it leads to: `source` prevents `target`, came from `target`
    type: str = RELATED  # One of `EDGE_TYPES`
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a memory."""

    text: str  # In words; empty lists the newest that fit
    k: int = 10  # How many at most, 1 to 1,000
    types: tuple[str, ...] = ()  # Of these types alone; empty for any
    tags: tuple[str, ...] = ()  # With these tags, as `as_tag` has them
    all_tags: bool = False  # Whether every one of them, or any
    tier: Tier | None = None  # Of this tier alone; None for any
    # Of these scopes alone; None for any. What concerns everybody has the scope "".
    scopes: tuple[str, ...] | None = None
    since: datetime | None = None  # That happened from `since` on and before `until`, aware
    until: datetime | None = None
    min_importance: float = 0.0

    def __post_init__(self) -> None:
        """Ask for its tags as they are kept."""
        object.__setattr__(self, "tags", tuple(map(as_tag, self.tags)))


@dataclass(frozen=True, slots=True)
class Recalled:
    """A memory that was found."""

    memory: Memory
    score: float  # Greater is better; of one answer alone comparable, between 0 and 1
    # What matched, the strongest first: words of the question, `neighbour`, `meaning`, `tag: …`
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What lies around a memory."""

    memories: tuple[Memory, ...]  # The one asked for first, then the others by their distance
    edges: tuple[Edge, ...]  # Between them


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure removed."""

    memories: tuple[str, ...]  # Ids, the one that was named first, then what came from it
    edges: int  # How many


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """How much is remembered."""

    memories: int  # Those that can be recalled
    quarantined: int  # Of them, how many are not trusted
    forgotten: int  # Forgotten and not erased yet
    edges: int  # All of them


@dataclass(frozen=True, slots=True)
class SeenMemory:
    """A memory that a run was shown, without what it says."""

    id: str
    type: str  # Its type, as `known_type` says it
    tier: str  # How far it was trusted then
    author: str  # Who said it
    score: float | None = None  # How well it fitted; None where it was not searched for


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """The same with its first line, for live displays."""

    id: str  # See `SeenMemory`
    type: str  # Its type, whatever its author calls it
    tier: str
    author: str
    summary: str  # One line, redacted
    score: float | None = None
    why: tuple[str, ...] = ()  # What matched
