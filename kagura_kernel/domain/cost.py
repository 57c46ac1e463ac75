"""What a run used and what it cost."""

from __future__ import annotations

from kagura_kernel.domain.late_dataclass import dataclass

_MOST = 10**12


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a run or a turn."""

    input_tokens: int = 0  # All tokens read, those from a cache included
    output_tokens: int = 0  # Tokens written
    cache_read_tokens: int = 0  # Of the input, those read from a cache
    cache_write_tokens: int = 0  # Of the input, those written to a cache
    cache_write_1h_tokens: int = 0  # Of those, what the cache keeps for an hour, which costs more

    def __add__(self, other: Usage) -> Usage:
        """The sum, field by field."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
        )

    def bounded(self) -> Usage:
        """With figures that a journal can store and add up, whatever a service says."""
        return Usage(*(max(-_MOST, min(_MOST, getattr(self, name))) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Cost:
    """Money, in USD. Unknown is None, never 0."""

    reported_usd: float | None = None  # What the brain's program said it cost
    computed_usd: float | None = None  # What the price list gives for the tokens
    source: str = ""  # Price list and version behind `computed_usd`, or `brain`

    @property
    def usd(self) -> float | None:
        """The figure to show: reported beats computed; None when neither is known."""
        return self.reported_usd if self.reported_usd is not None else self.computed_usd
