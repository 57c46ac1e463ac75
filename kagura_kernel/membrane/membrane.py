"""The membrane of one run: everything that crosses the wall of its box passes here, from the launch to the end.

*approve* (whoever has to be asked about the grant is asked) → *open* (egress and leases reach the box) → *close* (all
is given back). Nothing is opened that the grant does not name, and whatever goes wrong opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Approver, Decision
from kagura_kernel.domain.clock import Clock
from kagura_kernel.domain.commands import OutputFilter
from kagura_kernel.domain.errors import ApprovalDenied, SandboxUnavailable
from kagura_kernel.domain.events import EgressClosed, EgressDecided, Noted, RunGranted
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass
from kagura_kernel.membrane.credentials.lease import Grant, Holder
from kagura_kernel.membrane.credentials.scrub import ScrubbedBox, Scrubber
from kagura_kernel.membrane.egress.egress import Egress
from kagura_kernel.membrane.egress.gate import Gate
from kagura_kernel.membrane.egress.policy import THIS_RUN, THIS_SESSION, Asking
from kagura_kernel.membrane.egress.proxy import PROXY_PORT, forward, open_egress, proxy_variables
from kagura_kernel.membrane.grant import MembraneParts, RecordFact, RunGrant, SessionPowers
from kagura_kernel.membrane.run_leases import Leasing, sources_of
from kagura_kernel.sandbox.backend import Box

if TYPE_CHECKING:
    from kagura_kernel.membrane.credentials.lease import Budget, Lease
    from kagura_kernel.membrane.credentials.secret import Secret
    from kagura_kernel.membrane.model_api import Counting, ModelAccess, ModelApi


_MEANT_FOR_THE_RUN = frozenset({"run_id", "session_id", "at", "kind"})


@dataclass(eq=False, repr=False)
class Membrane:
    """One run's membrane; belongs to one loop."""

    grant: RunGrant  # What the run is given
    parts: MembraneParts  # What it is made of
    holder: Holder  # The run
    approver: Approver  # Who is asked for more
    _: KW_ONLY
    asks: bool  # Whether somebody can be asked; where nobody can, an unknown host is refused without a question
    powers: SessionPowers  # What was allowed for the whole session
    record: RecordFact  # Where every crossing is written down
    fatal: Callable[[BaseException], None]  # Told of what must end the run
    clock: Clock  # The time
    held: Callable[[], str] = str  # Why nobody is asked for more hosts now, as a clause; empty where somebody may be

    def __post_init__(self) -> None:
        # What is left of budgets that a person gave the run that this one goes on from. They are this run's alone, and
        # nobody is asked about them again before they are used up. Set before `approve`, as is a wider grant.
        self.carried: Mapping[Grant, Budget] = {}
        self.model_api: ModelApi | None = None  # Where a brain in the box thinks, whose key stays here
        self._for_session = False
        self._kept: tuple[Lease, ...] = ()
        self._egress: Egress | None = None
        self._leasing: Leasing | None = None
        self._model: ModelAccess | None = None
        self._closed = False
        self._proxy: dict[str, str] = {}
        self.scrubber = Scrubber(self._secrets)  # Knows every secret that the run has had

    @property
    def leasing(self) -> Leasing | None:
        """Its leases; None for a run without credentials, before `open`, and after `close`."""
        return None if self._closed else self._leasing

    @property
    def left(self) -> tuple[Lease, ...]:
        """What is left of the budgets of its leases; never a credential."""
        return self._kept or (self._leasing.left() if self._leasing is not None else ())

    # ---------------------------------------------------------------- approving

    async def approve(self) -> None:
        """Write the grant down, and ask about what of it nobody has allowed yet; before anything is started.

        Raises:
            ApprovalDenied: somebody, a policy or the deadline said no.
            ApprovalAborted: a person called the run off.
            ConfigurationError: the credential providers' configuration is wrong.
            UnknownName: a credential is granted that no provider gives.
        """
        notes = self._notes()
        asked_for, by = self._unasked()
        self.record(RunGranted, **self.grant.to_event(), beyond=self.grant.beyond(self.parts.terms), by=by)
        if not asked_for:
            return
        question = self._question(notes)
        decision = await self.approver.approve(question)
        if not decision.allowed:
            raise ApprovalDenied("The start of this run", _why_not(decision, question.title))
        if decision.answer == THIS_SESSION:
            self._for_session = True
            self.powers.writable_root |= self.grant.writable_root
            self.powers.asked |= self._asked()

    def _unasked(self) -> tuple[bool, str]:
        """Whether something needs a person's word, and else who has given it before."""
        session, settings = self.powers, self.parts.preapproved
        root = self.grant.writable_root and not session.writable_root
        more = self._asked() - session.asked
        new = [grant for grant in self.grant.credentials if not self._has_budget(grant)]
        if root or more or any(grant not in settings for grant in new):
            return True, ""
        if new:
            return False, "settings"
        if any(grant in self.carried for grant in self.grant.credentials):
            return False, "the run it goes on from"
        given = self.grant.credentials or self.grant.writable_root or self.grant.asked
        return False, "this session" if given else ""

    def _asked(self) -> set[tuple[str, str]]:
        return {(self.grant.asker_id, word) for word in self.grant.asked}

    def _has_budget(self, grant: Grant) -> bool:
        budget = self._budgets().get(grant)
        return budget is not None and not budget.exhausted and not self.powers.asks_anew(grant)

    def _budgets(self) -> dict[Grant, Budget]:
        return {**self.powers.budgets, **self.carried}

    def _notes(self) -> list[str]:
        """What a person should know about the credentials; every one of them is there to be had."""
        if not self.grant.credentials:
            return []

        sources = sources_of(self.grant.credentials, self.parts.registry())
        return [f"For {grant}: {source.traits.note}" for grant, source in sources if source.traits.note]

    def _question(self, notes: Sequence[str]) -> ApprovalRequest:
        beyond = self.grant.beyond(self.parts.terms)
        only_credentials = not self.grant.writable_root and not self.grant.asked
        names = ", ".join(map(str, self.grant.credentials))
        title = f"Let this run hold {names}" if only_credentials else "Start this run with a box that it may change"
        if self.grant.asked:
            title = f"Start this run as {self.grant.asker}"
        seen = [f"sees {mount.shown} as {mount.target}" for mount in self.grant.mounts]
        image = [f"runs the image {self.grant.image}"] if self.grant.image else []
        return ApprovalRequest(
            id=new_approval_id(),
            run_id=self.holder.run_id,
            session_id=self.holder.session_id,
            kind=ApprovalKind.CREDENTIAL if only_credentials else ApprovalKind.LAUNCH,
            title=title,
            detail="\n".join(
                f"{clause[:1].upper()}{clause[1:].rstrip('.')}." for clause in (*beyond, *notes, *image, *seen)
            ),
            arguments={**self.grant.to_event(), **({"asked": self.grant.asked} if self.grant.asked else {})},
            requested_at=self.clock.now(),
            deadline=self.parts.terms.ask_deadline,
            options=(THIS_RUN, THIS_SESSION),
        )

    # ------------------------------------------------------------------ opening

    async def open(self, box: Box, after: OutputFilter | None = None) -> Box:
        """Let the grant reach the box; the box to work with from here on, whose output holds no leased secret.

        `after` is what its output goes through when nothing leased is in it any more.

        Raises:
            SandboxUnavailable: the box has no way out for anything, or is gone.
            CredentialError: a credential cannot be had.
            JournalError: it could not be written down.
        """
        self._egress = Egress(
            self._gate(),
            self._crossed,
            run_id=self.holder.run_id,
            session_id=self.holder.session_id,
            limits=self.parts.limits,
            clock=self.clock,
        )
        port = await open_egress(box, self._egress, failed=self.fatal)
        await self._forward(box, self._egress)
        # Boxes are started with the variables of the usual port.
        self._proxy = {} if port == PROXY_PORT else proxy_variables(port)
        if not self.grant.credentials:
            passes = not self._proxy and after is None
            return box if passes else ScrubbedBox(box, self.scrubber, after, self._variables)

        self._leasing = Leasing(
            self.grant.credentials,
            self.parts,
            self.holder,
            self.approver,
            record=self.record,
            fatal=self.fatal,
            clock=self.clock,
        )
        await self._leasing.open(box, self._budgets())
        return ScrubbedBox(box, self.scrubber, after, self._variables)

    async def open_model(self, box: Box, counting: Counting) -> str:
        """Let the brain in the box reach its service: the base URL there.

        Raises:
            BrainNotConfigured: a key must not be sent to the service's URL.
            SandboxUnavailable: there is no port to be had, or the box is gone.
        """
        if self.model_api is None:
            raise RuntimeError("the brain of this run does not think in its box")
        from kagura_kernel.membrane.model_api import ModelAccess

        resolver = self.parts.resolver()
        self._model = ModelAccess(
            self.model_api,
            lambda policy: Gate(policy, resolver, limits=self.parts.limits),
            self.record,
            counting,
            clock=self.clock,
        )
        await self._model.open(box, self.fatal)
        return self._model.url

    async def close(self) -> None:
        """Give everything back; may be called twice, and before `open`.

        Raises:
            JournalError: not everything could be written down; everything was tried.
        """
        try:
            if self._egress is not None:
                self._egress.close()
            if self._model is not None:
                await self._model.close()
        finally:
            await self._give_back()

    async def _give_back(self) -> None:
        if self._closed or self._leasing is None:
            return
        self._closed = True
        self._kept = await self._leasing.close()
        for kept in self._kept:
            grant = Grant(kept.provider, kept.scope)
            if self._for_session or grant in self.powers.budgets:
                self.powers.budgets[grant] = kept.budget

    async def _forward(self, box: Box, egress: Egress) -> None:
        """Let programs in the box find a granted port of this machine's loopback where they look for it: on theirs."""
        for target in self.grant.egress.granted:
            if target.address is None or not target.address.is_loopback:
                continue
            try:
                await forward(box, egress, target, failed=self.fatal)
            except SandboxUnavailable as error:
                self.record(Noted, text=f"{target} can be reached through the proxy only: {error.reason}.")

    def _variables(self) -> dict[str, str]:
        return self._proxy | (self._leasing.variables() if self._leasing is not None else {})

    def _secrets(self) -> Sequence[Secret]:
        # Also after the end: what is said last may hold what was leased first.
        leased = self._leasing.seen_secrets() if self._leasing is not None else ()
        return leased if self.model_api is None else (self.model_api.key, *leased)

    def _gate(self) -> Gate:
        asking = Asking(
            self.approver if self.asks else None,
            run_id=self.holder.run_id,
            session_id=self.holder.session_id,
            session=self.powers.answers,
            clock=self.clock,
            deadline=self.parts.terms.ask_deadline,
            held=self.held,
        )
        return Gate(self.grant.egress, self.parts.resolver(), asking=asking, limits=self.parts.limits)

    def _crossed(self, fact: EgressDecided | EgressClosed) -> None:
        fields = {name: getattr(fact, name) for name in type(fact).model_fields if name not in _MEANT_FOR_THE_RUN}
        self.record(type(fact), **fields)


def _why_not(decision: Decision, title: str) -> str:
    return f"nobody can be asked here (“{title}”)" if decision.via == "policy" else decision.refusal
