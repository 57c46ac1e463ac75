"""The running account of one run: tokens, money, and whether there is any left."""

from __future__ import annotations

from typing import Any

from kagura_kernel.brain.provider import BrainDone
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.cost import Cost, Usage
from kagura_kernel.domain.errors import BudgetExhausted, KaguraError, NotThisTime, QuotaReached
from kagura_kernel.domain.events import TurnCounted
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.journal.spending import DayBudget
from kagura_kernel.runs.order import Price
from kagura_kernel.runs.recorder import Recorder

_MOST_USD = 1e9


@dataclass
class Account:
    """What a run has used so far."""

    budget_usd: float | None = None  # Its limit; None is none
    day: DayBudget | None = None  # What limits all runs of its person; None where nothing does
    usage: Usage = field(default_factory=Usage)  # Tokens of all turns
    computed_usd: float | None = None  # Price of the turns that have one; None until one has
    unpriced: int = 0  # How many turns used tokens of a model without a known price
    reported_usd: float | None = None  # What the brain says it all cost
    source: str = ""  # Price list and version
    model: str = ""  # The model that answered last
    turns: int = 0  # How many turns were counted
    unasked: bool = False  # Whether it is that of a brain which was not asked anything yet, and so cost nothing
    handed_usd: float = 0.0  # What of the budget its children have spent, or may still spend; no part of its own cost
    children: int = 0  # How many runs it has handed work on to that are over
    # What these cost with what they handed on themselves; None when that of one is unknown
    children_usd: float | None = 0.0

    def count(self, usage: Usage, model: str, usd: float | None, source: str) -> None:
        """Add one turn."""
        self.usage += usage
        self.turns += 1
        self.model = model or self.model
        self.source = source or self.source
        if usd is not None:
            self.computed_usd = (self.computed_usd or 0.0) + usd
        elif usage != Usage():
            self.unpriced += 1

    def count_child(self, usd: float | None) -> None:
        """Add what one child has cost; None when that is unknown."""
        self.children += 1
        self.children_usd = None if usd is None or self.children_usd is None else self.children_usd + usd

    def check(self) -> None:
        """Stop a run that has spent its budget, or whose spending cannot be known.

        Raises:
            BudgetExhausted: at the first turn that reaches the budget.
            QuotaReached: at the first turn that reaches that of the day.
            NotThisTime: a budget was set and the model's price is not known.
        """
        if self.budget_usd is not None:
            if self.unpriced:
                raise NotThisTime(
                    f"A budget of ${self.budget_usd:g} cannot be kept: no price is known for model {self.model!r}. "
                    "Leave `--budget` out, or name another model with `--model`."
                )
            if self.spent_usd >= self.budget_usd:
                raise BudgetExhausted(self.spent_usd, self.budget_usd)
        if self.day is not None:
            if self.unpriced:
                raise NotThisTime(
                    f"The quota of ${self.day.usd:g} a day cannot be kept: no price is known for model {self.model!r}. "
                    "Name another model with `--model`."
                )
            self.day.check()

    def exhausted(self, spent_usd: float) -> KaguraError:
        """Why there is nothing left, for a brain that has stopped for want of money.

        Args:
            spent_usd: What the run has cost, as the brain says.
        """
        if self.day is not None:
            try:
                self.day.check()
            except QuotaReached as reached:
                return reached
        return BudgetExhausted(spent_usd, self.budget_usd or 0.0)

    @property
    def left_usd(self) -> float | None:
        """What remains of the budget and of the day's; None without either."""
        own = None if self.budget_usd is None else max(0.0, self.budget_usd - self.spent_usd)
        limits = [own, None if self.day is None else self.day.left_usd]
        return min((one for one in limits if one is not None), default=None)

    @property
    def spent_usd(self) -> float:
        """What counts against the budget: its own turns that have a price, and what was handed on."""
        return (self.computed_usd or 0.0) + self.handed_usd

    @property
    def known_usd(self) -> float | None:
        """What it has cost by now with what it handed on; None when unknown."""
        own = self.cost.usd if self.turns else 0.0
        return None if own is None else own + self.handed_usd

    @property
    def cost(self) -> Cost:
        """Both figures; a sum with unknown parts is unknown."""
        if self.unasked:
            return Cost(computed_usd=0.0)
        return Cost(self.reported_usd, None if self.unpriced else self.computed_usd, self.source)

    def figures(self, asked: str) -> dict[str, Any]:
        """The fields of `RunFinished` that an account fills.

        Args:
            asked: The model that was asked for, where none has answered.
        """
        cost, usage = self.cost, self.usage
        return {
            "model": self.model or asked,
            "turns": self.turns,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "reported_usd": cost.reported_usd,
            "computed_usd": cost.computed_usd,
            "cost_source": cost.source,
        }


@dataclass(frozen=True, slots=True)
class Books:
    """Where the turns of one run are counted."""

    account: Account  # Its money
    recorder: Recorder  # Its record
    price: Price  # What tokens cost
    clock: Clock  # The time

    def count(self, usage: Usage, model: str) -> None:
        """One turn."""
        usage = usage.bounded()
        usd, source = self.price(usage, model, self.clock.now())
        self.account.count(usage, model, usd, source)
        self.recorder.record(
            TurnCounted,
            model=model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            computed_usd=usd,
            source=source,
        )

    def close(self, done: BrainDone) -> None:
        """What the brain says at the end. One that only tells the sum still gets a price."""
        account = self.account
        if not account.turns and done.usage != Usage():
            self.count(done.usage, done.model)
        told = done.reported_usd
        # What is less than nothing would be lent to the day's other runs, and what is no number adds up to none.
        account.reported_usd = told if told is not None and 0 <= told <= _MOST_USD else None
        account.model = done.model or account.model
        account.turns = max(account.turns, done.turns)
