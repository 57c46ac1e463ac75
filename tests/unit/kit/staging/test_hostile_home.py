"""A home with fifty skills in which everything is wrong that can be: the kit is right, and the host stays as it was."""

import contextlib
import hashlib
import json
import os
import socket
import stat
import unicodedata
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from kagura_kernel.kit.staging import home_files
from kagura_kernel.kit.staging.stage import Kit, build_kit, read_staged
from tests.support.kit_rig import HomeRig
from tests.support.redactors import shared_redactor

OUTSIDE = "written outside of every skill"
PASSWORD = "Vq7-kelp-Anchor"
CONFIG = f"host: db\npassword: {PASSWORD}\n# größe\n"


@dataclass(frozen=True)
class Hostile:
    """The home, what it looked like before, why each thing is left out of the plan, and the kit."""

    rig: HomeRig
    before: dict[str, tuple[object, ...]]
    left_out: dict[str, str]
    kit: Kit

    def told(self, skill: str) -> dict[str, str]:
        """What is told of a skill, by paths in it; what is told of all of it has an empty one."""
        return {
            target.removeprefix(f"skills/{skill}").removeprefix("/"): reason
            for target, reason in self.left_out.items()
            if f"{target}/".startswith(f"skills/{skill}/")
        }

    def staged(self, skill: str) -> set[str]:
        root = self.kit.directory / "skills" / skill
        return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    rig = HomeRig(tmp_path_factory.mktemp("hostile"))
    make_hostile(rig)
    before = snapshot(rig.home)
    plan = rig.plan()
    with build_kit(plan, rig.root, shared_redactor()) as kit:
        yield Hostile(rig, before, {one.target: one.reason for one in plan.left_out}, kit)


def make_hostile(rig: HomeRig) -> None:
    rig.write(rig.home / "private/outside.txt", OUTSIDE)
    for number in range(38):
        rig.skill(f"plain-{number}", {"notes.txt": f"number {number}"})
    make_linked(rig)
    make_special(rig)
    make_encoded(rig)
    make_named(rig)
    make_unlimited(rig)


def make_linked(rig: HomeRig) -> None:
    root = rig.skill("linked", {"data/table.csv": "a,b\n", "deep/er/x.txt": "x"})
    links = {
        "inside.csv": "data/table.csv",
        "deep/back.csv": "../data/table.csv",
        "directory": "data",
        "absolute.csv": str(root / "data/table.csv"),
        "chain-1": "chain-2",
        "chain-2": "inside.csv",
        "out-and-in.csv": "../linked/data/table.csv",
        "outside": "../../../private/outside.txt",
        "outside-directory": "../../../private",
        "outside-by-chain": "outside",
        "outside-absolute": str(rig.home / "private/outside.txt"),
        "sibling": "../plain-1/notes.txt",
        "up": "..",
        "here": ".",
        "deep/above": "..",
        "itself": "itself",
        "to-1": "to-2",
        "to-2": "to-1",
        "nowhere": "data/none",
        "passwd": "/etc/passwd",
        "environ": "/proc/self/environ",
        "zero": "/dev/zero",
        "through-proc": f"/proc/self/root{rig.home}/private/outside.txt",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    (rig.home / ".agents/skills/elsewhere").symlink_to("/etc")
    first = rig.skill("first-is-a-link")
    (first / "SKILL.md").unlink()
    (first / "SKILL.md").symlink_to("../../../private/outside.txt")


def make_special(rig: HomeRig) -> None:
    root = rig.skill("special", {"plain.txt": "plain"})
    os.mkfifo(root / "pipe")
    (root / "to-pipe").symlink_to("pipe")
    os.link(rig.home / "private/outside.txt", root / "hard.txt")
    # Bound to a short path, since that of a socket may have 107 bytes.
    with contextlib.chdir(root), socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    with contextlib.suppress(PermissionError):  # which takes more than most people may
        os.mknod(root / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    with (root / "huge.bin").open("wb") as file:
        file.truncate(2 << 30)
    (root / "secret.txt").write_text("nobody may read this")
    (root / "secret.txt").chmod(0)
    pipe = rig.skill("first-is-a-pipe")
    (pipe / "SKILL.md").unlink()
    os.mkfifo(pipe / "SKILL.md")


def make_encoded(rig: HomeRig) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": ["ok\n", f"password: {PASSWORD}\n"]}
    cell = {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": ["login()"], "outputs": [output]}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    root = rig.skill(
        "encoded",
        {
            "latin-1.yaml": CONFIG.encode("latin-1"),
            "utf-16.yaml": CONFIG.encode("utf-16"),
            "marked.yaml": CONFIG.encode("utf-8-sig"),
            "work.ipynb": json.dumps(notebook, indent=1),
            ".git/config": f"url = https://me:{PASSWORD}@example.org/x.git\n",
            "noise.bin": bytes(range(256)) * 8,
        },
    )
    with zipfile.ZipFile(root / "archive.zip", "w") as archive:
        archive.writestr("config.yaml", CONFIG)


def make_named(rig: HomeRig) -> None:
    composed = unicodedata.normalize("NFC", "é.txt")
    root = rig.skill(
        "named",
        {
            "README.md": "upper",
            "readme.md": "lower",
            "notes.txt": "a file",
            "NOTES.TXT/x.txt": "in a directory",
            composed: "one form",
            unicodedata.normalize("NFD", composed): "another form",
            "two\nlines.txt": "x",
            "gnp.\u202etxt": "x",
            "back\\slash.txt": "x",
            "-rf": "an option",
        },
    )
    (root / os.fsdecode(b"no-\xff-text")).touch()
    # Names that this file system tells apart and others do not.
    rig.skill("Twin", {"SKILL.md": "One of two.\n"})
    rig.skill("twin", {"SKILL.md": "The other.\n"})


def make_unlimited(rig: HomeRig) -> None:
    rig.skill("crowded", {f"{number // 100}/{number}.txt": "" for number in range(home_files.MAX_FILES + 5)})
    rig.skill("deep", {"/".join("d" * 40) + "/x.txt": "x"})
    doubling = rig.skill("doubling")
    for number in range(14):
        level = doubling / f"l{number}"
        level.mkdir()
        (level / "x.txt").write_text("x")
        for name in ("a", "b"):
            (level / name).symlink_to(f"../l{number + 1}")


def snapshot(root) -> dict[str, tuple[object, ...]]:
    """Everything below a directory but the times of reading."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            path = Path(folder, name)
            one = path.lstat()
            link = str(path.readlink()) if stat.S_ISLNK(one.st_mode) else ""
            found[str(path)] = (
                one.st_mode,
                one.st_ino,
                one.st_nlink,
                one.st_size,
                one.st_mtime_ns,
                one.st_ctime_ns,
                link,
            )
    return found


def test_the_host_is_as_it_was(hostile):
    assert snapshot(hostile.rig.home) == hostile.before


def test_every_sound_skill_is_there_and_nothing_but_plain_files(hostile):
    whole = {f"plain-{number}" for number in range(38)}
    assert {skill.name for skill in hostile.kit.skills} == whole | {
        "linked",
        "special",
        "encoded",
        "named",
        "deep",
        "twin",
    }
    kinds = {stat.S_IFMT(path.lstat().st_mode) for path in hostile.kit.directory.rglob("*")}
    assert kinds == {stat.S_IFREG, stat.S_IFDIR}
    manifest = json.loads((hostile.kit.directory / "manifest.json").read_text())
    for file in manifest["files"]:
        data = (hostile.kit.directory / file["target"]).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (file["sha256"], file["size"])


def test_nothing_from_outside_of_a_skill_enters_it(hostile):
    texts = b"".join(path.read_bytes() for path in hostile.kit.directory.rglob("*") if path.is_file())
    for word in (OUTSIDE, PASSWORD, "root:x:0:0"):
        assert word.encode() not in texts
    assert hostile.staged("linked") == {
        "SKILL.md",
        "absolute.csv",
        "chain-1",
        "chain-2",
        "data/table.csv",
        "deep/back.csv",
        "deep/er/x.txt",
        "directory/table.csv",
        "inside.csv",
    }
    outside = "it is a link that leads out of its directory"
    circle = "it is a link that goes round in a circle"
    assert hostile.told("linked") == {
        "deep/above": circle,
        "environ": outside,
        "here": circle,
        "itself": circle,
        "nowhere": "it is a link that leads nowhere",
        "out-and-in.csv": outside,
        "outside": outside,
        "outside-absolute": outside,
        "outside-by-chain": outside,
        "outside-directory": outside,
        "passwd": outside,
        "sibling": outside,
        "through-proc": outside,
        "to-1": circle,
        "to-2": circle,
        "up": outside,
        "zero": outside,
    }
    assert hostile.told("elsewhere") == {"": outside}
    assert hostile.told("first-is-a-link") == {"": f"its SKILL.md cannot be staged: {outside}"}


def test_what_is_no_plain_file_is_told_and_never_opened(hostile):
    told = hostile.told("special")
    if (hostile.rig.home / ".agents/skills/special/device").exists():
        assert told.pop("device") == "it is a device"
    refused = [one.reason for one in hostile.kit.left_out if one.target == "skills/special/secret.txt"]
    if os.geteuid() == 0:  # who may read everything
        assert hostile.staged("special") == {"SKILL.md", "plain.txt", "secret.txt"}
    else:
        assert hostile.staged("special") == {"SKILL.md", "plain.txt"}
        assert refused == ["it cannot be read: permission denied"]
    assert told == {
        "hard.txt": "it is a hard link: it has another name elsewhere",
        "huge.bin": "it is larger than 16 MiB",
        "pipe": "it is a named pipe",
        "socket": "it is a socket",
        "to-pipe": "it is a named pipe",
    }
    assert hostile.told("first-is-a-pipe") == {"": "its SKILL.md cannot be staged: it is a named pipe"}


def test_texts_of_every_encoding_are_redacted_and_what_is_no_text_is_left_out(hostile):
    root = hostile.kit.directory / "skills/encoded"
    assert hostile.staged("encoded") == {"SKILL.md", "latin-1.yaml", "marked.yaml", "utf-16.yaml", "work.ipynb"}
    for name, encoding in (("latin-1", "latin-1"), ("marked", "utf-8-sig"), ("utf-16", "utf-16")):
        text = (root / f"{name}.yaml").read_bytes().decode(encoding)
        assert yaml.safe_load(text.removeprefix("\ufeff")) == {"host": "db", "password": "[REDACTED:password]"}
        assert text.endswith("\n# größe\n")
    assert read_staged(hostile.rig.root, hostile.kit.digest, "skills/encoded/utf-16.yaml").text == text
    [cell] = json.loads((root / "work.ipynb").read_text())["cells"]
    assert [line.rstrip() for line in cell["outputs"][0]["text"]] == ["ok", "password: [REDACTED:password]"]
    left_out = {one.target: one.reason for one in hostile.kit.left_out}
    assert "archive" in left_out["skills/encoded/archive.zip"]
    assert left_out["skills/encoded/noise.bin"]
    assert left_out["skills/encoded/.git"] == "a repository's own files are not staged"


def test_names_that_could_be_mixed_up_or_hide_something_are_told(hostile):
    assert hostile.staged("named") == {"-rf", "NOTES.TXT/x.txt", "README.md", "SKILL.md", "e\u0301.txt"}
    told = hostile.told("named")
    assert told.pop("no-⟨U+DCFF⟩-text") == "its name is no text"
    assert told.pop("two⟨U+000A⟩lines.txt") == "its name holds U+000A, which nobody would see"
    assert told.pop("gnp.⟨U+202E⟩txt") == "its name holds U+202E, which nobody would see"
    assert told.pop("back\\slash.txt") == "its name holds a backslash"
    assert told.pop("notes.txt") == "its name differs from 'NOTES.TXT' by case or form only"
    assert told.pop("readme.md") == "its name differs from 'README.md' by case or form only"
    assert list(told.values()) == ["its name differs from 'e\u0301.txt' by case or form only"]
    assert (hostile.kit.directory / "skills/twin/SKILL.md").read_text() == "One of two.\n"
    assert hostile.told("twin") == {"": "its name differs from 'Twin' by case or form only"}


def test_what_has_no_end_is_left_out(hostile):
    assert hostile.told("crowded") == {"": "it holds more than 2,000 files"}
    assert hostile.told("doubling") == {"": "it holds more than 2,000 files"}
    assert hostile.staged("deep") == {"SKILL.md"}
    assert list(hostile.told("deep").values()) == ["it lies more than 16 directories deep"]


def test_the_manifest_names_neither_a_place_of_the_host_nor_its_person(hostile):
    text = (hostile.kit.directory / "manifest.json").read_text()
    for word in (str(hostile.rig.home), "/home/", "private/", "tester.yaml", ".agents"):
        assert word not in text
