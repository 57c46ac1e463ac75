"""What a person says to a run while it goes on."""

from __future__ import annotations

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.identity import new_sentence_id
from kagura_kernel.domain.late_dataclass import dataclass, field

LONGEST = 4_000
"""Characters. What is longer is no remark: it belongs into a task, a file or a variable."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Something that a person says. It is theirs like a task, and widens nothing.

    Raises:
        UsageError: there is nothing in it, or too much.
    """

    text: str
    by: str = ""  # Who says it
    via: str = ""  # Where: `cell`, `command`, `terminal`, `sidebar`, a chat's name; `cassette` where it was recorded
    id: str = field(default_factory=new_sentence_id)

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise UsageError("Nothing was said: write what the run is to be told behind it.")
        if len(self.text) > LONGEST:
            raise UsageError(
                f"{len(self.text):,} characters are too many to say to a run: {LONGEST:,} are the most. Put the rest "
                "into a file of the project, or into a task of its own."
            )
