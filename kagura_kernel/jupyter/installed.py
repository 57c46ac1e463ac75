"""What of ours Jupyter would find on this machine: the kernel, the sidebar, the server extension. Starts nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from kagura_kernel import __version__

LABEXTENSION = "kagura-kernel"
SERVER_EXTENSION = "kagura_kernel.jupyter.server"


class Installed(NamedTuple):
    """One part."""

    name: str  # `kernelspec`, `sidebar`, `server extension` or `lab`
    said: str  # Where it lies, or why it would not be used
    ok: bool = False  # Whether Jupyter would use it
    there: bool = False  # Whether it is installed, used or not


def look() -> Iterator[Installed]:
    """Each part; without JupyterLab that alone."""
    from jupyter_core.paths import jupyter_config_path, jupyter_path

    configs = [Path(place) for place in jupyter_config_path()]
    yield _kernelspec([Path(place) for place in jupyter_path("kernels")])
    if find_spec("jupyterlab") is None:
        yield Installed("lab", "JupyterLab is not installed beside this program")
        return
    yield _sidebar([Path(place) for place in jupyter_path("labextensions")], configs)
    yield _server_extension(configs)


def _kernelspec(places: list[Path]) -> Installed:
    file = _first(places, "kagura/kernel.json")
    if file is None:
        return Installed("kernelspec", "the kernel `kagura` is not installed where Jupyter looks")
    words = _read(file).get("argv") or [""]
    if shutil.which(str(words[0])) is None:
        return Installed("kernelspec", f"{file} names a Python that is not there: {words[0]}")
    return Installed("kernelspec", str(file.parent), ok=True, there=True)


def _sidebar(places: list[Path], configs: list[Path]) -> Installed:
    file = _first(places, f"{LABEXTENSION}/package.json")
    if file is None:
        return Installed("sidebar", "the sidebar is not installed where JupyterLab looks")
    version = str(_read(file).get("version", ""))
    if version != __version__:
        return Installed("sidebar", f"{file.parent} is of version {version}, not {__version__}")
    for config in configs:
        switched_off = _read(config / "labconfig/page_config.json").get("disabledExtensions") or {}
        if switched_off.get(LABEXTENSION) if isinstance(switched_off, dict) else LABEXTENSION in switched_off:
            return Installed("sidebar", f"{config}/labconfig/page_config.json switches it off", there=True)
    return Installed("sidebar", str(file.parent), ok=True, there=True)


def _server_extension(configs: list[Path]) -> Installed:
    name = "server extension"
    # The first place that says anything about it wins.
    for config in configs:
        files = [config / "jupyter_server_config.json", *sorted((config / "jupyter_server_config.d").glob("*.json"))]
        for file in files:
            known = _read(file).get("ServerApp", {})
            said = known.get("jpserver_extensions", {}).get(SERVER_EXTENSION) if isinstance(known, dict) else None
            if said is not None:
                return Installed(name, str(file) if said else f"{file} switches it off", ok=bool(said), there=True)
    return Installed(name, "no configuration of the Jupyter server names it")


def _first(places: list[Path], name: str) -> Path | None:
    return next((place / name for place in places if (place / name).is_file()), None)


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
