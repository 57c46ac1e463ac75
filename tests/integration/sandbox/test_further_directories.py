"""Directories of the host that a box reads, where they are mounted: whose they are, and what tells of their places."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.gvisor import RunscBackend

from .as_nobody import NOBODY, ROOT, boxes_of

PLACE = "/kagura/further"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may show files as another user's")


@pytest.fixture(
    params=[
        BubblewrapBackend,
        pytest.param(
            RunscBackend,
            marks=pytest.mark.skipif(shutil.which("runsc") is None, reason="needs gVisor: apt install runsc"),
        ),
    ],
    ids=["bubblewrap", "runsc"],
)
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[BubblewrapBackend | RunscBackend]:
    started = request.param()
    yield started
    await started.close()


@pytest.fixture
def further() -> Iterator[Path]:
    """A directory in one that everybody may enter; pytest's own may only be entered by its owner."""
    above = Path(tempfile.mkdtemp(prefix="a-place-of-the-host-")).resolve()
    above.chmod(0o755)
    root = above / "version"
    root.mkdir()
    (root / "word").write_text("as it was\n")
    (root / "tool").write_text("#!/bin/sh\necho tool\n")
    (root / "tool").chmod(0o755)
    yield root
    shutil.rmtree(above)


@needs_root
async def test_what_only_its_owner_may_read_is_the_boxs_own_to_read(backend, further):
    for path in (further, *further.iterdir()):
        path.chmod(path.stat().st_mode & 0o700)
        os.chown(path, NOBODY, NOBODY)
    box = await backend.start(BoxSpec(extra_read_only=((further, PLACE),)))
    result = await box.run(shell_command(f"cat {PLACE}/word; {PLACE}/tool; [ -O {PLACE}/word ] && echo own"))
    assert result.stdout.text == "as it was\ntool\nown\n"


async def test_a_parked_box_is_taken_as_long_as_the_directory_is_the_same(backend, further):
    spec = backend.parking_spec(BoxSpec(extra_read_only=((further, PLACE),)))
    assert spec is not None
    parked = await backend.park(spec)
    assert parked.alive
    box = await parked.take(spec)
    assert box.warm
    assert (await box.run(shell_command(f"cat {PLACE}/word"))).stdout.text == "as it was\n"
    await box.close()
    stale = await backend.park(spec)
    further.rename(further.with_name("before"))
    assert not stale.alive
    shutil.copytree(further.with_name("before"), further)
    assert not stale.alive
    await stale.close()


@needs_root
@pytest.mark.skipif(not Path("/var/lib/dpkg/status").exists(), reason="a writable root is made of a Debian system")
async def test_not_even_the_root_of_a_box_writes_there(further):
    backend = BubblewrapBackend()
    box = await backend.start(BoxSpec(extra_read_only=((further, PLACE),), writable_root=True))
    tries = f"touch {PLACE}/new; echo x > {PLACE}/word; chmod 777 {PLACE}/word; mount -o remount,rw {PLACE}"
    result = await box.run(shell_command(f"id -u; cat {PLACE}/word; {PLACE}/tool; {tries}; umount {PLACE}"))
    assert (result.exit_code != 0, result.stdout.text) == (True, "0\nas it was\ntool\n")
    assert (further / "word").read_text() == "as it was\n"
    assert sorted(path.name for path in further.iterdir()) == ["tool", "word"]
    await backend.close()


def test_an_ordinary_users_box_reads_it_and_learns_no_more(further):
    if os.geteuid() == 0:
        for path in (further, *further.iterdir()):
            os.chown(path, NOBODY, NOBODY)
    lines = ["cat /kagura/further/word; /kagura/further/tool; touch /kagura/further/new || echo no", "mount; pwd"]
    [box] = boxes_of({"extra": [[str(further), PLACE]], "lines": lines})
    if "refused" in box:
        pytest.skip(f"no box of an ordinary user here: {box['refused']}")
    read, places = (out for _, out, _ in box["answers"])
    assert read == "as it was\ntool\nno\n"
    assert PLACE in places
    assert further.parent.name not in places


WITHOUT_OVERLAYS = """
import errno, json, os, sys
sys.path.insert(0, sys.argv[1])
from kagura_kernel.sandbox.supervisor import linux
from kagura_kernel.sandbox.supervisor import shown_paths
mount = linux.mount
def refusing(source, target, kind="", flags=0, data=""):
    if kind == "overlay":
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), target)
    mount(source, target, kind, flags, data)
linux.mount = refusing
linux.unshare(linux.CLONE_NEWNS)
mount("none", "/", flags=linux.MS_REC | linux.MS_SLAVE)
mount("tmpfs", "/sys/kernel", "tmpfs")
os.mkdir("/sys/kernel/void")
notes = []
pairs = [(sys.argv[2], "/kagura/further")]
found = list(shown_paths.show_further(pairs, "/sys/kernel", "/sys/kernel/void", 1000, notes))
(place, target), = found
with open(place + "/word") as word:
    read = word.read()
try:
    open(place + "/new", "w")
    wrote = "wrote"
except OSError as error:
    wrote = error.strerror
print(json.dumps([read, wrote, os.stat(place).st_uid, target, notes]))
"""


@needs_root
def test_without_overlays_it_is_shown_all_the_same_and_told(further):
    words = [sys.executable, "-c", WITHOUT_OVERLAYS, str(ROOT), str(further)]
    printed = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    read, wrote, owner, target, notes = json.loads(printed)
    assert (read, wrote, owner, target) == ("as it was\n", "Read-only file system", 1000, PLACE)
    assert notes == [f"programs in the box can find out that {PLACE} lies at {further} (no overlay: invalid argument)"]


async def test_two_directories_have_two_places(backend, further):
    other = further.with_name("other")
    shutil.copytree(further, other)
    (other / "word").write_text("another\n")
    spec = BoxSpec(extra_read_only=((further, PLACE), (other, "/kagura/other")))
    box = await backend.start(replace(spec, env={"OTHER": "/kagura/other"}))
    assert (await box.run(shell_command(f"cat {PLACE}/word $OTHER/word"))).stdout.text == "as it was\nanother\n"
