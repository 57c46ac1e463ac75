import ast
import json
import marshal
import subprocess
import sys
from pathlib import Path

import pytest

from kagura_kernel.sandbox import boot, guest
from kagura_kernel.sandbox.boot import LATER, MODULES, STUB, GuestConfig, guest_argv, guest_payload
from kagura_kernel.sandbox.guest import frames

FOLDER = Path(guest.__file__).parent
EVERY = (*MODULES, *LATER["listeners"], *LATER["resident"])


def started(payload: bytes) -> subprocess.CompletedProcess[bytes]:
    """What a guest prints that gets this payload and then the end of the pipe."""
    return subprocess.run(guest_argv(sys.executable), input=payload, capture_output=True, timeout=60, check=False)


def greeting(output: bytes) -> dict[str, object]:
    length, kind, stream = frames.HEADER.unpack_from(output)
    assert (kind, stream) == (frames.HELLO, 0)
    return json.loads(output[frames.HEADER.size : frames.HEADER.size + length])


@pytest.mark.parametrize("same_python", [True, False])
def test_the_guest_says_hello_and_ends_with_its_pipe(same_python):
    done = started(guest_payload(GuestConfig(), same_python=same_python))
    assert greeting(done.stdout)["version"] == frames.VERSION
    assert (done.returncode, done.stderr) == (0, b"")


def test_code_of_another_python_is_never_loaded(monkeypatch):
    monkeypatch.setattr(boot, "MAGIC_NUMBER", b"\1\2\3\4")
    monkeypatch.setattr(boot, "_codes", lambda _modules: b"no code at all")
    done = started(guest_payload(GuestConfig(), same_python=True))
    assert greeting(done.stdout)["version"] == frames.VERSION


def test_a_pipe_that_ends_early_ends_the_stub():
    for payload in (b"", b"\0\0", guest_payload(GuestConfig(), same_python=True)[:-10]):
        done = started(payload)
        assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")


def test_every_module_of_the_guest_travels():
    assert sorted(EVERY) == sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", EVERY)
def test_the_guest_is_written_for_python_3_8(name):
    ast.parse((FOLDER / f"{name}.py").read_text("utf-8"), feature_version=(3, 8))


def test_each_module_comes_after_those_that_it_needs():
    order = EVERY
    for place, name in enumerate(order):
        tree = ast.parse((FOLDER / f"{name}.py").read_text("utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.level:
                needed = [node.module] if node.module else [alias.name for alias in node.names]
                assert all(order.index(str(other)) < place for other in needed)


def test_neither_the_guest_nor_its_listeners_import_what_takes_long():
    """Every run waits for both, and one of these takes longer than all of them."""
    code = STUB.replace("package.main.main(config)", "package.listeners\nprint(*sys.modules)")
    payload = guest_payload(GuestConfig(), same_python=True)
    told = subprocess.run([sys.executable, "-I", "-S", "-c", code], input=payload, capture_output=True, check=True)

    imported = set(told.stdout.decode("ascii").split())
    assert "kagura_guest.listeners" in imported
    slow = {"collections", "enum", "functools", "ipaddress", "json", "re", "socket", "subprocess", "typing"}
    assert not imported & slow


def test_the_command_line_says_nothing_of_the_box():
    assert guest_argv("/usr/bin/python3") == ["/usr/bin/python3", "-I", "-S", "-c", STUB]
    payload = guest_payload(GuestConfig(env={"NAME": "value-of-it"}), same_python=False)
    assert b"value-of-it" in payload


def test_the_payload_reads_in_every_version():
    body = guest_payload(GuestConfig(), same_python=True)[4:]
    magic, codes, sources, later, config = marshal.loads(body)
    assert isinstance(codes, bytes)
    assert magic == boot.MAGIC_NUMBER
    assert [name for name, _ in sources] == list(MODULES)
    assert [name for name, _ in marshal.loads(later["listeners"])[1]] == list(LATER["listeners"])
    assert config["workspace"] == "/workspace"


def test_a_box_is_not_told_where_this_package_lies():
    assert str(FOLDER).encode() not in guest_payload(GuestConfig(), same_python=True)
