"""What tokens cost by the public price list. Works offline: the list comes with its package."""

from __future__ import annotations

from datetime import datetime
from functools import cache

from kagura_kernel.domain.cost import Usage


def price(usage: Usage, model: str, at: datetime, *, provider: str = "") -> tuple[float | None, str]:
    """What these tokens cost at that time, in USD, and the price list's name and version.

    None when the list does not know the model, or when the figures cannot be right (more tokens from a cache than
    tokens at all, a number below 0); never 0 for want of knowledge.

    Args:
        usage: The tokens.
        model: The model, as its provider calls it.
        at: When they were used: prices change.
        provider: Who is paid, as the price list calls it; empty for whoever is known to have such a model.
    """
    from genai_prices import Usage as Counted, calc_price

    try:
        counted = Counted(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            cache_write_1h_tokens=usage.cache_write_1h_tokens,
        )
        found = calc_price(counted, model, provider_id=provider or None, genai_request_timestamp=at)
    except (LookupError, ValueError):
        return None, price_source()
    return float(found.total_price), price_source()


def context_window(model: str, provider: str) -> int | None:
    """How many tokens a model of this provider takes; None when the list does not know it."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, known = get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    return known.context_window


@cache
def price_source() -> str:
    """The price list behind `price`, as `genai-prices 0.2.3`."""
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"
