"""What a program writes as `with open_memory() as memory:`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """A store that is closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back; may be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
