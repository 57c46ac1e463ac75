"""Jails of the other back-ends: what a plugin can do there is the same, but for files of the host."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kagura_kernel.domain.errors import PluginJailBroken, SandboxUnsupported
from kagura_kernel.plugins.jail.jail import Jail
from kagura_kernel.plugins.jail.running import JailLimits, JailParts
from kagura_kernel.plugins.permissions import JailPlan, NetRule
from kagura_kernel.sandbox.backend import SandboxBackend, ShownPath
from kagura_kernel.sandbox.gvisor.runsc import RunscBackend
from tests.support.jails import NAME, small_content, small_manifest

from .conftest import ask

SOURCE = """
import os, socket
SCHEMA = {}
def create_host_functions(config):
    def whoami():
        return [os.getuid(), os.environ.get("HTTPS_PROXY"), config["n"]]
    def leave():
        os._exit(4)
    def ask(place):
        with socket.create_connection(("127.0.0.1", 3179), 20) as way:
            way.sendall(f"CONNECT {place} HTTP/1.1\\r\\n\\r\\n".encode())
            return way.recv(1000).decode()
    return {"small": {"whoami": whoami, "leave": leave, "ask": ask}}
"""


async def check(backend: SandboxBackend) -> None:
    """One plugin, from its start to its second box."""
    parts = JailParts(start_box=backend.start, limits=JailLimits(start_seconds=60))
    plan = JailPlan(net=(NetRule("name", "inside.test", 443),), config={"n": 7})
    jail = await Jail.start(NAME, small_content(SOURCE), small_manifest(), plan, parts)
    try:
        uid, proxy, number = await ask(jail, "whoami")
        assert uid != 0
        assert (proxy, number) == ("http://127.0.0.1:3179", 7)
        assert "403" in await ask(jail, "ask", "outside.test:443")
        with pytest.raises(PluginJailBroken):
            await ask(jail, "leave")
        assert (await ask(jail, "whoami"))[0] == uid
    finally:
        await jail.close()


async def check_refusal(backend: SandboxBackend, place: Path) -> None:
    """What shows files of the host as they are is refused, and not done by halves."""
    plan = JailPlan(shown=(ShownPath(place, "/plugin/read/0"),))
    with pytest.raises(SandboxUnsupported, match="bubblewrap"):
        await Jail.start(NAME, small_content(SOURCE), small_manifest(), plan, JailParts(start_box=backend.start))


@pytest.mark.docker
@pytest.mark.timeout(600)
async def test_a_jail_is_a_container_where_that_is_wanted(docker_backend, tmp_path):
    await check(docker_backend)
    await check_refusal(docker_backend, tmp_path)


async def test_a_jail_is_a_gvisor_box_where_that_is_wanted(tmp_path):
    if shutil.which("runsc") is None:
        pytest.skip("needs gVisor: install runsc")
    backend = RunscBackend()
    try:
        probe = await backend.probe()
        if not probe.ok:
            pytest.skip(probe.reason)
        await check(backend)
        await check_refusal(backend, tmp_path)
    finally:
        await backend.close()
