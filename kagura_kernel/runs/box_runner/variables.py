"""Gives a program its variables, and keeps what it made for whoever asked for it; runs in the box."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

from . import pack, plain
from .wire import CannotCross, error_file, to_file


def bind(namespace: dict[str, Any], wanted: list[str], root: str) -> None:
    """Make variables that came into the box globals of a program.

    Args:
        namespace: The program's.
        wanted: Names, all of which came.
        root: The folder in which they lie.

    Raises:
        CannotCross: this box cannot make one of them; the text names it.
    """
    folder = pathlib.Path(root, "in")
    index = json.loads((folder / "index.json").read_bytes())
    for name in wanted:
        told = index[name]
        file = folder / told["file"]
        try:
            namespace[name] = _value(told["form"], file, told["details"])
        except ImportError as error:
            package = (error.name or "a package").partition(".")[0]
            instead = f" Its values also lie in {told['shell']}." if told.get("shell") else ""
            why = pack.missing(told["summary"].partition(",")[0], package)
            raise CannotCross(f"{name} cannot be used here: {why}.{instead}") from error


def _value(form: str, file: pathlib.Path, details: dict[str, Any]) -> Any:
    if form == "text":
        return file.read_bytes().decode("utf-8", "surrogatepass")
    if form == "json":
        return plain.decode(file.read_bytes())
    if form == "array":
        import numpy as np

        return np.load(file, allow_pickle=False)
    if form in ("frame", "series"):
        if details["library"] == "pandas":
            import pandas as pd  # noqa: F401 - whether it is there is told by its name, before pyarrow's
        from . import frames

        return frames.unpack(form, frames.read_stream(file.read_bytes()), details)
    return file if form == "image" else file.read_bytes()


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
            data = to_file(pack.pack(namespace[name], room))
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
