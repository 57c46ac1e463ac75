"""Archives made in memory, in both layouts; real ones are looked through in the integration tests."""

import gzip
import io
import json
import random
import tarfile

import pytest

from kagura_kernel.sandbox.images.secrets import Machine, OurCode
from kagura_kernel.sandbox.images.verification import (
    Finding,
    Kind,
    LayerFacts,
    judge_configuration,
    judge_layers,
    read_export,
)

NETRC = b"machine h password secret1"
LOOKED_FOR = OurCode(frozenset(), frozenset()), Machine()


def tar(**files: bytes | tuple[str, int, bytes]) -> bytes:
    """An archive of files; `("dir" or "file", mode, content)` where more than the content matters."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, what in files.items():
            kind, mode, content = what if isinstance(what, tuple) else ("file", 0o644, what)
            member = tarfile.TarInfo(name)
            member.mode, member.size = mode, len(content)
            member.type = tarfile.DIRTYPE if kind == "dir" else tarfile.REGTYPE
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def exported(*layers: bytes, cut: int | None = None):
    """Images and layers of an archive in the daemon's layout, the manifest last, in small pieces."""
    files = {f"{number}/layer.tar": layer for number, layer in enumerate(layers)}
    manifest = [{"Config": "c.json", "RepoTags": ["a:b"], "Layers": list(files)}]
    whole = tar(**files, **{"c.json": b'{"config": {}}', "manifest.json": json.dumps(manifest).encode()})[:cut]
    read: dict[str, LayerFacts] = {}
    pieces = (whole[start : start + 1000] for start in range(0, len(whole), 1000))
    images = read_export(pieces, lambda name: read.setdefault(name, LayerFacts(*LOOKED_FOR)))
    return images, [read[name] for name in images[0].layers]


def test_a_secret_is_found_in_its_layer_and_said_to_be_deleted_when_a_later_one_removes_it():
    _, layers = exported(tar(**{"root/.netrc": NETRC}), tar(**{"root/.wh..netrc": b""}))
    assert list(judge_layers(layers)) == [
        Finding(Kind.CREDENTIAL, "root/.netrc", "a password for a host", 1, deleted=True)
    ]


@pytest.mark.parametrize("hiding", ["root/.netrc", ".wh.root", "root/.wh..wh..opq"])
def test_a_replaced_file_a_deleted_folder_and_an_emptied_one_hide_alike(hiding):
    _, layers = exported(tar(**{"root/.netrc": NETRC}), tar(**{hiding: b""}))
    assert [one.deleted for one in judge_layers(layers)] == [True]


def test_rights_count_as_they_are_in_the_end():
    risky = {"opt/open": ("dir", 0o777, b""), "opt/tool": ("file", 0o4755, b"x"), "tmp": ("dir", 0o1777, b"")}
    mended = {"opt/open": ("dir", 0o755, b""), "opt/tool": ("file", 0o755, b"x")}
    _, layers = exported(tar(**risky))
    assert [(one.kind, one.where) for one in judge_layers(layers)] == [
        (Kind.WRITABLE, "opt/open"),
        (Kind.SETUID, "opt/tool"),
    ]
    _, layers = exported(tar(**risky), tar(**mended))
    assert list(judge_layers(layers)) == []


def test_a_compressed_layer_is_looked_through_too():
    _, layers = exported(gzip.compress(tar(**{"root/.netrc": NETRC})))
    assert [one.where for one in judge_layers(layers)] == ["root/.netrc"]


def test_a_layer_in_several_compressed_parts_is_looked_through_to_its_end():
    first, rest = (layer := tar(a=b"x", **{"root/.netrc": NETRC}))[:1024], layer[1024:]
    _, layers = exported(gzip.compress(first) + gzip.compress(rest))
    assert [one.where for one in judge_layers(layers)] == ["root/.netrc"]


@pytest.mark.parametrize("hides", [{"size": "0"}, {"path": "bin/su"}, {"uid": "0"}])
def test_a_layer_whose_headers_hold_for_all_of_its_files_proves_nothing(hides):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT, pax_headers=hides) as archive:
        member = tarfile.TarInfo("tool")
        member.mode, member.uid = 0o4755, 1000
        archive.addfile(member)
    _, layers = exported(stream.getvalue())
    assert [one.kind for one in judge_layers(layers)] == [Kind.UNREADABLE]


def test_a_layer_that_breaks_off_proves_nothing():
    _, layers = exported(gzip.compress(tar(a=b"x" * 5000))[:60])
    assert [one.kind for one in judge_layers(layers)] == [Kind.UNREADABLE]


@pytest.mark.parametrize("at", [100, 11_000])  # met by who reads headers, and by who reads a file
def test_a_layer_whose_packing_is_broken_proves_nothing(at):
    packed = bytearray(gzip.compress(tar(a=random.Random(1).randbytes(50_000).hex().encode())))
    packed[at : at + 200] = b"U" * 200
    _, layers = exported(bytes(packed))
    assert [one.kind for one in judge_layers(layers)] == [Kind.UNREADABLE]


def test_what_is_no_header_of_a_file_does_not_end_a_layer_unseen():
    layer = tar(a=b"") + b"?" * 512 + tar(**{"root/.netrc": NETRC})
    _, layers = exported(layer[:512] + layer[layer.index(b"?") :])
    assert [one.kind for one in judge_layers(layers)] == [Kind.UNREADABLE]


def test_what_the_container_was_given_that_an_image_was_made_from_is_judged_too():
    made = {"config": {"User": "1000", "Env": ["API_TOKEN="]}, "container_config": {"Env": ["API_TOKEN=q8Zr4tWn1xLs"]}}
    assert [one.where for one in judge_configuration(made)] == ["env API_TOKEN"]


def test_an_archive_that_breaks_off_is_refused():
    with pytest.raises(ValueError, match="archive"):
        exported(tar(a=b"x" * 50_000), cut=20_000)


def test_a_configuration_that_is_nested_too_deeply_is_refused():
    with pytest.raises(ValueError, match="nested too deeply"):
        list(read_export([tar(**{"c.json": b"[" * 100_000})], lambda _: LayerFacts(*LOOKED_FOR)))


def test_a_configuration_in_which_a_key_stands_twice_is_refused():
    archive = tar(**{"c.json": b'{"config": {"User": "0"}, "config": {"User": "1000"}}', "manifest.json": b"[]"})
    with pytest.raises(ValueError, match="a key stands twice"):
        read_export([archive], lambda _: LayerFacts(*LOOKED_FOR))


@pytest.mark.parametrize(
    ("configuration", "key"),
    [
        ({"config": {"User": "1000", "user": "0"}}, "user"),
        ({"config": {"User": "1000", "ENV": ["TOKEN=x"]}}, "ENV"),
        ({"config": {"User": "1000", "label\u017f": {}}}, "label\u017f"),
        ({"config": {"User": "1000", "Healthcheck": {"test": ["x"]}}}, "test"),
        ({"config": {"User": "1000"}, "Config": {}}, "Config"),
        ({"config": {"User": "1000"}, "history": [{"Created_By": "x"}]}, "Created_By"),
    ],
)
def test_a_key_in_other_letters_than_docker_needs_proves_nothing(configuration, key):
    assert [(one.kind, one.where) for one in judge_configuration(configuration)] == [(Kind.UNREADABLE, f"key {key}")]


def test_a_file_that_claims_more_than_there_is_proves_nothing_and_is_not_read_to_its_end():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("big")
        member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 50)}
        archive.addfile(member)
    _, layers = exported(stream.getvalue())
    assert [one.kind for one in judge_layers(layers)] == [Kind.UNREADABLE]


@pytest.mark.parametrize("before", [0, 1024 * 1024 - 20, 3 * 1024 * 1024 + 7])
def test_a_secret_between_two_pieces_of_a_large_file_is_found(before):
    token = b"gh" + b"p_" + b"Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2"
    _, layers = exported(tar(**{"opt/blob": b"\0" * before + token + b"\0" * 100}))
    assert [one.reason for one in judge_layers(layers)] == ["a GitHub token"]


def test_a_configuration_is_judged_in_every_part_and_no_secret_is_repeated():
    secret = "Zx9" + "Lq2Rt7Vb4Nm8Kp1"
    found = list(
        judge_configuration(
            {
                "config": {
                    "User": "0:0",
                    "Env": ["PATH=/bin", f"DB_PASSWORD={secret}", "HTTP_PROXY=http://p.test:1"],
                    "Labels": {"a": f"https://me:{secret}@h.test"},
                    "Cmd": ["app", "--token", secret],
                    "Healthcheck": {"Test": ["CMD", f"API_KEY={secret}", "check"]},
                },
                "history": [{"created_by": "first"}, {"created_by": f"|1 NPM_TOKEN={secret} /bin/sh -c npm ci"}],
            }
        )
    )
    assert {(one.kind, one.where) for one in found} == {
        (Kind.ROOT, "user"),
        (Kind.CREDENTIAL, "env DB_PASSWORD"),
        (Kind.MACHINE, "env HTTP_PROXY"),
        (Kind.CREDENTIAL, "label a"),
        (Kind.CREDENTIAL, "cmd"),
        (Kind.CREDENTIAL, "healthcheck"),
        (Kind.CREDENTIAL, "history 2"),
    }
    assert secret not in repr(found)


def test_an_ordinary_configuration_is_clean():
    assert (
        list(judge_configuration({"config": {"User": "65532:65532", "Env": ["LANG=C.UTF-8"], "Cmd": ["bash"]}})) == []
    )
