"""Any value of a program as something that travels, or a clear refusal; never pickle."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from . import plain
from .wire import CannotCross, Packed, is_a, readable_size, too_large

PNG = b"\x89PNG\r\n\x1a\n"
LONGEST_SHOWN = 80


def pack(value: Any, room: int, path: Callable[[PurePath], str] = str) -> Packed:
    """A value, ready to travel.

    Args:
        value: Whatever a variable holds.
        room: Bytes that it may have.
        path: Where a path leads on the other side; raises `CannotCross`.

    Raises:
        CannotCross: it does not travel; the text says why and what to do.
    """
    packed = _packed(value, room, path)
    if len(packed.data) > room:
        raise too_large(len(packed.data), room)
    return packed


def _packed(value: Any, room: int, path: Callable[[PurePath], str]) -> Packed:
    if type(value) is str:
        return Packed("text", value.encode("utf-8", "surrogatepass"), {}, f"str, {len(value):,} characters")
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        return Packed("file", data, {"kind": "bytes"}, f"bytes, {readable_size(len(data))}")
    if (library := _of_a_library(value, room)) is not None:
        return library
    data, tuples = plain.encode(value, path)
    told = " (tuples become lists)" if tuples else ""
    return Packed("json", data, {}, f"{_described(value)}{told}")


def _of_a_library(value: Any, room: int) -> Packed | None:
    if is_a(value, "numpy", "ndarray"):
        return pack_array(value, room)
    if (image := png_of(value)) is not None:
        return Packed("image", image, {}, f"{type(value).__name__}, PNG, {readable_size(len(image))}")
    for package, name in (("pandas", "DataFrame"), ("pandas", "Series"), ("pyarrow", "Table")):
        if is_a(value, package, name):
            return _pack_frame(value, name, room)
    return None


def _pack_frame(value: Any, name: str, room: int) -> Packed:
    try:
        import pyarrow  # noqa: F401, ICN001 - only whether it is there
    except ImportError as error:
        raise CannotCross(missing(name, "pyarrow")) from error
    from . import frames

    pack_one = {"DataFrame": frames.pack_frame, "Series": frames.pack_series, "Table": frames.pack_table}[name]
    return pack_one(value, room)


def missing(what: str, package: str) -> str:
    """What to do where a package is missing: in a box, or beside the kernel, which packs by the same code."""
    if __name__.startswith("kagura_kernel."):
        extra = "kagura-kernel[frames]" if package == "pyarrow" else package
        return f"a {what} travels by {package}, which is not installed beside this kernel: `pip install '{extra}'`"
    return (
        f"a {what} travels by {package}, which this box does not have. Use an image that has it "
        f"(`--box docker --image python`), or install it first (`--net python-packages`, `pip install {package}`)"
    )


def pack_array(array: Any, room: int) -> Packed:
    """A NumPy array as an `.npy` file without objects.

    Raises:
        CannotCross: it is too large, masked, or holds objects.
    """
    import numpy as np

    if array.nbytes > room:
        raise too_large(array.nbytes, room)
    if isinstance(array, np.ma.MaskedArray):
        raise CannotCross("a masked array would lose its mask: pass `.filled(…)` of it, or data and mask by themselves")
    if array.dtype.hasobject:
        raise CannotCross("an array of objects does not travel: give it a type (`.astype(str)`, `.astype(float)`)")
    file = io.BytesIO()
    with warnings.catch_warnings():
        # That a NumPy of ten years ago cannot read such names helps nobody.
        warnings.simplefilter("ignore")
        np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    shape = " × ".join(f"{size:,}" for size in array.shape) or "no axis"
    return Packed("array", file.getvalue(), {}, f"ndarray, {shape}, {str(array.dtype)[:LONGEST_SHOWN]}")


def png_of(value: Any) -> bytes | None:
    """A figure or an image as a PNG; None for everything else."""
    if is_a(value, "matplotlib", "FigureBase", "Figure"):
        file = io.BytesIO()
        value.savefig(file, format="png", bbox_inches="tight")
        return file.getvalue()
    if is_a(value, "PIL", "Image"):
        file = io.BytesIO()
        value.save(file, format="PNG")
        return file.getvalue()
    if is_a(value, "IPython", "Image"):
        data = getattr(value, "data", None)
        if isinstance(data, bytes) and data.startswith(PNG):
            return data
        raise CannotCross("only PNG images cross as such: pass `.data` of it, which are its bytes")
    return None


def _described(value: Any) -> str:
    name = type(value).__name__
    if isinstance(value, (dict, list, tuple)):
        return f"{name}, {len(value):,} {'key' if isinstance(value, dict) else 'item'}{'' if len(value) == 1 else 's'}"
    return f"{name}: {plain.short(value, LONGEST_SHOWN)}" if value is not None else "None"
