"""Packages are installed into the kernel's own Python from a box: it has them for its life, and nothing else does.

A real environment with a real pip, wheels in a folder that boxes are shown, and boxes of root and of an ordinary user.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kagura_kernel.sandbox.supervisor.arguments import NO_LAYER
from tests.support.wheels import write_wheel

from .as_nobody import NOBODY, boxes_of

OTHER = 12345

Boxes = Callable[..., list[dict]]

PIP = "python -m pip --disable-pip-version-check"
INSTALL = f"{PIP} install --no-index --find-links /wheels -q"
HELLO = "import hello_layer; print(hello_layer.__file__, hello_layer.VERSION)"


def fingerprint(tree: Path) -> str:
    """Everything about a tree: names, kinds, modes, owners, times of change, contents."""
    digest = hashlib.sha256()
    for path in sorted([tree, *tree.rglob("*")]):
        found = path.lstat()
        digest.update(f"{path} {found.st_mode} {found.st_uid} {found.st_gid} {found.st_mtime_ns} ".encode())
        if path.is_symlink():
            digest.update(str(path.readlink()).encode())
        elif path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def original() -> Iterator[Path]:
    """A folder that everybody may read, with an environment in which an old package and a private file are."""
    if sys.platform != "linux" or shutil.which("bwrap") is None or os.geteuid() != 0:
        pytest.skip("needs bubblewrap, and root for boxes of both kinds")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    env = folder / "env"
    made = subprocess.run(["/usr/bin/python3", "-m", "venv", env], check=False, capture_output=True, text=True)
    if made.returncode:
        shutil.rmtree(folder)
        pytest.skip("needs a system Python that makes environments: apt install python3-venv")
    wheels = folder / "wheels"
    wheels.mkdir()
    write_wheel(wheels, "hello-layer", "1.0", script=True)
    write_wheel(wheels, "old-layer", "1.0")
    pip = [env / "bin/python", "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", "--no-index", "--find-links", wheels, "old-layer"], check=True)
    write_wheel(wheels, "old-layer", "2.0")
    (env / "pip.conf").write_text("[global]\nindex-url = https://me:password@example.org/\n")
    (env / "share").mkdir()
    (env / "share" / "token").write_text("secret")
    (env / "share" / "token").chmod(0o600)
    (env / "vault").mkdir(mode=0o700)
    (env / "vault" / "open").write_text("secret")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def env(original: Path) -> Iterator[Path]:
    """The environment, the host's root's at first; whatever happens in boxes, it is the same afterwards."""
    path = original / "env"
    yield path
    give(path, 0)


def give(tree: Path, uid: int) -> None:
    for path in (tree, *tree.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


@pytest.fixture
def boxes(env: Path) -> Boxes:
    def run(*asked: dict, uid: int = 0, through: tuple[str, ...] = ()) -> list[dict]:
        before = fingerprint(env)
        asked = [{"network": True, "extra": [[str(env.parent / "wheels"), "/wheels"]], **one} for one in asked]
        found = boxes_of(*asked, uid=uid, env=str(env), through=through)
        for box in found:
            box["answers"] = [[code, out + errors] for code, out, errors in box["answers"]]
        assert fingerprint(env) == before
        return found

    return run


# Who starts boxes, and whose the environment is.
WHO = [
    pytest.param(0, 0, id="root, with root's environment"),
    pytest.param(0, OTHER, id="root, with somebody's environment"),
    pytest.param(NOBODY, NOBODY, id="a user, with their own environment"),
]
ANYBODY = [*WHO, pytest.param(NOBODY, 0, id="a user, with root's environment")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("uid", "owner"), ANYBODY)
def test_a_package_and_its_script_are_there_for_the_life_of_the_box_and_nowhere_else(uid, owner, env, boxes):
    give(env, owner)
    first, second = boxes(
        {"lines": [f"{INSTALL} hello-layer", f'python -c "{HELLO}"', "hello-layer", "cat $(which hello-layer)"]},
        {"lines": [f'python -c "{HELLO}"', "hello-layer", f"ls {env}/bin/hello-layer"]},
        uid=uid,
    )
    site = next((env / "lib").glob("python*")) / "site-packages"
    installed, imported, called, script = first["answers"]
    assert installed[0] == 0, (installed[1], first["notes"])
    assert imported == [0, f"{site}/hello_layer.py 1.0\n"]
    assert called == [0, "hello-layer 1.0\n"]
    assert script[1].startswith(f"#!{env}/bin/python")
    assert [code != 0 for code, _ in second["answers"]] == [True, True, True]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("uid", "owner"), WHO)
def test_a_package_of_the_host_is_replaced_and_taken_away_in_the_box_only(uid, owner, env, boxes):
    give(env, owner)
    look = "import old_layer, old_layer_parts; print(old_layer.VERSION, old_layer_parts.VERSION)"
    first, second = boxes(
        {"lines": [f"{INSTALL} -U old-layer", f'python -c "{look}"', f"{PIP} uninstall -y old-layer", f"{PIP} freeze"]},
        {"lines": [f'python -c "{look}"']},
        uid=uid,
    )
    codes = [code for code, _ in first["answers"]]
    assert codes == [0, 0, 0, 0], first
    assert first["answers"][1][1] == "2.0 2.0\n"
    assert "old-layer" not in first["answers"][3][1]
    assert second["answers"] == [[0, "1.0 1.0\n"]]


@pytest.mark.timeout(300)
def test_what_a_user_cannot_replace_on_the_host_stays_in_the_box(boxes):
    look = "import old_layer; print(old_layer.VERSION)"
    [box] = boxes({"lines": [f"{PIP} uninstall -y old-layer", f'python -c "{look}"']}, uid=NOBODY)
    assert box["answers"][1] == [0, "1.0\n"]


@pytest.mark.timeout(300)
@pytest.mark.skipif(not Path("/var/lib/dpkg/status").exists(), reason="a writable root is made of a Debian system")
@pytest.mark.parametrize("owner", [0, OTHER])
def test_a_box_whose_root_is_writable_installs_too(owner, env, boxes):
    give(env, owner)
    box, other = boxes(
        {"writable_root": True, "lines": [f"{INSTALL} hello-layer", f"{INSTALL} -U old-layer", "hello-layer"]},
        {"writable_root": True, "lines": ["hello-layer", f"cat {env}/share/token {env}/pip.conf"]},
    )
    assert [code for code, _ in box["answers"]] == [0, 0, 0], box
    assert box["answers"][2][1] == "hello-layer 1.0\n"
    assert other["answers"][0][0] != 0
    assert "secret" not in other["answers"][1][1]
    assert "password" not in other["answers"][1][1]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("uid", "owner"), [(0, 0), (0, OTHER), (NOBODY, 0)])
def test_what_others_may_not_read_of_an_environment_a_box_may_not_either(uid, owner, env, boxes):
    give(env, owner)
    secrets = f"cd {env}; cat share/token vault/open pip.conf; ls vault; chmod -R 777 share vault; cat share/* vault/*"
    with_layer, without = boxes({"lines": [secrets]}, {"network": False, "lines": [secrets]}, uid=uid)
    for box in (with_layer, without):
        assert "secret" not in box["answers"][0][1]
        assert "password" not in box["answers"][0][1]


def test_configuration_stays_unseen_where_a_box_may_make_its_own(env, boxes):
    (env / "etc" / "jupyter" / "server.json").write_text("hashed")
    try:
        [box] = boxes({"lines": [f"ls {env}/etc/jupyter", f"{INSTALL} hello-layer", f"ls {env}/etc/jupyter"]})
    finally:
        (env / "etc" / "jupyter" / "server.json").unlink()
    unseen, installed, made = box["answers"]
    assert "server" not in unseen[1]
    assert installed[0] == 0, (installed[1], box["notes"])
    assert made == [0, "hello_layer.json\n"]


@pytest.mark.parametrize("uid", [0, NOBODY])
def test_an_environment_is_no_room_beside_the_scratch_space(uid, env, boxes):
    give(env, uid)
    fill = f"df --output=size -B1 {env} /tmp | tail -2; head -c 100000000 /dev/zero > {env}/lib/full"
    [box] = boxes({"scratch": 2**24, "lines": [fill]}, uid=uid)
    words = box["answers"][0][1]
    assert "No space left" in words
    assert words.split()[:2] == [str(2**24)] * 2


@pytest.mark.parametrize("uid", [0, NOBODY])
def test_without_a_network_an_environment_is_as_it_was_found(uid, env, boxes):
    give(env, uid)
    [box] = boxes({"network": False, "lines": [f"touch {env}/lib/x"]}, uid=uid)
    assert box["answers"][0][0] != 0
    assert "Read-only file system" in box["answers"][0][1]


@pytest.mark.parametrize("uid", [0, NOBODY])
def test_the_parts_of_a_layer_cannot_be_found_in_the_box(uid, env, boxes):
    give(env, uid)
    look = (
        f"echo marked > {env}/marked-file; find / -xdev -name marked-file 2>/dev/null; "
        "find / -name marked-file -not -path '/proc/*' 2>/dev/null; ls /sys/kernel /run/kagura/upper /run/kagura/lower"
    )
    trusted = f"import os; os.setxattr('{env}/marked-file', 'user.overlay.redirect', b'/etc')"
    [box] = boxes({"lines": [look, f'python -c "{trusted}" && cat {env}/marked-file']}, uid=uid)
    found = [line for line in box["answers"][0][1].splitlines() if "marked-file" in line]
    assert set(found) == {f"{env}/marked-file"}
    assert "root:" not in box["answers"][1][1]


# In mounts of the program's own. The kernel stacks two overlays, and no third one; and it shows nobody the files of an
# overlay as somebody else's.
OVERLAY = """
mount -t tmpfs none "$2"
mkdir "$2/empty"
for _ in $3; do mount -t overlay -o "lowerdir=$2/empty:$1" none "$1"; done
shift 3
exec "$@"
"""


@pytest.mark.timeout(300)
def test_where_files_cannot_appear_as_the_boxs_packages_can_still_be_added(env, boxes, tmp_path):
    secrets = f"cd {env}; chmod -R 777 share vault; cat share/token vault/open pip.conf"
    lines = [f"{INSTALL} hello-layer", "hello-layer", f"cd {env}/lib/python*/site-packages/pip && touch x", secrets]
    through = ("unshare", "--mount", "sh", "-ec", OVERLAY, "sh", str(env), str(tmp_path), "once")
    [box] = boxes({"lines": lines}, through=through)
    installed, called, changed, private = box["answers"]
    assert installed[0] == 0, (installed[1], box["notes"])
    assert called == [0, "hello-layer 1.0\n"]
    assert "Permission denied" in changed[1]
    assert "secret" not in private[1]
    assert "password" not in private[1]


def test_where_there_can_be_no_layer_a_box_says_what_to_do_and_starts(env, boxes, tmp_path):
    line = "python3 -m venv $HOME/env && $HOME/env/bin/python -m pip --version"
    lines = [f"touch {env}/lib/x", f"cat {env}/pip.conf", line]
    box, ordinary = boxes(
        {"lines": lines},
        {"lines": [], "network": False},
        through=("unshare", "--mount", "sh", "-ec", OVERLAY, "sh", str(env), str(tmp_path), "once twice"),
    )
    assert any(note.startswith(NO_LAYER) for note in box["notes"])
    assert not any(note.startswith(NO_LAYER) for note in ordinary["notes"])
    changed, private, other = box["answers"]
    assert "Read-only file system" in changed[1]
    assert "password" not in private[1]
    assert other[0] == 0, other[1]
