"""From a host that a box names to a connection that it may have: decide, resolve once, check, connect.

A name that is not granted is never looked up: the look-up itself would carry what the box knows to a name server.
Of several answers those that are refused are left out, and the connection is refused when none is left. Nothing is
resolved a second time and the very address that was checked is dialled, so an answer that changes changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from kagura_kernel.domain.errors import EgressDenied, EgressUnreachable, HostNotUnderstood
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field
from kagura_kernel.membrane.egress.hosts import Target, make_target
from kagura_kernel.membrane.egress.policy import (
    Asking,
    EgressPolicy,
    EgressRules,
    EgressRuling,
    EgressVerdict,
    Once,
    address_advice,
    advice,
)
from kagura_kernel.membrane.egress.stream import FEW, PLACES, EgressLimits, Places

Address = IPv4Address | IPv6Address
Dial = Callable[[Address, int], Awaitable[socket.socket]]
"""Connect to an address; the non-blocking socket. Raises OSError. Closes what it opened when it is cancelled."""

STAGGER = 0.25
"""Seconds that an address has to itself before the next one is tried beside it."""


async def dial(address: Address, port: int) -> socket.socket:
    """A connected, non-blocking TCP socket to exactly this address.

    Raises:
        OSError: nothing answered there.
    """
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, socket.IPPROTO_TCP)
    try:
        connection.setblocking(False)  # noqa: FBT003 - the name of the method says it
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connection, (str(address), port))
    except BaseException:
        connection.close()
        raise
    return connection


async def dial_first(
    addresses: Sequence[Address], port: int, dial_one: Dial = dial, places: Places = PLACES
) -> tuple[socket.socket, Address]:
    """Try the addresses in order, the next one when one has failed or is slow; the first connection and its address.

    Who tries several at once needs a place for each after the first, which is the caller's; without one the next
    address waits until one has failed.

    Raises:
        OSError: none answered; the error of the last one that failed.
    """
    waiting = list(addresses)
    under_way: dict[asyncio.Task[socket.socket], Address] = {}
    beside = 0  # places taken for more than one at once
    problem: OSError = OSError("there is no address to try")
    try:
        while waiting or under_way:
            if waiting and (not under_way or places.take(FEW)):
                beside += bool(under_way)
                address = waiting.pop(0)
                under_way[asyncio.ensure_future(dial_one(address, port))] = address
            patience = STAGGER if waiting else None
            done, _ = await asyncio.wait(under_way, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                address = under_way[task]
                error = task.exception()
                if error is None:
                    del under_way[task]
                    return task.result(), address
                del under_way[task]
                if not isinstance(error, OSError):
                    raise error
                problem = error
            while beside > max(0, len(under_way) - 1):
                beside -= 1
                places.give()
        raise problem
    finally:
        try:
            await _give_up(under_way)
        finally:
            for _ in range(beside):
                places.give()


async def _give_up(under_way: dict[asyncio.Task[socket.socket], Address]) -> None:
    for task in under_way:
        task.cancel()
    for task in under_way:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            (await task).close()


Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses as text, in the order to try them. Raises OSError when there are none.

The addresses are judged by whoever asked; a resolver judges nothing and may remember nothing.
"""

THREADS = 16


class SystemResolver:
    """What this machine says a name is: its hosts file, then its name servers. Belongs to one loop.

    A look-up cannot be interrupted. One that is given up goes on in its thread until the system gives up too; there are
    few threads, and who finds them all busy waits. The threads never keep the process from ending.

    Args:
        threads: Look-ups at once.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._room = asyncio.Semaphore(threads)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a host, each once.

        Raises:
            OSError: there is none, or nobody could say.
            UnicodeError: the system takes it for no name.
        """
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def settle(found: list[str] | OSError | UnicodeError) -> None:
            # Whoever asked may have left; the thread is free only now.
            self._room.release()
            if answer.done():
                return
            if isinstance(found, list):
                answer.set_result(found)
            else:
                answer.set_exception(found)

        def work() -> None:
            found: list[str] | OSError | UnicodeError
            try:
                found = _look_up(host, port)
            except (OSError, UnicodeError) as error:
                found = error
            with contextlib.suppress(RuntimeError):  # a loop that is closed has nobody waiting on it
                loop.call_soon_threadsafe(settle, found)

        # Not from a pool: Python waits for those of a pool when it ends, and a name server can be silent for long.
        threading.Thread(target=work, name="kagura-resolve", daemon=True).start()
        return await answer


def _look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(frozen=True, slots=True)
class Checked:
    """The answers of a resolver, judged."""

    allowed: tuple[Address, ...]  # What may be dialled, in the order of the answers
    refused: tuple[tuple[str, str], ...]  # The others, each with what it is


@dataclass(frozen=True, slots=True)
class Admitted:
    """A target that may be connected to, now, at these addresses."""

    target: Target  # Where to
    rule: str  # The grant as it was written, or `asked`
    reason: str  # One clause for a person
    checked: Checked  # Its addresses; at least one is allowed


@dataclass(eq=False, repr=False)
class Gate:
    """Lets the connections of one run through, or does not."""

    policy: EgressRules  # What is granted
    resolver: Resolver  # Who turns names into addresses
    _: KW_ONLY
    asking: Asking | None = None  # Who answers for hosts that nothing grants; asked only when the policy says `ask`
    limits: EgressLimits = field(default_factory=EgressLimits)  # Times, and how many addresses are tried
    dial_one: Dial = dial  # How one address is connected to

    def __post_init__(self) -> None:
        self._asking = self.asking or Asking(None)
        self._look_ups: Once[Target, Sequence[str]] = Once()

    async def admit(self, host: str, port: int) -> Admitted:
        """Decide, resolve and check; connects to nothing. May wait for a person.

        Raises:
            EgressDenied: it is not granted, or leads to no address that may be reached.
            EgressBusy: too many other questions wait for a person.
            EgressUnreachable: the name has no address.
            ApprovalAborted: the person who was asked called the run off.
        """
        try:
            target = make_target(host, port)
        except HostNotUnderstood as error:
            raise EgressDenied(ascii(host[:80])[1:-1], port, f"is no host that can be reached: {error.why}") from error
        ruling = self.policy.decide(target)
        rule, reason, granted = ruling.rule, ruling.reason, ruling.verdict is EgressVerdict.ALLOW
        if ruling.verdict is EgressVerdict.DENY:
            raise EgressDenied(target.host, target.port, ruling.reason, self._advice(target))
        if ruling.verdict is EgressVerdict.ASK:
            rule, reason = "asked", f"approved by {await self._asking.require(target, self.policy.sets or {})}"
        return Admitted(target, rule, reason, await self._check(target, granted=granted))

    async def connect(self, admitted: Admitted) -> tuple[socket.socket, Address]:
        """A connection to one of the checked addresses, and which one. The caller closes it.

        Raises:
            EgressUnreachable: none of them answered in time.
        """
        target = admitted.target
        try:
            async with asyncio.timeout(self.limits.connect):
                return await dial_first(admitted.checked.allowed, target.port, self.dial_one)
        except TimeoutError as error:
            why = f"did not answer within {self.limits.connect:g} s"
            raise EgressUnreachable(target.host, target.port, why) from error
        except OSError as error:
            why = f"cannot be reached: {(error.strerror or str(error)).lower()}"
            raise EgressUnreachable(target.host, target.port, why) from error

    async def _check(self, target: Target, *, granted: bool) -> Checked:
        literal = target.address
        answers = [str(literal)] if literal is not None else await self._resolve(target)
        checked = check_answers(self.policy, answers, target.port)
        if not checked.allowed or (self.policy.all_answers and checked.refused):
            found = "; ".join(f"{address} is {why}" for address, why in checked.refused[:4])
            advised = self._address_advice(target, checked, granted=granted)
            where = "also leads to" if checked.allowed else "leads to no public address"
            what = f"addresses that are not public ({found})" if checked.allowed else f"({found})"
            raise EgressDenied(target.host, target.port, f"{where} {what}", advised)
        return Checked(checked.allowed[: self.limits.addresses], checked.refused)

    def _advice(self, target: Target) -> str:
        return "" if self.policy.sets is None else advice(target, self.policy.sets)

    def _address_advice(self, target: Target, checked: Checked, *, granted: bool) -> str:
        if self.policy.sets is None:
            return ""
        refused = (address for address, _ in checked.refused)
        return address_advice(target, refused, granted=granted, sets=self.policy.sets)

    async def _resolve(self, target: Target) -> Sequence[str]:
        try:
            async with asyncio.timeout(self.limits.resolve):
                answers = await self._look_ups.share(target, lambda: self._look_up(target))
        except TimeoutError as error:
            why = f"could not be looked up within {self.limits.resolve:g} s"
            raise EgressUnreachable(target.host, target.port, why) from error
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "the resolver did not take it"
            raise EgressUnreachable(target.host, target.port, f"could not be looked up: {reason.lower()}") from error
        if not answers:
            raise EgressUnreachable(target.host, target.port, "has no address")
        return answers

    async def _look_up(self, target: Target) -> Sequence[str]:
        return await self.resolver(target.host, target.port)


def check_answers(policy: EgressRules, answers: Sequence[str], port: int) -> Checked:
    """Judge every answer of a resolver; an answer that is no address is refused like one that is private."""
    allowed: list[Address] = []
    refused: list[tuple[str, str]] = []
    for text in dict.fromkeys(answers):
        try:
            address = ip_address(text)
        except ValueError:
            refused.append((ascii(text[:60])[1:-1], "no address"))
            continue
        if why := policy.refuse_address(address, port):
            refused.append((str(address), why))
        else:
            allowed.append(address)
    return Checked(tuple(allowed), tuple(refused))


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision on one target."""

    target: Target
    ruling: EgressRuling  # What the grants say
    allowed: bool  # Whether a connection would be made without asking anybody
    reason: str  # Why, one sentence
    # What it resolves to here, each with why it may not be reached; None when it may
    addresses: tuple[tuple[str, str | None], ...] = ()
    advice: str = ""  # What to type so that it is granted; empty when that is not the hindrance


async def explain(policy: EgressPolicy, target: Target, resolver: Resolver | None) -> Explanation:
    """The decision on a target; without a resolver names are taken to have addresses that may be reached.

    Unlike a box's connection this looks names up that are not granted: it is a person who asks.
    """
    ruling = policy.decide(target)
    granted = ruling.verdict is EgressVerdict.ALLOW
    answers, problem = await _answers(target, resolver)
    checked = check_answers(policy, answers, target.port)
    allowed = granted and not problem and (bool(checked.allowed) or (resolver is None and target.address is None))
    reason = _reason(ruling, allowed=allowed, problem=problem)
    refused = dict(checked.refused)
    addresses = tuple((address, refused.get(address)) for address in [*map(str, checked.allowed), *refused])
    how = "" if granted else advice(target, policy.sets)
    if refused and not checked.allowed and target.address is None:
        how = address_advice(target, refused, granted=granted, sets=policy.sets)
    return Explanation(target, ruling, allowed, reason, addresses, how)


def _reason(ruling: EgressRuling, *, allowed: bool, problem: str) -> str:
    if ruling.verdict is not EgressVerdict.ALLOW:
        return _sentence(ruling.reason)
    if allowed:
        return _sentence(f"is {ruling.reason}")
    return _sentence(f"is {ruling.reason}, but {problem or 'none of its addresses may be reached'}")


def _sentence(clause: str) -> str:
    return f"It {clause}."


async def _answers(target: Target, resolver: Resolver | None) -> tuple[Sequence[str], str]:
    if target.address is not None:
        return [target.host], ""
    if resolver is None:
        return [], ""
    try:
        async with asyncio.timeout(EgressLimits().resolve):
            return await resolver(target.host, target.port), ""
    except TimeoutError:
        return [], "it could not be looked up in time"
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "the resolver did not take it"
        return [], f"it could not be looked up: {reason.lower()}"
