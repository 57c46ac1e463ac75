"""A memory goes to the cloud and comes back the same; what others wrote is read with care."""

import json
import string
from datetime import UTC, datetime

from hypothesis import given, strategies as st

from kagura_kernel.domain.memory import EDGE_TYPES, Author, Draft, Edge, Source, Tier
from kagura_kernel.memory.cloud.store import CloudMemoryRow, asked_to_keep, edge_of, mark_of, memory_of_row, without
from kagura_kernel.memory.store import memory_of

ID = "00000000-0000-4000-8000-00000000000a"
OTHER = "00000000-0000-4000-8000-00000000000b"
WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=60).filter(str.strip)
NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=12).filter(lambda name: name != "kagura")
MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
DRAFTS = st.builds(
    Draft,
    text=WORDS,
    source=st.builds(Source, st.sampled_from(Author), NAMES, NAMES, NAMES),
    tier=st.sampled_from(Tier),
    type=NAMES,
    summary=st.one_of(st.just(""), WORDS),
    tags=st.lists(NAMES, max_size=5).map(tuple),
    importance=st.floats(0, 1),
    scope=NAMES,
    thread=NAMES,
    speaker=NAMES,
    at=MOMENTS,
    expires_at=st.none() | MOMENTS,
    pinned=st.booleans(),
    data=st.dictionaries(NAMES, st.none() | st.integers(-9, 9) | WORDS, max_size=3),
)


@given(draft=DRAFTS)
def test_a_memory_comes_back_from_the_wire_as_it_went(draft):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    kept = memory_of(draft, now)
    asked = json.loads(json.dumps(asked_to_keep(kept)))
    assert 10 <= len(asked["summary"]) <= 500
    row = memory_of_row({**asked, "memory_id": ID, "created_at": "2026-01-01T00:00:00Z"})
    expected = {name: getattr(kept, name) for name in Draft.__dataclass_fields__ if name != "id"}
    assert {name: getattr(row.memory, name) for name in expected} == expected
    assert (row.memory.id, row.memory.created_at) == (f"mem-{ID}", now)


@given(
    told=st.dictionaries(st.sampled_from(["tier", "author", "at", "data", "pinned", "scope"]), st.integers() | WORDS)
)
def test_details_that_somebody_else_wrote_do_no_harm(told):
    row = memory_of_row({"memory_id": ID, "content": "x", "details": {"kagura": told}, "created_at": "2026-01-01"})
    assert row.memory.tier is Tier.QUARANTINE
    assert memory_of_row({"memory_id": ID, "details": told}).memory.source.author is Author.IMPORT


def test_trust_needs_the_tag_and_the_details():
    trusted = {"kagura": {"tier": "trusted"}}
    assert memory_of_row({"tags": ["kagura-trusted"], "details": trusted}).memory.tier is Tier.TRUSTED
    assert memory_of_row({"tags": ["kagura-trusted"]}).memory.tier is Tier.QUARANTINE
    assert memory_of_row({"tags": [], "details": trusted}).memory.tier is Tier.QUARANTINE


def test_each_type_of_edge_is_told_by_a_mark_and_read_back():
    for kind in EDGE_TYPES:
        edge = Edge(f"mem-{ID}", f"mem-{OTHER}", kind, 0.5)
        marks = [mark for mark in (mark_of(edge),) if mark]
        told = {"source_id": ID, "target_id": OTHER, "edge_type": "related_to", "weight": 0.5}
        assert edge_of(told, marks) == edge
        assert without((*marks, "kagura-edge-fixes-123456789012"), edge.target) == ("kagura-edge-fixes-123456789012",)


def test_an_edge_that_the_cloud_made_by_itself_is_related_and_has_a_weight_of_ours():
    told = {"source_id": ID, "target_id": OTHER, "edge_type": "neural_association", "weight": 2.5}
    assert edge_of(told, ()) == Edge(f"mem-{ID}", f"mem-{OTHER}", "related", 1.0)


def test_a_row_without_marks_of_ours_shows_its_own_tags():
    row = memory_of_row({"memory_id": ID, "tags": ["python", "kagura-edge-fixes-123456789012", "kagura-trusted"]})
    assert isinstance(row, CloudMemoryRow)
    assert (row.memory.tags, row.marks) == (("python",), ("kagura-edge-fixes-123456789012",))
