"""The leases of one run in its box: opened when they are acquired, kept fresh, closed when they end.

Promises. A secret enters the box only by a file or by the variables of a command that asked for it, and only where the
provider's settings say so. What `variables` and `shown` tell holds no secret. Whatever fails leaves no secret behind.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import InjectionFailed, KaguraError, NotThisTime, SandboxUnavailable, UnknownName
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.membrane.credentials.injection.caller import InjectionLimits, InjectionView, RecordRequest
from kagura_kernel.membrane.credentials.injection.endpoint import CredentialSource, Endpoint
from kagura_kernel.membrane.credentials.injection.settings import (
    EnvInjection,
    FileInjection,
    HeaderInjection,
    Injection,
    fill,
)
from kagura_kernel.membrane.credentials.injection.upstream import GateFor
from kagura_kernel.membrane.credentials.lease import Lease
from kagura_kernel.membrane.credentials.secret import Credential
from kagura_kernel.membrane.egress.proxy import git_variables
from kagura_kernel.sandbox.backend import Box, Failed, Listener

FOLDER = ".kagura/leases"
"""Below the home of the box, which lies in memory in every back-end."""

_MODE = 0o600
# What follows the folder's links would put the secret where the program that made them wants it: out of memory, say,
# or where it is not taken away again.
_LINKED = 77
_MAKE = (
    'umask 077 && mkdir -p -- "$1/$2" && chmod 700 -- "$1/$2" || exit 1; '
    'here=$(cd -P -- "$1" && pwd) && there=$(cd -P -- "$1/$2" && pwd) || exit 1; '
    f'[ "$there" = "$here/$2" ] && ! [ -L "$3" ] || exit {_LINKED}'
)
_SECONDS = 20.0
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(eq=False, repr=False)
class LeaseFile:
    """One file of one lease."""

    box: Box  # Where it is
    home: str  # The box's home
    injection: FileInjection  # What it looks like
    lease: Lease  # Whose it is, without its credential

    def __post_init__(self) -> None:
        made = _UNSAFE.sub("-", f"{self.lease.provider}-{self.lease.scope}")
        ending = ".json" if self.injection.format == "gcp" else ""
        self.path = f"{self.home}/{FOLDER}/{self.injection.name or made + ending}"

    async def write(self, lease: Lease, credential: Credential) -> None:
        """Write it, or write it anew, for nobody but the box's user.

        Raises:
            InjectionFailed: it could not be written; nothing of it is there.
            SandboxUnavailable: the box is gone.
        """
        try:
            text = render(self.injection, lease, credential)
            await self._run("sh", "-c", _MAKE, "sh", self.home, FOLDER, self.path)
            await self.box.files.write(self.path, text.encode("utf-8", "surrogatepass"), mode=_MODE)
        except SandboxUnavailable:
            raise
        except KaguraError as error:
            with suppress(KaguraError):
                await self.remove()
            why = error.why if isinstance(error, InjectionFailed) else f"its file cannot be written ({error.code})"
            raise InjectionFailed(lease.provider, lease.scope, why) from error

    async def remove(self) -> None:
        """Take it away; may be called when it is not there, or the box is gone.

        Raises:
            InjectionFailed: something of it may be left.
        """
        try:
            await self._run("rm", "-f", "--", self.path)
        except SandboxUnavailable:
            return  # it was in the box's memory
        except KaguraError as error:
            await self._empty(error)

    async def _empty(self, problem: KaguraError) -> None:
        """A box without `rm` can still be made to hold nothing."""
        try:
            await self.box.files.write(self.path, b"", mode=_MODE)
        except SandboxUnavailable:
            return
        except KaguraError as error:
            why = f"its file {self.path} cannot be taken away ({problem.code}, {error.code})"
            raise InjectionFailed(self.lease.provider, self.lease.scope, why) from error

    async def _run(self, *argv: str) -> None:
        result = await self.box.run(Command(argv, limits=CommandLimits(total=_SECONDS)))
        if not result.ok:
            why = f"{argv[0]} failed in the box with exit code {result.exit_code}"
            if result.exit_code == _LINKED:
                why = f"a program in the box has made a link of {self.path} or of a folder above it"
            raise InjectionFailed(self.lease.provider, self.lease.scope, why)


def render(injection: FileInjection, lease: Lease, credential: Credential) -> str:
    """The text of the file.

    Raises:
        InjectionFailed: the credential lacks a part, or the format cannot hold it.
    """
    parts = {name: credential.part(name).reveal() for name in credential.names}
    try:
        match injection.format:
            case "raw":
                return parts["token"]
            case "template":
                return fill(injection.template, parts)
            case "gcp":
                ends = lease.expires_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                value = {"access_token": parts["token"], "token_type": "Bearer", "expiry": ends}
                return json.dumps(value) + "\n"
            case "netrc":
                token = _one_word(parts["token"], lease)
                return f"machine {injection.host} login {injection.login} password {token}\n"
            case "aws":
                return _aws({name: _one_word(value, lease) for name, value in parts.items()})
    except KeyError:
        raise InjectionFailed(lease.provider, lease.scope, "its file needs a part that it does not have") from None


def _aws(parts: dict[str, str]) -> str:
    return (
        "[default]\n"
        f"aws_access_key_id = {parts['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {parts['AWS_SECRET_ACCESS_KEY']}\n"
        f"aws_session_token = {parts['AWS_SESSION_TOKEN']}\n"
    )


def _one_word(value: str, lease: Lease) -> str:
    if not value or any(sign.isspace() or not sign.isprintable() for sign in value):
        raise InjectionFailed(lease.provider, lease.scope, "its secret is not one word, as this format needs it")
    return value


_GIT = re.compile(r"GIT_CONFIG_(?:COUNT|KEY_\d+|VALUE_\d+)")
_MOST_GIT = 1000
_NO_NAME = re.compile(r"[^A-Z0-9]+")


def own_name(provider: str, scope: str, what: str) -> str:
    """The variable that every lease has, whoever else uses a program's own: `KAGURA_GITHUB_READ_URL`."""
    return "KAGURA_" + _NO_NAME.sub("_", f"{provider}_{scope}_{what}".upper())


def header_variables(injection: HeaderInjection, base: str) -> dict[str, str]:
    """Those of one loopback URL, which has no slash at its end."""
    found = {name: fill(template, {"url": base}) for name, template in injection.variables.items()}
    if injection.git:
        # Git goes to the loopback URL instead, and not through a proxy.
        moved = [(f"url.{base}/.insteadOf", beginning) for beginning in injection.git]
        found |= git_variables([*moved, (f"http.{base}/.proxy", "")])
    return found


def merge_variables(*sets: Mapping[str, str]) -> dict[str, str]:
    """All of them, the first one winning where two have the same name, and git's settings counted on.

    Git takes one place for the beginning of a remote, so there too the first one wins. A setting of git whose variables
    are not whole is left out.
    """
    merged: dict[str, str] = {}
    settings: list[tuple[str, str]] = []
    moved: set[str] = set()
    for variables in sets:
        for key, value in _settings_in(variables):
            instead = key.lower().endswith(".insteadof")
            if (key, value) in settings or (instead and value in moved):
                continue
            settings.append((key, value))
            if instead:
                moved.add(value)
        for name, value in variables.items():
            if not _GIT.fullmatch(name):
                merged.setdefault(name, value)
    return merged | git_variables(settings)


def _settings_in(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    count = variables.get("GIT_CONFIG_COUNT", "")
    if not count.isdecimal():
        return []
    pairs = (
        (variables.get(f"GIT_CONFIG_KEY_{number}"), variables.get(f"GIT_CONFIG_VALUE_{number}"))
        for number in range(min(int(count), _MOST_GIT))
    )
    return [(key, value) for key, value in pairs if key is not None and value is not None]


HOME = "/home/agent"
_SYSTEM = SystemClock()


@dataclass(slots=True)
class _Injected:
    """One lease in the box."""

    lease: Lease
    endpoints: list[Endpoint] = field(default_factory=list)
    files: list[LeaseFile] = field(default_factory=list)
    env: list[EnvInjection] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.lease.provider}:{self.lease.scope}"


@dataclass(eq=False, repr=False)
class Injector:
    """What one run's box has of the run's leases; belongs to the loop of the box.

    Whatever needs a credential raises `LeaseEnded` and `GrantMissing` as its source does; whatever takes a file away
    raises `InjectionFailed` when something of it may be left, after everything else was closed.
    """

    box: Box  # The box
    source: CredentialSource  # The run's broker
    # For each provider by name, how its credentials are used; from the registry
    injections: Mapping[str, Sequence[Injection]]
    gate_for: GateFor  # Makes the gate of an upstream from a policy that grants only it
    record: RecordRequest  # Takes each request that went through a lease, when it is over
    _: KW_ONLY
    failed: Failed | None = None  # Told what serving a connection raised; without it, that ends the box
    home: str = HOME  # The box's home, which lies in its memory
    limits: InjectionLimits = field(default_factory=InjectionLimits)  # On each loopback URL
    clock: Clock = _SYSTEM  # Measures requests
    trust: ssl.SSLContext | None = None  # For TLS to upstreams; None is what this machine trusts

    def __post_init__(self) -> None:

        self._injected: dict[str, _Injected] = {}
        self._endpoints: dict[tuple[str, str], list[Endpoint]] = {}
        self._turn = asyncio.Lock()
        self._closed = False

    # ----------------------------------------------------------------- events

    async def open(self, lease: Lease) -> None:
        """Make a lease usable in the box; a second time for the same lease changes nothing.

        The loopback URL of a provider's scope stays the same for the life of the box, whatever lease is behind it.

        Raises:
            InjectionFailed: the provider's settings do not say how, or the box would not have it.
        """
        async with self._turn:
            if lease.id in self._injected:
                return
            if self._closed:
                raise InjectionFailed(lease.provider, lease.scope, "the run is over")
            credential = self.source(lease.id)
            ways = self.injections.get(lease.provider, ())
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
                credential = self.source(lease.id)
                for file in injected.files:
                    await file.write(lease, credential)
            except BaseException:
                await asyncio.shield(self._without_files(injected))
                raise

    async def on_hold(self, lease: Lease) -> None:
        """Its credential is given to nobody for now: its files are taken away, its URLs answer 503."""
        async with self._turn:
            injected = self._injected.get(lease.id)
            if injected is not None:
                injected.lease = lease.without_credential()
                await self._without_files(injected)

    async def closed(self, lease: Lease) -> None:
        """It was given back: requests under way are cut, its files are taken away, its URLs answer 403."""
        async with self._turn:
            injected = self._injected.pop(lease.id, None)
            if injected is not None:
                await self._leave(injected)

    async def close(self) -> None:
        """Close all; may be called twice. Raises nothing when the box is gone."""
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

        Each lease is named by its id or as `PROVIDER:SCOPE`.

        Raises:
            UnknownName: there is no such lease here.
            NotThisTime: the lease is not used by variables.
            InjectionFailed: the credential lacks a part that a variable needs.
        """
        found: dict[str, str] = {}
        for name in names:
            injected = self._find(name)
            if not injected.env:
                how = " ".join(f"Use {view.where}." for view in _views(injected) if view.way != "env")
                raise NotThisTime(f"{injected.name} is not used by variables. {how}")
            credential = self.source(injected.lease.id)
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
                file = LeaseFile(self.box, self.home, way, lease)
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
                self.source,
                self.gate_for,
                self.record,
                limits=self.limits,
                clock=self.clock,
                trust=self.trust,
            )
            name = f"{lease.provider}:{lease.scope}"
            endpoint.port = await self.box.listen(Listener(0, "raw", name), endpoint.serve, self.failed)
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
    sets += [
        {name: fill(value, {"path": file.path}) for name, value in file.injection.variables.items()}
        for file in injected.files
    ]
    if injected.endpoints:
        sets.append({own_name(lease.provider, lease.scope, "url"): injected.endpoints[0].base})
    if injected.files:
        sets.append({own_name(lease.provider, lease.scope, "file"): injected.files[0].path})
    return merge_variables(*sets)


def _views(injected: _Injected) -> list[InjectionView]:
    name = injected.name
    return [
        *(InjectionView(name, "header", f"{one.base}/", one.injection.upstream) for one in injected.endpoints),
        *(InjectionView(name, "file", file.path) for file in injected.files),
        *(InjectionView(name, "env", ", ".join(way.variables)) for way in injected.env),
    ]


def _filled(injection: EnvInjection, lease: Lease, credential: Credential) -> dict[str, str]:
    parts = {name: credential.part(name).reveal() for name in credential.names}
    try:
        found = {name: fill(template, parts) for name, template in injection.variables.items()}
    except KeyError:
        raise InjectionFailed(lease.provider, lease.scope, "a variable needs a part that it does not have") from None
    if any("\0" in value for value in found.values()):
        raise InjectionFailed(lease.provider, lease.scope, "its secret holds a zero byte, which no variable can")
    return found
