"""What a rule is: a form in which secrets stand, who judges what stands there, and examples of both answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kagura_kernel.kit.redaction.patterns import Match, Nearby
from kagura_kernel.kit.redaction.places import Span


def always(_: bytes) -> bool:
    """Whatever stands there is a secret."""
    return True


def whole(value: bytes) -> bytes:
    """All that stands there."""
    return value


def anywhere(_data: bytes, _found: Match) -> bool:
    """Whatever stands around it."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A form in which secrets stand."""

    name: str
    pattern: Nearby  # its first group that takes part is what may be a secret
    finds: tuple[str, ...]  # texts in which it finds what stands between « and », and nothing else
    spares: tuple[str, ...] = ()  # texts in which it finds nothing
    kind: str = "password"
    judge: Callable[[bytes], bool] = always
    narrowed: Callable[[bytes], bytes] = whole  # what of that may be one
    where: Callable[[bytes, Match], bool] = anywhere
    within: Nearby | None = None  # the pattern is looked for in what this one matches, or anywhere

    def find(self, data: bytes) -> Iterator[Span]:
        """The secrets in a text of UTF-8."""
        if self.within is None:
            yield from self._judged(data, self.pattern.finditer(data))
            return
        for part in self.within.finditer(data):
            yield from self._judged(data, self.pattern.finditer(data, part.start(), part.end()))

    def _judged(self, data: bytes, matches: Iterable[Match]) -> Iterator[Span]:
        for found in matches:
            group = 1
            while found.start(group) < 0:
                group += 1
            captured = found.group(group) or b""
            value = self.narrowed(captured)
            if self.where(data, found) and self.judge(value):
                start = found.start(group) + captured.index(value)
                yield Span(start, start + len(value), self.kind)
