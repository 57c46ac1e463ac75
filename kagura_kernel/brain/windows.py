"""Making a conversation fit into a model's window. Pure: it counts bytes and leaves things out.

The system prompt and the task always stay. What goes first are the oldest answers of tools, then the oldest rounds as a
whole, then the middle of the newest answers. So a call never stands without its answer, which services refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

_SPARE = 0.75  # of the room is filled when something had to go, so that not every round begins differently
_LEAST_KEPT = 200  # bytes of an answer whose middle is cut out

FIRST_GUESS = 3.0
"""Bytes of UTF-8 in a token before a service has told: English has 4, code and Japanese about 3."""

_BOUNDS = (1.5, 6.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answered.

    Attributes:
        call_id: The call's id, as the model gave it.
        tool: The tool's name.
        text: What the model reads.
        failed: Whether it is to be taken as a failure.
    """

    call_id: str
    tool: str
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """One round: what the model said and asked for, and what it was answered.

    Attributes:
        said: What the model said, as its library holds it.
        size: Bytes of it.
        answers: What its calls were answered, in their order.
    """

    said: Any
    size: int
    answers: tuple[Answer, ...] = ()

    @property
    def whole(self) -> int:
        """Bytes of all of it."""
        return self.size + sum(map(_size, self.answers))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A conversation that was made to fit.

    Attributes:
        exchanges: What is left, oldest first.
        dropped: How many rounds are not there any more.
        fits: Whether it fits; what cannot go is too much otherwise.
    """

    exchanges: tuple[Exchange, ...]
    dropped: int
    fits: bool


def bytes_of(text: str) -> int:
    """How long a text is."""
    return len(text.encode("utf-8", "surrogatepass"))


def measured(sent: int, tokens: int) -> float:
    """Bytes in a token, as a service counted what it was sent; within what can be true."""
    least, most = _BOUNDS
    return min(most, max(least, sent / tokens)) if tokens > 0 else FIRST_GUESS


def room_in(window: int, per_token: float) -> int:
    """Bytes that may be sent into a window of so many tokens; the rest is for the answer."""
    return int((window - min(window // 4, 16_384)) * per_token)


def fit(exchanges: Sequence[Exchange], room: int) -> Fitted:
    """The exchanges within so many bytes, unchanged when they fit already.

    Args:
        exchanges: Oldest first.
        room: Bytes for all of them; may be negative.
    """
    left = list(exchanges)
    if _whole(left) <= room:
        return Fitted(tuple(left), 0, fits=True)
    wanted = int(room * _SPARE)
    _empty_old_answers(left, wanted)
    dropped = 0
    while len(left) > 1 and _whole(left) > wanted:
        del left[0]
        dropped += 1
    if left and _whole(left) > room:
        left[-1] = _cut(left[-1], wanted)
    return Fitted(tuple(left), dropped, fits=_whole(left) <= room)


def _whole(exchanges: Sequence[Exchange]) -> int:
    return sum(exchange.whole for exchange in exchanges)


def _size(answer: Answer) -> int:
    return bytes_of(answer.text)


def _empty_old_answers(exchanges: list[Exchange], room: int) -> None:
    """Put a note in place of answers, the oldest first; those of the last round stay."""
    over = _whole(exchanges) - room
    for number, exchange in enumerate(exchanges[:-1]):
        answers = list(exchange.answers)
        for place, answer in enumerate(answers):
            if over <= 0:
                break
            note = replace(answer, text=f"[An older answer of {_size(answer)} bytes was left out for lack of room.]")
            if _size(note) < _size(answer):
                over -= _size(answer) - _size(note)
                answers[place] = note
        exchanges[number] = replace(exchange, answers=tuple(answers))


def _cut(exchange: Exchange, room: int) -> Exchange:
    """The same with the middle of its longest answers left out."""
    share = max(_LEAST_KEPT, (room - exchange.size) // max(1, len(exchange.answers)))
    return replace(exchange, answers=tuple(_without_middle(answer, share) for answer in exchange.answers))


def _without_middle(answer: Answer, room: int) -> Answer:
    size = _size(answer)
    if size <= room:
        return answer
    note = f"\n[… {size - room} bytes of {size} were left out here for lack of room …]\n"
    half = max(0, room - bytes_of(note)) // 2
    data = answer.text.encode("utf-8", "surrogatepass")
    head, tail = data[:half].decode("utf-8", "ignore"), data[size - half :].decode("utf-8", "ignore")
    return replace(answer, text=f"{head}{note}{tail}")
