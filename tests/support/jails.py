"""Small plugins for tests of jails: the files of one made of its source alone, and its jail."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kagura_kernel.plugins.content import PluginContent
from kagura_kernel.plugins.manifest import Manifest

NAME = "small-plugin"
MODULE = "small"


def small_content(source: str | bytes, name: str = NAME, **more: str) -> PluginContent:
    """A plugin's files.

    Args:
        source: `plugin.py`.
        name: The plugin's.
        more: Further files by name without `.py`; `__` stands for `/`.
    """
    files = {f"{path.replace('__', '/')}.py": text.encode() for path, text in more.items()}
    plugin = source if isinstance(source, bytes) else source.encode()
    return PluginContent(Path("/nowhere") / name, name, {**files, "plugin.py": plugin})


def small_manifest(*modules: str, name: str = NAME) -> Manifest:
    """Its manifest; without modules it declares one."""
    declared = modules or (MODULE,)
    return Manifest(name=name, version="1.0.0", description="A plugin for a test.", host_modules=declared)


def one_module(functions: Mapping[str, str], before: str = "") -> str:
    """The source of a plugin with one module.

    Args:
        functions: What follows `return ` in the body of each function, by name with its parameters.
        before: Statements at the beginning of the file.
    """
    bodies = "\n".join(f"    def {head}:\n        return {body}" for head, body in functions.items())
    names = ", ".join(f"'{name}': {name}" for name in (head.partition("(")[0] for head in functions))
    given = f"    return {{'{MODULE}': {{{names}}}}}"
    return f"{before}\nSCHEMA = {{}}\ndef create_host_functions(config):\n{bodies}\n{given}\n"
