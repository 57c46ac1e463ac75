"""Secrets: a text that does not show itself, the place where it is kept, and the keychain of this machine.

The value is reached by one method only, and that name can be searched for. Neither the secret nor the reference is
repeated in an error: people mistake one for the other. A keychain may be locked and a file may lie on a disk that does
not answer, so both are read beside the loop, in a daemon thread: Python waits for the threads of a pool when a loop or
the process ends, and a locked keychain waits for a person. No other file knows the library `keyring`.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NoReturn, TypeVar
from weakref import WeakValueDictionary

from kagura_kernel.domain.errors import SecretUnavailable
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field
from kagura_kernel.domain.visible import is_whole


class KeychainUnusable(Exception):
    """There is no keychain, it is locked, or it does not answer. The text never holds a secret."""


def from_keychain(service: str, username: str) -> str | None:
    """The secret of a service and a user name; None when there is none.

    Raises:
        KeychainUnusable: the keychain cannot be asked.
    """
    keyring = _keyring()
    from keyring.errors import InitError, KeyringError, NoKeyringError

    try:
        found: str | None = keyring.get_password(service, username)
    except NoKeyringError:
        raise KeychainUnusable("this machine has no keychain that keyring can use") from None
    except (InitError, KeyringError) as error:
        raise KeychainUnusable(f"the keychain does not open ({type(error).__name__})") from None
    # Back-ends are programs of others and raise what they like; without an answer there is no secret.
    except Exception as error:  # noqa: BLE001 - fails closed, see above
        raise KeychainUnusable(f"the keychain does not work ({type(error).__name__})") from None
    return found


def keychain_name() -> str:
    """What this machine's keychain is called; asks it for nothing, so that none has to be unlocked.

    Raises:
        KeychainUnusable: there is none that could keep a secret.
    """
    keyring = _keyring()
    # Back-ends are programs of others and raise what they like.
    try:
        found = keyring.get_keyring()
        # Several in a row: the first of them is the one that keeps.
        first = next(iter(getattr(found, "backends", ())), found)
        priority = float(first.priority)
    except Exception as error:  # noqa: BLE001 - whatever it is, there is no keychain
        raise KeychainUnusable(f"the keychain does not work ({type(error).__name__})") from None
    if priority <= 0:
        raise KeychainUnusable("this machine has no keychain that keyring can use")
    if type(first).__name__.startswith("Plaintext"):
        raise KeychainUnusable("the only keychain of this machine is a file of plain text")
    return str(first.name)


def keep_in_keychain(service: str, username: str, secret: str) -> None:
    """Keep a secret under a service and a user name, in place of the one that was there.

    Raises:
        KeychainUnusable: there is no keychain, it is a file of plain text, it is locked, or it does not take it.
    """
    keyring = _keyring()
    keychain_name()
    # Back-ends are programs of others and raise what they like, perhaps with the secret in it.
    try:
        keyring.set_password(service, username, secret)
    except Exception as error:  # noqa: BLE001 - see above
        raise KeychainUnusable(f"the keychain does not take it ({type(error).__name__})") from None


def _keyring() -> ModuleType:
    if sys.platform != "darwin":
        # Its part for macOS starts a C compiler, and that in vain, to find that system's libraries.
        sys.modules.setdefault("keyring.backends.macOS.api", None)  # type: ignore[arg-type] # None says: not here
    import keyring

    return keyring


T = TypeVar("T")


def begin(work: Callable[[], T], name: str) -> Future[T]:
    """Start it; what comes of it is in the future, for any thread."""
    future: Future[T] = Future()
    # From here on nobody can cancel it: what is under way in a thread cannot be interrupted.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


async def in_thread(work: Callable[[], T], name: str) -> T:
    """What it gives, or its error. Whoever is cancelled leaves the thread to itself; what it gives then is dropped."""
    return await asyncio.wrap_future(begin(work, name))


HIDDEN = "(hidden)"

SHORTEST_STANDING = 8
"""Characters; what is shorter and stands where a key belongs is mostly a word, such as `none` or `ollama`."""

_alive: WeakValueDictionary[int, Secret] = WeakValueDictionary()


class Secret:
    """A text that is kept out of `repr`, `str`, formatting, pickles, JSON and tracebacks that print values.

    Copies are the same object. Comparing takes the same time wherever two secrets differ. It cannot be hashed, so
    that it is never a key of something that is printed.
    """

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "_value", value)
        _alive[id(self)] = self

    def reveal(self) -> str:
        """The value itself; whoever calls this answers for where it goes."""
        value: str = object.__getattribute__(self, "_value")
        return value

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a secret is not changed: {name}")

    def __repr__(self) -> str:
        return f"Secret{HIDDEN}"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __bool__(self) -> bool:
        return bool(self.reveal())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        # A variable may hold bytes that are no text.
        mine, theirs = (one.reveal().encode("utf-8", "surrogatepass") for one in (self, other))
        return hmac.compare_digest(mine, theirs)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret is never pickled")


def live_secrets() -> tuple[Secret, ...]:
    """Every secret that this process holds just now, for whoever keeps them out of what is written somewhere."""
    return tuple(secret for reference in _alive.valuerefs() if (secret := reference()) is not None)


_standing: list[Secret] = []


def keep_standing(secret: Secret) -> Secret:
    """Keep in mind, as long as this process lives, a key that is nobody's lease: a model's, a chat's.

    Every run hides it by its value, one that a program, a file or a model says as well. What is shorter than
    `SHORTEST_STANDING` is not kept.
    """
    if len(secret.reveal()) >= SHORTEST_STANDING and all(one != secret for one in _standing):
        _standing.append(secret)
    return secret


def standing_secrets() -> Sequence[Secret]:
    """All that were kept so, in the order they came; only ever longer while runs go on."""
    return _standing


def forget_standing() -> None:
    """Keep none in mind any more, where nothing of this process holds one."""
    _standing.clear()


class Credential:
    """What one mint gave: one or more named secrets (a token; or an AWS key with its secret and its session).

    It shows the names and never a value, and cannot be pickled.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Mapping[str, Secret]) -> None:
        """At least one part; the first one is the credential's main secret."""
        if not parts:
            raise ValueError("a credential has at least one part")
        self._parts = dict(parts)

    @classmethod
    def token(cls, value: str) -> Credential:
        """A credential that is one text, named `token`."""
        return cls({"token": Secret(value)})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts, the main one first."""
        return tuple(self._parts)

    @property
    def main(self) -> Secret:
        """The first part."""
        return next(iter(self._parts.values()))

    def part(self, name: str) -> Secret:
        """One part.

        Raises:
            KeyError: there is none of this name.
        """
        return self._parts[name]

    def __iter__(self) -> Iterator[Secret]:
        return iter(self._parts.values())

    def __repr__(self) -> str:
        return f"Credential({', '.join(self._parts)}: {HIDDEN})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Credential:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a credential is never pickled")


Source = Literal["env", "file", "keyring"]
SOURCES: tuple[Source, ...] = ("env", "file", "keyring")
LARGEST = 64 * 1024
"""Bytes of a secret's file."""

READ_SECONDS = 10.0
"""How long a file or a keychain may take."""

_FORBIDDEN_BITS = 0o077
_OTHERS_BITS = 0o007


@dataclass(frozen=True, slots=True)
class SecretReference:
    """A secret's place."""

    setting: str  # Where in the configuration this stands, for messages: `providers.github.private_key`
    source: Source  # `env`, `file` or `keyring`
    place: str = field(repr=False)  # A variable's name, a path, or `service/username`


@dataclass(eq=False, repr=False)
class SecretReader:
    """Reads secrets at the moment they are used, so that a rotated one is found. For any loop."""

    environ: Mapping[str, str]  # For `env`
    # For `keyring`: the secret of a service and a user name; may block. None is the keychain of this machine.
    keyring: Callable[[str, str], str | None] | None = None
    _: KW_ONLY
    seconds: float = READ_SECONDS  # How long a file or a keychain may take

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._late: dict[SecretReference, Future[Secret]] = {}

    async def read(self, reference: SecretReference) -> Secret:
        """The secret, without the line end that editors put behind it.

        A secret that comes too late is dropped.

        Raises:
            SecretUnavailable: it is not there, is empty, others may read it, or it took too long.
        """
        if reference.source == "env":
            return self._read(reference)
        under_way = self._begin(reference)
        try:
            async with asyncio.timeout(self.seconds):
                return await asyncio.wrap_future(under_way)
        except TimeoutError:
            self._remember(reference, under_way)
            raise SecretUnavailable(f"{reference.setting}_{reference.source}", self._silence(reference)) from None

    def _begin(self, reference: SecretReference) -> Future[Secret]:
        # One thread at most hangs for each secret, however often it is asked for meanwhile.
        with self._lock:
            if (late := self._late.get(reference)) is not None:
                return late
        return begin(lambda: self._read(reference), "kagura-secret")

    def _remember(self, reference: SecretReference, under_way: Future[Secret]) -> None:
        with self._lock:
            self._late[reference] = under_way
        under_way.add_done_callback(lambda _: self._forget(reference, under_way))

    def _forget(self, reference: SecretReference, under_way: Future[Secret]) -> None:
        with self._lock:
            if self._late.get(reference) is under_way:
                del self._late[reference]

    def _silence(self, reference: SecretReference) -> str:
        silence = f"did not answer within {self.seconds:g} s"
        if reference.source == "keyring":
            return f"the keychain {silence}; if it is locked, unlock it and try again"
        return f"the file {silence}; see whether the disk it lies on can be reached"

    def _read(self, reference: SecretReference) -> Secret:
        setting = f"{reference.setting}_{reference.source}"
        match reference.source:
            case "env":
                text = self.environ.get(reference.place, "")
                missing = "no such environment variable is set"
                if not is_whole(text):
                    raise SecretUnavailable(setting, "the variable is not text")
            case "file":
                text = _read_file(setting, reference.place, self.environ.get("CREDENTIALS_DIRECTORY", ""))
                missing = "the file is empty"
            case "keyring":
                text = self._from_keyring(setting, reference.place)
                missing = "the keychain has no such entry"
        text = text.strip("\r\n")
        if not text.strip():
            raise SecretUnavailable(setting, missing)
        return Secret(text)

    def _from_keyring(self, setting: str, place: str) -> str:
        service, _, username = place.rpartition("/")
        if self.keyring is not None:
            return self.keyring(service, username) or ""
        try:
            return from_keychain(service, username) or ""
        except KeychainUnusable as error:
            raise SecretUnavailable(setting, str(error)) from error


def read_reference(
    table: Mapping[str, object], name: str, setting: str, *, required: bool = True
) -> tuple[SecretReference | None, list[str]]:
    """The reference behind `NAME_env`, `NAME_file` or `NAME_keyring` of a table, and what is wrong with it.

    `setting` is where it stands, for messages.
    """
    forms = ", ".join(f"{name}_{source}" for source in SOURCES)
    if name in table:
        return None, [f"{setting}: a secret is never written here; say where it is kept, with one of {forms}"]
    found = [source for source in SOURCES if f"{name}_{source}" in table]
    if not found:
        return None, [f"{setting}: one of {forms} is needed"] if required else []
    if len(found) > 1:
        given = " and ".join(f"{name}_{source}" for source in found)
        return None, [f"{setting}: {given} are given; exactly one is allowed"]
    source = found[0]
    place = table[f"{name}_{source}"]
    if not isinstance(place, str) or not place:
        return None, [f"{setting}_{source}: it must be a text"]
    if problem := _problem(source, place):
        return None, [f"{setting}_{source}: {problem}"]
    return SecretReference(setting, source, place), []


def _problem(source: Source, place: str) -> str:
    match source:
        case "env":
            plain = place.isascii() and place.replace("_", "a").isalnum() and not place[0].isdigit()
            return "" if plain else "it must be the name of an environment variable, not its value"
        case "file":
            return "" if place.startswith(("/", "~/")) else "it must be a path from the root, or from ~/"
        case "keyring":
            service, _, username = place.rpartition("/")
            return "" if service and username else "it must be service/username"


def _read_file(setting: str, place: str, handed: str) -> str:
    """The text of a file; `handed` is where systemd has laid a service's credentials, if it has."""
    try:
        # Not blocking: a pipe in its place would wait for ever. Not followed: a link could lead anywhere.
        handle = os.open(Path(place).expanduser(), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, RuntimeError) as error:
        why = os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else "no such home"
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            why = "it is a link, which could lead anywhere; name the file itself"
        raise SecretUnavailable(setting, why) from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise SecretUnavailable(setting, "it is not a plain file")
        # Such a file may be root's and name its reader in a list of its own, whose mask stands in the group's bits.
        given = bool(handed) and Path(place).parent == Path(handed) and found.st_uid == 0
        if found.st_uid != os.geteuid() and not given:
            raise SecretUnavailable(setting, "the file belongs to somebody else")
        if found.st_mode & (_OTHERS_BITS if given else _FORBIDDEN_BITS):
            raise SecretUnavailable(setting, "others may read the file; run `chmod 600` on it")
        data = os.read(handle, LARGEST + 1)
    except OSError as error:
        raise SecretUnavailable(setting, os.strerror(error.errno or 0).lower()) from None
    finally:
        os.close(handle)
    if len(data) > LARGEST:
        raise SecretUnavailable(setting, "the file is too large for a secret")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise SecretUnavailable(setting, "the file is not text") from None
