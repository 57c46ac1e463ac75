"""The plugins that come with the package: loaded into the test's own process, or in jails of the test's own.

In the test's process `kagura_plugin` is the same modules as `kagura_kernel.plugins.sdk`, so that a fault is one class
for both.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from kagura_kernel.plugins import sdk
from kagura_kernel.plugins.configuration import complete, read_schema
from kagura_kernel.plugins.jail.box import JailParts
from kagura_kernel.plugins.jail.jail import Jail
from kagura_kernel.plugins.manifest import load_found
from kagura_kernel.plugins.permissions import Ground, JailPlan, plan_jail

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
"""Where they lie in a clone."""

INCLUDED = ("fetch", "fs-read", "fs-write", "sql-read")


@contextmanager
def kagura_plugin_importable() -> Iterator[None]:
    """`import kagura_plugin` works in the block, as in a jail."""
    folder = Path(sdk.__file__).parent
    names = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    modules = {"kagura_plugin": sdk} | {
        f"kagura_plugin.{name}": importlib.import_module(f"{sdk.__name__}.{name}") for name in names
    }
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]


def load_plugin(name: str) -> ModuleType:
    path = PLUGINS / name / "plugin.py"
    module = ModuleType(name.replace("-", "_"))
    module.__file__ = str(path)
    with kagura_plugin_importable():
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def functions_of(name: str, config: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """What the only module of an included plugin gives for a configuration.

    Raises:
        PluginFault: the configuration is refused.
    """
    made = load_plugin(name).create_host_functions(config)
    (functions,) = made.values()
    return dict(functions)


def planned_jail(name: str, values: Mapping[str, Any], home: Path) -> JailPlan:
    """What a person's values make of an included plugin's permissions.

    Args:
        name: The plugin's.
        values: As `complete` takes them.
        home: The person's home; the project is `project` in it.

    Raises:
        PluginNotConfigured: they are refused.
    """
    schema = read_schema(load_plugin(name).SCHEMA, name)
    return plan_jail(
        load_found(PLUGINS / name, "bundled").manifest.permissions,
        schema,
        complete(schema, values, name).values,
        Ground(home / "project", home, ()),
        plugin=name,
    )


@asynccontextmanager
async def included_jail(
    name: str, values: Mapping[str, Any], home: Path, parts: JailParts, change: Callable[[bytes], bytes] = bytes
) -> AsyncIterator[Jail]:
    """An included plugin in a jail of its own, for the length of a block.

    Args:
        name: The plugin's.
        values: What a person has configured.
        home: As for `planned_jail`.
        parts: What the jail is made of.
        change: What a test changes in `plugin.py`.

    Raises:
        PluginNotConfigured: the values are refused.
        PluginRefused: the plugin refuses them itself.
    """
    found = load_found(PLUGINS / name, "bundled")
    content = replace(found.content, files={**found.content.files, "plugin.py": change(found.content.source)})
    jail = await Jail.start(name, content, found.manifest, planned_jail(name, values, home), parts)
    try:
        yield jail
    finally:
        await jail.close()
