"""Keeps what a program made for whoever asked for it; runs in the box."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from . import packing
from .crossing import CannotCross, error_file, to_file


def keep(namespace: dict[str, Any], outputs: list[str], root: str, room: int) -> list[str]:
    """Write the values of these names where the host collects them; a name that was not assigned leaves no file.

    Args:
        namespace: The program's globals.
        outputs: Names.
        root: The folder of this box's variables.
        room: Bytes that one value may have.

    Returns:
        What could not be kept and why, a sentence each.
    """
    folder = pathlib.Path(root, "out")
    problems = []
    for name in outputs:
        if name not in namespace:
            continue
        try:
            data = to_file(packing.pack(namespace[name], room))
        except CannotCross as why:
            data = error_file(str(why))
            problems.append(f"{name} was not kept: {why}.")
        except Exception as error:  # noqa: BLE001 - a library's packing may fail in any way
            told = f"packing it failed with {type(error).__name__}: {str(error)[:500]}"
            data = error_file(told)
            problems.append(f"{name} was not kept: {told}.")
        write_whole(folder, f"{name}.kagura", data)
    return problems


def write_whole(folder: pathlib.Path, name: str, data: bytes) -> None:
    """Write a file at once: either all of it is there or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / f".{name}.{os.getpid()}"
    half.write_bytes(data)
    half.rename(folder / name)
