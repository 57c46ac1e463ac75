"""Walks along edges end, tell the nearest first, and miss nothing within their bounds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.domain.memory import Edge
from kagura_kernel.memory.store import descendants, walk

NODES = st.sampled_from("abcdefgh")
EDGES = st.sets(st.tuples(NODES, NODES).filter(lambda ends: ends[0] != ends[1]), max_size=16)


def near(edges: Collection[tuple[str, str]], ids: Sequence[str]) -> list[Edge]:
    return [Edge(*ends) for ends in sorted(edges) if set(ends) & set(ids)]


def distances(edges: Collection[tuple[str, str]], seed: str, hidden: Collection[str]) -> dict[str, int]:
    found, level, away = {seed: 0}, {seed}, 0
    while level:
        away += 1
        level = {
            other
            for one, two in edges
            for here, other in ((one, two), (two, one))
            if here in level and other not in found and other not in hidden
        }
        found |= dict.fromkeys(level, away)
    return found


@given(edges=EDGES, seed=NODES, depth=st.integers(0, 5), most=st.integers(1, 9), hidden=st.sets(NODES, max_size=3))
def test_a_walk_tells_what_is_near_and_visible_and_the_edges_between(edges, seed, depth, most, hidden):
    walked = walk(
        seed,
        lambda ids: near(edges, ids),
        lambda ids: {one for one in ids if one not in hidden},
        depth=depth,
        most=most,
    )
    away = distances(edges, seed, hidden)
    within = [one for one, steps in away.items() if steps <= depth]
    assert walked.ids[0] == seed
    assert len(walked.ids) == len(set(walked.ids)) == min(most, len(within))
    assert [away[one] for one in walked.ids] == sorted(away[one] for one in within)[:most]
    between = {Edge(*ends) for ends in edges if set(ends) <= set(walked.ids)}
    assert set(walked.edges) == between
    assert len(walked.edges) == len(between)


@given(edges=EDGES, seed=NODES)
def test_descendants_are_everything_below_each_once(edges, seed):
    found = descendants(seed, lambda ids: [child for child, parent in sorted(edges) if parent in ids])
    below, level = {seed}, {seed}
    while level:
        level = {child for child, parent in edges if parent in level} - below
        below |= level
    assert found[0] == seed
    assert len(found) == len(set(found))
    assert set(found) == below
