"""A credential as a file in the box's memory, for programs that want the value: written whole, and taken away."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import UTC

from kagura_kernel.domain.commands import Command
from kagura_kernel.domain.errors import InjectionFailed, KaguraError, SandboxUnavailable
from kagura_kernel.domain.policy import CommandLimits
from kagura_kernel.membrane.credentials.injection.settings import FileInjection, fill
from kagura_kernel.membrane.credentials.lease import Lease
from kagura_kernel.membrane.credentials.secret import Credential
from kagura_kernel.sandbox.backend import Box

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


class LeaseFile:
    """One file of one lease.

    Args:
        box: Where it is.
        home: The box's home.
        injection: What it looks like.
        lease: Whose it is.
    """

    def __init__(self, box: Box, home: str, injection: FileInjection, lease: Lease) -> None:
        self.injection = injection
        self._box = box
        self._lease = lease.without_credential()
        self._home = home
        name = injection.name or _UNSAFE.sub("-", f"{lease.provider}-{lease.scope}") + _ending(injection)
        self.path = f"{home}/{FOLDER}/{name}"

    async def write(self, lease: Lease, credential: Credential) -> None:
        """Write it, or write it anew, for nobody but the box's user.

        Raises:
            InjectionFailed: it could not be written; nothing of it is there.
            SandboxUnavailable: the box is gone.
        """
        try:
            text = render(self.injection, lease, credential)
            await self._run("sh", "-c", _MAKE, "sh", self._home, FOLDER, self.path)
            await self._box.files.write(self.path, text.encode("utf-8", "surrogatepass"), mode=_MODE)
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
            await self._box.files.write(self.path, b"", mode=_MODE)
        except SandboxUnavailable:
            return
        except KaguraError as error:
            why = f"its file {self.path} cannot be taken away ({problem.code}, {error.code})"
            raise InjectionFailed(self._lease.provider, self._lease.scope, why) from error

    async def _run(self, *argv: str) -> None:
        result = await self._box.run(Command(argv, limits=CommandLimits(total=_SECONDS)))
        if not result.ok:
            why = f"{argv[0]} failed in the box with exit code {result.exit_code}"
            if result.exit_code == _LINKED:
                why = f"a program in the box has made a link of {self.path} or of a folder above it"
            raise InjectionFailed(self._lease.provider, self._lease.scope, why)


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


def _ending(injection: FileInjection) -> str:
    return ".json" if injection.format == "gcp" else ""
