from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import BoxFileError, WorkspaceTooLarge
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.changes import Contents
from kagura_kernel.sandbox.backend import Box, BoxChange, BoxSpec
from kagura_kernel.testing.box import FakeBackend


@pytest.fixture
async def box():
    backend = FakeBackend()
    yield await backend.start(BoxSpec())
    await backend.close()


def stored(home: Path) -> int:
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


async def test_no_more_is_read_than_was_told(box: Box, tmp_path: Path) -> None:
    await box.run(shell_command("head -c 3000000 /dev/zero > grown"))
    contents = Contents(BlobStore(tmp_path), 2**30)
    for told in (0, -5, 1000, 2_999_999):
        with pytest.raises(BoxFileError) as caught:
            await contents.take(box.files, BoxChange("grown", "added", size=told))
        assert caught.value.reason == "EFBIG"
    assert stored(tmp_path) == 0
    assert (await contents.take(box.files, BoxChange("grown", "added", size=3_000_000))).size == 3_000_000


async def test_one_budget_holds_for_all_contents_however_often_it_is_asked(box: Box, tmp_path: Path) -> None:
    await box.run(shell_command("for n in 1 2 3; do head -c 40000 /dev/urandom > f$n; done"))
    contents = Contents(BlobStore(tmp_path), 100_000)
    for name in ("f1", "f2", "f1", "f2"):
        await contents.take(box.files, BoxChange(name, "added", size=40_000))
    with pytest.raises(WorkspaceTooLarge):
        await contents.take(box.files, BoxChange("f3", "added", size=40_000))
    assert stored(tmp_path) == 80_000


async def test_a_small_content_is_kept_for_its_diff_and_a_large_one_is_not(box: Box, tmp_path: Path) -> None:
    await box.run(shell_command("echo hi > small; head -c 600000 /dev/zero > large"))
    contents = Contents(BlobStore(tmp_path), 2**30)
    assert (await contents.take(box.files, BoxChange("small", "added", size=3))).content == b"hi\n"
    assert (await contents.take(box.files, BoxChange("large", "added", size=600_000))).content is None


async def test_new_content_of_the_same_size_is_no_way_around_the_budget(box: Box, tmp_path: Path) -> None:
    contents = Contents(BlobStore(tmp_path), 100_000)
    for _ in range(2):
        await box.run(shell_command("head -c 40000 /dev/urandom > f"))
        await contents.take(box.files, BoxChange("f", "added", size=40_000))
    for _ in range(2):
        await box.run(shell_command("head -c 40000 /dev/urandom > f"))
        with pytest.raises(WorkspaceTooLarge):
            await contents.take(box.files, BoxChange("f", "added", size=40_000))
    assert stored(tmp_path) == 80_000


async def test_reading_ends_where_the_budget_does(box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await box.run(shell_command("head -c 5000000 /dev/zero > f"))
    real, reads = box.files.read, []

    async def counted(path: str, **given: int) -> bytes:
        reads.append(given)
        return await real(path, **given)

    monkeypatch.setattr(box.files, "read", counted, raising=False)
    with pytest.raises(WorkspaceTooLarge):
        await Contents(BlobStore(tmp_path), 1_500_000).take(box.files, BoxChange("f", "added", size=5_000_000))
    assert len(reads) == 2
