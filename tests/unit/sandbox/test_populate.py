import json
import os
import socket
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import WorkspaceTooLarge, WorkspaceUnreadable
from kagura_kernel.domain.policy import SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.guest import frames
from kagura_kernel.sandbox.populate import ENTRY_COST, Project, copy_notes


def entries(project: Project) -> dict[str, dict[str, object]]:
    """What was sent, by path, with each file's content."""
    data = b"".join(project.batches())
    found = {}
    place = 0

    def take(count: int) -> bytes:
        nonlocal place
        place += count
        return data[place - count : place]

    while place < len(data):
        entry = json.loads(take(frames.LENGTH.unpack(take(4))[0]))
        if entry["kind"] == "file":
            content = b""
            while length := frames.LENGTH.unpack(take(4))[0]:
                content += take(length)
            entry["content"] = content
        found[entry["path"]] = entry
    return found


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"alpha")
    (root / "sub" / "big").write_bytes(b"x" * 700_000)
    (root / "empty").write_bytes(b"")
    (root / "tool").write_bytes(b"#!")
    (root / "tool").chmod(0o751)
    return root


def test_a_project_is_sent_as_it_is(root):
    project = Project(root, (), 10**9)
    found = entries(project)
    assert {path: entry["kind"] for path, entry in found.items()} == {
        "a.txt": "file",
        "empty": "file",
        "sub": "directory",
        "sub/big": "file",
        "tool": "file",
    }
    assert found["sub/big"]["content"] == b"x" * 700_000
    assert found["tool"]["mode"] == 0o751
    assert project.left_out == []


def test_links_are_sent_as_links_and_never_followed(root, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to("..")
    found = entries(Project(root, (), 10**9))
    assert found["out"]["kind"] == "link"
    assert found["up"]["target"] == ".."
    assert not [path for path in found if path.startswith("up/")]
    assert b"secret" not in b"".join(entry.get("content", b"") for entry in found.values())


def test_protected_parts_arrive_without_any_permission_to_write(root):
    (root / ".git").mkdir(mode=0o755)
    (root / ".git" / "config").write_text("[core]\n")
    (root / ".github").mkdir(mode=0o755)
    found = entries(Project(root, (), 10**9, (".git",)))
    modes = {path: found[path]["mode"] for path in (".git", ".git/config", ".github", "tool")}
    assert {path: mode & 0o222 == 0 for path, mode in modes.items()} == {
        ".git": True,
        ".git/config": True,
        ".github": False,
        "tool": False,
    }
    assert modes[".git"] == 0o555


def test_what_is_left_out_is_told_and_cut_short(tmp_path):
    assert copy_notes(BoxSpec(workspace=tmp_path), ()) == ()
    assert copy_notes(BoxSpec(), ("a", "b")) == ("not copied into the box: a, b",)
    assert copy_notes(BoxSpec(), tuple("abcdefg")) == ("not copied into the box: a, b, c, d, e and 2 more",)


def test_a_copied_repository_is_told_unless_nothing_can_be_written(tmp_path):
    (tmp_path / ".git").mkdir()
    (note,) = copy_notes(BoxSpec(workspace=tmp_path), ())
    assert note.startswith(".git: a read-only copy")
    assert copy_notes(BoxSpec(workspace=tmp_path, policy=SandboxPolicy(type=SandboxPolicyType.READ_ONLY)), ()) == ()


def test_what_is_no_file_is_left_out_and_told(root):
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
        project = Project(root, ("sub",), 10**9)
        found = entries(project)
    assert sorted(project.left_out) == ["pipe", "socket", "sub"]
    assert set(found) == {"a.txt", "empty", "tool"}


def test_names_that_are_no_utf8_travel(root):
    (root / os.fsdecode(b"odd-\xff")).write_bytes(b"odd")
    assert entries(Project(root, (), 10**9))[os.fsdecode(b"odd-\xff")]["content"] == b"odd"


def test_a_project_that_is_too_large_is_refused_with_its_size(root):
    with pytest.raises(WorkspaceTooLarge) as caught:
        entries(Project(root, (), 500_000))
    assert caught.value.limit_bytes == 500_000


def test_many_small_files_count_too(root):
    for number in range(200):
        (root / f"n{number}").write_bytes(b"")
    entries(Project(root, ("sub",), 210 * ENTRY_COST))
    with pytest.raises(WorkspaceTooLarge):
        entries(Project(root, ("sub",), 200 * ENTRY_COST))


@pytest.mark.parametrize("name", ["missing", "a.txt"])
def test_a_root_that_is_none_is_refused(root, name):
    with pytest.raises(WorkspaceUnreadable):
        entries(Project(root / name, (), 10**9))


def test_a_tree_without_end_is_cut_off(root):
    deep = root
    for _ in range(80):
        deep /= "d"
        deep.mkdir()
    project = Project(root, (), 10**9)
    entries(project)
    assert len(project.left_out) == 1


def test_leaving_early_leaves_no_descriptor_open(root):
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    batches = Project(root, (), 10**9).batches()
    next(batches)
    batches.close()
    assert len(list(descriptors.iterdir())) == before
