"""The walls of a box whose root is writable: those of every box, but for what being root inside means."""

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.supervisor.arguments import ROOT_POWERS
from kagura_kernel.testing.conformance.walls import WallsConformance, bash, open_box, python
from tests.support.lending import LendsBoxes

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/var/lib/dpkg/status").exists(), reason="needs root on a Debian system"
)

# From <linux/capability.h>.
_NUMBERS = {"chown": 0, "dac_override": 1, "fowner": 3, "fsetid": 4, "kill": 5, "setgid": 6, "setuid": 7, "setfcap": 31}

_DEVICES = """
import json, os, stat
made = []
for kind, numbers in ((stat.S_IFBLK, (8, 0)), (stat.S_IFCHR, (1, 1)), (stat.S_IFCHR, (1, 5)), (stat.S_IFBLK, (254, 0))):
    for place in ("/tmp/device", "/usr/device", "/workspace/device", "/dev/device", "/device"):
        try:
            os.mknod(place, kind | 0o666, os.makedev(*numbers))
            made.append([place, numbers])
        except OSError:
            pass
print(json.dumps(made))
"""


async def outside(box: Box, *starter: str) -> dict[str, str]:
    """What the host's /proc says of a process in the box."""
    canary = str(10**8 + secrets.randbelow(10**8))
    running = asyncio.create_task(
        box.run(Command((*starter, "sleep", canary), limits=CommandLimits(total=60, idle=60)))
    )
    try:
        while not running.done():
            for status in _sleepers(canary.encode()):
                return dict(line.split(":\t", 1) for line in status.splitlines())
            await asyncio.sleep(0.02)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    raise AssertionError(running)


def _sleepers(canary: bytes) -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        # One that ends while it is looked at is not the one.
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", canary]:
                yield (entry / "status").read_text()


@pytest.fixture
def hidden_program() -> Iterator[Path]:
    """A file among the host's programs that only root may read, and one in a folder that only root may enter."""
    folder = Path("/usr/local/share") / f"kagura-test-{secrets.token_hex(6)}"
    folder.mkdir(mode=0o755)
    (folder / "key").write_text("secret of root")
    (folder / "key").chmod(0o600)
    (folder / "private").mkdir(mode=0o700)
    (folder / "private" / "key").write_text("secret of root")
    (folder / "plain").write_text("plain")
    yield folder
    for path in ("key", "private/key", "plain"):
        (folder / path).unlink()
    (folder / "private").rmdir()
    folder.rmdir()


class TestWritableRootWalls(LendsBoxes, WallsConformance):
    make_backend = BubblewrapBackend
    private_places = ("/run/docker.sock", "/var/run/docker.sock", "/root/.ssh", "/root/.bashrc")

    @classmethod
    def spec_of(cls, workspace: Path) -> BoxSpec:
        return BoxSpec(workspace=workspace, writable_root=True)

    # -------------------------------------- what is different, because it is root

    async def test_the_passwords_it_can_read_are_nobodys(self, box):
        for path in ("/etc/shadow", "/etc/gshadow"):
            rows = (await bash(box, f"cat {path}")).stdout.text.splitlines()
            assert rows
            assert {row.split(":")[1] for row in rows} == {"*"}

    async def test_only_the_workspace_and_scratch_space_can_be_written(self, backend, spec):
        """Everything can, but what it writes is its own: the host's files keep their bytes, modes and owners."""
        line = (
            "cp /usr/bin/env /x; echo x >> /usr/bin/env; chmod 777 /usr/bin/id; chown 33 /usr/bin/yes; rm /usr/bin/tr"
        )
        paths = [Path("/usr/bin") / name for name in ("env", "id", "yes", "tr")]
        before = [_state(path) for path in paths]
        async with open_box(backend, spec) as box:
            assert (await bash(box, f"{line}; mv /usr/bin/wc /usr/bin/cw; echo x > /var/lib/dpkg/status")).ok
            assert not (await bash(box, "touch /proc/x || touch /dev/x")).ok
            assert [_state(path) for path in paths] == before
        assert [_state(path) for path in paths] == before
        assert _state(Path("/usr/bin/wc"))
        assert _state(Path("/var/lib/dpkg/status"))[0] != hashlib.sha256(b"x\n").digest()

    async def test_a_process_has_no_capability_and_cannot_gain_any(self, box):
        """Those that packages need, over its own users, and no others ever."""
        status = await bash(box, "cat /proc/self/status")
        inside = dict(line.split(":\t", 1) for line in status.stdout.text.splitlines())
        maps = (await bash(box, "cat /proc/self/uid_map")).stdout.text.splitlines()
        seen = await outside(box)
        first, second = (list(map(int, line.split())) for line in maps)
        wanted = sum(1 << _NUMBERS[power] for power in ROOT_POWERS)
        for name in ("CapPrm", "CapEff", "CapBnd"):
            assert int(inside[name], 16) == wanted
        assert (inside["NoNewPrivs"], inside["Seccomp"]) == ("1", "2")
        assert inside["Uid"].split() == ["0"] * 4
        # Outside it is nobody: an id of the box's own, like everyone else in it.
        assert set(seen["Uid"].split()) == {str(first[1])}
        assert set(seen["Gid"].split()) == {str(first[1])}
        assert first[1] >= 10**9
        assert first[::2] == [0, 1]
        assert (second[0], second[2]) == (1, 65535)
        assert second[1] >= 10**5

    @pytest.mark.parametrize(
        "line",
        [
            *("mount -t tmpfs none /tmp", "mount -o remount,rw /proc", "umount /workspace", "unshare -U id"),
            *("unshare -m id", "chroot / id", "nsenter -t 1 -m id", "date -s 2020-01-01", "hostname other"),
            *("dmesg", "sysctl -w kernel.panic=1", "ip link add dummy0 type dummy", "chmod 777 /dev/null"),
        ],
    )
    async def test_programs_that_ask_for_more_power_fail(self, box, line):
        assert not (await bash(box, f"{line} </dev/null")).ok

    async def test_a_setuid_program_gains_nothing(self, backend, spec, workspace):
        places = ("/usr/bin", "/tmp", "/workspace")
        line = "; ".join(f"cp /usr/bin/id {place}/setuid-id; chmod 4755 {place}/setuid-id" for place in places)
        start = "setpriv --reuid 33 --regid 33 --clear-groups"
        tries = "; ".join(f"{start} {place}/setuid-id -u" for place in places)
        async with open_box(backend, spec) as box:
            assert (await bash(box, line)).ok
            assert (await bash(box, tries)).stdout.text.split() == ["33"] * 3
        assert not (workspace / "setuid-id").exists()

    # ----------------------------------------------------------- root's own tries

    async def test_no_device_can_be_made(self, box):
        assert json.loads(await python(box, _DEVICES)) == []

    async def test_what_only_the_hosts_root_may_read_is_hidden_from_the_boxs(self, backend, spec, hidden_program):
        async with open_box(backend, spec) as box:
            assert (await bash(box, f"cat {hidden_program}/plain")).stdout.text == "plain"
            assert (await bash(box, f"ls {hidden_program}")).stdout.text == "plain\n"
            for path in ("key", "private/key"):
                assert not (await bash(box, f"cat {hidden_program}/{path}")).ok
            # The names are free, and what is put there is the box's.
            assert (await bash(box, f"mkdir {hidden_program}/private && touch {hidden_program}/key")).ok
            assert (await bash(box, f"ls -A {hidden_program}/private")).stdout.text == ""
        assert (hidden_program / "key").read_text() == "secret of root"

    async def test_a_process_of_another_user_in_the_box_is_nobody_outside_either(self, box):
        seen = await outside(box, "setpriv", "--reuid", "33", "--regid", "33", "--clear-groups")
        numbers = {int(number) for number in (*seen["Uid"].split(), *seen["Gid"].split())}
        assert int(seen["CapEff"], 16) == 0
        assert min(numbers) >= 10**5


def _state(path: Path) -> tuple[object, ...]:
    found = path.stat(follow_symlinks=False)
    content = hashlib.sha256(path.read_bytes()).digest()
    return content, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime_ns
