"""Where a further directory may lie in a box, and how it is known again."""

from pathlib import Path

import pytest

from kagura_kernel.domain.errors import SandboxUnsupported
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.box import identities, refuse_further

KIT = Path("/data/kit")


def spec(*pairs: tuple[Path, str]) -> BoxSpec:
    return BoxSpec(extra_read_only=pairs)


@pytest.mark.parametrize("target", ["/kagura/kit", "/data", "/opt/kit", "/wheels", "/usrlocal", "/workspaces/a"])
def test_a_place_of_its_own_is_fine(target: str):
    refuse_further(spec((KIT, target)), "docker")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/", "shortest form"),
        ("", "shortest form"),
        ("kit", "shortest form"),
        ("//kit", "shortest form"),
        ("/kit/", "shortest form"),
        ("/kit/../etc", "shortest form"),
        ("/kit/./a", "shortest form"),
        ("/a\0b", "shortest form"),
        ("/workspace", "/workspace already"),
        ("/workspace/kit", "/workspace already"),
        ("/tmp/kit", "/tmp already"),
        ("/proc/self/cwd", "/proc already"),
        ("/etc/ssl", "/etc already"),
        ("/home", "/home already"),
    ],
)
def test_a_place_of_the_boxs_own_is_refused_and_named(target: str, why: str):
    with pytest.raises(SandboxUnsupported, match=f"docker.*{why}"):
        refuse_further(spec((KIT, target)), "docker")


@pytest.mark.parametrize("pair", [("/a", "/a"), ("/a", "/a/b"), ("/a/b", "/a")])
def test_one_directory_does_not_hide_another(pair: tuple[str, str]):
    with pytest.raises(SandboxUnsupported, match=f"{pair[0]} already"):
        refuse_further(spec(*((KIT, target) for target in pair)), "docker")
    refuse_further(spec((KIT, "/a"), (KIT, "/ab")), "docker")


def test_a_relative_path_of_the_host_is_refused():
    with pytest.raises(SandboxUnsupported, match="on the host is not absolute"):
        refuse_further(spec((Path("kit"), "/kit")), "docker")


def test_another_directory_of_the_same_name_is_another_one(tmp_path: Path):
    one = spec((tmp_path / "kit", "/kit"))
    assert identities(one) == (None,)
    (tmp_path / "kit").mkdir()
    first = identities(one)
    (tmp_path / "kit" / "new").touch()
    assert identities(one) == first
    (tmp_path / "kit").rename(tmp_path / "old")
    (tmp_path / "kit").mkdir()
    assert identities(one) != first
    assert None not in identities(one)
