"""What there is to know about brains before one is asked: whether it can think, with what, and what a turn costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING

from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.late_dataclass import dataclass

if TYPE_CHECKING:
    from kagura_kernel.brain.provider import BrainProvider
    from kagura_kernel.journal.store import Journal

USUAL_TURN = Usage(input_tokens=10_000, output_tokens=500)
"""What a turn is taken for where none has been counted yet."""

_LATEST = 200  # turns, the newest
_ROWS_BACK = 5_000  # of the journal, in which these are looked for


@dataclass(frozen=True, slots=True)
class Thinking:
    """What a brain would think with."""

    model: str  # The model as the ledger would name it; empty where the brain chooses and has never said
    window: int | None = None  # Tokens that it takes; None when that is not known


@dataclass(frozen=True, slots=True)
class BrainReport:
    """One brain."""

    name: str  # What `--brain` takes
    ready: bool  # Whether it can think now
    reason: str  # Why, or why not
    model: str  # The model, as the ledger names it; empty where the brain chooses
    window: int | None  # Tokens that the model takes; None when that is not known
    turn_usd: float | None  # What a usual turn would cost in USD; None when its price is not known
    turn: Usage  # The tokens of such a turn
    counted: int  # From how many turns of this journal these come; 0 for a guess
    source: str  # Who says what it costs


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """One model that a cell can name."""

    name: str  # What `--model` and `%kagura model` take
    input_usd: float | None  # What a million tokens read cost; None when that is not known
    output_usd: float | None  # And written
    price: str  # Who says so, in words
    current: bool = False  # Whether further runs think with it
    about: str = ""  # What else there is to say of it: which model it stands for, who chooses it; may be empty


PRICES_SAID = "Prices are in USD for a million tokens; without a figure the price is not known, which is not 0."
"""What is said beside a list of models."""


def usual_turn(journal: Journal | None) -> tuple[Usage, int]:
    """The tokens of a turn in the middle of the latest ones, and how many these were."""
    if journal is None:
        return USUAL_TURN, 0
    from kagura_kernel.domain.events import TurnCounted

    start = max(0, journal.last_seq() - _ROWS_BACK)
    rows = journal.events(kinds=[TurnCounted.model_fields["kind"].default], after=start)
    turns = [row.event for row in rows if isinstance(row.event, TurnCounted)][-_LATEST:]
    turns = [turn for turn in turns if turn.input_tokens]
    if not turns:
        return USUAL_TURN, 0
    figures = {name: round(median(getattr(turn, name) for turn in turns)) for name in _FIGURES}
    return Usage(**figures), len(turns)


_FIGURES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def last_models(journal: Journal | None) -> dict[str, str]:
    """The model that answered last, by brain."""
    if journal is None:
        return {}
    from kagura_kernel.journal import views

    return {row.brain: row.model for row in reversed(views.costs(journal, limit=_LATEST)) if row.model}


def report_brains(
    brains: Mapping[str, BrainProvider],
    thinking: Callable[[str], Thinking],
    price: Callable[[Usage, str, datetime], tuple[float | None, str]],
    journal: Journal | None,
    at: datetime,
) -> list[BrainReport]:
    """Every brain, in the order in which they are chosen; no service is asked.

    Args:
        brains: By name.
        thinking: A brain's name to what it would think with.
        price: What tokens of a model cost.
        journal: Where turns were counted; None for nowhere.
        at: Now: prices change.
    """
    turn, counted = usual_turn(journal)
    answered = last_models(journal)
    found = []
    for name, brain in brains.items():
        auth = brain.resolve_auth()
        with_what = thinking(name)
        model = with_what.model or answered.get(name, "")
        usd, source = price(turn, model, at) if model else (None, "")
        source = source if usd is not None else ""
        report = BrainReport(name, auth.ready, auth.reason, model, with_what.window, usd, turn, counted, source)
        found.append(report)
    return found


def turn_words(reports: list[BrainReport]) -> str:
    """What the costs of a turn are about, a sentence."""
    if not reports:
        return "There are no brains."
    turn, counted = reports[0].turn, reports[0].counted
    basis = f"the middle of your latest {counted}" if counted else "a guess: none was counted here yet"
    return (
        f"A turn is {turn.input_tokens} tokens read and {turn.output_tokens} written ({basis}); a run has several. "
        "Without a figure the price is not known, which is not 0."
    )
