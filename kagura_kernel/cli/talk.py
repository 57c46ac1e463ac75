"""How a person at a terminal is asked while something is set up."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Talk:
    """A talk with a person at a terminal."""

    ask: Callable[[str], str] = input  # Reads one answer; raises EOFError at the end of the input
    ask_secret: Callable[[str], str] = getpass.getpass  # Reads one that nobody sees
    say: Callable[[str], None] = print  # Prints

    def choose(self, question: str, ways: Sequence[str]) -> int:
        """Which of them; an empty answer is the first. What is none of them is asked again."""
        self.say(question)
        for number, way in enumerate(ways, 1):
            self.say(f"  {number}  {way}")
        while True:
            answer = self.ask(f"1 to {len(ways)} [1]: ").strip()
            if not answer:
                return 0
            if answer.isdecimal() and 1 <= int(answer) <= len(ways):
                return int(answer) - 1
            self.say("That is none of them.")

    def ask_until(self, question: str, problem: Callable[[str], str]) -> str:
        """An answer that has no problem; one that has is told, and asked for again. An empty answer is one."""
        while answer := self.ask(question).strip():
            if not (wrong := problem(answer)):
                return answer
            self.say(wrong)
        return ""
