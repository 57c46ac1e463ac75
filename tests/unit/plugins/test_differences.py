import os

from kagura_kernel.plugins.manifest import difference, load_found, trace
from tests.support.plugin_rig import write_plugin


def test_the_same_files_differ_in_nothing(tmp_path):
    found = load_found(write_plugin(tmp_path, permissions={"read": ["/data"]}), "user")
    assert difference(found, found).lines() == ["files: none changed", "permissions: as before: reads /data"]


def test_files_permissions_modules_and_version_are_told(tmp_path):
    before = write_plugin(tmp_path / "a", permissions={"read": ["/data"]}, files={"old.py": b"", "run.py": b""})
    now = write_plugin(
        tmp_path / "b",
        version="2.0.0",
        permissions={"write": ["/data"], "net": ["example.org"]},
        hostModules=["greeter", "more"],
        files={"new.py": b"", "run.py": b""},
    )
    (now / "run.py").chmod(0o700)
    assert difference(load_found(before, "user"), load_found(now, "user")).lines() == [
        "version: 1.0.0, now 2.0.0",
        "files: plugin.json changed, run.py changed, new.py added, old.py removed",
        "permissions: new: writes /data, reaches example.org; gone: reads /data",
        "new modules: more",
    ]


def test_many_files_are_counted(tmp_path):
    before = load_found(write_plugin(tmp_path / "a"), "user")
    now = load_found(write_plugin(tmp_path / "b", files={f"a{n:02}.py": b"" for n in range(20)}), "user")
    assert difference(before, now).files.endswith("a11.py added, 8 more")


def test_bytes_that_are_others_leave_another_trace_though_size_and_time_are_put_back(tmp_path):
    root = write_plugin(tmp_path)
    readme = root / "README.md"
    seen, before = trace(root), readme.stat()
    assert trace(root) == seen
    readme.write_bytes(readme.read_bytes().upper())
    os.utime(readme, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert trace(root) != seen


def test_a_directory_that_is_gone_has_a_trace_of_its_own_and_links_are_not_followed(tmp_path):
    root = write_plugin(tmp_path)
    seen = trace(root)
    (tmp_path / "loop").symlink_to(tmp_path)
    assert trace(root) == seen
    assert trace(tmp_path / "gone") not in (seen, frozenset())
