"""The gate before every run: the memory is reachable, or the run is refused; it never goes on with less."""

from __future__ import annotations

from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.errors.memory import MemoryUnavailable
from kagura_kernel.memory.store import MemoryStore


def ready(store: MemoryStore) -> None:
    """Return when a run may start with this memory.

    What stands in the way is told with what to do about it: no way to it, a wrong key or password, a wrong address, a
    server or tables of the wrong version, a store that may only be read, a full disk, a file that is damaged.

    Raises:
        MemoryUnavailable: it cannot be read and written; whatever went wrong, this is how it is told.
    """
    try:
        store.check()
    except MemoryUnavailable:
        raise
    except KaguraError as error:
        raise MemoryUnavailable(store.where, error.message.rstrip(". "), "See `kagura-kernel doctor`.") from error
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise MemoryUnavailable(store.where, why, "See `kagura-kernel doctor`.") from error
