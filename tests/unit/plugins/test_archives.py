import gzip
import io
import stat
import tarfile
import zipfile

import pytest

from kagura_kernel.plugins.installation import MAX_ARCHIVE_BYTES, NotUnpacked, unpack

FILES = {"plugin.json": b"{}", "plugin.py": b"x = 1\n", "inner/more.py": b""}


def zipped(files: dict[str, bytes], *, mode: dict[str, int] | None = None) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (mode or {}).get(name, stat.S_IFREG | 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return stream.getvalue()


def member(name: str, data: bytes = b"", **facts: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for fact, value in facts.items():
        setattr(info, fact, value)
    return info, data


def tarred(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def tar_of(files: dict[str, bytes], **facts: object) -> bytes:
    return tarred(*(member(name, data, **facts) for name, data in files.items()))


BOTH = pytest.mark.parametrize("pack", [zipped, tar_of])


@BOTH
def test_files_at_the_top_or_in_one_directory_are_unpacked(pack):
    assert unpack(pack(FILES)).files == FILES
    assert unpack(pack({f"greeter-1.0.0/{name}": data for name, data in FILES.items()})).files == FILES
    assert unpack(pack({f"./{name}": data for name, data in FILES.items()})).files == FILES


def test_execute_bits_are_kept():
    assert unpack(zipped(FILES, mode={"plugin.py": stat.S_IFREG | 0o755})).executable == {"plugin.py"}
    plain = [member(name, data) for name, data in FILES.items() if name != "plugin.py"]
    assert unpack(tarred(*plain, member("plugin.py", b"", mode=0o755))).executable == {"plugin.py"}


def test_directories_and_what_macos_adds_are_passed_over():
    directories = [member("greeter", type=tarfile.DIRTYPE), member("./", type=tarfile.DIRTYPE)]
    assert (
        unpack(tarred(*directories, *(member(f"greeter/{name}", data) for name, data in FILES.items()))).files == FILES
    )
    assert (
        unpack(zipped({"g/": b"", "__MACOSX/g/._plugin.py": b""} | {f"g/{n}": d for n, d in FILES.items()})).files
        == FILES
    )


@BOTH
@pytest.mark.parametrize(
    "name",
    [
        *"../evil.py /etc/evil.py a/../../evil.py a/./b.py a//b.py //evil.py C:/evil.py".split(),
        "a\\..\\evil.py",
        "turned\u202e.py",
        "two\nlines.py",
        "x" * 600,
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(pack, name):
    with pytest.raises(NotUnpacked, match="a name that") as raised:
        unpack(pack(FILES | {name: b""}))
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_only_plain_files_come_out_of_a_tar(kind):
    members = [member(name, data) for name, data in FILES.items()]
    with pytest.raises(NotUnpacked, match="'odd', which is no plain file"):
        unpack(tarred(*members, member("odd", type=kind, linkname="plugin.py")))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_only_plain_files_come_out_of_a_zip(kind):
    with pytest.raises(NotUnpacked, match="no plain file"):
        unpack(zipped(FILES | {"odd": b"plugin.py"}, mode={"odd": kind | 0o777}))


def test_a_link_below_which_files_are_put_is_refused():
    link = member("inner", type=tarfile.SYMTYPE, linkname="/tmp")
    with pytest.raises(NotUnpacked):
        unpack(tarred(link, *(member(name, data) for name, data in FILES.items())))


@BOTH
def test_too_much_of_anything_is_refused(pack):
    with pytest.raises(NotUnpacked, match="larger than 1 MiB"):
        unpack(pack(FILES | {"big": b"\0" * (1 << 20) + b"\0"}))
    with pytest.raises(NotUnpacked, match=r"more than 200 files or 4 MiB"):
        unpack(pack(FILES | {f"{number}": b"\0" * (1 << 20) for number in range(5)}))
    with pytest.raises(NotUnpacked, match="more than 200 files or 4 MiB"):
        unpack(pack(FILES | {f"{number}": b"" for number in range(300)}))
    with pytest.raises(NotUnpacked, match="more than 2000 entries"):
        unpack(pack({f"{number}/": b"" for number in range(2100)} if pack is zipped else _many_directories()))


def _many_directories() -> dict[str, bytes]:
    # A tar's directories are told by their kind, so these stand below macOS's name, which is passed over.
    return {f"__MACOSX/{number}": b"" for number in range(2100)}


def test_a_bomb_is_not_unpacked():
    with pytest.raises(NotUnpacked, match="larger than 16 MiB once"):
        unpack(gzip.compress(b"\0" * (64 << 20)))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("plugin.json", b"\0" * (64 << 20))
    with pytest.raises(NotUnpacked, match="larger than 1 MiB"):
        unpack(stream.getvalue())


def test_a_size_that_is_a_lie_is_found_out():
    data = bytearray(zipped({"plugin.json": b"x" * 5000}))
    central = data.index(b"PK\1\2")
    data[central + 24 : central + 28] = (10).to_bytes(4, "little")
    data[22:26] = (10).to_bytes(4, "little")
    with pytest.raises(NotUnpacked):
        unpack(bytes(data))


def test_a_sparse_file_is_refused():
    # In its format the content begins with a map: how many pieces of the file are really there.
    info, data = member("sparse", b"0\n".ljust(512, b"\0"))
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)}
    with pytest.raises(NotUnpacked, match="'sparse', which is no plain file"):
        unpack(tarred((info, data), *(member(name, content) for name, content in FILES.items())))


@BOTH
def test_a_name_that_stands_twice_is_refused(pack):
    data = zipped(FILES)
    if pack is zipped:
        stream = io.BytesIO(data)
        with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(stream, "a") as archive:
            archive.writestr("plugin.py", b"other")
        data = stream.getvalue()
    else:
        data = tarred(*(member(name, content) for name, content in FILES.items()), member("./plugin.py", b"other"))
    with pytest.raises(NotUnpacked, match=r"'plugin\.py' twice"):
        unpack(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"PK\x03\x04garbage",
        b"\x1f\x8bgarbage",
        gzip.compress(b"no tar at all" * 100, mtime=0),
        zipped(FILES)[:-30],
        tar_of(FILES)[:-20],
        b"PK\x05\x06" + b"\0" * 18,
    ],
)
def test_what_is_no_whole_archive_is_refused(data):
    with pytest.raises(NotUnpacked):
        unpack(data)


def test_an_encrypted_archive_is_refused():
    data = bytearray(zipped(FILES))
    at = 0
    while (at := data.find(b"PK\1\2", at)) >= 0:
        data[at + 8] |= 1
        at += 4
    with pytest.raises(NotUnpacked, match="is encrypted"):
        unpack(bytes(data))


def test_an_archive_that_is_too_large_is_not_looked_into():
    with pytest.raises(NotUnpacked, match="larger than 8 MiB"):
        unpack(zipped(FILES) + b"\0" * MAX_ARCHIVE_BYTES)


@pytest.mark.parametrize(
    "files",
    [
        {"plugin.py": b""},
        {"a/plugin.json": b"{}", "b/plugin.json": b"{}"},
        {"a/b/plugin.json": b"{}"},
        {"a/plugin.json": b"{}", "stray.txt": b""},
        {},
    ],
)
def test_an_archive_holds_exactly_one_plugin(files):
    with pytest.raises(NotUnpacked):
        unpack(tar_of(files))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_whose_bytes_make_no_sense_is_a_broken_archive(method):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("plugin.json", b"{}" * 50)
    data = bytearray(stream.getvalue())
    began = 30 + len("plugin.json")
    data[began : began + 12] = b"\xff" * 12
    with pytest.raises(NotUnpacked, match="broken"):
        unpack(bytes(data))


def test_a_tar_with_a_size_beyond_all_numbers_is_a_broken_archive():
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 0
    block = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"\x80" + b"\x7f" * 11
    checksum = sum(block[:148]) + 8 * ord(" ") + sum(block[156:])
    block[148:156] = b"%06o\0 " % checksum
    with pytest.raises(NotUnpacked):
        unpack(gzip.compress(bytes(block) + bytes(1024)))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE])
def test_what_a_tar_says_at_length_about_a_file_is_not_read(kind):
    """A few hundred kilobytes of digits took Python before 3.11.10 minutes, and the whole process with it."""
    told, data = member("././@PaxHeader", b"1" * 5000, type=kind)
    archive = told.tobuf(tarfile.USTAR_FORMAT) + data.ljust(5120, b"\0") + tarfile.TarInfo("plugin.json").tobuf()
    with pytest.raises(NotUnpacked, match=r"more than 4096 bytes about one|is a broken"):
        unpack(gzip.compress(archive + b"\0" * 1024))
    assert unpack(tar_of(FILES, pax_headers={"comment": "x" * 3000})).files == FILES
