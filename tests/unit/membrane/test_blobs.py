import hashlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import JournalUnwritable
from kagura_kernel.membrane.blobs import BlobStore


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_a_content_comes_back_by_its_hash(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    name, size = await store.put(pieces(b"ab", b"c"))
    assert (name, size) == (hashlib.sha256(b"abc").hexdigest(), 3)
    assert store.get(name) == b"abc"


async def test_of_a_long_content_only_the_beginning_is_read(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    name, _ = await store.put(pieces(b"abcdef"))
    assert (store.head(name, 4), store.head(name, 40)) == (b"abcd", b"abcdef")
    with pytest.raises(FileNotFoundError):
        store.head("0" * 64, 4)


async def test_a_content_is_private(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    name, _ = await store.put(pieces(b"x"))
    assert (tmp_path / "blobs").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "blobs" / name[:2] / name).stat().st_mode & 0o777 == 0o600


async def test_half_a_content_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await BlobStore(tmp_path / "blobs").put(broken())
    assert list((tmp_path / "blobs").rglob("*")) == []


async def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(JournalUnwritable):
        await BlobStore(tmp_path / "file" / "blobs").put(pieces(b"x"))


async def test_old_contents_are_pruned_and_young_ones_stay(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    old, _ = await store.put(pieces(b"old"))
    young, _ = await store.put(pieces(b"young"))
    path = tmp_path / "blobs" / old[:2] / old
    os.utime(path, (time.time() - 40 * 86400,) * 2)
    assert store.prune() == 1
    assert store.get(young) == b"young"
    with pytest.raises(FileNotFoundError):
        store.get(old)


async def test_pruning_twice_at_once_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = BlobStore(tmp_path / "blobs")
    await store.put(pieces(b"old"))

    def gone(_path: Path, **_: bool) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "unlink", gone)
    assert store.prune(older_than_days=-1) == 0


async def test_what_somebody_needs_for_longer_is_kept_and_only_asked_for_when_something_would_go(tmp_path):
    store = BlobStore(tmp_path / "blobs")
    needed, _ = await store.put(pieces(b"needed"))
    other, _ = await store.put(pieces(b"other"))
    asked = []

    def keep():
        asked.append(True)
        return [needed]

    assert store.prune(30, keep=keep) == 0
    assert asked == []
    for sha256 in (needed, other):
        os.utime(tmp_path / "blobs" / sha256[:2] / sha256, (0, 0))
    assert store.prune(30, keep=keep) == 1
    assert store.get(needed) == b"needed"
    with pytest.raises(FileNotFoundError):
        store.get(other)


async def test_a_folder_for_a_while_is_gone_afterwards_and_pruned_where_its_process_was_killed(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    with store.scratch() as place:
        (place / "inner").mkdir()
        assert place.stat().st_mode & 0o077 == 0
    assert list((tmp_path / "blobs").iterdir()) == []
    left, young = tmp_path / "blobs" / ".new-left", tmp_path / "blobs" / ".new-young"
    for folder in (left, young):
        (folder / "inner").mkdir(parents=True)
    os.utime(left, (0, 0))
    store.prune()
    assert list((tmp_path / "blobs").iterdir()) == [young]
