"""What a compose file asks for, as arguments of `docker create`.

Debian has no `docker compose`, and a test must not depend on a plug-in: this reads as much of the format as our file
uses, and refuses the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

# Who builds, restarts, waits and names is not the daemon's business when it creates.
_LATER = {"build", "image", "command", "restart", "stop_grace_period"}

_PLAIN = {"user": "--user", "mem_limit": "--memory", "memswap_limit": "--memory-swap"}
_PLAIN |= {"pids_limit": "--pids-limit"}
_LISTS = {"cap_drop": "--cap-drop", "tmpfs": "--tmpfs"}
_FLAGS = {"init": "--init", "read_only": "--read-only"}


def create_arguments(file: Path, service: str, *, state: str, project: Path) -> list[str]:
    """The options of the service's container, without its image and its command.

    Args:
        file: The compose file; what it names lies beside it.
        service: Which service.
        state: The volume that stands for `state`.
        project: What stands for `KAGURA_PROJECT`.
    """
    whole = yaml.safe_load(file.read_text("utf-8"))
    asked = whole["services"][service]
    found: list[str] = []
    for key, value in asked.items():
        if key in _LATER:
            continue
        found += _options(
            key, value, file.parent, whole, {"state": state, "${KAGURA_PROJECT:-./project}": str(project)}
        )
    return found


def _options(key: str, value: Any, folder: Path, whole: Mapping[str, Any], named: Mapping[str, str]) -> list[str]:
    if key in _PLAIN:
        return [_PLAIN[key], str(value)]
    if key in _LISTS:
        return [word for one in value for word in (_LISTS[key], one)]
    if key in _FLAGS:
        return [_FLAGS[key]] if value else []
    readers: dict[str, Callable[[], Iterator[str]]] = {
        "security_opt": lambda: _security(value, folder),
        "volumes": lambda: _mounts(value, folder, named),
        "secrets": lambda: _secrets(value, folder, whole["secrets"]),
        "logging": lambda: _logging(value),
    }
    return list(readers[key]())


def _security(options: list[str], folder: Path) -> Iterator[str]:
    for option in options:
        name, _, what = option.partition("=")
        yield from ("--security-opt", f"{name}={folder / what}" if name == "seccomp" else option)


def _mounts(mounts: list[Mapping[str, Any]], folder: Path, named: Mapping[str, str]) -> Iterator[str]:
    for mount in mounts:
        source = named.get(mount["source"], mount["source"])
        if mount["type"] == "bind":
            source = str(folder / source)
        read_only = ",readonly" if mount.get("read_only") else ""
        yield from ("--mount", f"type={mount['type']},source={source},target={mount['target']}{read_only}")


def _secrets(names: list[str], folder: Path, files: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for name in names:
        source = folder / files[name]["file"]
        yield from ("--mount", f"type=bind,source={source},target=/run/secrets/{name},readonly")


def _logging(asked: Mapping[str, Any]) -> Iterator[str]:
    yield from ("--log-driver", asked["driver"])
    for name, value in asked["options"].items():
        yield from ("--log-opt", f"{name}={value}")
