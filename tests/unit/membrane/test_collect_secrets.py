"""What a box writes never carries a leased secret into the project or the store."""

import base64
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.blobs import BlobStore
from kagura_kernel.membrane.change_apply import apply_changes
from kagura_kernel.membrane.changes import HOLDS_LEASED, Collector
from kagura_kernel.membrane.credentials.scrub import Scrubber
from kagura_kernel.membrane.credentials.secret import HIDDEN, Secret
from kagura_kernel.membrane.project import ProjectFiles
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.testing.box import FakeBackend

TOKEN = "ghs_Zx9Qk7T2wLm4Vb8R"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / ".env.sample").write_text(f"TOKEN={TOKEN}\nDEBUG=1\n")
    (project / "main.py").write_text("print()\n")
    past = time.time() - 3600
    for path in project.rglob("*"):
        os.utime(path, (past, past))
    return project


@pytest.fixture
async def box(project: Path) -> AsyncIterator[Box]:
    backend = FakeBackend()
    yield await backend.start(BoxSpec(project))
    await backend.close()


class Collected:
    """Runs a line in a box and collects what it changed."""

    def __init__(self, tmp_path: Path, box: Box) -> None:
        self.secrets = [Secret(TOKEN)]
        self.project = ProjectFiles(tmp_path / "project")
        self.store = tmp_path / "blobs"
        self.blobs = BlobStore(self.store)
        self.box = box
        self.collector = Collector(
            self.project,
            self.blobs,
            since=time.time(),
            protected=(".git",),
            limit_bytes=2**24,
            scrubber=Scrubber(lambda: self.secrets),
        )

    async def after(self, line: str) -> list[FileChange]:
        result = await self.box.run(shell_command(line))
        assert result.ok, result.stderr.text
        return await self.collector.collect(self.box, {})

    def stored(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.store.rglob("*") if path.is_file())


@pytest.fixture
def collected(tmp_path: Path, box: Box) -> Collected:
    return Collected(tmp_path, box)


FORMS = {
    "plain": TOKEN,
    "hexadecimal": TOKEN.encode().hex(),
    "base64": base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode(),
    "wrapped": f"{TOKEN[:7]}\n{TOKEN[7:]}",
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_file_that_holds_a_secret_is_neither_stored_nor_written_back(
    collected: Collected, project: Path, form: str
) -> None:
    await collected.box.files.write("config", f"a\n{FORMS[form]}\n".encode())
    changes = await collected.after("echo fine > fine.txt")
    by_path = {change.path: change for change in changes}
    assert (by_path["config"].state, by_path["config"].reason) == ("protected", HOLDS_LEASED)
    assert (by_path["config"].diff, by_path["config"].new_sha256) == ("", "")
    assert by_path["fine.txt"].state == "proposed"
    assert apply_changes(collected.project, collected.blobs, changes).applied == ("fine.txt",)
    assert not (project / "config").exists()
    assert collected.stored() == b"fine\n"
    assert list(collected.store.glob(".new-*")) == []


async def test_a_secret_across_the_pieces_of_a_large_file_is_found(collected: Collected) -> None:
    content = bytearray(b"x" * 3_000_000)
    content[2**20 - 5 : 2**20 - 5 + len(TOKEN)] = TOKEN.encode()
    await collected.box.files.write("large.bin", bytes(content))
    (change,) = await collected.after("true")
    assert (change.state, change.reason) == ("protected", HOLDS_LEASED)
    assert collected.stored() == b""


async def test_names_and_targets_that_hold_a_secret_are_shown_without_it(collected: Collected) -> None:
    line = f"echo x > a-{TOKEN}; mkdir {TOKEN} {TOKEN}{TOKEN}; echo y > {TOKEN}/f; ln -s nowhere/{TOKEN} link"
    changes = await collected.after(
        f"{line}; mv main.py {TOKEN}.py; echo z > '{TOKEN}{HIDDEN}'; echo z > '{HIDDEN}{TOKEN}'"
    )
    assert TOKEN not in repr(changes)
    paths = [change.path for change in changes]
    assert sorted(paths) == sorted(
        [f"a-{HIDDEN}", f"{HIDDEN}/f", "link", "main.py", f"{HIDDEN}.py", HIDDEN * 2, f"{HIDDEN * 2} 2"]
    )
    (link,) = [change for change in changes if change.kind == "link"]
    assert link.target == f"nowhere/{HIDDEN}"
    assert {change.state for change in changes if change.path != "main.py"} == {"protected"}
    assert apply_changes(collected.project, collected.blobs, changes).applied == ("main.py",)


async def test_taking_a_secret_out_of_a_file_is_proposed_and_shows_nothing_of_it(
    collected: Collected, project: Path
) -> None:
    (change,) = await collected.after("echo DEBUG=1 > .env.sample")
    assert change.state == "proposed"
    assert TOKEN not in change.diff
    assert "no diff is shown" in change.diff
    apply_changes(collected.project, collected.blobs, [change])
    assert (project / ".env.sample").read_text() == "DEBUG=1\n"


async def test_removing_a_file_with_a_secret_shows_nothing_of_it_either(collected: Collected) -> None:
    (change,) = await collected.after("rm .env.sample")
    assert (change.status, change.state) == ("deleted", "proposed")
    assert TOKEN not in change.diff


async def test_a_secret_that_is_leased_later_counts_from_then_on(collected: Collected) -> None:
    (before,) = await collected.after("echo later-secret-1 > notes")
    assert before.state == "proposed"
    collected.secrets.append(Secret("later-secret-1"))
    (after,) = await collected.after("true")
    assert (after.state, after.diff) == ("protected", "")
