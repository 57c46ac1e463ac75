"""Kits are built by many processes at once, by some that are killed, and by some that have no room."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kagura_kernel.kit.staging.stage import build_kit
from kagura_kernel.kit.staging.versions import is_whole
from tests.support.kit_rig import HomeRig

PROGRAM = Path(__file__).with_name("builders.py")


@pytest.fixture
def rig(tmp_path):
    rig = HomeRig(tmp_path)
    for number in range(6):
        rig.skill(f"skill-{number}", {f"{name}.txt": name * 1000 for name in ("data", "more", "notes")})
    return rig


def start(mode: str, rig: HomeRig, *before: str) -> subprocess.Popen[str]:
    line = [*before, sys.executable, str(PROGRAM), mode, str(rig.root.parents[1])]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_reader_sees_a_whole_kit_at_every_moment_while_twelve_build(rig):
    with build_kit(rig.plan(), rig.root, rig.redactor) as kit:
        link = kit.link
    seen = set()
    with start("many", rig) as builders:
        while not seen or builders.poll() is None:
            version = link.resolve(strict=True)
            digest = hashlib.sha256((version / "manifest.json").read_bytes()).hexdigest()
            assert (version.name, is_whole(version, digest, thorough=True)) == (digest, True)
            seen.add(digest)
        assert (builders.stderr.read(), builders.wait()) == ("", 0)
    versions = [path.name for path in link.parent.joinpath("versions").iterdir()]
    assert seen <= set(versions)
    assert [name for name in versions if name.startswith(("making-", "dead-"))] == []


def test_whoever_holds_a_kit_keeps_it_whole_while_others_take_old_ones_away(rig):
    with start("reaping", rig) as builders:
        _, errors = builders.communicate()
    assert (builders.returncode, errors) == (0, "")
    [folder] = rig.root.iterdir()
    left = [path.name for path in folder.joinpath("versions").iterdir()]
    assert [name for name in left if name.startswith(("making-", "dead-"))] == []


def test_after_a_builder_was_killed_in_the_middle_the_next_build_is_whole_and_cleans_up(rig):
    with start("stuck", rig) as builder:
        assert builder.stdout.readline() == "half\n"
        builder.kill()
    [folder] = rig.root.iterdir()
    versions = folder / "versions"
    [half] = versions.iterdir()
    assert half.name.startswith("making-")
    assert any(half.rglob("*.txt"))
    with build_kit(rig.plan(), rig.root, rig.redactor) as kit:
        assert is_whole(kit.directory, kit.digest, thorough=True)
        assert sorted(path.name for path in versions.iterdir()) == [kit.digest, f"{kit.digest}.lock"]


def test_where_there_is_no_room_nothing_half_made_stays(rig):
    with start("full", rig, "unshare", "--user", "--map-root-user", "--mount") as builder:
        told, errors = builder.communicate()
    if not told:
        pytest.skip(f"no file system of one's own here: {errors.strip()[-200:]}")
    answer = json.loads(told)
    assert "no space left on device" in answer["told"]
    assert answer["left"] == []
