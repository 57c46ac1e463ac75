"""Which back-end a run gets, and why: by name, or the first that works in a fixed order, or a clear no."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import EntryPoint

from kagura_kernel.domain.errors import ExtensionBroken, IsolationTooWeak, SandboxUnavailable, UnknownName
from kagura_kernel.domain.extensions import BACKENDS, Extension, installed, load
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.policy import HOST, IsolationClass
from kagura_kernel.sandbox.backend import Box, BoxSpec, Probe, SandboxBackend

AUTO = "auto"
BUILT_IN = ("docker", "bubblewrap", "gvisor", "kubernetes", "ssh")
"""Names of our own, in the order in which `auto` tries them; nobody else can take one."""

BY_NAME = ("gvisor", "kubernetes", "ssh")
"""Those that `auto` leaves alone unless the deployment is shared: slower, and stronger or farther than one needs."""

_OTHERWISE = (
    "If this machine is a sandbox itself, such as a container or a hosted notebook, the setting "
    '`policy = "external_sandbox"` says so; `fallback_to_host = true` asks for each command.'
)

WITHOUT_IMAGES = ("bubblewrap", "ssh")
"""Those of our own whose boxes are made of a machine's own system, whatever image is asked for."""

SHARED_NEEDS = IsolationClass.GVISOR


@dataclass(frozen=True, slots=True)
class Choice:
    """A back-end that works."""

    backend: SandboxBackend  # it
    reason: str  # why this one, in half a sentence, for the cell's header


@dataclass(frozen=True, slots=True)
class LaunchedBox:
    """A box and why it is of this kind."""

    box: Box
    reason: str
    free: Callable[[], None] = lambda: None  # Gives back what it takes of a quota; for when it is closed


StartBox = Callable[[str, BoxSpec], Awaitable[LaunchedBox]]
"""Choose a back-end by name, or by itself for `auto`, and start a box; raises `SandboxError` or `WorkspaceError`."""


@dataclass(frozen=True, slots=True)
class Registered:
    """What third parties offer."""

    backends: Mapping[str, SandboxBackend]  # those that could be made, by name
    broken: Mapping[str, ExtensionBroken]  # why each of the others could not, by its name


def is_shared(setting: bool | None, jupyterhub_user: str | None) -> bool:
    """Whether several people use this deployment: the setting decides, else the presence of JupyterHub's variable."""
    return bool(jupyterhub_user) if setting is None else setting


async def choose(
    name: str,
    backends: Mapping[str, SandboxBackend],
    *,
    image: str | None = None,
    image_required: bool = False,
    shared: bool = False,
    order: Sequence[str] = (),
    probe: Callable[[SandboxBackend], Awaitable[Probe]] | None = None,
) -> Choice:
    """The back-end for `--box NAME`, of those that exist here.

    With `image_required`, `auto` leaves out the back-ends that have no images. A `shared` deployment refuses weaker
    walls than gVisor's. `order` names those that `auto` tries, in place of the usual ones. `probe` finds out whether
    one works; None asks it.

    Raises:
        UnknownName: no back-end has that name, or one that the order names.
        IsolationTooWeak: the deployment is shared and the back-end's walls (with `auto`: all of them) are too weak.
        SandboxUnavailable: it does not work here; the text names what to install.
    """

    async def asked(backend: SandboxBackend) -> Probe:
        return await backend.probe(image)

    tried = probe or asked
    if name == AUTO:
        candidates, failed = _candidates(backends, order, shared=shared)
        without_images = WITHOUT_IMAGES if image_required else ()
        return await _first_that_works(candidates, failed, tried, image, without_images, ordered=bool(order))
    if name not in backends:
        raise UnknownName("box", name, [AUTO, *_in_order(backends)])
    backend = backends[name]
    if shared:
        _demand_walls(backend)
    found = await tried(backend)
    if not found.ok:
        raise SandboxUnavailable(f"{name}: {found.reason}", found.install or None)
    return Choice(backend, f"asked for; {found.reason}")


_Failed = tuple[str, str, str]
"""A back-end that is passed over, why, and what would mend it."""


def _candidates(
    backends: Mapping[str, SandboxBackend], order: Sequence[str], *, shared: bool
) -> tuple[list[SandboxBackend], list[_Failed]]:
    """Those that `auto` tries, and those that it passes over unseen.

    Raises:
        UnknownName: the order names one that does not exist.
        IsolationTooWeak: all of them are too weak.
    """
    for name in order:
        if name not in backends:
            raise UnknownName("box", name, _in_order(backends))
    # One that is not asked for is not even made.
    names = order or [name for name in _in_order(backends) if shared or name not in BY_NAME]
    candidates = [backends[name] for name in names]
    if not shared or not candidates:
        return candidates, []
    strong = [backend for backend in candidates if backend.isolation >= SHARED_NEEDS]
    if not strong:
        _demand_walls(max(candidates, key=lambda backend: backend.isolation))
    weak = [one for one in candidates if one not in strong] if order else []
    return strong, [(one.name, f"{one.isolation.label} walls are too weak where others share", "") for one in weak]


async def _first_that_works(
    candidates: Sequence[SandboxBackend],
    failed: list[_Failed],
    tried: Callable[[SandboxBackend], Awaitable[Probe]],
    image: str | None,
    without_images: Sequence[str],
    *,
    ordered: bool,
) -> Choice:
    for backend in candidates:
        if backend.name in without_images:
            failed.append((backend.name, f"it has no images, and {image} was asked for", ""))
            continue
        found = await tried(backend)
        if found.ok:
            return Choice(backend, _why(failed, found, ordered=ordered))
        failed.append((backend.name, found.reason, found.install))
    if not failed:
        raise SandboxUnavailable("no back-end is registered")
    reasons = "; ".join(f"{name}: {reason}" for name, reason, _ in failed)
    installs = " ".join(f"For {name}: {install}" for name, _, install in failed if install)
    raise SandboxUnavailable(reasons, f"{installs} {_OTHERWISE}".lstrip())


def _why(failed: Sequence[_Failed], found: Probe, *, ordered: bool) -> str:
    """Why the one that was found; what was preferred and did not work is the better half of the reason."""
    if not ordered:
        return failed[0][1] if failed else found.reason
    passed = [f"{name}: {reason}" for name, reason, _ in failed]
    return "; ".join(["by the order in the settings", *passed]) if passed else f"first in the settings; {found.reason}"


def _demand_walls(backend: SandboxBackend) -> None:
    if backend.isolation < SHARED_NEEDS:
        raise IsolationTooWeak(backend.name, backend.isolation.label, SHARED_NEEDS.label)


def _in_order(backends: Mapping[str, SandboxBackend]) -> list[str]:
    ours = [name for name in BUILT_IN if name in backends]
    return ours + sorted(name for name in backends if name not in BUILT_IN)


def registered(found: list[EntryPoint] | None = None) -> Registered:
    """Back-ends of installed packages, each made by the callable that its entry point names.

    One that is broken is left out and told; it never stops the others.
    """
    backends: dict[str, SandboxBackend] = {}
    broken: dict[str, ExtensionBroken] = {}
    for name, extension in installed(BACKENDS, (*BUILT_IN, AUTO, HOST), found=found).items():
        try:
            backends[name] = load_backend(extension)
        except ExtensionBroken as error:
            broken[name] = error
    return Registered(backends, broken)


def load_backend(extension: Extension) -> SandboxBackend:
    """A back-end of another package. Raises `ExtensionBroken` when it is none."""

    def make(named: object) -> SandboxBackend:
        backend: SandboxBackend = named()  # type: ignore[operator] # what is wrong with it is told
        if backend.name != extension.name or not isinstance(backend.isolation, IsolationClass):
            raise TypeError(f"it calls itself {backend.name!r}, of class {backend.isolation!r}")
        return backend

    return load(extension, make)
