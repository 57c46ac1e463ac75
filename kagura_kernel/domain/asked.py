"""What an approval would let happen, taken apart for reading: one content for every display.

It shows the very values that would be used. A text composed of several of them is never taken apart again: what a model
writes could imitate the seams.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.hosts import shown_place
from kagura_kernel.domain.plainly import plainly, size_words

# What the question itself shows already.
_SHOWN: Mapping[str, frozenset[str]] = {
    ApprovalKind.NETWORK: frozenset({"host", "port"}),
    ApprovalKind.HOST_COMMAND: frozenset({"command", "stdin", "directory"}),
    ApprovalKind.QUESTION: frozenset({"question", "options"}),
    ApprovalKind.WRITE: frozenset({"diff"}),
}
# Of these the arguments are the question; elsewhere a composed text says what they mean.
_IN_SIGHT = frozenset({ApprovalKind.PLUGIN, ApprovalKind.TOOL, ApprovalKind.WRITE})

MAY_CONNECT = "May the box connect to"
"""What stands before a host that is asked for; the host follows."""


@dataclass(frozen=True, slots=True)
class Block:
    """A text that has been on screen to its end before anybody allows it.

    Attributes:
        label: What it is; empty where the title says so.
        text: As it is shown.
        size: How many lines it has, in words; empty for one.
    """

    label: str
    text: str
    size: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The parts that a reader has to see.

    Attributes:
        title: What would happen, as it is shown.
        target: The host that is asked for, an international one in both spellings; empty for other questions.
        blocks: What would be used, in full.
        place: The host directory it would work in, as it is shown; empty where there is none.
        means: What it would mean, in the words of whoever composed the question, as it is shown; empty where the rest
            is all.
        subject: The whole command, host or text, exactly as it would be used: to be kept, not to be shown.
        stdin: What a command would read, likewise.
        directory: The host directory, likewise.
    """

    title: str
    target: str
    blocks: tuple[Block, ...]
    place: str
    means: str
    subject: str
    stdin: str
    directory: str

    @property
    def what(self) -> str:
        """The host, or all of the subject, as it is shown."""
        return self.target or plainly(self.subject)


def asked(kind: str, title: str, detail: str, arguments: Mapping[str, Any]) -> Asked:
    """The parts of one question; where they are not known apart, the detail as a whole."""
    subject, stdin, directory, means, target = detail, "", "", "", ""
    if asks_for_host(kind, arguments):
        target = subject = shown_place(str(arguments["host"]), int(arguments["port"]))
        means = detail
    elif kind == ApprovalKind.HOST_COMMAND and isinstance(arguments.get("command"), str):
        subject, stdin = arguments["command"], str(arguments.get("stdin") or "")
        directory = str(arguments.get("directory") or "")
    is_question = kind == ApprovalKind.QUESTION
    # A tool's call is its arguments, which stand below.
    told = is_question or target or subject in ("", title) or (kind == ApprovalKind.TOOL and arguments)
    blocks = [] if told else [_block("", subject)]
    blocks += [_block("It would read", stdin)] if stdin else []
    if in_sight(kind):
        blocks += [_block(name, text) for name, text in more_arguments(kind, arguments).items()]
    heading = MAY_CONNECT if target else (detail or title) if is_question else title
    return Asked(
        plainly(heading), plainly(target), tuple(blocks), plainly(directory), plainly(means), subject, stdin, directory
    )


def asks_for_host(kind: str, arguments: Mapping[str, Any]) -> bool:
    """Whether it is about one host and port, known apart."""
    told = isinstance(arguments.get("host"), str) and isinstance(arguments.get("port"), int)
    return kind == ApprovalKind.NETWORK and told


def more_arguments(kind: str, arguments: Mapping[str, Any]) -> Mapping[str, str]:
    """Arguments that the question does not show by itself, each as it would be used."""
    shown = _SHOWN.get(kind, frozenset())
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
        for name, value in arguments.items()
        if name not in shown and value not in (None, "", [], {}, ())
    }


def in_sight(kind: str) -> bool:
    """Whether the arguments are what is decided about, so that nobody has to unfold them."""
    return kind in _IN_SIGHT


def _block(label: str, text: str) -> Block:
    return Block(plainly(label), plainly(text), size_words(text))
