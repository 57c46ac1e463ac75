"""What locked settings leave to a cell, a definition or a program, and how one person's runs are held to their quotas.

A locked setting leaves as much as it says, or less, never more. Quotas are those of all processes together: boxes at
once, and money in a day. A box that runs or that was kept for a next cell counts; one that only waits in a warm pool
does not, since nobody works in it and `pool_size` bounds them, nor does the jail of a plugin. What counts is used on
the engine's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from kagura_kernel.brain.openai_compatible import KNOWN, NAME as COMPATIBLE, split_model
from kagura_kernel.brain.provider import AUTO, usual_model
from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.domain.errors import JournalError, UsageError
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.domain.notebook import CONTEXT_MODES
from kagura_kernel.domain.policy import HOST, SandboxPolicyType
from kagura_kernel.domain.settings import WRITES
from kagura_kernel.journal.claims import RENEW_SECONDS, BoxQuota, Claim, Claims
from kagura_kernel.journal.place import is_url
from kagura_kernel.journal.sharing import sees_all
from kagura_kernel.journal.spending import DayBudget
from kagura_kernel.membrane.egress.hosts import NONE
from kagura_kernel.sandbox.selection import AUTO as ANY_BOX, LaunchedBox, StartBox

if TYPE_CHECKING:
    from kagura_kernel.brain.provider import BrainProvider
    from kagura_kernel.domain.clock import Clock
    from kagura_kernel.domain.settings import Settings
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.runs.order import RunOrder
    from kagura_kernel.sandbox.backend import BoxSpec


_Chosen = Callable[[str], str]
_Keeps = Callable[["RunOrder", "Settings", _Chosen], bool]
_POLICIES = list(SandboxPolicyType)


def check_locked(order: RunOrder, settings: Settings, chosen: Callable[[str], str]) -> None:
    """Refuse an order that has more than the settings which an administrator has locked.

    Args:
        order: Every choice made.
        settings: The user's.
        chosen: Name of a brain, or `auto`, to the name of the one that thinks then.

    Raises:
        UsageError: it has.
    """
    for name in settings.locked:
        keeps = _KEEPS.get(name)
        if keeps is not None and not keeps(order, settings, chosen):
            if name == "boxes" and order.box == settings.box:
                raise _more_than(name, " of your settings", option="box")
            raise _more_than(name, ", in the cell and in the definition of its agent")


def leaves_box(box: str, settings: Settings) -> bool:
    """Whether the setting `boxes`, where it is locked, leaves a back-end."""
    # What is locked as `box` is an administrator's word as well.
    bound = settings.boxes and "boxes" in settings.locked and "box" not in settings.locked
    return not bound or box in (ANY_BOX, *settings.boxes)


def check_locked_audit(brain: str, model: str, settings: Settings, chosen: _Chosen) -> None:
    """Refuse an audit by another brain, or model, than settings which an administrator has locked.

    Args:
        brain: Who is to read the source.
        model: With which model.
        settings: The user's.
        chosen: As in `check_locked`.

    Raises:
        UsageError: it is another one.
    """
    for name, keeps in _THINKING.items():
        if name in settings.locked and not keeps(brain, model, settings, chosen):
            raise _more_than(name)


def _more_than(name: str, where: str = "", *, option: str = "") -> UsageError:
    return UsageError(
        f"This run asks for more than the setting `{name}` says, which the administrator of this machine has locked "
        f"for everybody. Leave `{option or _OPTIONS[name]}` out{where}; `kagura-kernel doctor` says where such "
        "settings stand."
    )


def audit_budget(said: float | None, settings: Settings) -> float | None:
    """What an audit may cost, USD: a person's word, but for more than is locked."""
    usual = settings.budget_usd
    if said is None or usual is None or "budget_usd" not in settings.locked:
        return usual if said is None else said
    return min(said, usual)


def _within(most: float | None, asked: float | None) -> bool:
    return most is None or (asked is not None and asked <= most)


def _brain(brain: str, _model: str, settings: Settings, chosen: _Chosen) -> bool:
    return brain == chosen(settings.brain)


def _model(brain: str, model: str, settings: Settings, chosen: _Chosen) -> bool:
    return model == usual_model(settings, brain, lambda: chosen(AUTO))


def _endpoint(brain: str, model: str, settings: Settings, _: _Chosen) -> bool:
    """A model's name may name another one."""
    named, _model = split_model(model, [*settings.endpoints, *KNOWN])
    return brain != COMPATIBLE or named in ("", settings.endpoint)


_THINKING: Mapping[str, Callable[[str, str, Settings, _Chosen], bool]] = {
    "brain": _brain,
    "endpoint": _endpoint,
    "model": _model,
}
"""Whether a brain and its model keep to a setting."""


def _thinking(name: str) -> _Keeps:
    def keeps(order: RunOrder, settings: Settings, chosen: _Chosen) -> bool:
        if order.brain is None or order.request.replay is not None:
            return True
        return _THINKING[name](order.brain.name, order.model, settings, chosen)

    return keeps


def _net(order: RunOrder, settings: Settings, _: _Chosen) -> bool:
    return {*order.grant.net} <= {*settings.net, NONE}


def _context(order: RunOrder, settings: Settings, _: _Chosen) -> bool:
    return CONTEXT_MODES.index(order.context.mode) <= CONTEXT_MODES.index(settings.context)


def _context_tokens(order: RunOrder, settings: Settings, _: _Chosen) -> bool:
    return order.context.mode == "none" or order.context.tokens <= settings.context_tokens


_KEEPS: Mapping[str, _Keeps] = {
    "agent": lambda order, settings, _: order.agent is None or order.agent.reference == settings.agent,
    "box": lambda order, settings, _: order.box == settings.box,
    "boxes": lambda order, settings, _: leaves_box(order.box, settings),
    "budget_usd": lambda order, settings, _: order.brain is None or _within(settings.budget_usd, order.budget_usd),
    "command_timeout": lambda order, settings, _: _within(settings.command_timeout or None, order.limits.total),
    "context": _context,
    "context_tokens": _context_tokens,
    "idle_timeout": lambda order, settings, _: _within(settings.idle_timeout or None, order.limits.idle),
    "image": lambda order, settings, _: order.request.image in (None, settings.image),
    "keep": lambda order, settings, _: settings.keep or not order.request.keep,
    "net": _net,
    "policy": lambda order, settings, _: _POLICIES.index(order.spec.policy.type) <= _POLICIES.index(settings.policy),
    "workers": lambda order, settings, _: order.brain is None or order.delegation.workers == settings.workers,
    "write": lambda order, settings, _: WRITES.index(order.write_mode) <= WRITES.index(settings.write),
} | {name: _thinking(name) for name in _THINKING}
"""Whether an order keeps to a setting, of those that something else has a say in."""

_OPTIONS = {name: f"--{name.replace('_', '-')}" for name in _KEEPS} | {
    "boxes": "--box",
    "budget_usd": "--budget",
    "command_timeout": "--timeout",
    "context_tokens": "--context",
    "endpoint": "--model",
    "idle_timeout": "--idle",
}


_REPLAY = "replay"


def _shows_others(journal: Journal) -> bool:
    """Whether rows of other people are seen: not in a file, nor by whom a journal is shared with by a role."""
    if not is_url(journal.where):
        return False
    with journal.snapshot() as connection:
        return sees_all(connection)


class Quotas:
    """Those of the settings.

    Args:
        settings: The user's.
        journal: Where it is known what other processes have.
        clock: The time.
        owner: This process.
        alive: Whether a process may still be there.
    """

    def __init__(
        self, settings: Settings, journal: Journal, clock: Clock, owner: str, alive: Callable[[str], bool]
    ) -> None:
        self._boxes = BoxQuota(settings.quota_boxes, settings.quota_cpus, settings.quota_memory_mib)
        self._usd = settings.quota_usd_per_day
        self._journal, self._clock, self._owner = journal, clock, owner
        self._by_name = (self._boxes.holds or bool(self._usd)) and _shows_others(journal)
        self._claims = Claims(journal, alive, by_name=self._by_name)
        self._held: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None

    def guarded(self, start_box: StartBox, run_id: str, user: str) -> StartBox:
        """What starts boxes for a run, as long as its person may have another one; raises `QuotaReached` otherwise."""
        if not self._boxes.holds:
            return start_box

        async def start(name: str, spec: BoxSpec) -> LaunchedBox:
            if name == HOST or not spec.policy.walled:
                return await start_box(name, spec)
            limits = spec.limits
            claim = Claim(new_box_id(), run_id, user, self._owner, limits.cpus, limits.memory_bytes // 2**20)
            # On the loop, as each fact of a run is stored, so that nothing is cut off between claim and start.
            self._claims.take(claim, self._boxes)
            self._hold(claim.id)
            try:
                launched = await start_box(name, spec)
            except BaseException:
                self._free(claim.id)
                raise
            return LaunchedBox(launched.box, launched.reason, lambda: self._free(claim.id))

        return start

    def day(self, user: str, brain: BrainProvider | None) -> DayBudget | None:
        """What a run with this brain may still cost today; None where nothing limits it, or nobody is paid.

        Raises:
            QuotaReached: the day's money is spent.
        """
        if not self._usd or brain is None or brain.name == _REPLAY:
            return None
        found = self._day(user)
        found.check()
        return found

    def status(self, user: str) -> Iterator[PartStatus]:
        """How much of each quota a person has."""
        if self._boxes.holds:
            held = self._claims.held(user)
            parts = (
                ("boxes", self._boxes.boxes, len(held)),
                ("cores", self._boxes.cpus, sum(one.cpus for one in held)),
                ("MiB", self._boxes.memory_mib, sum(one.memory_mib for one in held)),
            )
            told = ", ".join(f"{used:g} of {most:g} {what}" for what, most, used in parts if most)
            yield PartStatus("quota of boxes", all(not most or used < most for _, most, used in parts), told)
        if self._usd:
            spent = self._day(user).spent_usd
            told = f"${spent:.2f} of ${self._usd:.2f} until midnight UTC"
            yield PartStatus("quota of the day", spent < self._usd, told)

    def _day(self, user: str) -> DayBudget:
        return DayBudget(self._journal, self._usd, user if self._by_name else "")

    async def close(self) -> None:
        """Give everything back; may be called twice."""
        for claim_id in list(self._held):
            self._free(claim_id)

    def _hold(self, claim_id: str) -> None:
        self._held.add(claim_id)
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(), name="renew quotas")

    def _free(self, claim_id: str) -> None:
        if claim_id not in self._held:
            return
        self._held.remove(claim_id)
        if not self._held and self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        # What cannot be written now counts until it lapses: too much for a while, never too little.
        with contextlib.suppress(JournalError):
            self._claims.free(claim_id)

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(RENEW_SECONDS)
            with contextlib.suppress(JournalError):
                self._claims.renew(self._held)
