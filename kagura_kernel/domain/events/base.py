"""What every fact has."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from kagura_kernel.domain.identity import Exact


class Event(BaseModel):
    """What every fact has."""

    # A process sees few of the facts that there are: what checks one is built when the first of its kind is made.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    durable: ClassVar[bool] = True

    kind: str  # Which fact; the discriminator
    run_id: Exact  # The run it belongs to, `run-…`
    session_id: Exact  # That run's session
    at: datetime  # When, aware, UTC


class Streamed(Event):
    """A fact for live displays; never stored."""

    durable: ClassVar[bool] = False
