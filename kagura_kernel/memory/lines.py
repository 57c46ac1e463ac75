"""Memories as JSON lines: one object a line, a memory or an edge, for carrying them from one store to another.

What is read is checked whole before anything of it is kept. A file comes from outside: what it says of who may trust
its memories is not believed unless the caller says so, and neither is what it says of memories that are here already.
An edge decides what is erased with what, and what is told to have mended a failure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta

from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryUnknown
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.memory import FIXES, PREVENTS, Author, Draft, Edge, Memory, Source, Tier
from kagura_kernel.memory.store import MEMORY_ID, MemoryStore, check_edge, memory_of

VERSION = 1
MOST_TOLD = 5
"""Problems that are told at once."""

_TEXTS = ("text", "type", "summary", "scope", "thread", "speaker", "id")
_FLAGS = {"importance": (int, float), "pinned": (bool,), "data": (dict,)}
_MOMENTS = ("at", "expires_at")
_CLOCKS_DIFFER = timedelta(days=1)
_MEMORY_KEYS = {*_TEXTS, *_FLAGS, *_MOMENTS, "source", "tier", "tags", "created_at", "promoted_by", "helped", "misled"}
_EDGE_KEYS = {"source", "target", "type", "weight"}
_JUDGES = frozenset({FIXES, PREVENTS})
"""Types of edges that are told as what happened to the memory they lead to: only whoever is believed may say so."""


@dataclass(frozen=True, slots=True)
class Lines:
    """What lines hold: memories to be remembered, in their order, and the edges to be made then."""

    drafts: tuple[Draft, ...]  # The memories
    edges: tuple[Edge, ...]  # Between them, and to those that are there already
    trusting: bool = False  # Whether the file is believed


@dataclass(frozen=True, slots=True)
class Imported:
    """How much an import gave."""

    memories: tuple[str, ...]  # Ids of all memories that it named
    edges: int  # How many were drawn
    left_out: int = 0  # How many were not, since they say something for a memory that was there before
    here: tuple[str, ...] = ()  # Of the memories those that were there before, and stayed as they were
    # Of these those in quarantine that a file which is believed calls trusted, in the same words
    doubted: tuple[str, ...] = ()
    shorn: int = 0  # From how many new ones a secret was taken out before they were kept

    @property
    def new(self) -> int:
        """How many memories it has brought."""
        return len(set(self.memories)) - len(self.here)


def write_lines(items: Iterable[Memory | Edge]) -> Iterator[str]:
    """A line for each, without its end; what `MemoryStore.export` gives can be handed over as it is."""
    for item in items:
        kind, fields = ("edge", _edge_fields(item)) if isinstance(item, Edge) else ("memory", _memory_fields(item))
        yield json.dumps({"v": VERSION, "kind": kind, **fields}, ensure_ascii=False, separators=(",", ":"))


def read_lines(lines: Iterable[str], *, trusting: bool = False) -> Lines:
    """What lines hold; empty ones are passed over.

    Args:
        lines: As `write_lines` makes them.
        trusting: Whether a file is believed who has written its memories, and which are trusted and pinned; otherwise
            all are an import's, and in quarantine.

    Raises:
        MemoryInvalid: some lines cannot be used; each is told with its number, from 1.
    """
    drafts: list[Draft] = []
    edges: list[Edge] = []
    problems: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = _item(line)
        except _Unusable as error:
            problems.append(f"line {number}: {error}")
        except MemoryInvalid as error:
            problems += [f"line {number}: {problem}" for problem in error.problems]
        else:
            if isinstance(item, Edge):
                edges.append(item)
            else:
                drafts.append(item if trusting else _doubted(item))
    if problems:
        more = len(problems) - MOST_TOLD
        raise MemoryInvalid("The lines", [*problems[:MOST_TOLD], *([f"and {more} more"] if more > 0 else [])])
    return Lines(tuple(drafts), tuple(edges), trusting)


def import_lines(store: MemoryStore, lines: Iterable[str], *, trusting: bool = False) -> Imported:
    """Keep what lines hold; memories whose ids are there already stay as they are.

    Of a file that is not believed only those edges are drawn that begin at a memory which it has brought itself, and
    neither say that this mends a memory which was there before, nor that it prevents one.

    Raises:
        MemoryInvalid: some lines cannot be used, or an edge leads to a memory that is nowhere; nothing is kept then.
        MemoryUnavailable: the store cannot be reached.
    """
    return keep(store, read_lines(lines, trusting=trusting))


def keep(store: MemoryStore, held: Lines) -> Imported:
    """The same for lines that were read; raises likewise."""
    given = {draft.id: draft for draft in reversed(held.drafts) if draft.id}
    ends = {end for edge in held.edges for end in (edge.source, edge.target)}
    there = {one: memory for one in dict.fromkeys((*given, *ends)) if (memory := _find(store, one)) is not None}
    if unknown := sorted(ends - given.keys() - there.keys()):
        some = ", ".join(unknown[:MOST_TOLD])
        raise MemoryInvalid("The lines", [f"edges lead to memories that are nowhere: {some}"])
    # Whatever bears the id of a memory that is there already was not brought by this file.
    brought = given.keys() - there.keys()
    edges = [edge for edge in held.edges if held.trusting or _may_say(edge, brought)]
    ids = store.remember_many(held.drafts)
    for edge in edges:
        store.create_edge(edge)
    here = tuple(one for one in dict.fromkeys(ids) if one in there)
    doubted = tuple(one for one in here if held.trusting and _is_doubted(there[one], given[one]))
    return Imported(tuple(ids), len(edges), len(held.edges) - len(edges), here, doubted)


def _is_doubted(memory: Memory, draft: Draft) -> bool:
    """Whether nobody has promoted it here, although a file that is believed says that it is trusted."""
    return draft.tier is Tier.TRUSTED and memory.tier is Tier.QUARANTINE and memory.text == draft.text


def _may_say(edge: Edge, brought: Collection[str]) -> bool:
    """Whether a file that is not believed may draw it: what was here before neither grows from it nor is judged."""
    return edge.source in brought and (edge.target in brought or edge.type not in _JUDGES)


class _Unusable(Exception):
    """Why a line cannot be used, as the end of a sentence."""


def _item(line: str) -> Draft | Edge:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise _Unusable("it is no JSON") from None
    if not isinstance(fields, dict):
        raise _Unusable("it is no object")
    if fields.pop("v", None) != VERSION:
        raise _Unusable(f"its version `v` is not {VERSION}")
    kind = fields.pop("kind", None)
    if kind not in ("memory", "edge"):
        raise _Unusable("its `kind` is neither memory nor edge")
    if unknown := sorted(fields.keys() - (_MEMORY_KEYS if kind == "memory" else _EDGE_KEYS)):
        raise _Unusable(f"it has fields that nobody knows: {', '.join(unknown)[:200]}")
    return _edge(fields) if kind == "edge" else _draft(fields)


def _draft(fields: dict[str, object]) -> Draft:
    _must_be(fields, {**dict.fromkeys(_TEXTS, (str,)), **_FLAGS, "source": (dict,), "tier": (str,), "tags": (list,)})
    tags = fields.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise _Unusable("its `tags` are not all text")
    if "text" not in fields:
        raise _Unusable("it has no `text`")
    try:
        tier = Tier(str(fields.get("tier", Tier.QUARANTINE)))
    except ValueError:
        raise _Unusable("its `tier` is neither trusted nor quarantine") from None
    plain = {name: fields[name] for name in (*_TEXTS, *_FLAGS) if name in fields}
    draft = Draft(
        **plain,  # type: ignore[arg-type] # each was looked at above
        source=_source(fields.get("source", {})),
        tier=tier,
        tags=tuple(tags),
        at=_moment(fields, "at"),
        expires_at=_moment(fields, "expires_at"),
    )
    now = datetime.now(UTC)
    if memory_of(draft, now).at - now > _CLOCKS_DIFFER:
        # It would stand before everything that is newer than it, for as long as it is kept.
        raise _Unusable("its `at` lies in the future")
    return draft


def _doubted(draft: Draft) -> Draft:
    """As an import: a file does not say who the author was, nor what every run is shown once it is trusted."""
    return replace(draft, tier=Tier.QUARANTINE, pinned=False, source=replace(draft.source, author=Author.IMPORT))


def _source(fields: object) -> Source:
    if not isinstance(fields, dict) or any(not isinstance(value, str) for value in fields.values()):
        raise _Unusable("its `source` is no object of texts")
    if unknown := sorted(fields.keys() - {"author", "by", "run_id", "uri"}):
        raise _Unusable(f"its `source` has fields that nobody knows: {', '.join(unknown)[:200]}")
    try:
        author = Author(fields.get("author", Author.IMPORT))
    except ValueError:
        raise _Unusable("its `source` has an author that nobody knows") from None
    return Source(author, fields.get("by", ""), fields.get("run_id", ""), fields.get("uri", ""))


def _edge(fields: dict[str, object]) -> Edge:
    _must_be(fields, {"source": (str,), "target": (str,), "type": (str,), "weight": (int, float)})
    if missing := sorted({"source", "target"} - fields.keys()):
        raise _Unusable(f"it has no {' and no '.join(missing)}")
    edge = Edge(**fields)  # type: ignore[arg-type] # each was looked at above
    if not MEMORY_ID.fullmatch(edge.source) or not MEMORY_ID.fullmatch(edge.target):
        raise _Unusable("one of its ends is no id")
    check_edge(edge)
    return edge


def _must_be(fields: dict[str, object], kinds: dict[str, tuple[type, ...]]) -> None:
    for name, kind in kinds.items():
        value = fields.get(name)
        if name in fields and (not isinstance(value, kind) or (isinstance(value, bool) and bool not in kind)):
            raise _Unusable(f"its `{name}` is not what it should be")


def _moment(fields: dict[str, object], name: str) -> datetime | None:
    value = fields.get(name)
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value)  # type: ignore[arg-type] # what is no text is told below
    except (TypeError, ValueError):
        raise _Unusable(f"its `{name}` is no moment such as 2026-01-31T12:00:00+00:00") from None


def _memory_fields(memory: Memory) -> dict[str, object]:
    source = memory.source
    origin = {"author": source.author.value, "by": source.by, "run_id": source.run_id, "uri": source.uri}
    fields: dict[str, object] = {
        "id": memory.id,
        "text": memory.text,
        "source": {name: value for name, value in origin.items() if value},
        "tier": memory.tier.value,
        "type": memory.type,
        "summary": memory.summary,
        "tags": list(memory.tags),
        "importance": memory.importance,
        "scope": memory.scope,
        "thread": memory.thread,
        "speaker": memory.speaker,
        "at": memory.at.isoformat(),
        "expires_at": memory.expires_at.isoformat() if memory.expires_at else None,
        "pinned": memory.pinned,
        "data": dict(memory.data),
        "created_at": memory.created_at.isoformat(),
        "promoted_by": memory.promoted_by,
        "helped": memory.helped,
        "misled": memory.misled,
    }
    return {name: value for name, value in fields.items() if value not in ("", [], {}, None, False)}


def _edge_fields(edge: Edge) -> dict[str, object]:
    return {"source": edge.source, "target": edge.target, "type": edge.type, "weight": edge.weight}


def _find(store: MemoryStore, memory_id: str) -> Memory | None:
    try:
        return store.reference(memory_id)
    except MemoryUnknown:
        return None
