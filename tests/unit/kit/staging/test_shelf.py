from __future__ import annotations

import shutil

import pytest

from kagura_kernel.domain.errors import KitGone
from kagura_kernel.kit.staging import stage
from kagura_kernel.kit.staging.stage import Block, build_kit, read_staged, staged_files
from tests.support.kit_rig import SECRET, HomeRig


@pytest.fixture
def rig(tmp_path):
    return HomeRig(tmp_path)


@pytest.fixture
def kit(rig):
    wide = f"größe: {SECRET}\n".encode("utf-16")
    rig.skill("one", {"a.env": f"A={SECRET}\nB={SECRET}\n", "wide.txt": wide, "logo.png": b"\x89PNG\0"})
    with build_kit(rig.plan(), rig.root, rig.redactor) as kit:
        yield kit


def test_every_staged_file_is_listed_with_its_redactions(rig, kit):
    assert [(file.target, file.redactions) for file in staged_files(rig.root, kit.digest)] == [
        ("skills/one/SKILL.md", 0),
        ("skills/one/a.env", 2),
        ("skills/one/logo.png", 0),
        ("skills/one/wide.txt", 1),
    ]


def test_a_text_is_read_with_its_redactions_as_blocks(rig, kit):
    read = read_staged(rig.root, kit.digest, "skills/one/a.env")
    assert read.text == "A=[REDACTED:password]\nB=[REDACTED:password]\n"
    assert read.blocks == (Block(2, 21, "password"), Block(24, 43, "password"))
    assert [read.text[block.start : block.end] for block in read.blocks] == ["[REDACTED:password]"] * 2
    wide = read_staged(rig.root, kit.digest, "skills/one/wide.txt")
    assert wide.text == "größe: [REDACTED:password]\n"
    assert '"name": "tester"' in read_staged(rig.root, kit.digest, "manifest.json").text
    picture = read_staged(rig.root, kit.digest, "skills/one/logo.png")
    assert (picture.is_text, picture.text, picture.size) == (False, "", 5)


def test_a_marker_that_a_file_brings_along_is_no_redaction(rig):
    rig.skill("fake", {"fake.txt": "[REDACTED:password]\n"})
    with build_kit(rig.plan(), rig.root, rig.redactor) as kit:
        read = read_staged(rig.root, kit.digest, "skills/fake/fake.txt")
    assert (read.text, read.blocks) == ("[REDACTED:password]\n", ())


def test_of_a_large_text_the_beginning_is_shown(rig, kit, monkeypatch):
    monkeypatch.setattr(stage, "MAX_SHOWN", 5)
    read = read_staged(rig.root, kit.digest, "skills/one/wide.txt")
    assert (read.text, read.cut) == ("g", True)


@pytest.mark.parametrize("target", ["skills/one/none", "../state.json", "/etc/passwd", "skills/../../x", "", "skills"])
def test_what_is_not_in_the_kit_is_not_read(rig, kit, target):
    with pytest.raises(KitGone, match="has no file"):
        read_staged(rig.root, kit.digest, target)


@pytest.mark.parametrize("digest", ["", "..", "0" * 64, "../../x"])
def test_a_kit_that_is_not_there_is_told(rig, kit, digest):
    with pytest.raises(KitGone, match="not kept any more"):
        staged_files(rig.root, digest)
    with pytest.raises(KitGone, match="not kept any more"):
        staged_files(rig.root / "nowhere", kit.digest)


def test_a_kit_that_was_taken_away_in_the_middle_is_told(rig, kit):
    (kit.directory / "skills/one/a.env").unlink()
    with pytest.raises(KitGone, match="is gone"):
        read_staged(rig.root, kit.digest, "skills/one/a.env")
    shutil.rmtree(kit.directory / "skills")
    (kit.directory / "manifest.json").unlink()
    with pytest.raises(KitGone, match="not kept any more"):
        read_staged(rig.root, kit.digest, "skills/one/a.env")
