"""Files of the host that a box sees as they are: whose they are, what may be done to them, and what is never shown."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.errors import PathNotShown, SandboxUnsupported
from kagura_kernel.domain.policy import SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import BoxSpec, ShownPath
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend

from .as_nobody import NOBODY, boxes_of

READ_ONLY = SandboxPolicy(type=SandboxPolicyType.READ_ONLY)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that everybody may enter; pytest's own may only be entered by its owner."""
    root = Path(tempfile.mkdtemp()).resolve()
    root.chmod(0o755)
    for name in ("read", "write"):
        (root / name).mkdir()
    (root / "read" / "private").write_text("only the owner's\n")
    (root / "read" / "private").chmod(0o600)
    (root / "one").write_text("a file\n")
    yield root
    shutil.rmtree(root)


def spec_of(root: Path) -> BoxSpec:
    shown = (
        ShownPath(root / "read", "/plugin/read/0"),
        ShownPath(root / "one", "/plugin/read/1"),
        ShownPath(root / "write", "/plugin/write/0", writable=True),
    )
    return BoxSpec(policy=READ_ONLY, shown=shown)


async def output(backend: BubblewrapBackend, spec: BoxSpec, line: str) -> str:
    box = await backend.start(spec)
    result = await box.run(shell_command(line))
    return result.stdout.text + result.stderr.text


async def test_they_are_seen_by_the_box_as_its_own_and_stay_their_owners_outside(backend, place):
    if os.geteuid() == 0:
        for path in (place / "read", place / "read" / "private", place / "write"):
            os.chown(path, NOBODY, NOBODY)
    line = "cat /plugin/read/0/private /plugin/read/1; echo new > /plugin/write/0/new; stat -c %u /plugin/read/0; id -u"
    told = (await output(backend, spec_of(place), line)).split("\n")
    assert told[:2] == ["only the owner's", "a file"]
    assert told[2] == told[3]
    made, above = (place / "write" / "new").stat(), (place / "write").stat()
    assert (made.st_uid, made.st_gid) == (above.st_uid, above.st_gid)


@pytest.mark.parametrize(
    "line",
    [
        "echo x > /plugin/read/0/private",
        "touch /plugin/read/0/new",
        "echo x >> /plugin/read/1",
        "touch /plugin/new",
        "rm /plugin/read/0/private",
        "mv /plugin/write/0 /plugin/write/1",
    ],
)
async def test_what_is_shown_to_read_stays_as_it_is(backend, place, line):
    told = await output(backend, spec_of(place), f"{line} && echo done")
    assert "Read-only file system" in told or "Device or resource busy" in told
    assert "done" not in told
    assert sorted(path.name for path in (place / "read").iterdir()) == ["private"]
    assert (place / "one").read_text() == "a file\n"


async def test_nothing_there_is_a_program(backend, place):
    shutil.copy("/bin/true", place / "read" / "true")
    line = "/plugin/read/0/true; cp /bin/true /plugin/write/0/t; /plugin/write/0/t; grep -c noexec /proc/self/mounts"
    told = await output(backend, spec_of(place), line)
    assert told.count("Permission denied") == 2


async def test_changes_are_seen_at_once_on_both_sides(backend, place):
    box = await backend.start(spec_of(place))
    (place / "read" / "late").write_text("late\n")
    (place / "one").write_text("changed\n")
    result = await box.run(shell_command("cat /plugin/read/0/late /plugin/read/1; echo mine > /plugin/write/0/m"))
    assert result.stdout.text == "late\nchanged\n"
    assert (place / "write" / "m").read_text() == "mine\n"


def _link(root: Path) -> Path:
    (root / "link").symlink_to("read")
    return root / "link"


def _below_a_link(root: Path) -> Path:
    return _link(root) / "private"


def _pipe(root: Path) -> Path:
    os.mkfifo(root / "pipe")
    return root / "pipe"


def _absent(root: Path) -> Path:
    return root / "absent"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_link, "is a link"),
        (_below_a_link, "is a link"),
        (_pipe, "neither a directory nor a file"),
        (_absent, "no such file"),
        (lambda _: Path("/dev/null"), "neither a directory nor a file"),
    ],
)
async def test_what_is_no_plain_file_or_directory_is_not_shown(backend, place, make, why):
    source = make(place)
    with pytest.raises(PathNotShown, match=why) as caught:
        await backend.start(BoxSpec(shown=(ShownPath(source, "/plugin/read/0"),)))
    assert caught.value.path == str(source)
    # And the next box is none the worse.
    assert await output(backend, BoxSpec(), "echo fine") == "fine\n"


async def test_such_boxes_never_wait_in_a_pool(backend, place):
    assert backend.parking_spec(spec_of(place)) is None


async def test_a_box_with_a_root_of_its_own_has_none(backend, place):
    with pytest.raises(SandboxUnsupported, match="writable root"):
        await backend.start(BoxSpec(shown=(ShownPath(place, "/plugin/read/0"),), writable_root=True))


async def test_what_is_mounted_below_is_not_shown_to_a_box_of_root(backend):
    if os.geteuid() != 0:
        pytest.skip("an ordinary user may not look under mounts of root's, and is shown them as they are")
    shown = (ShownPath(Path("/"), "/plugin/read/0"),)
    told = await output(backend, BoxSpec(shown=shown), "ls /plugin/read/0/proc; ls /plugin/read/0 | grep -c usr")
    assert told == "1\n"


async def test_a_file_system_that_knows_no_other_owners_is_shown_as_it_is_and_never_to_write(backend):
    if os.geteuid() != 0:
        pytest.skip("the box of an ordinary user is that user")
    box = await backend.start(BoxSpec(shown=(ShownPath(Path("/sys/devices/system"), "/plugin/read/0"),)))
    assert any("/sys/devices/system may be unreadable" in note for note in box.notes)
    assert (await box.run(shell_command("ls /plugin/read/0"))).stdout.text
    with pytest.raises(PathNotShown, match="cannot show files as the box's own"):
        await backend.start(BoxSpec(shown=(ShownPath(Path("/sys/devices/system"), "/plugin/write/0", writable=True),)))


def test_an_ordinary_user_shows_what_they_may_read_and_no_more(place):
    for path in (place / "read", place / "read" / "private", place / "write", place / "one"):
        os.chown(path, NOBODY, NOBODY)
    (place / "read" / "foreign").write_text("another's\n")
    (place / "read" / "foreign").chmod(0o600)
    lines = [
        "cat /plugin/read/0/private /plugin/read/1",
        "cat /plugin/read/0/foreign",
        "echo x > /plugin/read/0/new",
        "echo new > /plugin/write/0/new; cat /plugin/write/0/new",
        "cp /bin/true /plugin/write/0/t; /plugin/write/0/t",
        "chmod 4755 /plugin/write/0/t",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'",
    ]
    shown = [[str(one.source), one.target, one.writable] for one in spec_of(place).shown]
    [box] = boxes_of({"shown": shown, "lines": lines})
    answers = [out + errors for _, out, errors in box["answers"]]
    assert answers[0] == "only the owner's\na file\n"
    assert "Permission denied" in answers[1]
    assert "Read-only file system" in answers[2]
    assert answers[3] == "new\n"
    assert "Permission denied" in answers[4]
    assert "Operation not permitted" in answers[5]
    assert "Address family not supported" in answers[6]
    assert (place / "write" / "new").stat().st_uid == NOBODY
