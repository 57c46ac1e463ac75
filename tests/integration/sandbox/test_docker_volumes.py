"""Directories of the host in Docker boxes: copies in volumes, each content once, and never one that is not whole."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docker import DockerClient

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.docker import volumes as docker_volumes
from kagura_kernel.sandbox.docker.backend import DockerBackend
from kagura_kernel.sandbox.docker.flags import OWNER_LABEL
from kagura_kernel.sandbox.docker.volumes import pack
from kagura_kernel.sandbox.docker_endpoint import Endpoint
from tests.support.docker_images import BASE

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

PLACE = "/kagura/further"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Its content is like no other test's."""
    root = tmp_path.resolve() / "folder"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "word").write_text(f"{os.urandom(8).hex()}\n")
    return root


@pytest.fixture
def owner(folder: Path) -> str:
    """One of another machine, which nobody takes for dead."""
    return f"elsewhere-{(folder / 'sub' / 'word').read_text().strip()}:1:1"


@pytest.fixture
async def backend(docker_endpoint: Endpoint, owner: str) -> AsyncIterator[DockerBackend]:
    made = DockerBackend(docker_endpoint, owner=owner, default_image=BASE)
    yield made
    await made.close()


def spec_of(*folders: Path) -> BoxSpec:
    return BoxSpec(extra_read_only=tuple((one, f"{PLACE}{number or ''}") for number, one in enumerate(folders)))


async def seen(backend: DockerBackend, spec: BoxSpec, line: str = f"cat {PLACE}*/sub/word") -> str:
    box = await backend.start(spec)
    try:
        return (await box.run(shell_command(line))).stdout.text
    finally:
        await box.close()


def volumes_of(client: DockerClient, owner: str) -> list[str]:
    found: dict[str, Any] = client.api.volumes(filters={"label": [f"{OWNER_LABEL}={owner}"]})
    return [str(volume["Name"]) for volume in found.get("Volumes") or ()]


async def test_equal_contents_are_one_volume_for_all_boxes_and_go_with_the_back_end(
    backend, client, folder, owner, monkeypatch
):
    packed: list[Path] = []
    monkeypatch.setattr(docker_volumes, "pack", lambda source, archive: packed.append(source) or pack(source, archive))
    other = folder.with_name("other")
    shutil.copytree(folder, other)
    word = (folder / "sub" / "word").read_text()
    answers = await asyncio.gather(*(seen(backend, spec_of(*pair)) for pair in ((folder, other), (other,), (folder,))))
    assert answers == [word * 2, word, word]
    (volume,) = volumes_of(client, owner)
    # Each directory was read once, since it stayed as it was.
    assert sorted(packed) == [folder, other]
    box = await backend.start(spec_of(folder))
    (mount,) = client.api.inspect_container(box.id)["Mounts"]
    assert (mount["Type"], mount["Name"], mount["RW"]) == ("volume", volume, False)
    assert str(folder) not in str(client.api.inspect_container(box.id)) + str(client.api.inspect_volume(volume))
    assert not client.containers.list(all=True, filters={"label": f"{OWNER_LABEL}={owner}", "status": "created"})
    await backend.close()
    assert volumes_of(client, owner) == []


async def test_a_volume_that_somebody_removes_is_filled_again(backend, client, folder, owner, monkeypatch):
    word = await seen(backend, spec_of(folder))
    (first,) = volumes_of(client, owner)
    create = backend._create

    async def late(box_id: str, body: dict[str, Any], spec: BoxSpec) -> tuple[str, ...]:
        # At the last moment: the daemon makes an empty one of that name.
        client.api.remove_volume(body["HostConfig"]["Mounts"][0]["Source"])
        monkeypatch.setattr(backend, "_create", create)
        return await create(box_id, body, spec)

    monkeypatch.setattr(backend, "_create", late)
    assert await seen(backend, spec_of(folder)) == word
    (second,) = volumes_of(client, owner)
    assert second != first
    assert first not in [volume.name for volume in client.volumes.list()]


async def test_a_volume_that_was_not_filled_to_its_end_is_never_seen_and_not_left(
    backend, client, folder, owner, monkeypatch
):
    (folder / "zz").write_bytes(bytes(500_000))
    put = backend._engine.put

    async def half(name: str, place: str, archive: Any) -> None:
        archive.truncate(300_000)
        await put(name, place, archive)

    monkeypatch.setattr(backend._engine, "put", half)
    with pytest.raises(SandboxUnavailable):
        await backend.start(spec_of(folder))
    assert volumes_of(client, owner) == []
    monkeypatch.undo()
    assert await seen(backend, spec_of(folder)) == (folder / "sub" / "word").read_text()


async def test_starts_that_are_cancelled_while_they_send_leave_nothing(backend, client, folder, owner):
    await backend.probe()
    for number, delay in enumerate((0.005, 0.01, 0.02, 0.03, 0.05)):
        (folder / "number").write_text(str(number))
        starting = asyncio.create_task(backend.start(spec_of(folder)))
        await asyncio.sleep(delay)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).close()
    assert len(volumes_of(client, owner)) == len(backend._volumes._filled)
    assert not client.containers.list(all=True, filters={"label": f"{OWNER_LABEL}={owner}"})
    await backend.close()
    assert volumes_of(client, owner) == []


async def test_only_the_contents_asked_for_last_are_kept(backend, client, folder, owner, monkeypatch):
    monkeypatch.setattr(docker_volumes, "KEPT", 2)
    box = await backend.start(spec_of(folder))
    (first,) = volumes_of(client, owner)
    for number in range(4):
        (folder / "sub" / "word").write_text(f"{number}\n")
        assert await seen(backend, spec_of(folder)) == f"{number}\n"
    # What a running box has stays until it is gone.
    assert first in volumes_of(client, owner)
    assert len(volumes_of(client, owner)) == 3
    await box.close()
    (folder / "sub" / "word").write_text("last\n")
    assert await seen(backend, spec_of(folder)) == "last\n"
    assert first not in volumes_of(client, owner)
    assert len(volumes_of(client, owner)) == 2


async def test_a_parked_box_is_taken_as_long_as_it_shows_what_is_there(backend, folder):
    spec = backend.parking_spec(replace(spec_of(folder), workspace=folder))
    assert spec is not None
    one, two = await asyncio.gather(backend.park(spec), backend.park(spec))
    box = await one.take(spec)
    assert box.warm
    assert (await box.run(shell_command(f"cat {PLACE}/sub/word"))).stdout.text == (folder / "sub" / "word").read_text()
    (folder / "sub" / "word").write_text("changed\n")
    with pytest.raises(SandboxUnavailable, match="changed"):
        await two.take(spec)
    assert not two.alive


async def test_what_cannot_be_copied_is_told(backend, folder):
    os.mkfifo(folder / "pipe")
    (folder / "sub" / "out").symlink_to("../../other")
    (folder / "in").symlink_to("sub/word")
    box = await backend.start(spec_of(folder))
    assert [note for note in box.notes if f"{PLACE}/pipe, {PLACE}/sub/out" in note]
    listed = await box.run(shell_command(f"cd {PLACE} && find . | sort | xargs; cat in"))
    assert listed.stdout.text == f". ./in ./sub ./sub/word\n{(folder / 'sub' / 'word').read_text()}"
