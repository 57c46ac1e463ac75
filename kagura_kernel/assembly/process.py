"""The one cockpit of this process, made when it is first asked for."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from kagura_kernel.assembly.places import redactor_of
from kagura_kernel.assembly.settings import load_settings, open_log
from kagura_kernel.journal.place import data_home

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.telemetry.logs import StructuredLog

_lock = threading.Lock()
_cockpit: Cockpit | None = None
_log: StructuredLog | None = None
_maker: Callable[[Mapping[str, str]], Cockpit] | None = None


def get_cockpit(*, one_run: bool = False) -> Cockpit:
    """The cockpit of this process, made on first use from the user's settings and this environment.

    Args:
        one_run: As `make_cockpit` has it, for the one that is made now.

    Raises:
        ConfigurationError: the settings are wrong.
        JournalError: the journal cannot be used.
    """
    global _cockpit, _log  # noqa: PLW0603 - one cockpit per process is the point
    with _lock:
        if _cockpit is None:
            log = open_log(load_settings(os.environ), data_home(os.environ))
            try:
                _cockpit = _make(one_run)
            except BaseException:
                log.close()
                raise
            _log = log
            _close_before_threads_end()
            # The first run waits for the rules of redaction; they are ready by then if they are begun now.
            redactor_of(data_home(os.environ)).warm()
        return _cockpit


def cockpit_here() -> Cockpit | None:
    """The cockpit of this process if there is one."""
    return _cockpit


def _make(one_run: bool) -> Cockpit:
    if _maker is not None:
        return _maker(os.environ)
    # By name: it sees everything here, and a Dask worker has imported no more of us than what it was sent.
    made: Cockpit = import_module("kagura_kernel.assembly.services").make_cockpit(os.environ, one_run=one_run)
    return made


def close_cockpit() -> None:
    """Stop and free everything that `get_cockpit` made; may be called twice, and a later use makes a new one."""
    global _cockpit, _log
    with _lock:
        cockpit, _cockpit = _cockpit, None
        log, _log = _log, None
    if cockpit is not None:
        cockpit.close()
    if log is not None:
        log.close()


def use_cockpit(make: Callable[[Mapping[str, str]], Cockpit] | None) -> None:
    """Have `get_cockpit` make this process's cockpit so from now on; the one that is there is closed.

    None goes back to `make_cockpit`.
    """
    global _maker  # noqa: PLW0603 - one cockpit per process is the point
    close_cockpit()
    with _lock:
        _maker = make


@cache
def _close_before_threads_end() -> None:
    # Closing needs executors, which are shut before ordinary exit functions run. Hooks of `threading` run earlier, the
    # latest first, so the executors' own hook has to be there before ours.
    import concurrent.futures.thread  # noqa: F401

    register = getattr(threading, "_register_atexit", atexit.register)
    register(close_cockpit)
