"""All back-ends of one process, each behind a warm pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.domain.errors import ExtensionBroken, IsolationTooWeak
from kagura_kernel.domain.policy import HOST, IsolationClass, PermissionMode, SandboxPolicy
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.sandbox.backend import Box, BoxSpec, Probe, SandboxBackend
from kagura_kernel.sandbox.pool import WarmPool
from kagura_kernel.sandbox.selection import BUILT_IN, SHARED_NEEDS, LaunchedBox, choose, is_shared, registered

if TYPE_CHECKING:
    from kagura_kernel.runtime.host_box import HostBackend

# The walls of our own back-ends, known before one is made: a shared deployment is refused before anything starts.
_BUILT_IN_WALLS = {
    "docker": IsolationClass.CONTAINER,
    "bubblewrap": IsolationClass.NAMESPACE,
    "gvisor": IsolationClass.GVISOR,
    "ssh": IsolationClass.NAMESPACE,
}


class Boxes:
    """All back-ends of this process, each behind a warm pool; made on the engine's loop when first needed.

    Args:
        environ: Variables.
        settings: The user's.
        owner: This process.
        one_run: Whether it is here for one run, behind which no box has to wait for the next.

    Raises:
        IsolationTooWeak: others share this machine, and no back-end here is strong enough for that.
    """

    def __init__(self, environ: Mapping[str, str], settings: Settings, owner: str, *, one_run: bool = False) -> None:
        self._environ = dict(environ)
        self._settings = settings
        self._owner = owner
        self._third_parties = registered()
        # Whether others share this machine, so that weak walls are refused
        self.shared = is_shared(settings.shared or None, environ.get("JUPYTERHUB_USER"))
        if self.shared:
            self._demand_walls()
        self._one_run = one_run
        self._on_host: HostBackend | None = None
        self._backends: _Lazily | None = None
        self._sweeps: set[asyncio.Task[int]] = set()

    @property
    def names(self) -> tuple[str, ...]:
        """What `--box` takes, beside `auto`."""
        return (*BUILT_IN, *self._third_parties.backends)

    @property
    def broken(self) -> Mapping[str, ExtensionBroken]:
        """What other packages bring and cannot be used, by the name that `--box` would take."""
        return self._third_parties.broken

    async def start(self, name: str, spec: BoxSpec) -> LaunchedBox:
        """Choose a back-end and start a box; see `StartBox`."""
        if name == HOST or not spec.policy.walled:
            policy = spec.policy
            by_policy = f"the policy of your settings is {policy.type}"
            why = "the setting `fallback_to_host` is on" if policy.walled else by_policy
            return LaunchedBox(await self._host().start(spec), why)
        started: Box | None = None

        async def tried(backend: SandboxBackend) -> Probe:
            nonlocal started
            if not isinstance(backend, WarmPool):
                return await backend.probe(spec.image)
            probe, started = await backend.try_out(spec)
            return probe

        made = self._made()
        choice = await choose(
            name,
            made,
            image=spec.image,
            image_required=spec.image_required,
            shared=self.shared,
            order=self._settings.boxes,
            probe=tried,
        )
        return LaunchedBox(started or await choice.backend.start(spec), choice.reason)

    async def start_jail(self, name: str, spec: BoxSpec) -> Box:
        """A box for a plugin, of which no other waits behind it.

        By itself it takes bubblewrap: it starts in milliseconds, and can show a jail the paths that a person named.

        Raises:
            SandboxError: it cannot be had.
        """
        made = self._made()
        if name == "auto":
            quick = made["bubblewrap"]
            name = "bubblewrap" if not self.shared and (await quick.probe()).ok else "auto"
        choice = await choose(name, made, shared=self.shared)
        pool = choice.backend
        return await (pool.start_alone(spec) if isinstance(pool, WarmPool) else pool.start(spec))

    async def probe(self) -> list[PartStatus]:
        """Every back-end's state, by starting a box of each; of those elsewhere where the settings speak of them."""
        every, elsewhere = self._made(), {"ssh": self._settings.ssh_host, "kubernetes": self._in_a_cluster()}
        wanted = (*self._settings.boxes, self._settings.box)
        made = {name: every[name] for name in every if name in wanted or elsewhere.get(name, True)}
        probes = await asyncio.gather(*(backend.probe() for backend in made.values()))
        return [
            PartStatus(
                name,
                probe.ok,
                ". ".join(filter(None, (probe.reason, probe.install))),
                isolation=made[name].isolation.label,
                advice=probe.advice,
                install=probe.install,
            )
            for name, probe in zip(made, probes, strict=True)
        ]

    async def sweep(self) -> None:
        """Free what processes that are gone have left, without waiting for a box to be wanted."""
        self._made()

    async def close(self) -> None:
        """Close every box and pool; may be called twice."""
        for sweep in self._sweeps:
            sweep.cancel()
        if self._sweeps:
            await asyncio.wait(self._sweeps)
        for backend in list(self._backends.made.values()) if self._backends else ():
            await backend.close()
        if self._on_host is not None:
            await self._on_host.close()

    def _demand_walls(self) -> None:
        """Refuse to start at all where others share the machine and the settings name a back-end that is too weak.

        Whether a strong one works here is found out by starting a box of it; `auto` takes no weaker one meanwhile.
        """
        settings = self._settings
        without_walls = {
            f'`policy = "{settings.policy}"`': not SandboxPolicy(settings.policy).walled,
            "`fallback_to_host = true`": settings.fallback_to_host,
            '`permission_mode = "full_control"`': settings.permission_mode is PermissionMode.FULL_CONTROL,
        }
        if said := next((words for words, holds in without_walls.items() if holds), ""):
            raise IsolationTooWeak(f"the setting {said}", IsolationClass.NONE.label, SHARED_NEEDS.label)
        from kagura_kernel.sandbox.kubernetes.pods import isolation_of

        in_pods = {"kubernetes": isolation_of(settings.kubernetes_runtime_class)}
        walls = (
            _BUILT_IN_WALLS | in_pods | {name: found.isolation for name, found in self._third_parties.backends.items()}
        )
        named = walls.get(settings.box, SHARED_NEEDS)
        if named < SHARED_NEEDS:
            raise IsolationTooWeak(settings.box, named.label, SHARED_NEEDS.label)

    def _host(self) -> HostBackend:
        if self._on_host is None:
            from kagura_kernel.runtime.host_box import HostBackend

            self._on_host = HostBackend()
        return self._on_host

    def _made(self) -> Mapping[str, SandboxBackend]:
        if self._backends is None:
            own = {
                "docker": self._docker,
                "bubblewrap": self._bubblewrap,
                "gvisor": self._gvisor,
                "kubernetes": self._kubernetes,
                "ssh": self._ssh,
            }
            others = {name: partial(_itself, backend) for name, backend in self._third_parties.backends.items()}
            self._backends = _Lazily(own | others, 0 if self._one_run else self._settings.pool_size)
            if not self._one_run:
                # It sweeps, whichever back-end is wanted.
                self._backends["docker"]
        return self._backends

    def _docker(self) -> SandboxBackend:
        from kagura_kernel.sandbox.docker.backend import DockerBackend
        from kagura_kernel.sandbox.docker_endpoint import endpoint_from

        docker = DockerBackend(endpoint_from(self._environ), owner=self._owner)
        # What a killed process left at the daemon goes now, behind whatever is being started.
        self._sweep_behind(docker.sweep(owner_alive))
        return docker

    def _sweep_behind(self, sweep: Coroutine[Any, Any, int]) -> None:
        task = asyncio.create_task(sweep, name="sweep boxes")
        task.add_done_callback(_heard)
        self._sweeps.add(task)

    def _bubblewrap(self) -> SandboxBackend:
        from kagura_kernel.sandbox.bubblewrap import BubblewrapBackend

        return BubblewrapBackend()

    def _gvisor(self) -> SandboxBackend:
        from kagura_kernel.sandbox.docker.backend import DockerBackend
        from kagura_kernel.sandbox.docker_endpoint import endpoint_from
        from kagura_kernel.sandbox.gvisor import GVisorBackend, RunscBackend

        docker = DockerBackend(endpoint_from(self._environ), owner=self._owner, gvisor=True)
        return GVisorBackend(docker, RunscBackend())

    def _in_a_cluster(self) -> bool:
        """Whether there is a word of a cluster: of the person, or because this runs in one."""
        named = self._settings.kubernetes_namespace or self._settings.kubernetes_context
        return bool(named or self._environ.get("KUBERNETES_SERVICE_HOST"))

    def _kubernetes(self) -> SandboxBackend:
        from kagura_kernel.sandbox.kubernetes.backend import KubernetesBackend
        from kagura_kernel.sandbox.kubernetes.cluster import Cluster

        settings = self._settings
        cluster = Cluster(settings.kubernetes_namespace, context=settings.kubernetes_context)
        backend = KubernetesBackend(
            cluster,
            runtime_class=settings.kubernetes_runtime_class,
            warm_pool=settings.kubernetes_warm_pool,
            owner=self._owner,
        )
        self._sweep_behind(backend.sweep(owner_alive))
        return backend

    def _ssh(self) -> SandboxBackend:
        from kagura_kernel.sandbox.ssh.backend import SshBackend

        settings = self._settings
        return SshBackend(settings.ssh_host, python=settings.ssh_python, config=settings.ssh_config)


class _Lazily(Mapping[str, SandboxBackend]):
    """Back-ends by name, each made behind a pool of this size when it is first looked at."""

    def __init__(self, makers: Mapping[str, Callable[[], SandboxBackend]], size: int) -> None:
        self.made: dict[str, SandboxBackend] = {}  # Those that were
        self._makers = makers
        self._size = size

    def __getitem__(self, name: str) -> SandboxBackend:
        if name not in self.made:
            self.made[name] = WarmPool(self._makers[name](), size=self._size)
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers


def _itself(backend: SandboxBackend) -> SandboxBackend:
    return backend


def _heard(task: asyncio.Task[int]) -> None:
    # A sweep that fails finds the same containers again next time; nothing depends on it.
    if not task.cancelled():
        task.exception()
