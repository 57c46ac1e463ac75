"""The leases of one run, where they are used: acquired when its box stands, injected, told about, given back.

Everything that happens to a lease becomes an event of the run. A lease reaches the box in the way its provider's
configuration says; what the box prints is scrubbed of every secret the run has had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.approvals import Approver
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.errors import ApprovalAborted, JournalError, KaguraError, NotThisTime, UnknownName
from kagura_kernel.domain.events import LeaseChange, LeaseChanged, LeaseUsed, Noted
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass
from kagura_kernel.membrane.credentials.broker import CredentialBroker
from kagura_kernel.membrane.credentials.lease import Budget, Grant, Holder, Lease
from kagura_kernel.membrane.credentials.provider import CredentialProvider
from kagura_kernel.membrane.credentials.revoke import LAST_SECONDS, LEFT_TO_EXPIRE, finish
from kagura_kernel.membrane.egress.gate import Gate
from kagura_kernel.membrane.egress.policy import EgressPolicy

if TYPE_CHECKING:
    from kagura_kernel.membrane.credentials.injection.caller import InjectedRequest, InjectionView, Summing
    from kagura_kernel.membrane.credentials.injection.injector import Injector
    from kagura_kernel.membrane.credentials.registry import Registry
    from kagura_kernel.membrane.credentials.secret import Secret
    from kagura_kernel.membrane.grant import MembraneParts, RecordFact
    from kagura_kernel.sandbox.backend import Box

_REACHES_THE_BOX = frozenset({"renewed", "on hold", "released"})


def sources_of(grants: Sequence[Grant], registry: Registry) -> list[tuple[Grant, CredentialProvider]]:
    """Each grant with the provider that serves it.

    Raises:
        UnknownName: a provider is not configured, or does not have that scope.
    """
    found = []
    for grant in grants:
        source = registry.providers.get(grant.provider)
        if source is None:
            hint = f"Providers are set up in {registry.source}; docs/credentials.md says how."
            raise UnknownName("credential provider", grant.provider, sorted(registry.providers), hint=hint)
        if grant.scope not in source.scopes:
            hint = f"Scopes are set up in {registry.source}."
            raise UnknownName(f"scope of {grant.provider}", grant.scope, sorted(source.scopes), hint=hint)
        found.append((grant, source))
    return found


def check_grants(grants: Sequence[Grant], registry: Registry) -> None:
    """Refuse what could never be leased, before anything runs.

    Raises:
        UnknownName: a provider is not configured, or does not have that scope.
        NotThisTime: its configuration does not say how a program would use the credential.
    """
    for grant, _ in sources_of(grants, registry):
        if not registry.injections.get(grant.provider):
            raise NotThisTime(
                f"Nothing says how a program uses a credential of {grant.provider}: "
                f"add `[providers.{grant.provider}.inject]` to {registry.source}."
            )


@dataclass(eq=False, repr=False)
class Leasing:
    """One run's leases; belongs to one loop."""

    credentials: Sequence[Grant]  # What the run may lease
    parts: MembraneParts  # What membranes are made of
    holder: Holder  # The run
    approver: Approver  # Who is asked when a budget is used up
    _: KW_ONLY
    record: RecordFact  # Where every change is written down
    fatal: Callable[[BaseException], None]  # Told of what must end the run
    clock: Clock  # The time

    def __post_init__(self) -> None:
        registry = self.parts.registry()
        self._injections = registry.injections
        self._resolver = self.parts.resolver()
        self._broker = CredentialBroker(
            self.parts.ledger,
            registry.providers,
            frozenset(self.credentials),
            self.holder,
            approver=self.approver,
            terms=self.parts.terms,
            clock=self.clock,
            on_change=self._changed,
        )
        self._injector: Injector | None = None
        self._uses: Summing | None = None
        self._why: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    # ------------------------------------------------------------- from the run

    async def open(self, box: Box, budgets: Mapping[Grant, Budget]) -> None:
        """Acquire every lease, under these budgets where there are any, and put them where programs find them.

        Raises:
            CredentialError: one cannot be had; whatever was had is given back by `close`.
            JournalError: it could not be written down.
        """
        from kagura_kernel.membrane.credentials.injection.caller import Summing
        from kagura_kernel.membrane.credentials.injection.injector import Injector

        uses = self._uses = Summing(self._used)
        self._injector = Injector(
            box,
            self._broker.credential,
            self._injections,
            self._gate_for,
            uses.add,
            failed=self.fatal,
            clock=self.clock,
        )
        done = await asyncio.gather(
            *(self._acquire(self._injector, grant, budgets.get(grant)) for grant in self.credentials),
            return_exceptions=True,
        )
        for problem in done:
            if isinstance(problem, BaseException):
                raise problem

    def variables(self) -> dict[str, str]:
        """By which every command finds the leases; without secrets."""
        return {} if self._injector is None else self._injector.variables()

    def secret_env(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """Variables with secrets in them, for the environment of exactly one process: of these leases, or of all.

        Raises:
            UnknownName: there is no such lease, or it is not used in this way.
            LeaseEnded: one is over or on hold.
        """
        known = self.for_commands
        for name in names or ():
            if name not in known:
                raise UnknownName("lease for one command", name, known)
        return {} if self._injector is None else self._injector.secret_env(known if names is None else names)

    @property
    def for_commands(self) -> tuple[str, ...]:
        """Leases that are given to one command at a time, each as `provider:scope`."""
        return tuple(view.name for view in self._views() if view.way == "env")

    def described(self) -> tuple[str, ...]:
        """How programs find each lease, a clause each, for a brain; never a secret."""
        return tuple(_described(view) for view in self._views())

    def seen_secrets(self) -> Sequence[Secret]:
        """Every secret that the run has had, ended ones too."""
        return self._broker.seen_secrets()

    def left(self) -> tuple[Lease, ...]:
        """What is left of each budget by now."""
        return self._broker.leases()

    async def close(self) -> tuple[Lease, ...]:
        """Take everything out of the box, give every lease back: what is left of each budget. May be called twice.

        Raises:
            JournalError: not everything could be written down; everything was tried.
        """
        self._closed = True
        injector, self._injector = self._injector, None
        try:
            # A question that nobody needs an answer to any more is withdrawn before anything else.
            await finish(list(self._asking.values()), 0.0)
            if injector is not None:
                await injector.close()
        except KaguraError as error:
            # The box goes in a moment, with all that is in it.
            self._note(error.message)
        finally:
            self._end_uses()
            try:
                kept = await self._broker.close()
            finally:
                await finish(list(self._tasks), LAST_SECONDS)
        return kept

    # ---------------------------------------------------------- from the person

    def holds(self, lease_id: str) -> bool:
        """Whether this run holds that lease, or has it on hold."""
        return any(lease.id == lease_id for lease in self._broker.leases())

    def revoke(self, lease_id: str, by: str) -> None:
        """Give one lease back, on the run's own loop; the program that uses it gets nothing from here on."""
        if self._closed:
            return
        self._why[lease_id] = f"revoked by {by}"
        self._spawn(self._told(lambda: self._broker.release(lease_id), lease_id))

    def extend(self, lease_id: str, by: str) -> None:
        """Ask for another budget for one lease, on the run's own loop; what comes of it is told in the run's record.

        While a person is being asked already, that question stands for this one too.
        """
        if self._closed or lease_id in self._asking:
            return
        reason = f"{by} asked for more time"
        asking = self._spawn(self._told(lambda: self._broker.extend(lease_id, reason=reason), lease_id))
        self._asking[lease_id] = asking
        asking.add_done_callback(lambda _: self._asking.pop(lease_id, None))

    def look(self, by: str) -> None:
        """Somebody has revoked credentials from another process: give back what is not live any more."""
        for lease in self._broker.taken():
            self.revoke(lease.id, by)

    # ----------------------------------------------------------------- privates

    async def _acquire(self, injector: Injector, grant: Grant, budget: Budget | None) -> None:
        if budget is None or budget.exhausted:
            # A person has approved the usual budget with the grant, so nobody is asked again for a first one.
            budget = self.parts.terms.budget
        lease = await self._broker.acquire(grant.provider, grant.scope, budget=budget)
        await injector.open(lease)
        self._tell("acquired", lease)

    def _changed(self, change: LeaseChange, lease: Lease) -> None:
        if self._injector is not None and change in _REACHES_THE_BOX:
            self._spawn(self._carry(self._injector, change, lease))
        self._tell(change, lease)

    async def _carry(self, injector: Injector, change: LeaseChange, lease: Lease) -> None:
        """Bring a change of a lease into the box."""
        try:
            match change:
                case "renewed":
                    await injector.renewed(lease)
                case "on hold":
                    await injector.on_hold(lease)
                case _:
                    await injector.closed(lease)
        except KaguraError as error:
            self._note(f"The lease of {lease.provider}:{lease.scope} did not reach the box: {error.message}")

    def _tell(self, change: LeaseChange, lease: Lease) -> None:
        views = [view for view in self._views() if view.name == f"{lease.provider}:{lease.scope}"]
        try:
            self.record(
                LeaseChanged,
                lease_id=lease.id,
                provider=lease.provider,
                scope=lease.scope,
                change=change,
                expires_at=None if lease.ended else lease.expires_at,
                seconds_left=lease.budget.remaining_seconds,
                renewals_left=lease.budget.renewals_left,
                way=", ".join(dict.fromkeys(view.way for view in views)),
                place=", ".join(view.where for view in views),
                why=self._why_of(change, lease),
            )
        except JournalError as error:
            self.fatal(error)

    def _why_of(self, change: LeaseChange, lease: Lease) -> str:
        if change != "released":
            return lease.ended
        said = self._why.pop(lease.id, "")
        left = lease.ended if lease.ended == LEFT_TO_EXPIRE else ""
        return "; ".join(filter(None, (said, left)))

    def _used(self, request: InjectedRequest, times: int) -> None:
        self.record(
            LeaseUsed,
            lease_id=request.lease_id,
            provider=request.provider,
            scope=request.scope,
            times=times,
            **request.facts(),
        )

    async def _told(self, work: Callable[[], Awaitable[object]], lease_id: str) -> None:
        try:
            await work()
        except (JournalError, ApprovalAborted) as error:
            self.fatal(error)
        except KaguraError as error:
            self._note(f"Lease {lease_id}: {error.message}")

    def _end_uses(self) -> None:
        try:
            if self._uses is not None:
                self._uses.end()
        except JournalError as error:
            self.fatal(error)

    def _note(self, text: str) -> None:
        try:
            self.record(Noted, text=text)
        except JournalError as error:
            self.fatal(error)

    def _gate_for(self, policy: EgressPolicy) -> Gate:
        return Gate(policy, self._resolver, limits=self.parts.limits)

    def _views(self) -> tuple[InjectionView, ...]:
        return () if self._injector is None else self._injector.shown()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _described(view: InjectionView) -> str:
    match view.way:
        case "header":
            return f"{view.name}: send requests for {view.stands_for} to {view.where} instead, without any key"
        case "file":
            return f"{view.name}: in the file {view.where}"
        case _:
            return f"{view.name}: as {view.where} in the environment of a bash or python call that names it in `leases`"
