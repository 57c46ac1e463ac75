"""A plugin in a real jail, for the tests of its author.

::

    async def test_it_greets():
        async with jailed_plugin(Path("my-plugin"), "greeting=Hi") as jail:
            assert await jail.call("greeter", "greet", ["Ada"], {}) == {"text": "Hi, Ada"}
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kagura_kernel.domain.errors import PluginRefused
from kagura_kernel.plugins.configuration import complete, parse_inline, read_schema
from kagura_kernel.plugins.jail.box import JailParts
from kagura_kernel.plugins.jail.jail import Jail
from kagura_kernel.plugins.manifest import load_found
from kagura_kernel.plugins.permissions import Ground, plan_jail
from kagura_kernel.plugins.scan.scanner import scan_content
from kagura_kernel.plugins.text import first_danger
from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend


@asynccontextmanager
async def jailed_plugin(directory: Path, *values: str, project: Path | None = None) -> AsyncIterator[Jail]:
    """A plugin in a jail of its own while the block lasts, loaded as it is once somebody has said yes to it.

    Args:
        directory: Its files.
        values: Its configuration, each `field=value`, as `plugin enable` takes it.
        project: What relative paths begin with; the working directory where it is not named.

    Raises:
        PluginInvalid: It is no plugin.
        PluginRefused: The scan has found a danger, or it gives what its manifest does not declare.
        PluginNotConfigured: The values are refused.
        PluginFailed: Its own code failed.
        SandboxUnavailable: Bubblewrap starts no boxes here.
    """
    found = load_found(directory, "user")
    declared, name = found.manifest.permissions, found.name
    scan = scan_content(found.content, declared)
    if why := first_danger(scan.findings):
        raise PluginRefused(name, f"may not be loaded: {why}")
    schema = read_schema(scan.schema, name)
    configured = complete(schema, parse_inline(values, schema, name), name)
    ground = Ground(project or Path.cwd(), Path.home(), private=())
    plan = plan_jail(declared, schema, configured.values, ground, plugin=name)
    backend = BubblewrapBackend()
    try:
        jail = await Jail.start(name, found.content, found.manifest, plan, JailParts(backend.start))
        try:
            yield jail
        finally:
            await jail.close()
    finally:
        await backend.close()
