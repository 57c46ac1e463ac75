"""A broker, a fake provider and an injector, joined: what tests of leases that are used in a box need."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Self, cast

from kagura_kernel.domain.approvals import Approver
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.broker import CredentialBroker
from kagura_kernel.membrane.credentials.injection.caller import InjectedRequest, InjectionLimits
from kagura_kernel.membrane.credentials.injection.injector import Injector
from kagura_kernel.membrane.credentials.injection.settings import Injection
from kagura_kernel.membrane.credentials.lease import Budget, Holder, Lease, LeaseTerms, parse_grant
from kagura_kernel.membrane.egress.gate import Gate, Resolver
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.testing.clock import FakeClock
from kagura_kernel.testing.credential_fake import FakeProvider
from kagura_kernel.testing.patience import eventually
from tests.support.guest_stream import LoopbackListening

HOUR = Budget(3600)


async def nowhere(host: str, port: int) -> Sequence[str]:
    """A resolver that knows no name."""
    del port
    raise OSError(None, f"no test looks up {host}")


class InjectionRig:
    """Leases of `fake:read` in a box; an async context manager that leaves no lease, task or port behind."""

    def __init__(
        self,
        directory: Path,
        *injections: Injection,
        box: Box | None = None,
        home: str = "/home/agent",
        limits: InjectionLimits | None = None,
        trust: ssl.SSLContext | None = None,
        resolver: Resolver = nowhere,
        approver: Approver | None = None,
        provider: FakeProvider | None = None,
    ) -> None:
        self.clock = FakeClock()  # Stands still until it is moved
        self.records: list[InjectedRequest] = []  # What went through, in order
        self.failures: list[BaseException] = []  # What serving raised
        self.unrecordable: Exception | None = None  # Raised instead of recording, while it is set
        # Gives `secret-of-handle-1`, then `-2`, …
        self.provider = provider or FakeProvider(scopes=frozenset({"read", "write"}))
        self._listening = LoopbackListening()
        self._journal = Journal.open(directory, clock=self.clock)
        # Holds the leases
        self.broker = CredentialBroker(
            LeaseLedger(self._journal),
            {"fake": self.provider},
            frozenset(map(parse_grant, ("fake:read", "fake:write"))),
            Holder("run-1", "ses-1", "host:1:1"),
            clock=self.clock,
            chance=lambda: 0.5,
            terms=LeaseTerms(jitter=0.0),
            approver=approver,
        )
        # Puts them into the box
        self.injector = Injector(
            # Without a box, its ports are this machine's; nothing but `listen` is asked of it then.
            box or cast("Box", self._listening),
            self.broker.credential,
            {"fake": injections},
            lambda policy: Gate(policy, resolver),
            self._record,
            failed=self.failures.append,
            home=home,
            limits=limits or InjectionLimits(),
            clock=self.clock,
            trust=trust,
        )

    async def __aenter__(self) -> Self:
        """Nothing is leased yet."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Everything is given back."""
        try:
            await self.injector.close()
        finally:
            await self._listening.__aexit__()
            await self.broker.close()
            self._journal.close()

    async def open(self, scope: str = "read") -> Lease:
        """A lease, acquired and put into the box."""
        lease = await self.broker.acquire("fake", scope, budget=HOUR)
        await self.injector.open(lease)
        return lease

    def _record(self, request: InjectedRequest) -> None:
        if self.unrecordable is not None:
            raise self.unrecordable
        self.records.append(request)

    async def renew(self, lease: Lease) -> None:
        """Replace its credential, and tell the injector."""
        await self.injector.renewed(await self.broker.renew(lease.id))

    @property
    def urls(self) -> list[str]:
        """Base URLs in the box, without a slash at the end."""
        return [view.where.rstrip("/") for view in self.injector.shown() if view.way == "header"]

    async def recorded(self, count: int = 1) -> list[InjectedRequest]:
        """The records, when there are so many: a request is recorded just after its last byte."""
        await eventually(lambda: len(self.records) >= count)
        assert len(self.records) == count
        return self.records
