"""A toolset's command is installed in a box with walls: through its run's egress, with the hosts that were found out.

An index on the loopback of this machine stands in for the public one, as a company's mirror would; the last test asks
the one that this machine really has.
"""

import asyncio
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from kagura_kernel.domain.clock import SystemClock
from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import ToolsetError
from kagura_kernel.domain.events import EgressClosed, EgressDecided
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.kit.definitions.toolsets import McpToolset
from kagura_kernel.kit.packages.hosts import InstallPlan, LookUpFailed, ToolHosts, tool_hosts
from kagura_kernel.kit.packages.lookup import PackageLookUp
from kagura_kernel.kit.packages.registry import Sources, load_registry, parse_package, sources_of
from kagura_kernel.membrane.credentials.scrub import ScrubbedBox, Scrubber
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Gate
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.egress.proxy import open_egress, proxy_variables, usual_variables
from kagura_kernel.membrane.egress.stream import EgressLimits
from kagura_kernel.membrane.grant import host_sets
from kagura_kernel.runs.exchange import ExchangeDirectory
from kagura_kernel.runs.toolset_install import install
from kagura_kernel.sandbox.backend import Box, BoxSpec, SandboxBackend
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend
from kagura_kernel.sandbox.docker.backend import DockerBackend
from tests.support.docker_images import PYTHON
from tests.support.package_servers import package_servers
from tests.support.wheels import write_wheel

MIRROR = "packages.test"
FRONT = "/tmp/front"
"""A folder of the box."""


@pytest.fixture(params=["bubblewrap", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.timeout(600)])])
def backend(request: pytest.FixtureRequest) -> Callable[[], SandboxBackend]:
    if request.param == "docker":
        endpoint = request.getfixturevalue("docker_endpoint")
        return lambda: DockerBackend(endpoint, default_image=PYTHON)
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not here")
    return BubblewrapBackend


@asynccontextmanager
async def open_box(
    backend: SandboxBackend, words: Sequence[str], resolve: Callable, records: list, **env: str
) -> AsyncIterator[Box]:
    """A box that reaches what these words grant, as that of a run."""
    try:
        inner = await backend.start(BoxSpec(env=env))
        limits = EgressLimits()
        gate = Gate(parse_grants(words), resolve, asking=None, limits=limits)
        egress = Egress(gate, records.append, run_id="run-1", session_id="ses-1", limits=limits)
        port = await open_egress(inner, egress, failed=records.append)
        variables = usual_variables() | proxy_variables(port) | env
        yield ScrubbedBox(inner, Scrubber(lambda: ()), variables=lambda: variables)
    finally:
        await backend.close()


def found_out(sources: Sources, version: str, command: str) -> tuple[ToolHosts, InstallPlan]:
    toolset = McpToolset(type="mcp", name="tool", command=command, version=version)
    look_up = PackageLookUp(sources, None, SystemClock())
    found = tool_hosts([toolset], load_registry(), look_up=look_up, sources=sources, strict=True)
    return found, found.installs["tool"]


def reached(records: Sequence[object]) -> set[str]:
    assert not [one for one in records if not isinstance(one, EgressDecided | EgressClosed)]
    return {one.host for one in records if isinstance(one, EgressDecided) and one.allowed}


async def test_pip_gets_what_is_granted_and_what_is_not_is_told_in_the_error(backend, tmp_path):
    write_wheel(tmp_path, "small-server", "1.0", script=True)
    with package_servers(tmp_path) as servers:
        port = servers.host.rpartition(":")[2]
        mirror = f"http://{MIRROR}:{port}/simple"
        env = {"PIP_INDEX_URL": mirror, "PIP_TRUSTED_HOST": MIRROR}
        sources = sources_of(env, host_sets({"python-packages": (f"{MIRROR}:{port}", servers.host)}))
        found, plan = found_out(sources, "pip:small-server@1.0", "small-server")
        assert set(found.hosts) == {f"{MIRROR}:{port}", servers.host}

        async def resolve(host: str, port: int) -> Sequence[str]:
            del port
            return {MIRROR: ["127.0.0.1"]}[host]

        records: list[object] = []
        async with open_box(backend(), found.hosts, resolve, records, **env) as box:
            made = await install(box, "tool", plan.command, plan, root=f"{ExchangeDirectory(box).root}/tools")
            assert made.what == "pip:small-server@1.0"
            answer = await box.run(Command(made.argv, env=made.env))
            assert answer.stdout.text == "small-server 1.0\n"
            assert await box.changes() == []
        assert reached(records) == {MIRROR}
        assert {one.rpartition("/")[2] for one in servers.asked} == {"", "small_server-1.0-py3-none-any.whl"}

        asked = len(servers.asked)
        async with open_box(backend(), [], resolve, [], **env) as box:
            with pytest.raises(ToolsetError) as raised:
                await install(box, "tool", plan.command, plan, root=f"{ExchangeDirectory(box).root}/tools")
        assert "pip:small-server@1.0 could not be installed" in str(raised.value)
        assert len(servers.asked) == asked


@pytest.mark.network
@pytest.mark.real_clock
async def test_a_real_server_is_installed_from_the_index_that_this_machine_has():
    if sys.platform != "linux" or shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not here")
    sources = sources_of({})
    try:
        await asyncio.to_thread(PackageLookUp(sources, None, SystemClock()), parse_package("pip:mcp-server-time"))
    except LookUpFailed as problem:
        pytest.skip(f"this machine reaches no index of packages: {problem}")
    found, plan = await asyncio.to_thread(found_out, sources, "", "mcp-server-time")

    async def resolve(host: str, port: int) -> Sequence[str]:
        answers = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(where[0]) for *_, where in answers))

    # A machine may reach its index by an address of its own network.
    words = [
        *found.hosts,
        *{f"{one}:443" for host in found.hosts for one in await resolve(host, 443) if ":" not in one},
    ]
    records: list[object] = []
    async with open_box(BubblewrapBackend(), words, resolve, records, PATH=f"{FRONT}:/usr/bin:/bin") as box:
        # The tests' own environment, which the box sees, has the server already: of it this box has Python alone.
        await box.files.write(f"{FRONT}/python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n'.encode(), mode=0o755)
        root = f"{ExchangeDirectory(box).root}/tools"
        try:
            made = await install(box, "tool", "mcp-server-time", plan, root=root)
        except ToolsetError:
            # An index that does not answer for a moment looks to pip like one that has nothing.
            made = await install(box, "again", "mcp-server-time", plan, root=root)
        assert made.what == f"pip:mcp-server-time@{plan.package.version}"
        shown = Command((*made.argv, "--help"), env=made.env, limits=CommandLimits(60, None))
        assert "--local-timezone" in (await box.run(shown)).stdout.text
    assert reached(records) <= set(found.hosts)
