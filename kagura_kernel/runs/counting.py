"""What a brain says that it used, put into the books and the record of its run."""

from __future__ import annotations

from dataclasses import dataclass

from kagura_kernel.brain.provider import BrainDone
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.events import TurnCounted
from kagura_kernel.runs.ledger import Account
from kagura_kernel.runs.order import Price
from kagura_kernel.runs.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Books:
    """Where the turns of one run are counted.

    Attributes:
        account: Its money.
        recorder: Its record.
        price: What tokens cost.
        clock: The time.
    """

    account: Account
    recorder: Recorder
    price: Price
    clock: Clock

    def count(self, usage: Usage, model: str) -> None:
        """One turn."""
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
        account.reported_usd = done.reported_usd
        account.model = done.model or account.model
        account.turns = max(account.turns, done.turns)
