"""What a file is by its first bytes: media that hold no text, and containers that cannot be looked into."""

from __future__ import annotations

_MEDIA: tuple[tuple[int, bytes], ...] = (
    (0, b"\x89PNG\r\n\x1a\n"),
    (0, b"\xff\xd8\xff"),
    (0, b"GIF87a"),
    (0, b"GIF89a"),
    (0, b"BM"),
    (0, b"II*\x00"),
    (0, b"MM\x00*"),
    (0, b"\x00\x00\x01\x00"),
    (0, b"\x00\x00\x02\x00"),
    (0, b"wOFF"),
    (0, b"wOF2"),
    (0, b"OTTO"),
    (0, b"\x00\x01\x00\x00\x00"),
    (0, b"true\x00"),
    (0, b"ttcf"),
    (0, b"%PDF-"),
    (0, b"OggS"),
    (0, b"fLaC"),
    (0, b"ID3"),
    (0, b"\xff\xfb"),
    (0, b"\xff\xf3"),
    (0, b"\xff\xf2"),
    (0, b"\x1aE\xdf\xa3"),
    (4, b"ftyp"),
    (0, b"FLV\x01"),
    (0, b"8BPS"),
    (0, b"MThd"),
    (0, b"\x00\x00\x00\x0cJXL "),
    (0, b"\xff\x0a"),
    (0, b"\x00\x00\x00\x0cjP  "),
    (0, b"#!AMR"),
    (0, b"icns"),
)
_RIFF = frozenset({b"WEBP", b"WAVE", b"AVI "})
_CONTAINERS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive"), (0, b"PK\x05\x06", "a zip archive"), (0, b"PK\x07\x08", "a zip archive"), (0, b"\x1f\x8b", "compressed with gzip"),
    (0, b"BZh", "compressed with bzip2"), (0, b"\xfd7zXZ\x00", "compressed with xz"), (0, b"\x28\xb5\x2f\xfd", "compressed with zstd"), (0, b"\x04\x22\x4d\x18", "compressed with lz4"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"), (0, b"Rar!\x1a\x07", "a rar archive"), (257, b"ustar", "a tar archive"), (0, b"!<arch>\n", "an archive of objects"),
    (0, b"SQLite format 3\x00", "a database"), (0, b"\x7fELF", "a program"), (0, b"MZ", "a program"), (0, b"\xcf\xfa\xed\xfe", "a program"), (0, b"\xca\xfe\xba\xbe", "a program"),
    (0, b"PAR1", "a table in Parquet"), (0, b"ARROW1", "a table in Arrow"), (0, b"\x89HDF\r\n", "a table in HDF5"), (0, b"\x93NUMPY", "an array of NumPy"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an office document"), (0, b"\x00asm", "a program"), (0, b"\xfe\xed\xfe\xed", "a key store"), (0, b"\x80\x04\x95", "a pickle"),
)  # fmt: skip


def is_media(data: bytes) -> bool:
    """Whether this is a picture, a font, a PDF, a sound or a film."""
    if data[:4] == b"RIFF":
        return data[8:12] in _RIFF
    if data[:2] == b"BM":
        return len(data) > 26 and int.from_bytes(data[2:6], "little") == len(data)
    return any(data.startswith(magic, at) for at, magic in _MEDIA)


def container(data: bytes) -> str:
    """What kind of archive, database or program this is, as the end of "it is …"; empty for anything else."""
    for at, magic, name in _CONTAINERS:
        if data.startswith(magic, at) and (magic != b"MZ" or b"\x00" in data[:64]):
            return name
    return ""
