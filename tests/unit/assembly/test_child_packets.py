from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.assembly import dask_worker
from kagura_kernel.assembly.dask_worker import Packet, Report, contents_of, keep, packed, packet_of, report_of
from kagura_kernel.domain.cost import Cost, Usage
from kagura_kernel.domain.outcome import FileChange, RunOutcome
from kagura_kernel.domain.patterns import DelegationTerms, Handoff
from kagura_kernel.domain.variables import CellPlace
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.runs.order import ChildOrder

names = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=20)
"""Names of files may hold halves of characters, as systems that know no encoding have them."""


@given(st.text(), names, st.floats(0, 10) | st.none())
def test_what_arrives_is_what_was_sent(task, path, share):
    handoff = Handoff(
        "mem-1", ("run-1", "run-2"), share, ("ask",), ("a:b",), "none", untrusted=True, delegation=DelegationTerms(1)
    )
    change = FileChange(path, "added", new_sha256="0" * 64, diff=task)
    order = ChildOrder(
        task, handoff, "run-2", "ses", Path("/a b/ü"), place=CellPlace(notebook="n.ipynb"), changes=(change,)
    )
    packet = Packet(order, "journal", "1.0")
    assert packet_of(packed(packet)) == packet
    outcome = RunOutcome(
        "run-3", "ses", "done", task, Cost(share, None, "s"), Usage(1, 2, 3, 4), (change,), 0.5, memories=("mem-2",)
    )
    assert report_of(packed(Report(outcome))) == Report(outcome)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"order": {"task": 1}}', '{"order": null, "version": "1"}'])
def test_what_is_no_packet_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        packet_of(text)


async def stored(blobs: BlobStore, content: bytes) -> str:
    async def once() -> AsyncIterator[bytes]:
        yield content

    return (await blobs.put(once()))[0]


async def test_contents_are_kept_under_the_hash_of_what_has_arrived(tmp_path):
    here, there = BlobStore(tmp_path / "here"), BlobStore(tmp_path / "there")
    sha = await stored(here, b"content")
    changes = [
        FileChange("a", "added", new_sha256=sha),
        FileChange("b", "added", new_sha256=sha),
        FileChange("l", "added", "link", target="a", new_sha256="1" * 64),
        FileChange("pruned", "added", new_sha256="2" * 64),
        FileChange("gone", "deleted"),
    ]
    contents = contents_of(changes, here)
    assert contents == {sha: b"content"}
    await keep({"3" * 64: b"content"}, there)
    assert there.get(sha) == b"content"


async def test_more_than_may_travel_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(dask_worker, "MOST_BYTES", 5)
    blobs = BlobStore(tmp_path)
    sha = await stored(blobs, b"content")
    with pytest.raises(ValueError, match="do not travel"):
        contents_of([FileChange("a", "added", new_sha256=sha)], blobs)
