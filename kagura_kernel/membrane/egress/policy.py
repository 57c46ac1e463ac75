"""Whether a host and port may be reached, default deny, and a person's word on hosts that nothing grants.

A run has exact grants. One is `HOST:PORT`, `HOST` (which means port 443 alone; plain HTTP is `HOST:80`), the name of a
host set, or `ask`. There are no wildcards and no ranges. A plugin's jail has its permissions, and nobody is ever asked:
a name may stand for all names below it; port and kind are part of each rule; `localhost` means the loopback. For both
an address outside the public network is opened by that very address and port and by nothing else, not even by a name
that resolves to it. Advice is the narrowest word that opens what was refused; where nothing that could be typed opens
it, that is said instead, and an address that hands out the machine's own credentials is never advised.

Without somebody who can be asked the answer is no. A program must not wear a person down until they say yes: what was
refused is not asked again in the same run, a run puts only so many questions, at once and in all, and after some
refusals in a row it puts no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Generic, Literal, Protocol, TypeVar

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Approver, Decision, Patience, Verdict
from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import ApprovalAborted, ConfigurationError, EgressBusy, EgressDenied, HostNotUnderstood
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field
from kagura_kernel.domain.settings import DEFAULTS
from kagura_kernel.membrane.egress.hosts import (
    ASK,
    HANDS_OUT,
    HOST_SETS,
    HTTP,
    HTTPS,
    UNION,
    HostSets,
    Target,
    is_platform,
    parse_target,
    suggest,
    why_never,
    why_refused,
)


class EgressVerdict(StrEnum):
    """What the policy says. Only `allow` opens anything; `ask` is a person's decision."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class EgressRuling:
    """What the policy says about one target."""

    target: Target  # What was asked for
    verdict: EgressVerdict  # Allow, ask or deny
    reason: str  # One clause for a person, without a full stop
    rule: str = ""  # The grant that allowed it, as it was written; otherwise empty


class EgressRules(Protocol):
    """What a gate asks before it opens anything; looks nothing up."""

    @property
    def sets(self) -> HostSets | None:
        """The sets of hosts that words after `--net` may name; None where no such word would open anything."""

    @property
    def all_answers(self) -> bool:
        """Whether one answer of a resolver that must not be dialled speaks against the others too."""

    def decide(self, target: Target) -> EgressRuling:
        """The ruling on one target."""

    def refuse_address(self, address: IPv4Address | IPv6Address, port: int) -> str | None:
        """Why this answer of a resolver must not be dialled; None when it may be."""


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What one run may reach; part of its grant."""

    granted: Mapping[Target, str] = field(default_factory=dict)  # Each target with the word that granted it
    ask: bool = False  # Whether an unknown host is a question to a person rather than a denial
    # The sets of hosts that words may name, mirrors considered: for advice
    sets: HostSets = field(default_factory=lambda: HOST_SETS, repr=False, compare=False)
    # Whether one answer that must not be dialled speaks against the others too
    all_answers: bool = field(default=False, init=False)

    def decide(self, target: Target) -> EgressRuling:
        """The ruling on one target, without looking anything up."""
        if (rule := self.granted.get(target)) is not None:
            return EgressRuling(target, EgressVerdict.ALLOW, f"granted by --net {rule}", rule)
        address = target.address
        if address is not None and (why := why_refused(address)):
            # Nobody is asked about these: a question that sounds harmless would open the house.
            return EgressRuling(target, EgressVerdict.DENY, f"is not granted, and the address is {why}")
        if self.ask:
            return EgressRuling(target, EgressVerdict.ASK, "is not granted; a person is asked")
        return EgressRuling(target, EgressVerdict.DENY, f"is not granted to this run{self._near(target)}")

    def refuse_address(self, address: IPv4Address | IPv6Address, port: int) -> str | None:
        """Why this answer of a resolver must not be dialled; None when it may be."""
        if Target(str(address), port) in self.granted:
            return why_never(address)
        return why_refused(address)

    def _near(self, target: Target) -> str:
        ports = sorted(known.port for known in self.granted if known.host == target.host)
        return f"; only its port {', '.join(map(str, ports))} is" if ports else ""


def parse_grants(words: Iterable[str], sets: HostSets = HOST_SETS) -> EgressPolicy:
    """The policy that the words after `--net` make.

    Raises:
        ConfigurationError: with every word that is not understood, each a line.
    """
    granted: dict[Target, str] = {}
    ask = False
    problems: list[str] = []
    for word in words:
        if word == ASK:
            ask = True
        elif word in sets:
            granted |= {target: word for target in sets[word] if target not in granted}
        elif near := suggest(word, sets):
            problems.append(near)
        else:
            try:
                granted.setdefault(_grant(word), word)
            except HostNotUnderstood as error:
                problems.append(error.message)
    if problems:
        raise ConfigurationError("--net", problems)
    return EgressPolicy(granted, ask, sets)


def _grant(word: str) -> Target:
    if "://" in word or "/" in word:
        raise HostNotUnderstood(word, "a grant is HOST or HOST:PORT, not a URL and not a range")
    if "*" in word:
        raise HostNotUnderstood(word, "a grant names one host; there are no wildcards")
    target = parse_target(word, HTTPS)
    if target.address is not None and (why := why_never(target.address)):
        grave = f"{HANDS_OUT} and " if is_platform(target.address) else ""
        raise HostNotUnderstood(word, f"it is {why}, which {grave}cannot be granted")
    return target


_LOOPBACK = ("127.0.0.1", "::1")


class HostRule(Protocol):
    """Hosts that a jail may reach."""

    @property
    def kind(self) -> Literal["name", "one-level", "exact"]:
        """`name`: this name and all below it; `one-level`: exactly one label before it; `exact`: this host alone."""

    @property
    def host(self) -> str:
        """Normalised, without `*.`."""

    @property
    def port(self) -> int:
        """The only one."""


@dataclass(frozen=True, slots=True)
class PatternPolicy:
    """What one jail may reach; `EgressRules`."""

    rules: tuple[HostRule, ...] = ()  # In the order in which they are tried
    sets: None = field(default=None, init=False)  # None: what a jail may reach was decided when its plugin was enabled
    # A name with one private address among its public ones is somebody's trick, or somebody's mistake
    all_answers: bool = field(default=True, init=False)

    def decide(self, target: Target) -> EgressRuling:
        """Allowed by the first rule that fits, or denied."""
        for rule in self.rules:
            if admits(rule, target):
                shown = written(rule)
                return EgressRuling(target, EgressVerdict.ALLOW, f"permitted to the plugin by {shown}", shown)
        return EgressRuling(target, EgressVerdict.DENY, "is not among what the plugin may reach")

    def refuse_address(self, address: IPv4Address | IPv6Address, port: int) -> str | None:
        """Why this answer of a resolver must not be dialled; None when it may be."""
        exact = {place for rule in self.rules if rule.kind == "exact" and rule.port == port for place in _meant(rule)}
        return why_never(address) if str(address) in exact else why_refused(address)


def admits(rule: HostRule, target: Target) -> bool:
    """Whether a rule lets a target through. An address fits nothing but itself."""
    if target.port != rule.port:
        return False
    if target.host == rule.host:
        return rule.kind != "one-level"
    if rule.kind == "exact" or target.address is not None or not target.host.endswith(f".{rule.host}"):
        return False
    return rule.kind == "name" or "." not in target.host.removesuffix(f".{rule.host}")


def written(rule: HostRule) -> str:
    """How a person writes it."""
    if rule.kind == "exact":
        return str(Target(rule.host, rule.port))
    return f"*.{rule.host}" if rule.kind == "one-level" else rule.host


def _meant(rule: HostRule) -> Iterable[str]:
    return _LOOPBACK if rule.host == "localhost" else (rule.host,)


def word_for(target: Target, sets: HostSets = HOST_SETS) -> str:
    """The word after `--net` for a target: the smallest set that was made for what it belongs to, or the host itself.

    A set that only joins others is never it.
    """
    made_for = [name for name, targets in sets.items() if target in targets and name != UNION]
    if made_for:
        return min(made_for, key=lambda name: len(sets[name]))
    return str(target) if target.port != HTTPS else str(target).removesuffix(f":{HTTPS}")


def advice(target: Target, sets: HostSets = HOST_SETS) -> str:
    """What to type so that the target is granted, one sentence."""
    if target.address is not None and why_never(target.address):
        return _cannot([target.address])
    return f"Grant it with: --net {word_for(target, sets)}"


def address_advice(target: Target, refused: Iterable[str], *, granted: bool = True, sets: HostSets = HOST_SETS) -> str:
    """What to type when all addresses of a host have been refused, one sentence.

    What is no address counts for nothing. Where the host itself is not granted, its word stands beside that of the
    address.
    """
    addresses = list(_addresses(refused))
    grantable = [address for address in addresses if _opens(address, target.port)]
    if not grantable:
        return _cannot(addresses)
    # Servers on a loopback, and in most private networks, are listened to by IPv4.
    first = next((address for address in grantable if isinstance(address, IPv4Address)), grantable[0])
    words = [str(Target(str(first), target.port))]
    if not granted and target.address is None:
        words.insert(0, word_for(target, sets))
    return f"Grant it with: --net {','.join(words)}"


def _addresses(texts: Iterable[str]) -> Iterable[IPv4Address | IPv6Address]:
    for text in texts:
        try:
            yield ip_address(text)
        except ValueError:
            continue


def _opens(address: IPv4Address | IPv6Address, port: int) -> bool:
    """Whether the word for this address would open it: some are spelled otherwise in a grant, some have none."""
    mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    return not mapped and EgressPolicy({Target(str(address), port): ""}).refuse_address(address, port) is None


def _cannot(addresses: Iterable[IPv4Address | IPv6Address]) -> str:
    platform = any(map(is_platform, addresses))
    return f"It {HANDS_OUT} and cannot be granted." if platform else "It cannot be granted."


Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class Once(Generic[Key, Result]):
    """Shares work that is under way. What is finished is forgotten: this is no cache.

    Cancelling one who waits leaves the work to the others; cancelling the last one cancels the work.
    """

    def __init__(self) -> None:
        self._under_way: dict[Key, asyncio.Task[Result]] = {}
        self._waiting: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def __contains__(self, key: Key) -> bool:
        return key in self._under_way

    async def share(self, key: Key, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """The result of the work under way for this key, started here if there is none; its error too."""
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(work())
            self._under_way[key] = task
            self._waiting[key] = 0
            task.add_done_callback(lambda done: self._forget(key, done))
        self._waiting[key] += 1
        try:
            return await asyncio.shield(task)
        finally:
            # The entry may be that of later work by now.
            if self._under_way.get(key) is task:
                self._waiting[key] -= 1
                if not self._waiting[key]:
                    self._forget(key, task)
                    task.cancel()

    def _forget(self, key: Key, task: asyncio.Task[Result]) -> None:
        if self._under_way.get(key) is task:
            del self._under_way[key], self._waiting[key]
        if task.done() and not task.cancelled():
            # Whoever waited has the error; when all have left nobody asks, and the loop shall not complain about it.
            task.exception()


THIS_RUN = "this run"
THIS_SESSION = "this session"
NEVER = "never"
OPTIONS = (THIS_RUN, THIS_SESSION, NEVER)
"""What a display offers. `allow` with the answer `this session` lasts as long as the session, any other `allow` as
long as the run; `deny` with the answer `never` lasts as long as the session, any other denial as long as the run."""

MAX_QUESTIONS = 8
"""Open at once."""

MAX_ASKED = 20
"""In one run, those that were withdrawn included."""


@dataclass(slots=True)
class Answers:
    """What a person has said, target by target; shared by all runs that it holds for."""

    # Whether the target may be reached, with who said so
    said: dict[Target, tuple[bool, str]] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class Asking:
    """The questions of one run about where it may connect to."""

    approver: Approver | None  # Who is asked; None when nobody can be
    _: KW_ONLY
    run_id: str = ""  # The run that asks
    session_id: str = ""  # Its session
    # What was said for the whole session; hand the same one to all its runs
    session: Answers = field(default_factory=Answers)
    clock: Clock = field(default_factory=SystemClock)  # Where the time of asking comes from
    deadline: float = DEFAULTS.approval_deadline  # Seconds until no answer is a denial
    held: Callable[[], str] = str  # Why nobody is asked now, as a clause; empty where somebody may be

    def __post_init__(self) -> None:
        self._run = Answers()
        self._open: Once[Target, tuple[bool, str]] = Once()
        self._asked = 0
        self._patience = Patience()

    async def require(self, target: Target, sets: HostSets = HOST_SETS) -> str:
        """Who allowed it, as `name, for this run`; waits for an answer if there is none yet.

        Raises:
            EgressDenied: somebody, a policy or the deadline said no, or nobody can be asked, or not any more.
            EgressBusy: too many other questions wait for an answer.
            ApprovalAborted: the person called the run off.
        """
        how = advice(target, sets)
        said = self._run.said.get(target) or self.session.said.get(target)
        if said is None:
            if self.approver is None:
                raise EgressDenied(target.host, target.port, "is not granted and nobody can be asked", how)
            if why := self.held():
                raise EgressDenied(target.host, target.port, f"is not granted, and {why}", how)
            if target not in self._open:
                self._require_patience(target, how)
            approver = self.approver
            said = await self._open.share(target, lambda: self._ask(approver, target, how))
        allowed, by = said
        if not allowed:
            raise EgressDenied(target.host, target.port, f"was not approved: {by}", how)
        return by

    def _require_patience(self, target: Target, how: str) -> None:
        if refused := self._patience.refused(ApprovalKind.NETWORK):
            why = f"is not granted, and {refused} hosts in a row were refused: no more questions in this run"
            raise EgressDenied(target.host, target.port, why, how)
        if self._asked >= MAX_ASKED:
            why = f"is not granted, and this run has asked {MAX_ASKED} questions: no more of them"
            raise EgressDenied(target.host, target.port, why, how)
        if len(self._open) >= MAX_QUESTIONS:
            why = f"is not granted and {MAX_QUESTIONS} questions are open already: answer one and try again"
            raise EgressBusy(target.host, target.port, why)

    async def _ask(self, approver: Approver, target: Target, how: str) -> tuple[bool, str]:
        self._asked += 1
        request = self._request(target, how)
        decision = await approver.approve(request)
        if decision.verdict is Verdict.ABORTED:
            raise ApprovalAborted(request.title)
        # An answer to another question must never open this door.
        allowed = decision.allowed and decision.approval_id == request.id
        for_session = decision.answer == (THIS_SESSION if allowed else NEVER)
        self._patience.heard(ApprovalKind.NETWORK, decision)
        said = (allowed, _who(decision, allowed=allowed, for_session=for_session))
        (self.session if for_session else self._run).said[target] = said
        return said

    def _request(self, target: Target, how: str) -> ApprovalRequest:
        scheme = {HTTPS: " (HTTPS)", HTTP: " (plain HTTP)"}.get(target.port, "")
        return ApprovalRequest(
            id=new_approval_id(),
            run_id=self.run_id,
            session_id=self.session_id,
            kind=ApprovalKind.NETWORK,
            title=f"Let the box connect to {target}",
            detail=f"TCP connections from the box to {target}{scheme}. What the box knows can be sent there.",
            reason="A program in the box asks for a host that is not granted.",
            arguments={"host": target.host, "port": target.port},
            requested_at=self.clock.now(),
            deadline=self.deadline,
            options=OPTIONS,
            # It may give up long before the run that it belongs to is over.
            withdrawn=f"the program that asked waits no more. {how}",
        )


def _who(decision: Decision, *, allowed: bool, for_session: bool) -> str:
    if allowed:
        return f"{decision.by}, for {THIS_SESSION if for_session else THIS_RUN}"
    if decision.allowed:
        return f"the answer belongs to {decision.approval_id}"
    return f"{decision.by} said {NEVER}" if for_session else decision.refusal
