"""Where the host answers, and what is enabled: of this very run. In a box another file stands in this one's place."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PORT: int = 0
MODULES: Mapping[str, tuple[str, Sequence[tuple[str, str, str]]]] = {}
