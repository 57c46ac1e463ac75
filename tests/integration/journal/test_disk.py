"""Disks that are full or read-only, for real: small file systems in a mount namespace of their own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

START = """
import json, os, subprocess, sys
from pathlib import Path
from kagura_kernel.domain.errors import JournalError
from kagura_kernel.journal import views
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from tests.support.sample_run import SampleRun
home, run, found = Path(sys.argv[1]), SampleRun(), {}

def mount(*words):
    subprocess.run(["mount", *words], check=True)

def fails(use):
    try:
        use()
    except JournalError as error:
        return [error.code, error.why]
    return ["", ""]

def fill(name):
    with open(home / name, "wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(4096))
        except OSError:
            pass

"""
END = "\nprint(json.dumps(found))\n"


def on_a_disk_of_its_own(home: Path, code: str) -> dict[str, Any]:
    unshare = shutil.which("unshare")
    if unshare is None or not sys.platform.startswith("linux"):
        pytest.skip("needs Linux and `apt-get install util-linux mount`")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    home.mkdir(exist_ok=True)
    argv = [unshare, "--mount", "--propagation", "private", *user, sys.executable, "-c", START + code + END, str(home)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_disk_that_fills_up_stops_the_writing_leaves_nothing_half_written_and_can_be_freed(tmp_path):
    found = on_a_disk_of_its_own(
        tmp_path / "full",
        """
mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(home))
(home / "ballast").write_bytes(bytes(200_000))
journal = Journal.open(home)
rows = journal.append(run.started())
try:
    while True:
        rows = journal.append(run.noted("x" * 3000))
except JournalError as error:
    found["append"] = [error.code, error.why]
found["again"] = fails(lambda: journal.append(run.noted("x" * 3000)))
found["mailbox"] = fails(lambda: Mailbox(journal).post(run.request(detail="x" * 3000)))
found["rows"], found["read"] = rows, len(journal.events())
found["verified"] = journal.verify().rows
found["run"] = views.runs(journal)[0].status
(home / "ballast").unlink()
journal.check_writable()
found["freed"] = journal.append(run.noted("y" * 3000))
journal.close()
journal = Journal.open(home)
found["reopened"] = journal.verify().rows
journal.close()
""",
    )
    assert found["append"] == found["again"] == found["mailbox"] == ["ERR_JOURNAL_UNWRITABLE", "the disk is full"]
    assert found["rows"] > 20
    assert found["read"] == found["verified"] == found["rows"]
    assert found["run"] == "running"
    assert found["freed"] == found["reopened"] == found["rows"] + 1


def test_a_full_disk_is_found_before_anything_is_run(tmp_path):
    found = on_a_disk_of_its_own(
        tmp_path / "full",
        """
mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(home))
journal = Journal.open(home)
journal.append(run.noted())
fill("ballast")
for _ in range(5):
    found["check"] = fails(journal.check_writable)
    if found["check"][0]:
        break
journal.close()
(home / "new").mkdir()
fill("more")
found["open"] = fails(lambda: Journal.open(home / "new"))
found["mkdir"] = fails(lambda: Journal.open(home / "a" / "b"))
""",
    )
    assert found["check"] == ["ERR_JOURNAL_UNWRITABLE", "the disk is full"]
    assert found["open"] == ["ERR_JOURNAL_UNWRITABLE", "the disk is full"]
    assert found["mkdir"][0] == "ERR_JOURNAL_UNWRITABLE"


def test_a_read_only_disk_is_refused_whether_a_journal_is_there_or_not(tmp_path):
    found = on_a_disk_of_its_own(
        tmp_path / "fixed",
        """
mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(home))
journal = Journal.open(home / "old")
journal.append(run.noted())
journal.close()
mount("-o", "remount,ro", str(home))
found["old"] = fails(lambda: Journal.open(home / "old"))
found["new"] = fails(lambda: Journal.open(home / "new"))
found["there"] = sorted(path.name for path in home.rglob("*"))
""",
    )
    assert found["old"] == found["new"] == ["ERR_JOURNAL_UNWRITABLE", "read-only file system"]
    assert found["there"] == ["journal.db", "old"]


def test_a_journal_seen_through_a_read_only_mount_is_refused_while_its_own_process_goes_on(tmp_path):
    found = on_a_disk_of_its_own(
        tmp_path / "shared",
        """
journal = Journal.open(home)
journal.append(run.noted())
mount("--bind", str(home), "/mnt")
mount("-o", "remount,bind,ro", "/mnt")
found["other"] = fails(lambda: Journal.open("/mnt"))
journal.append(run.noted())
found["rows"] = journal.verify().rows
journal.close()
""",
    )
    assert found["other"] == ["ERR_JOURNAL_UNWRITABLE", "read-only file system"]
    assert found["rows"] == 2


def test_a_write_that_the_system_refuses_stops_the_writing_and_the_next_one_goes_on(tmp_path):
    found = on_a_disk_of_its_own(
        tmp_path / "refusing",
        """
import resource
journal = Journal.open(home)
journal.append(run.noted())
size = (home / "journal.db-wal").stat().st_size
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
found["append"] = fails(lambda: journal.append(run.noted()))
found["check"] = fails(journal.check_writable)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
found["seq"] = journal.append(run.noted())
found["rows"] = journal.verify().rows
journal.close()
""",
    )
    assert found["append"] == found["check"]
    assert found["append"][0] == "ERR_JOURNAL_UNWRITABLE"
    assert "disk" in found["append"][1]
    assert found["seq"] == found["rows"] == 2


def test_a_directory_that_belongs_to_somebody_else_is_refused(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    found = on_a_disk_of_its_own(
        tmp_path / "theirs",
        """
home = Path("/mnt")  # where somebody else may go; the mount is seen in here only
mount("-t", "tmpfs", "-o", "size=4m,mode=755", "tmpfs", str(home))
journal = Journal.open(home / "old")
journal.close()
(home / "old").chmod(0o755)
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
found["new"] = fails(lambda: Journal.open(home / "new"))
found["old"] = fails(lambda: Journal.open(home / "old"))
""",
    )
    assert found["new"] == found["old"] == ["ERR_JOURNAL_UNWRITABLE", "permission denied"]


def test_a_directory_that_may_be_entered_but_not_written_is_refused(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    found = on_a_disk_of_its_own(
        tmp_path / "shut",
        """
home = Path("/mnt")  # where somebody else may go; the mount is seen in here only
mount("-t", "tmpfs", "-o", "size=4m,mode=755", "tmpfs", str(home))
journal = Journal.open(home / "old")
journal.close()
os.chown(home / "old" / "journal.db", 65534, 65534)
(home / "old").chmod(0o555)
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
found["old"] = fails(lambda: Journal.open(home / "old"))
""",
    )
    assert found["old"] == ["ERR_JOURNAL_UNWRITABLE", "its directory may not be written"]


LOOKING = ("runs", "approvals", "status", "cost", "journal verify", "journal export -")

LOOK = f"""
def look():
    import contextlib, io
    from kagura_kernel.cli.main import main
    os.environ["KAGURA_HOME"], said = str(home), io.StringIO()
    os.environ.pop("KAGURA_JOURNAL_URL", None)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        codes = {{words: main(words.split()) for words in {LOOKING!r}}}
    return codes, said.getvalue()

def left():
    return sorted(one.name for one in home.iterdir())

def made():
    journal = Journal.open(home)
    journal.append(run.started())
    journal.append(run.noted("the newest"))
    return journal

"""


def test_a_full_disk_can_be_read_and_nothing_is_run_on_it(tmp_path):
    found = on_a_disk_of_its_own(
        tmp_path / "full",
        LOOK
        + """
mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(home))
made().close()
fill("ballast")
before = left()
found["codes"], found["said"] = look()
found["running"] = fails(lambda: Journal.open(home))
found["left"] = [os.path.getsize(home / name) for name in left() if name not in before]
reading = Journal.open(home, create=False)
found["append"] = fails(lambda: reading.append(run.noted("one more")))
found["why"], found["gone"] = reading.unwritable, [reading.why_gone()]
(home / "ballast").unlink()
# Whoever keeps it open is told that it can be written again.
found["gone"].append(reading.why_gone())
reading.close()
found["freed"] = fails(lambda: Journal.open(home).append(run.noted("one more")))
""",
    )
    assert found["codes"] == dict.fromkeys(LOOKING, 0), found["said"]
    assert "the newest" in found["said"]
    assert found["running"][0] == "ERR_JOURNAL_UNWRITABLE"
    assert found["append"][0] == "ERR_JOURNAL_UNWRITABLE"
    assert all(size < 4096 for size in found["left"]), "nothing was written beside it"
    assert found["why"] == "the disk is full"
    assert [bool(why) for why in found["gone"]] == [False, True]
    assert found["freed"] == ["", ""]


@pytest.mark.parametrize("gone", [(), ("-shm",), ("-shm", "-wal")], ids=["all", "no-index", "merged"])
def test_read_only_media_can_be_read_with_the_rows_that_nobody_has_merged(tmp_path, gone):
    # Whoever wrote last has been killed, so its rows lie in the log; or it has ended as it should.
    found = on_a_disk_of_its_own(
        tmp_path / "media",
        LOOK
        + f"""
mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", str(home))
gone = {gone!r}
if os.fork() == 0:
    journal = made()
    if "-wal" in gone:
        journal.close()
    os._exit(0)
os.wait()
if gone == ("-shm",):
    (home / "journal.db-shm").unlink()
mount("-o", "remount,ro", str(home))
before = left()
found["before"] = before
found["codes"], found["said"] = look()
found["running"] = fails(lambda: Journal.open(home))
from kagura_kernel.journal.export import back_up, verify_copy
found["copied"] = verify_copy(back_up(home, home.with_name("copy"))).rows
found["left"] = left() == before
""",
    )
    assert [name for name in ("-shm", "-wal") if f"journal.db{name}" not in found["before"]] == list(gone)
    assert found["codes"] == dict.fromkeys(LOOKING, 0), found["said"]
    assert "the newest" in found["said"]
    assert found["running"][0] == "ERR_JOURNAL_UNWRITABLE"
    assert found["copied"] == 2
    assert found["left"]


def test_a_copy_for_which_there_is_no_room_is_told_as_such_and_not_as_a_journal_to_be_moved_away(tmp_path):
    found = on_a_disk_of_its_own(
        tmp_path / "books",
        """
full = home.with_name("full")
full.mkdir()
mount("-t", "tmpfs", "-o", "size=16k", "tmpfs", str(full))
Journal.open(home).close()
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.journal.export import back_up
try:
    back_up(home, full / "copy")
except KaguraError as error:
    found["said"] = f"{error.code}: {error}"
found["left"] = [one.name for one in (full / "copy").iterdir()]
""",
    )
    assert found["said"].startswith("ERR_USAGE: ")
    assert "full/copy/journal.db cannot be written: no space left on device." in found["said"]
    assert found["left"] == []


def test_rows_that_are_written_while_it_is_read_only_for_us_are_read(tmp_path):
    found = on_a_disk_of_its_own(
        tmp_path / "books",
        """
other = home.with_name("seen")
other.mkdir()
mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", str(home))
writer = Journal.open(home)
writer.append(run.started())
mount("--bind", str(home), str(other))
mount("-o", "remount,ro,bind", str(other))
reader = Journal.open(other, create=False)
found["first"] = len(reader.events())
writer.append(run.noted("later"))
found["later"] = len(reader.events())
reader.close()
writer.close()
""",
    )
    assert (found["first"], found["later"]) == (1, 2)
