"""Layers over a Python that changes meanwhile, over the system's and the user's own, and many at once."""

import asyncio
import shutil
import site
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import shell_command
from kagura_kernel.domain.policy import SandboxPolicy
from kagura_kernel.sandbox.backend import Box, BoxSpec
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.sandbox.python_view import find_view
from tests.support.wheels import write_wheel

NET = BoxSpec(policy=SandboxPolicy(network_access=True))
LOOK = "python -c 'import {0}; print({0}.__file__)'"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """An environment without pip, of whoever runs the tests."""
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not here")
    venv.create(tmp_path / "env", symlinks=True)
    return tmp_path / "env"


@pytest.fixture
def system_python() -> str:
    """What the system's Python calls the folder of its packages."""
    if shutil.which("bwrap") is None or not Path("/usr/bin/python3").exists():
        pytest.skip("needs bubblewrap and a system Python")
    code = "import sys; print('python%d.%d' % sys.version_info[:2], end='')"
    return subprocess.check_output(["/usr/bin/python3", "-c", code], text=True)


def backend_of(env: Path) -> BubblewrapBackend:
    return BubblewrapBackend(view=find_view(python=f"{env}/bin/python", prefixes=(str(env), sys.base_prefix)))


async def said(box: Box, line: str) -> str:
    result = await box.run(shell_command(line))
    return result.stdout.text + result.stderr.text


async def test_a_box_that_waits_is_renewed_when_something_was_installed_on_the_host(small):
    packages = next((small / "lib").glob("python*")) / "site-packages"
    pool = WarmPool(backend_of(small), size=1)
    try:
        pool.prepare(NET)
        await pool.settled()
        (packages / "new_layer.py").write_text("")
        fresh = await pool.start(NET)
        assert not fresh.warm
        assert await said(fresh, LOOK.format("new_layer")) == f"{packages}/new_layer.py\n"
        await pool.settled()
        warm = await pool.start(NET)
        assert warm.warm
    finally:
        await pool.close()


async def test_what_is_installed_on_the_host_disturbs_no_box_that_is_there(small):
    packages = next((small / "lib").glob("python*")) / "site-packages"
    backend = backend_of(small)
    try:
        box = await backend.start(NET)
        await said(box, f"touch {packages}/mine_layer.py; python -c 'import new_layer'")
        (packages / "new_layer.py").write_text("")
        (packages / "mine_layer.py").write_text("raise SystemExit('the host has another')")
        assert await said(box, LOOK.format("mine_layer")) == f"{packages}/mine_layer.py\n"
        later = await backend.start(NET)
        assert await said(later, LOOK.format("new_layer")) == f"{packages}/new_layer.py\n"
    finally:
        await backend.close()


async def test_the_users_own_packages_and_programs_have_a_layer_too(tmp_path, system_python, monkeypatch):
    base = tmp_path / "local"
    packages = base / "lib" / system_python / "site-packages"
    packages.mkdir(parents=True)
    (packages / "old_layer.py").write_text("")
    monkeypatch.setattr(site, "getuserbase", lambda: str(base))
    view = find_view(python="/usr/bin/python3", prefixes=("/usr", "/usr"), user_site=str(packages))
    backend = BubblewrapBackend(view=view)
    try:
        box = await backend.start(NET)
        made = f"touch {packages}/new_layer.py && printf '#!/bin/sh\necho program\n' > {base}/bin/layer"
        assert await said(box, f"{made} && chmod +x {base}/bin/layer && layer") == "program\n"
        assert await said(box, "python -c 'import old_layer, new_layer'") == ""
    finally:
        await backend.close()
    assert sorted(path.name for path in base.rglob("*.py")) == ["old_layer.py"]
    assert not (base / "bin").exists()


async def test_the_systems_own_python_installs_into_the_home_of_the_box(system_python, tmp_path):
    del system_python
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    write_wheel(wheels, "hello-layer", "1.0", script=True)
    view = find_view(python="/usr/bin/python3", prefixes=("/usr", "/usr"))
    backend = BubblewrapBackend(view=view)
    # As boxes with a way out have it: distributions keep pip from their own Python.
    spec = replace(NET, extra_read_only=((wheels, "/wheels"),), env={"PIP_BREAK_SYSTEM_PACKAGES": "1"})
    try:
        box = await backend.start(spec)
        if "No module named pip" in await said(box, "python -m pip --version"):
            pytest.skip("the system's Python has no pip")
        install = "python -m pip install --no-index --find-links /wheels -q"
        told = await said(box, f"{install} hello-layer && hello-layer")
        assert told.endswith("hello-layer 1.0\n"), told
    finally:
        await backend.close()


async def test_several_boxes_at_once_have_layers_of_their_own(small):
    packages = next((small / "lib").glob("python*")) / "site-packages"
    backend = backend_of(small)
    try:
        boxes = await asyncio.gather(*(backend.start(NET) for _ in range(4)))
        for number, box in enumerate(boxes):
            await said(box, f"echo 'number = {number}' > {packages}/which_layer.py")
        told = [await said(box, "python -c 'import which_layer; print(which_layer.number)'") for box in boxes]
        assert told == ["0\n", "1\n", "2\n", "3\n"]
    finally:
        await backend.close()
