import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import PluginInvalid, PluginRefused, UnknownName, UsageError
from kagura_kernel.membrane.project import CannotExchange
from kagura_kernel.plugins import installation
from kagura_kernel.plugins.installation import NotUnpacked, install, remove
from kagura_kernel.plugins.manifest import discover
from tests.support.plugin_files import write_plugin


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_plugin(tmp_path / "source", files={"inner/words.json": b"[]"})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "data" / "plugins"


def packed(root: Path, top: str = "greeter-1.0.0") -> tuple[bytes, str]:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        archive.add(root, top)
    return stream.getvalue(), hashlib.sha256(stream.getvalue()).hexdigest()


def left(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


def test_a_directory_is_copied_as_it_is(source, place):
    (source / "plugin.py").chmod(0o755)
    found = install(str(source), None, place)
    assert (found.name, found.place) == ("greeter", "user")
    assert found.content.root == place / "greeter"
    assert dict(found.content.files) == {path: (source / path).read_bytes() for path in found.content.files}
    assert len(found.content.files) == 4
    assert found.content.executable == {"plugin.py"}
    assert list(discover([("user", place)]).found) == ["greeter"]
    assert left(place) == ["greeter"]


def test_the_hash_of_a_directory_is_that_of_the_copy(source, place, tmp_path):
    found = install(str(source), None, place)
    again = install(str(source), f"sha256:{found.content.content_hash.upper()}", tmp_path / "other")
    assert again.content.content_hash == found.content.content_hash
    with pytest.raises(PluginRefused, match="is not what was pinned"):
        install(str(source), "0" * 64, tmp_path / "third")
    assert left(tmp_path / "third") == []


def test_an_archive_is_installed_with_its_pinned_hash(source, place, tmp_path):
    data, sha256 = packed(source)
    (tmp_path / "x.tar.gz").write_bytes(data)
    found = install(str(tmp_path / "x.tar.gz"), sha256, place)
    assert found.content.root.name == "greeter"
    assert found.content.content_hash == install(str(source), None, tmp_path / "other").content.content_hash


def test_an_archive_without_a_pinned_hash_is_not_even_fetched(source, place, tmp_path):
    data, _ = packed(source)
    (tmp_path / "x.tar.gz").write_bytes(data)
    for where in (str(tmp_path / "x.tar.gz"), "https://a.example/x.tar.gz"):
        with pytest.raises(UsageError, match="--sha256"):
            install(where, None, place, pytest.fail)
    assert left(place) == []


def test_an_archive_with_another_hash_is_not_unpacked(source, place, tmp_path, monkeypatch):
    data, sha256 = packed(source)
    (tmp_path / "x.tar.gz").write_bytes(data + b"\0")
    monkeypatch.setattr(installation, "unpack", pytest.fail)
    with pytest.raises(PluginRefused, match="is not what was pinned"):
        install(str(tmp_path / "x.tar.gz"), sha256, place)


def test_an_address_is_fetched(source, place):
    data, sha256 = packed(source)
    asked = []

    def fetch(url: str) -> bytes:
        asked.append(url)
        return data

    found = install("https://a.example/greeter.tar.gz?x=1", sha256, place, fetch)
    assert asked == ["https://a.example/greeter.tar.gz?x=1"]
    assert found.name == "greeter"


def test_what_cannot_be_fetched_says_so(place):
    def fetch(_url: str) -> bytes:
        raise NotUnpacked("cannot be fetched: no route")

    with pytest.raises(PluginRefused, match=r"'x\.zip' cannot be fetched: no route"):
        install("https://a.example/x.zip", "0" * 64, place, fetch)


@pytest.mark.parametrize("sha256", ["", "abc", "g" * 64, "a" * 63])
def test_a_hash_that_is_none_is_refused(source, place, sha256):
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        install(str(source), sha256, place)


def test_a_name_that_is_there_stays_unless_it_is_to_be_replaced(source, place):
    install(str(source), None, place)
    (source / "README.md").write_text("newer")
    with pytest.raises(PluginRefused, match=r"is there already.*--replace"):
        install(str(source), None, place)
    assert (place / "greeter" / "README.md").read_text() != "newer"
    found = install(str(source), None, place, replace=True)
    assert found.content.files["README.md"] == b"newer"
    assert left(place) == ["greeter"]


def test_at_no_moment_of_a_replacement_is_the_name_free(source, place, monkeypatch):
    install(str(source), None, place)
    (source / "README.md").write_text("newer")
    monkeypatch.setattr(Path, "rename", None)
    assert install(str(source), None, place, replace=True).content.files["README.md"] == b"newer"
    assert left(place) == ["greeter"]


def test_a_replacement_that_fails_where_nothing_changes_places_leaves_the_old_one(source, place, monkeypatch):
    install(str(source), None, place)
    (source / "README.md").write_text("newer")

    def refuse(*_: Path) -> None:
        raise CannotExchange

    monkeypatch.setattr(installation, "exchange", refuse)
    real = Path.rename

    def fail(self, target):
        if self.name == "greeter" and self.parent != place:
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(PluginRefused, match="no space left"):
        install(str(source), None, place, replace=True)
    assert (place / "greeter" / "README.md").read_text() != "newer"
    assert left(place) == ["greeter"]


def test_two_at_the_same_moment_do_not_mix(source, place, monkeypatch):
    real = installation._put

    def later(made, target, bench, *, replace):
        write_plugin(place, "greeter", files={"theirs.txt": b""})
        real(made, target, bench, replace=replace)

    monkeypatch.setattr(installation, "_put", later)
    with pytest.raises(PluginRefused, match="somebody else at the same moment"):
        install(str(source), None, place)
    assert (place / "greeter" / "theirs.txt").exists()
    assert not (place / "greeter" / "inner").exists()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda root: (root / "link").symlink_to("/etc/passwd"), "link is a link"),
        (lambda root: (root / "fast.so").write_bytes(b""), "native code"),
        (lambda root: (root / "__pycache__").mkdir(), "compiled Python"),
        (lambda root: (root / "plugin.sig").write_bytes(b"{}"), "signature does not hold"),
    ],
)
def test_what_no_plugin_may_hold_is_not_installed(source, place, spoil, why):
    spoil(source)
    with pytest.raises(PluginRefused, match=why):
        install(str(source), None, place)
    assert left(place) == []


def test_native_code_in_an_archive_is_not_installed(source, place, tmp_path):
    (source / "data.bin").write_bytes(b"\x7fELF" + b"\0" * 60)
    data, sha256 = packed(source)
    (tmp_path / "x.tgz").write_bytes(data)
    with pytest.raises(PluginRefused, match="ELF program"):
        install(str(tmp_path / "x.tgz"), sha256, place)
    assert left(place) == []


def test_an_invalid_plugin_is_not_installed(tmp_path, place):
    with pytest.raises(PluginInvalid, match="version"):
        install(str(write_plugin(tmp_path / "a", version="1")), None, place)
    root = write_plugin(tmp_path / "b")
    (root / "plugin.py").unlink()
    with pytest.raises(PluginInvalid, match=r"no plugin\.py"):
        install(str(root), None, place)
    (root / "plugin.json").unlink()
    with pytest.raises(PluginInvalid, match=r"no plugin\.json"):
        install(str(root), None, place)
    assert left(place) == []


def test_a_broken_manifest_is_told_by_the_name_of_its_directory(tmp_path, place):
    root = write_plugin(tmp_path, version="1")
    with pytest.raises(PluginInvalid) as refused:
        install(str(root), None, place)
    assert refused.value.plugin == "greeter"


def test_plain_http_is_refused_before_a_hash_is_asked_for(place):
    with pytest.raises(PluginRefused, match="is fetched over HTTPS alone"):
        install("http://a.example/x.zip", None, place, pytest.fail)


def test_a_name_of_ours_is_not_installed(tmp_path, place):
    with pytest.raises(PluginRefused, match="comes with this package"):
        install(str(write_plugin(tmp_path, "fs-read")), None, place)


@pytest.mark.parametrize("name", ["../evil", "..", "a/b", "", "/etc"])
def test_a_name_in_a_manifest_leads_nowhere_else(tmp_path, place, name):
    root = write_plugin(tmp_path)
    (root / "plugin.json").write_bytes(
        (root / "plugin.json").read_bytes().replace(b'"greeter",', f'"{name}",'.encode(), 1)
    )
    with pytest.raises(PluginInvalid, match="kebab-case"):
        install(str(root), None, place)
    assert left(place) == []


def test_what_is_not_there_says_so(place, tmp_path):
    for gone in (str(tmp_path / "gone.zip"), "~nobody-of-that-name/x.zip", "x" * 5000, "a\0b.zip"):
        with pytest.raises(UsageError, match="nothing to install"):
            install(gone, "0" * 64, place)


def test_removing_deletes_one_plugin_and_nothing_else(source, place):
    install(str(source), None, place)
    write_plugin(place, "other")
    remove("greeter", place)
    assert left(place) == ["other"]


def test_a_broken_plugin_can_be_removed(place):
    (write_plugin(place, "Broken_One") / "plugin.json").unlink()
    remove("Broken_One", place)
    assert left(place) == []


def test_removing_a_link_leaves_what_it_leads_to(place, source):
    place.mkdir(parents=True)
    (place / "greeter").symlink_to(source)
    remove("greeter", place)
    assert left(place) == []
    assert (source / "plugin.py").exists()


def test_links_inside_a_plugin_are_not_followed_when_it_is_removed(place, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    (write_plugin(place) / "folder").symlink_to(tmp_path / "precious")
    remove("greeter", place)
    assert (tmp_path / "precious" / "file").exists()


@pytest.mark.parametrize("name", ["gretter", "..", ".", "", "../data", "/etc", ".work-1"])
def test_what_is_no_plugin_of_ones_own_is_not_removed(place, name):
    write_plugin(place)
    (place / ".work-1").mkdir()
    with pytest.raises(UnknownName) as raised:
        remove(name, place)
    assert "greeter" in str(raised.value)
    assert left(place) == [".work-1", "greeter"]


def test_nothing_is_removed_where_nothing_is(tmp_path):
    with pytest.raises(UnknownName, match="Known: none"):
        remove("greeter", tmp_path / "gone")


def test_installing_writes_for_the_user_alone(source, place):
    before = os.umask(0)
    try:
        install(str(source), None, place)
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o077 for path in (place, *(place / "greeter").rglob("*"))}
    assert modes == {0}
