"""A memory cannot be reached, or does not hold what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence

from kagura_kernel.domain.errors.base import KaguraError


class MemoryStoreError(KaguraError):
    """A memory cannot be reached, or does not hold what is asked of it."""

    code = "ERR_MEMORY"


class MemoryUnavailable(MemoryStoreError):
    """The memory cannot be reached, so that no run starts."""

    code = "ERR_MEMORY_UNAVAILABLE"

    def __init__(self, where: str, why: str, advice: str) -> None:
        super().__init__(f"The memory at {where} cannot be reached: {why.rstrip('.?! ')}. {advice}")
        self.where = where


class MemoryUnknown(MemoryStoreError):
    """There is no memory of this id."""

    code = "ERR_MEMORY_UNKNOWN"

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"There is no memory {memory_id!r}. `%kagura recall WORDS` finds its id.")
        self.memory_id = memory_id


class MemoryInvalid(MemoryStoreError):
    """What is to be remembered, or asked, cannot be; `problems` holds everything that is wrong, each a sentence."""

    code = "ERR_MEMORY_INVALID"

    def __init__(self, what: str, problems: Sequence[str]) -> None:
        super().__init__(f"{what} cannot be used: {'; '.join(problems)}.")
        self.problems = tuple(problems)
