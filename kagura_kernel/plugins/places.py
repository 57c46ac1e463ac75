"""Where plugins lie."""

from __future__ import annotations

from pathlib import Path

from kagura_kernel.domain.plugins import PluginPlace

FOLDER = "plugins"
"""Name of the directory that holds plugins, in the user's data directory and in a project alike."""

_HERE = Path(__file__).resolve()
# Those that came with the package, and those beside it in a clone.
_BUNDLED = (_HERE.parent / "bundled", _HERE.parents[2] / FOLDER)


def bundled_directory() -> Path | None:
    """Where the plugins that come with this package lie; None where they were left out."""
    for place in _BUNDLED:
        # Beside an installed package there may be a folder of this name that belongs to something else.
        if (place / "fs-read" / "plugin.json").is_file():
            return place
    return None


def own_places(data_home: Path) -> tuple[tuple[PluginPlace, Path], ...]:
    """Where plugins lie whatever the project is, the most trusted place first: with this package, the user's own."""
    bundled = bundled_directory()
    own: tuple[tuple[PluginPlace, Path], ...] = (("user", data_home / FOLDER),)
    return own if bundled is None else (("bundled", bundled), *own)


def plugin_places(data_home: Path, project: Path | None) -> tuple[tuple[PluginPlace, Path], ...]:
    """Where plugins lie for a project, or without one."""
    own = own_places(data_home)
    return own if project is None else (*own, ("project", project / FOLDER))
