"""One file of a directory gives way to another only while it is what it should be.

What stands there is taken out in one step, looked at where nobody else finds it, and put back when it is not what was
expected: whoever saves a file at the same moment keeps what they saved.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass

from kagura_kernel.membrane.renames import CannotExchange, exchange, rename_to_new

_TRIES = 16


class Changed(Exception):
    """Something else stands there than was expected, and stays as it is; never shown to people."""


@dataclass(frozen=True, slots=True)
class Place:
    """One name in a directory, a name beside it that nobody else uses, and what is expected to stand there.

    Attributes:
        directory: Descriptor of the directory.
        name: The name that matters.
        spare: The name beside it.
        expected: Hash of what should stand there; empty for nothing.
        look: Hash of what stands at a name of the directory: empty for nothing, never an error.
    """

    directory: int
    name: str
    spare: str
    expected: str
    look: Callable[[str], str]


def put(place: Place) -> None:
    """What lies at the spare name takes the place; the spare name is free afterwards, but for the case below.

    Where the system has no exchange, the place is looked at once more just before it is replaced.

    Raises:
        Changed: what stood there was not expected, and stands there again. Where several others wrote at once, the
            last of them stands there, and what came before may be left at the spare name.
    """
    ours = place.look(place.spare)
    try:
        if not place.expected:
            rename_to_new(place.spare, place.name, directory=place.directory)
            return
        exchange(place.spare, place.name, directory=place.directory)
    except CannotExchange:
        _look_and_replace(place)
        return
    except (FileExistsError, FileNotFoundError) as error:
        _remove_spare(place)
        raise Changed from error
    except OSError:
        _remove_spare(place)
        raise
    if place.look(place.spare) != place.expected:
        _put_back(place, ours)
        raise Changed
    _remove_spare(place)


def take(place: Place) -> None:
    """What stands there is removed.

    Raises:
        Changed: it was not what was expected, and stands there again, or something newer does.
    """
    try:
        rename_to_new(place.name, place.spare, directory=place.directory)
    except CannotExchange:
        if place.look(place.name) != place.expected:
            raise Changed from None
        os.unlink(place.name, dir_fd=place.directory)
        return
    except FileNotFoundError as error:
        raise Changed from error
    if place.look(place.spare) == place.expected:
        _remove_spare(place)
        return
    try:
        rename_to_new(place.spare, place.name, directory=place.directory)
    except FileExistsError:
        # Someone has saved it anew since: theirs is the newer one.
        _remove_spare(place)
    raise Changed


def _put_back(place: Place, ours: str) -> None:
    in_place = ours
    for _ in range(_TRIES):
        goes_back = place.look(place.spare)
        try:
            exchange(place.spare, place.name, directory=place.directory)
        except FileNotFoundError:
            # Ours was removed meanwhile; what it had replaced goes back to where it was.
            with contextlib.suppress(FileExistsError):
                rename_to_new(place.spare, place.name, directory=place.directory)
            return
        # What came out is what was put there last: nobody wrote in between, and the newest stands in its place.
        if place.look(place.spare) == in_place:
            _remove_spare(place)
            return
        in_place = goes_back


def _look_and_replace(place: Place) -> None:
    if place.look(place.name) != place.expected:
        _remove_spare(place)
        raise Changed
    try:
        os.replace(place.spare, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
    except OSError:
        _remove_spare(place)
        raise


def _remove_spare(place: Place) -> None:
    # A directory that someone put there is left: it is not ours to empty.
    with contextlib.suppress(FileNotFoundError, IsADirectoryError, PermissionError):
        os.unlink(place.spare, dir_fd=place.directory)
