"""A credential provider in memory, with books of its own and failures on demand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count

from kagura_kernel.membrane.credentials.provider import Minted, MintRequest, ProviderTraits, Revocation, Verdict
from kagura_kernel.membrane.credentials.secret import Credential

REVOCABLE = ProviderTraits(revocable=True, findable=True, longest=3600.0)
UNFINDABLE = ProviderTraits(revocable=True, findable=False, longest=3600.0)
LASTING = ProviderTraits(revocable=False, findable=False, longest=3600.0, note="It outlives its lease.")


class FakeProvider:
    """`membrane.credentials.provider.CredentialProvider` that never leaves the process."""

    kind = "fake"

    def __init__(
        self, name: str = "fake", *, traits: ProviderTraits = REVOCABLE, scopes: frozenset[str] = frozenset({"read"})
    ) -> None:
        self.name = name
        self.traits = traits
        self.scopes = scopes
        self.minted: list[MintRequest] = []  # Every request, in order
        self.books: dict[str, str] = {}  # Marks of the credentials that live, by their handles
        self.mint_errors: deque[BaseException] = deque()  # Raised by the next mints, in order, before anything is made
        # How many of the next mints make a credential and then raise this error
        self.lost_answers: deque[BaseException] = deque()
        # Answers to the next attempts to revoke; nothing is revoked by them
        self.revocations: deque[Revocation | BaseException] = deque()
        self.gate = asyncio.Event()  # While it is cleared, mints and revocations wait after having acted
        self.gate.set()
        self.lives: Callable[[float], float] = lambda seconds: seconds  # What a mint says it lives, of what was asked
        self._numbers = count(1)

    @property
    def values(self) -> list[str]:
        """The secrets of the credentials that live."""
        return [f"secret-of-{handle}" for handle in self.books]

    async def mint(self, request: MintRequest) -> Minted:
        """A credential whose secret is `secret-of-HANDLE`."""
        self.minted.append(request)
        if self.mint_errors:
            raise self.mint_errors.popleft()
        handle = f"handle-{next(self._numbers)}"
        if self.traits.revocable:
            self.books[handle] = request.mark
        await self.gate.wait()
        if self.lost_answers:
            raise self.lost_answers.popleft()
        return Minted(Credential.token(f"secret-of-{handle}"), self.lives(request.seconds), handle)

    async def revoke(self, handle: str) -> Revocation:
        """Strike it off the books."""
        if self.revocations:
            answer = self.revocations.popleft()
            if isinstance(answer, BaseException):
                raise answer
            return answer
        await self.gate.wait()
        known = self.books.pop(handle, None) is not None
        return Revocation(Verdict.REVOKED if known or not self.traits.revocable else Verdict.GONE)

    async def find(self, mark: str) -> str:
        """Look it up in the books."""
        return next((handle for handle, known in self.books.items() if known == mark), "")
