"""Which brain is asked what a chat's message means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kagura_kernel.brain.provider import AUTO, CLAUDE, SEALED, usual_model
from kagura_kernel.cockpit.orders import login_name
from kagura_kernel.domain.identity import new_run_id, new_session_id
from kagura_kernel.domain.late_dataclass import dataclass

if TYPE_CHECKING:
    from kagura_kernel.cockpit.orders import Choices
    from kagura_kernel.runs.message_run import ClassifyingOrder


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody wrote in a chat where something waits for an answer."""

    text: str  # Without a mention of us
    questions: Sequence[str] = ()  # What it may answer, as a person reads it
    brain: str | None = None  # The brain of the chat; None leaves it to the settings
    origin: str = ""  # The chat
    by: str = ""  # Who wrote it


def classifying_order(message: Message, choices: Choices) -> ClassifyingOrder:
    """How its meaning is asked for.

    Raises:
        UnknownName: there is no such brain.
        BrainNotConfigured: it cannot think.
    """
    from kagura_kernel.runs.message_run import ClassifyingOrder

    settings = choices.settings
    name = settings.brain if "brain" in settings.locked else message.brain or settings.brain
    # There is no box to think in; without tools the same program can do nothing outside of one either.
    brain, reason = choices.choose_brain(CLAUDE if name == SEALED else name)
    usual = usual_model(settings, brain.name, lambda: choices.choose_brain(AUTO)[0].name)
    return ClassifyingOrder(
        run_id=new_run_id(),
        session_id=new_session_id(),
        text=message.text,
        questions=message.questions,
        brain=brain,
        brain_reason=reason,
        model=settings.classify_model or usual,
        budget_usd=settings.budget_usd,
        origin=message.origin,
        by=message.by,
        user=login_name(),
        owner=choices.owner,
    )
