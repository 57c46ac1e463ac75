"""The plugins that come with the package, called by programs in a run's box as their READMEs say it."""

import shutil
import sqlite3
import sys
from contextlib import AsyncExitStack, closing

import pytest
import pytest_asyncio

from kagura_kernel.plugins.jail.box import JailParts
from tests.support.included_plugins import included_jail
from tests.support.plugins import FakePlugins, UnmanagedPlugin

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("bwrap") is None, reason="bubblewrap is not here"),
]


@pytest_asyncio.fixture(loop_scope="module")
async def included(runs, tmp_path):
    async with AsyncExitStack() as stack:

        async def enable(**configured):
            (tmp_path / "project").mkdir(exist_ok=True)
            plugins = []
            for name, values in configured.items():
                opened = included_jail(name.replace("_", "-"), values, tmp_path, JailParts(runs.backend.start))
                plugins.append(UnmanagedPlugin(await stack.enter_async_context(opened)))
            return FakePlugins(*plugins)

        yield enable


async def test_files_are_read_and_written_by_python_and_by_a_shell(runs, included, tmp_path):
    data = tmp_path / "data"
    (data / "reports").mkdir(parents=True)
    (data / "reports" / "big.csv").write_text("é" * 5000)
    (data / "notes.txt").write_text("a note")
    (data / "link").symlink_to("/etc/passwd")
    plugins = await included(fs_read={"base_dir": str(data)}, fs_write={"base_dir": str(data)})
    code = """
from kagura_host import PluginError, fs_read, fs_write
print([(entry["name"], entry["size"]) for entry in fs_read.list_dir("reports")["entries"]])
text, offset = "", 0
while offset is not None:
    piece = fs_read.read_text("reports/big.csv", offset=offset, limit=999)
    text, offset = text + piece["text"], piece["next_offset"]
print(text == "é" * 5000)
fs_write.make_dir("2025/march", parents=True)
fs_write.write_text("2025/march/report.md", "# March")
for path in ("link", "../data/notes.txt", "/etc/passwd", "missing"):
    try:
        fs_read.read_text(path)
    except PluginError as error:
        print(error.kind)
"""
    ended = await runs.cell(plugins, code)
    assert ended.text.splitlines() == [
        "[('big.csv', 10000)]",
        "True",
        "PathRefused",
        "PathRefused",
        "PathRefused",
        "NotFound",
    ]
    assert (data / "2025" / "march" / "report.md").read_text() == "# March"
    lines = """
kagura-host fs_read read_text '{"path": "notes.txt"}'
kagura-host fs_write write_text '{"path": "new.txt", "text": "hello"}'
kagura-host --list
"""
    ended = await runs.cell(plugins, lines, "bash")
    assert '"text": "a note"' in ended.text
    assert "fs_write write_text(path: str, text: str, overwrite: bool = True)" in ended.text
    assert (data / "new.txt").read_text() == "hello"


async def test_a_database_is_read_by_a_shell(runs, included, tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript("CREATE TABLE orders (id); INSERT INTO orders VALUES (1), (2);")
    plugins = await included(sql_read={"url": f"sqlite:///{tmp_path}/shop.db"})
    lines = """
kagura-host sql_read query '{"sql": "SELECT count(*) FROM orders"}'
kagura-host sql_read query '{"sql": "DELETE FROM orders"}' || echo "exit $?"
"""
    ended = await runs.cell(plugins, lines, "bash")
    assert '"rows": [[2]]' in ended.text
    assert "exit " in ended.text
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (2,)
