"""The included plugins in their own jails: real boxes, planned from their manifests and a person's values."""

import asyncio
import os
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from typing import Any

import pytest

from kagura_kernel.domain.errors import PluginFailed, PluginNotConfigured, PluginRefused
from kagura_kernel.domain.events import EgressDecided
from kagura_kernel.plugins.jail.box import JailParts
from kagura_kernel.plugins.jail.jail import Jail
from tests.support.swapping import swapping
from tests.support.tls import authority, serving
from tests.support.upstream import RawUpstream, plain

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("bwrap") is None, reason="bubblewrap is not here"
)


async def told(jail: Jail, module: str, function: str, *arguments: Any, **named: Any) -> str:
    """The kind of a call's failure; its text names nothing of the host."""
    with pytest.raises(PluginFailed) as failed:
        await jail.call(module, function, arguments, named)
    assert not re.search(r"/plugin/|/tmp|pytest", failed.value.text), failed.value.text
    return failed.value.kind


async def test_fs_read_reads_below_its_directory_and_nothing_else(enabled, home):
    data = home / "data"
    (data / "a").mkdir(parents=True)
    (data / "a" / "b.txt").write_text("inside")
    (home / "secret.txt").write_text("outside")
    (data / "link").symlink_to("../secret.txt")
    os.link(home / "secret.txt", data / "hard")
    os.mkfifo(data / "fifo")
    async with enabled("fs-read", base_dir=str(data)) as jail:
        assert (await jail.call("fs_read", "read_text", ["a/b.txt"], {}))["text"] == "inside"
        assert (await jail.call("fs_read", "read_bytes", [], {"path": "a/b.txt"}))["base64"] == "aW5zaWRl"
        found = await jail.call("fs_read", "list_dir", [], {})
        assert ([one["name"] for one in found["entries"]], found["left_out"]) == (["a"], 3)
        assert (await jail.call("fs_read", "stat", ["a"], {}))["kind"] == "directory"
        for path in ("link", "hard", "fifo", "../secret.txt", str(home / "secret.txt"), "/etc/passwd", ".x"):
            assert await told(jail, "fs_read", "read_text", path) == "PathRefused"
        assert await told(jail, "fs_read", "read_text", "missing") == "NotFound"
        (data / "a").rename(data / "moved")
        (data / "a").symlink_to("..")
        assert await told(jail, "fs_read", "read_text", "a/secret.txt") == "PathRefused"
        assert (await jail.call("fs_read", "read_text", ["moved/b.txt"], {}))["text"] == "inside"
    assert {one.name for one in jail.modules["fs_read"]} == {"read_text", "read_bytes", "list_dir", "stat"}


async def test_a_directory_that_is_swapped_for_a_link_without_end_lets_nothing_out(enabled, home):
    base = home / "base"
    (base / "a" / "b").mkdir(parents=True)
    (base / "a" / "b" / "secret.txt").write_text("inside")
    (home / "outside").mkdir()
    (home / "outside" / "secret.txt").write_text("outside")
    seen: set[str] = set()
    async with enabled("fs-read", base_dir=str(base)) as jail, enabled("fs-write", base_dir=str(base)) as writer:
        with swapping(base) as process:
            for number in range(100_000):
                if number >= 300 and {"inside", "PathRefused"} <= seen:
                    break
                try:
                    seen.add((await jail.call("fs_read", "read_text", ["a/b/secret.txt"], {}))["text"])
                    await writer.call("fs_write", "write_text", [f"a/b/mine-{number % 50}", "x"], {})
                except PluginFailed as failed:
                    seen.add(failed.kind)
            assert process.poll() is None
    assert {"inside", "PathRefused"} <= seen
    assert "outside" not in seen
    assert [path.name for path in (home / "outside").iterdir()] == ["secret.txt"]
    assert (home / "outside" / "secret.txt").read_text() == "outside"


async def test_fs_write_writes_below_its_directory_for_its_owner(enabled, home):
    data = home / "data"
    data.mkdir()
    (home / "secret.txt").write_text("outside")
    (data / "link").symlink_to("../secret.txt")
    (data / "old.txt").write_text("old")
    (data / "old.txt").chmod(0o640)
    async with enabled("fs-write", base_dir=str(data)) as jail:
        assert (await jail.call("fs_write", "make_dir", ["a/b"], {"parents": True}))["created"] == 2
        await jail.call("fs_write", "write_text", ["a/b/new.txt", "one\n"], {})
        await jail.call("fs_write", "append_text", ["a/b/new.txt", "two\n"], {})
        await jail.call("fs_write", "write_text", ["old.txt", "new"], {})
        await jail.call("fs_write", "write_bytes", ["c.bin", "AAE="], {})
        assert await told(jail, "fs_write", "write_text", "link", "x") == "PathRefused"
        assert await told(jail, "fs_write", "write_text", "../x", "x") == "PathRefused"
        assert await told(jail, "fs_write", "write_text", "old.txt", "x", overwrite=False) == "AlreadyExists"
    assert (home / "secret.txt").read_text() == "outside"
    assert (data / "a" / "b" / "new.txt").read_text() == "one\ntwo\n"
    assert (data / "old.txt").read_text() == "new"
    owner = data.stat()
    for path, mode in (("a/b/new.txt", 0o600), ("c.bin", 0o600), ("old.txt", 0o640), ("a", 0o700)):
        found = (data / path).stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (owner.st_uid, owner.st_gid, mode)
    assert sorted(path.name for path in data.iterdir()) == ["a", "c.bin", "link", "old.txt"]


async def test_fetch_reaches_what_is_listed_through_the_membrane(enabled, internet, plan):
    records: list[object] = []

    def believing(source: bytes) -> bytes:
        # The plugin as it comes with the package, told to believe the test's authority.
        end = b"\n    )\n\n    def get("
        assert source.count(end) == 1
        return source.replace(end, b"\n        trust=%a,%b" % (authority().decode(), end))

    async with RawUpstream(plain(b"hello", content_type="text/plain"), tls=serving("api.example.com")) as server:
        internet.servers["93.184.216.34"] = server.port
        internet.names |= {"inside.example.com": [["127.0.0.1"]], "other.org": [["93.184.216.34"]]}
        parts = JailParts(lambda _: asyncio.sleep(0), resolver=lambda: internet.resolve, record_egress=records.append)
        with pytest.raises(PluginNotConfigured):
            plan("fetch", allowed_domains=("*",))
        async with enabled("fetch", parts=parts, allowed_domains=("example.com",)) as strict:
            assert await told(strict, "fetch", "get", "https://api.example.com/") == "NetworkRefused"
            assert "its certificate is not believed" in strict.log
        async with enabled("fetch", change=believing, parts=parts, allowed_domains=("example.com",)) as jail:
            answer = await jail.call("fetch", "get", ["https://api.example.com/v1"], {})
            assert (answer["status"], answer["text"]) == (200, "hello")
            for url in ("https://inside.example.com/", "https://other.org/", "https://gone.example.com/"):
                assert await told(jail, "fetch", "get", url) == "NetworkRefused"
            assert (
                await told(jail, "fetch", "get", "https://api.example.com/", headers={"Cookie": "a"})
                == "ArgumentRefused"
            )
    assert [asked.target for asked in server.asked] == ["/v1"]
    decided = [(fact.host, fact.allowed, fact.plugin) for fact in records if isinstance(fact, EgressDecided)]
    assert ("inside.example.com", False, "fetch") in decided
    assert ("other.org", False, "fetch") not in decided
    assert "other.org" not in internet.looked_up


async def test_sql_read_reads_one_file(enabled, home):
    path = home / "my data.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (1), (2);")
    (home / "beside.txt").write_text("beside")
    async with enabled("sql-read", url=f"sqlite:///{path}") as jail:
        assert (await jail.call("sql_read", "query", ["SELECT sum(x) FROM t WHERE x > ?", [0]], {}))["rows"] == [[3]]
        assert (await jail.call("sql_read", "tables", [], {}))["tables"][0]["name"] == "t"
        assert (await jail.call("sql_read", "columns", ["t"], {}))["columns"][0]["name"] == "x"
        assert await told(jail, "sql_read", "query", "DELETE FROM t") in {"QueryRefused", "QueryFailed"}
        assert await told(jail, "sql_read", "query", "ATTACH '/etc/passwd' AS p") in {"QueryRefused", "QueryFailed"}
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("INSERT INTO t VALUES (3)")
            connection.commit()
        assert (await jail.call("sql_read", "query", ["SELECT sum(x) FROM t"], {}))["rows"] == [[6]]


async def test_sql_read_reads_beside_a_writer_with_a_log(enabled, home):
    path = home / "log.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE t (x)")
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        async with enabled("sql-read", url=f"sqlite:///{path}") as jail:
            writer.execute("INSERT INTO t VALUES (1)")
            behind = await jail.call("sql_read", "query", ["SELECT count(*) FROM t"], {})
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            after = await jail.call("sql_read", "query", ["SELECT count(*) FROM t"], {})
    assert (behind["rows"], after["rows"]) == ([[0]], [[1]])
    assert "checkpoint" in behind["note"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("fs-read", {"base_dir": "/"}),
        ("fs-read", {"base_dir": "/etc"}),
        ("fs-write", {"base_dir": "~"}),
        ("fetch", {"allowed_domains": ("*.com",)}),
        ("fetch", {"allowed_domains": ("10.0.0.1",)}),
        ("sql-read", {"url": "sqlite:////no/such/file.db"}),
        ("sql-read", {"url": "mysql://user:password@host/db"}),
    ],
    ids=str,
)
async def test_values_that_open_too_much_are_refused(name, values, enabled):
    with pytest.raises((PluginNotConfigured, PluginRefused)) as refused:
        async with enabled(name, **values):
            pass
    assert "user:password" not in str(refused.value)


async def test_many_faults_are_answers_and_no_defects(enabled, home):
    (home / "data").mkdir()
    put_off: list[tuple[str, str]] = []
    parts = JailParts(lambda _: asyncio.sleep(0), failed=lambda name, why: put_off.append((name, why)))
    async with enabled("fs-read", parts=parts, base_dir=str(home / "data")) as jail:
        for number in range(20):
            assert await told(jail, "fs_read", "read_text", f"missing-{number}") == "NotFound"
        assert jail.broken == ""
    assert put_off == []
