"""A secret that does not show itself: its value is reached by one method only, and that name can be searched for."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn
from weakref import WeakValueDictionary

HIDDEN = "(hidden)"

SHORTEST_STANDING = 8
"""Characters; what is shorter and stands where a key belongs is mostly a word, such as `none` or `ollama`."""

_alive: WeakValueDictionary[int, Secret] = WeakValueDictionary()


class Secret:
    """A text that is kept out of `repr`, `str`, formatting, pickles, JSON and tracebacks that print values.

    Copies are the same object. Comparing takes the same time wherever two secrets differ. It cannot be hashed, so
    that it is never a key of something that is printed.
    """

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "_value", value)
        _alive[id(self)] = self

    def reveal(self) -> str:
        """The value itself; whoever calls this answers for where it goes."""
        value: str = object.__getattribute__(self, "_value")
        return value

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a secret is not changed: {name}")

    def __repr__(self) -> str:
        return f"Secret{HIDDEN}"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __bool__(self) -> bool:
        return bool(self.reveal())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret is never pickled")


def live_secrets() -> tuple[Secret, ...]:
    """Every secret that this process holds just now, for whoever keeps them out of what is written somewhere."""
    return tuple(secret for reference in _alive.valuerefs() if (secret := reference()) is not None)


_standing: list[Secret] = []


def keep_standing(secret: Secret) -> Secret:
    """Keep in mind, as long as this process lives, a key that is nobody's lease: a model's, a chat's.

    Every run hides it by its value, one that a program, a file or a model says as well.

    Args:
        secret: The key; what is shorter than `SHORTEST_STANDING` is not kept.
    """
    if len(secret.reveal()) >= SHORTEST_STANDING and all(one != secret for one in _standing):
        _standing.append(secret)
    return secret


def standing_secrets() -> Sequence[Secret]:
    """All that were kept so, in the order they came; only ever longer while runs go on."""
    return _standing


def forget_standing() -> None:
    """Keep none in mind any more, where nothing of this process holds one."""
    _standing.clear()


class Credential:
    """What one mint gave: one or more named secrets (a token; or an AWS key with its secret and its session).

    It shows the names and never a value, and cannot be pickled.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Mapping[str, Secret]) -> None:
        """At least one part; the first one is the credential's main secret."""
        if not parts:
            raise ValueError("a credential has at least one part")
        self._parts = dict(parts)

    @classmethod
    def token(cls, value: str) -> Credential:
        """A credential that is one text, named `token`."""
        return cls({"token": Secret(value)})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts, the main one first."""
        return tuple(self._parts)

    @property
    def main(self) -> Secret:
        """The first part."""
        return next(iter(self._parts.values()))

    def part(self, name: str) -> Secret:
        """One part.

        Raises:
            KeyError: there is none of this name.
        """
        return self._parts[name]

    def __iter__(self) -> Iterator[Secret]:
        return iter(self._parts.values())

    def __repr__(self) -> str:
        return f"Credential({', '.join(self._parts)}: {HIDDEN})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Credential:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a credential is never pickled")
