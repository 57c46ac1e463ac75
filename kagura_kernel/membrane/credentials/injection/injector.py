"""The leases of one run in its box: opened when they are acquired, kept fresh, closed when they end.

Promises. A secret enters the box only by a file or by the variables of a command that asked for it, and only where the
provider's settings say so. What `variables` and `shown` tell holds no secret. Whatever fails leaves no secret behind.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import InjectionFailed, KaguraError, NotThisTime, UnknownName
from kagura_kernel.membrane.credentials.injection.endpoint import CredentialSource, Endpoint
from kagura_kernel.membrane.credentials.injection.lease_file import LeaseFile
from kagura_kernel.membrane.credentials.injection.records import InjectionLimits, InjectionView, RecordRequest
from kagura_kernel.membrane.credentials.injection.settings import (
    EnvInjection,
    FileInjection,
    HeaderInjection,
    Injection,
    fill,
)
from kagura_kernel.membrane.credentials.injection.upstream import GateFor
from kagura_kernel.membrane.credentials.injection.variables import (
    file_variables,
    header_variables,
    merge_variables,
    own_name,
)
from kagura_kernel.membrane.credentials.lease import Lease
from kagura_kernel.membrane.credentials.secret import Credential
from kagura_kernel.sandbox.backend import Box
from kagura_kernel.sandbox.guest_streams import Failed, Listener

HOME = "/home/agent"
_SYSTEM = SystemClock()


@dataclass(slots=True)
class _Injected:
    """One lease in the box."""

    lease: Lease
    endpoints: list[Endpoint] = field(default_factory=list)
    files: list[LeaseFile] = field(default_factory=list)
    env: list[EnvInjection] = field(default_factory=list)
    usable: bool = True

    @property
    def name(self) -> str:
        return f"{self.lease.provider}:{self.lease.scope}"


class Injector:
    """What one run's box has of the run's leases; belongs to the loop of the box.

    Args:
        box: The box.
        source: The run's broker.
        injections: For each provider by name, how its credentials are used; from the registry.
        gate_for: Makes the gate of an upstream from a policy that grants only it.
        record: Takes each request that went through a lease, when it is over.
        failed: Told what serving a connection raised; without it, that ends the box.
        home: The box's home, which lies in its memory.
        limits: On each loopback URL.
        clock: Measures requests.
        trust: For TLS to upstreams; None is what this machine trusts.
    """

    def __init__(  # noqa: PLR0913 - one run's surroundings, each a fact
        self,
        box: Box,
        source: CredentialSource,
        injections: Mapping[str, Sequence[Injection]],
        gate_for: GateFor,
        record: RecordRequest,
        *,
        failed: Failed | None = None,
        home: str = HOME,
        limits: InjectionLimits | None = None,
        clock: Clock = _SYSTEM,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._box = box
        self._source = source
        self._injections = dict(injections)
        self._gate_for = gate_for
        self._record = record
        self._failed = failed
        self._home = home
        self._limits = limits or InjectionLimits()
        self._clock = clock
        self._trust = trust
        self._injected: dict[str, _Injected] = {}
        self._endpoints: dict[tuple[str, str], list[Endpoint]] = {}
        self._turn = asyncio.Lock()
        self._closed = False

    # ----------------------------------------------------------------- events

    async def open(self, lease: Lease) -> None:
        """Make a lease usable in the box; a second time for the same lease changes nothing.

        The loopback URL of a provider's scope stays the same for the life of the box, whatever lease is behind it.

        Raises:
            LeaseEnded: it is over or on hold.
            GrantMissing: the run may not have it.
            InjectionFailed: the provider's settings do not say how, or the box would not have it.
            SandboxUnavailable: the box is gone.
        """
        async with self._turn:
            if lease.id in self._injected:
                return
            if self._closed:
                raise InjectionFailed(lease.provider, lease.scope, "the run is over")
            credential = self._source.credential(lease.id)
            ways = self._injections.get(lease.provider, ())
            if not ways:
                why = "its configuration does not say how a program uses it; add `inject` to the provider"
                raise InjectionFailed(lease.provider, lease.scope, why)
            injected = _Injected(lease.without_credential())
            try:
                await self._enter(injected, ways, credential)
            except BaseException:
                await asyncio.shield(self._leave(injected))
                raise
            self._injected[lease.id] = injected

    async def renewed(self, lease: Lease) -> None:
        """Its credential was replaced: its files are written anew, also after it was on hold.

        Raises:
            KaguraError: as for `open`; its files are gone then.
        """
        async with self._turn:
            injected = self._injected.get(lease.id)
            if injected is None:
                return
            injected.lease = lease.without_credential()
            try:
                credential = self._source.credential(lease.id)
                for file in injected.files:
                    await file.write(lease, credential)
            except BaseException:
                await asyncio.shield(self._without_files(injected))
                raise
            injected.usable = True

    async def on_hold(self, lease: Lease) -> None:
        """Its credential is given to nobody for now: its files are taken away, its URLs answer 503.

        Raises:
            InjectionFailed: something of a file may be left.
        """
        async with self._turn:
            injected = self._injected.get(lease.id)
            if injected is not None:
                injected.lease = lease.without_credential()
                injected.usable = False
                await self._without_files(injected)

    async def closed(self, lease: Lease) -> None:
        """It was given back: requests under way are cut, its files are taken away, its URLs answer 403.

        Raises:
            InjectionFailed: something of a file may be left.
        """
        async with self._turn:
            injected = self._injected.pop(lease.id, None)
            if injected is not None:
                await self._leave(injected)

    async def close(self) -> None:
        """Close all; may be called twice. Raises nothing when the box is gone.

        Raises:
            InjectionFailed: something of a file may be left; everything else was closed.
        """
        async with self._turn:
            self._closed = True
            leaving, self._injected = list(self._injected.values()), {}
            results = await asyncio.gather(*map(self._leave, leaving), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    # ----------------------------------------------------------------- asking

    def variables(self) -> dict[str, str]:
        """For every command in the box; URLs, paths and placeholders, never a secret.

        Where two leases want the same variable, the one that was opened first has it; each has its own besides,
        `KAGURA_PROVIDER_SCOPE_URL` or `…_FILE`.
        """
        return merge_variables(*map(_variables, self._injected.values()))

    def secret_env(self, names: Iterable[str]) -> dict[str, str]:
        """The variables with secrets for exactly one command, for `Command.env`; keep them nowhere.

        Args:
            names: Leases, each by its id or as `PROVIDER:SCOPE`.

        Raises:
            UnknownName: there is no such lease here.
            NotThisTime: the lease is not used by variables.
            LeaseEnded: it is over or on hold.
            GrantMissing: the run may not have it any more.
            InjectionFailed: the credential lacks a part that a variable needs.
        """
        found: dict[str, str] = {}
        for name in names:
            injected = self._find(name)
            if not injected.env:
                raise NotThisTime(f"{injected.name} is not used by variables. {_how(injected)}")
            credential = self._source.credential(injected.lease.id)
            for injection in injected.env:
                found |= _filled(injection, injected.lease, credential)
        return found

    def shown(self) -> tuple[InjectionView, ...]:
        """What a person or a brain may know: which lease is used where."""
        return tuple(view for injected in self._injected.values() for view in _views(injected))

    # ------------------------------------------------------------------ parts

    async def _enter(self, injected: _Injected, ways: Sequence[Injection], credential: Credential) -> None:
        lease = injected.lease
        headers = [way for way in ways if isinstance(way, HeaderInjection)]
        if headers:
            injected.endpoints = await self._urls(lease, headers)
        for way in ways:
            if isinstance(way, FileInjection):
                file = LeaseFile(self._box, self._home, way, lease)
                injected.files.append(file)
                await file.write(lease, credential)
            elif isinstance(way, EnvInjection):
                _filled(way, lease, credential)
                injected.env.append(way)
        for endpoint in injected.endpoints:
            endpoint.open(lease)

    async def _urls(self, lease: Lease, ways: Sequence[HeaderInjection]) -> list[Endpoint]:
        key = (lease.provider, str(lease.scope))
        if any(held.endpoints for held in self._injected.values() if (held.lease.provider, held.lease.scope) == key):
            raise InjectionFailed(lease.provider, lease.scope, "another lease of the same scope is in use")
        endpoints = self._endpoints.setdefault(key, [])
        for way in ways[len(endpoints) :]:
            endpoint = Endpoint(
                way,
                self._source,
                self._gate_for,
                self._record,
                limits=self._limits,
                clock=self._clock,
                trust=self._trust,
            )
            name = f"{lease.provider}:{lease.scope}"
            endpoint.port = await self._box.listen(Listener(0, "raw", name), endpoint.serve, self._failed)
            endpoints.append(endpoint)
        return endpoints

    async def _leave(self, injected: _Injected) -> None:
        for endpoint in injected.endpoints:
            await endpoint.close()
        await self._without_files(injected)

    async def _without_files(self, injected: _Injected) -> None:
        problem: KaguraError | None = None
        for file in injected.files:
            try:
                await file.remove()
            except KaguraError as error:
                problem = problem or error
        if problem is not None:
            raise problem

    def _find(self, name: str) -> _Injected:
        for injected in self._injected.values():
            if name in {injected.lease.id, injected.name}:
                return injected
        raise UnknownName("lease", name, [injected.name for injected in self._injected.values()])


def _variables(injected: _Injected) -> dict[str, str]:
    lease = injected.lease
    sets = [header_variables(endpoint.injection, endpoint.base) for endpoint in injected.endpoints]
    sets += [file_variables(file.injection, file.path) for file in injected.files]
    if injected.endpoints:
        sets.append({own_name(lease.provider, lease.scope, "url"): injected.endpoints[0].base})
    if injected.files:
        sets.append({own_name(lease.provider, lease.scope, "file"): injected.files[0].path})
    return merge_variables(*sets)


def _views(injected: _Injected) -> list[InjectionView]:
    name, usable = injected.name, injected.usable
    views = [
        InjectionView(name, "header", f"{endpoint.base}/", endpoint.injection.upstream, usable)
        for endpoint in injected.endpoints
    ]
    views += [InjectionView(name, "file", file.path, usable=usable) for file in injected.files]
    views += [InjectionView(name, "env", ", ".join(way.variables), usable=usable) for way in injected.env]
    return views


def _how(injected: _Injected) -> str:
    return " ".join(f"Use {view.where}." for view in _views(injected) if view.way != "env")


def _filled(injection: EnvInjection, lease: Lease, credential: Credential) -> dict[str, str]:
    parts = {name: credential.part(name).reveal() for name in credential.names}
    try:
        found = {name: fill(template, parts) for name, template in injection.variables.items()}
    except KeyError:
        raise InjectionFailed(lease.provider, lease.scope, "a variable needs a part that it does not have") from None
    if any("\0" in value for value in found.values()):
        raise InjectionFailed(lease.provider, lease.scope, "its secret holds a zero byte, which no variable can")
    return found
