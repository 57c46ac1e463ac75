"""Boxes in the pods of a Kubernetes cluster: started by its API, spoken to over the stream of a command in them.

Nothing of this machine is mounted; the project travels over the same pipe as everything else. A pod ends when its
guest's input does, which is when this process, or the line, is gone. What stays of a pod then is its record, which
goes with the pod that this runs in, by the next start, or with the namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.identity import new_box_id
from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import WORKSPACE, BoxSpec, Probe
from kagura_kernel.sandbox.boot import guest_payload
from kagura_kernel.sandbox.box import (
    TRIAL_LIMITS,
    BoxStarter,
    Parked,
    PipedBox,
    freed_on_failure,
    identities,
    kind_of,
    refuse_further,
    refuse_roots,
    send_workspace,
)
from kagura_kernel.sandbox.channel import BoxChannel
from kagura_kernel.sandbox.docker.flags import DEFAULT_IMAGE
from kagura_kernel.sandbox.docker.volumes import State, state_of, still_so
from kagura_kernel.sandbox.kubernetes import pods
from kagura_kernel.sandbox.kubernetes.cluster import Cluster
from kagura_kernel.sandbox.kubernetes.pods import FILL, MAIN, PROBE_LABEL, Place
from kagura_kernel.sandbox.kubernetes.stream import ExecPipe
from kagura_kernel.sandbox.owner import owner_alive, this_owner
from kagura_kernel.sandbox.populate import copy_notes, missing_notes, send_project

NAME = "kubernetes"
UNCOUNTED = "the cluster, and not this box, limits how many processes it may have"
NOT_ENFORCED = (
    "Install a network plugin that enforces network policies (Calico, Cilium), or take a namespace where one does."
)
_PYTHON = "python3"
_HELLO_SECONDS = 30.0
# As long as a cluster may take to get another node.
_START_SECONDS = 180.0
_EXPLAIN_SECONDS = 4.0
_PAUSES = (0.05, 0.1, 0.2, 0.5)
# Exit code 0 when the API server, of which every container is told, can be reached.
_REACHES = """
import os, socket
try:
    where = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
    socket.create_connection(where, 3).close()
except OSError:
    raise SystemExit(3)
"""
_UNREACHED = 3
# gVisor's kernel has a release that no other one has, and says its name in its log where that may be read.
_ON_GVISOR = """
import ctypes, os
words = ctypes.create_string_buffer(1 << 16)
length = ctypes.CDLL(None).klogctl(3, words, len(words))
release = os.uname().release
if not (release == "4.4.0" or "gvisor" in release or b"gVisor" in words.raw[: max(length, 0)]):
    raise SystemExit(4)
"""
_OTHER_KERNEL = 4


@dataclass(frozen=True, slots=True)
class _Running:
    """A pod whose guest has answered."""

    id: str  # The box's, and the pod's name
    image: str
    channel: BoxChannel
    notes: tuple[str, ...]
    states: tuple[State, ...]  # What its further directories were


class KubernetesBackend(BoxStarter):
    """Starts boxes in one namespace; a `SandboxBackend` that can park.

    Args:
        cluster: The namespace.
        runtime_class: The cluster's own name of what runs pods; empty is its usual one. It decides the isolation class.
        default_image: What is taken where no image is asked for.
        warm_pool: The cluster's own pool of pods, of the SIG's agent-sandbox, that boxes are claimed from; empty where
            each box is a pod of its own.
        owner: Whose boxes these are; this process where none is named.
    """

    name = NAME

    def __init__(
        self,
        cluster: Cluster | None = None,
        *,
        runtime_class: str = "",
        default_image: str = DEFAULT_IMAGE,
        warm_pool: str = "",
        owner: str | None = None,
    ) -> None:
        super().__init__("Kubernetes")
        self._cluster = cluster or Cluster()
        self._runtime_class = runtime_class
        self.isolation = pods.isolation_of(runtime_class)
        self._default_image = default_image
        self._warm_pool = warm_pool
        self._owner = owner or this_owner()
        self._place: Place | None = None
        self._walled = ""
        self._walls = asyncio.Lock()
        self._claims: set[str] = set()

    async def probe(self, image: str | None = None) -> Probe:
        """Whether a box of that image starts and runs a command, behind walls that were tried; kept for a minute."""
        wanted = image or self._default_image
        return await self._probed(wanted, lambda: self._try_out(wanted))

    async def start(self, spec: BoxSpec) -> PipedBox:
        """A box with the project in it, ready for its first command; see `SandboxBackend.start`."""
        await self._wall()
        return await self._hand_over(await self._launch(spec), spec, warm=False)

    def parking_spec(self, spec: BoxSpec) -> BoxSpec | None:
        """Boxes wait without a workspace; one that nobody in the box may write is there from its start."""
        if spec.shown or spec.writable_root or not spec.policy.writable:
            return None
        return replace(spec, workspace=None)

    async def park(self, spec: BoxSpec) -> Parked:
        """A box that waits for a project; see `ParkingBackend.park`."""
        await self._wall()
        seen = identities(spec)
        running = await self._launch(spec)
        end = partial(self._free, running)
        if self._closed:
            await end()
            self._refuse_when_closed()

        async def take(wanted: BoxSpec) -> PipedBox:
            if not await still_so(running.states, spec.extra_read_only):
                await end()
                raise SandboxUnavailable("the parked box shows what has changed on this machine")
            return await self._hand_over(running, wanted, warm=True)

        self._open[running.id] = end
        return Parked(running.channel, lambda: identities(spec) == seen, take, end)

    async def sweep(self, alive: Callable[[str], bool] = owner_alive) -> int:
        """Remove pods whose owner is gone; how many. A cluster that does not answer has none."""
        removed = 0
        with contextlib.suppress(SandboxUnavailable):
            for pod in (*await self._cluster.pods(), *await self._cluster.pods(PROBE_LABEL)):
                if not alive(_owner_of(pod)):
                    await self._cluster.delete_pod(pod["metadata"]["name"])
                    removed += 1
            for claim in await self._cluster.claims() if self._warm_pool else ():
                if not alive(_owner_of(claim)):
                    await self._cluster.delete_claim(claim["metadata"]["name"])
                    removed += 1
        return removed

    async def close(self) -> None:
        """Close every box, parked ones too; may be called twice."""
        await self._close_boxes()
        self._cluster.close()

    # ------------------------------------------------------------------ walls

    async def _wall(self) -> None:
        """See to it that boxes have no network, once: a policy that nobody enforces is only a text.

        Raises:
            SandboxUnavailable: they have, or it cannot be found out.
        """
        async with self._walls:
            if self._walled:
                return
            await self._cluster.ensure_policy(pods.network_policy())
            tried = await asyncio.gather(self._reaches(boxed=False), self._reaches(boxed=True), return_exceptions=True)
            free, boxed = [_answered(one) for one in tried]
            if boxed:
                raise SandboxUnavailable(
                    "the cluster does not enforce network policies: a box has a network", NOT_ENFORCED
                )
            if not free:
                why = "that boxes have no network cannot be shown: a pod outside of the policy reaches nothing either"
                raise SandboxUnavailable(why, f"Let pods with the label {PROBE_LABEL} reach the cluster's API server.")
            self._walled = "a pod under the network policy reaches nothing"

    async def _reaches(self, *, boxed: bool) -> bool:
        """Whether a pod gets to the API server, of which the cluster tells every container."""
        name = new_box_id()
        looks = _ON_GVISOR if self.isolation is IsolationClass.GVISOR else ""
        argv = [_PYTHON, "-I", "-S", "-c", looks + _REACHES]
        body = pods.pod_body(name, BoxSpec(), self._default_image, lambda _: argv, await self._placed())
        if not boxed:
            body["metadata"]["labels"] = {PROBE_LABEL: name}
        async with freed_on_failure(partial(self._discard, name)):
            self._open[name] = lambda: self._discard(name)
            await self._cluster.create_pod(body)
            state = await self._until(name, MAIN, lambda state: state.ended)
        await self._discard(name)
        if state.exit_code == _OTHER_KERNEL:
            why = f"the runtime class {self._runtime_class} runs pods on the kernel of their node: it is not gVisor's"
            raise SandboxUnavailable(why, "Name another one, or none: `kubectl get runtimeclasses` lists them.")
        if state.exit_code not in (0, _UNREACHED):
            why = state.trouble.why if state.trouble is not None else "its pod ended"
            raise SandboxUnavailable(f"whether boxes have a network cannot be found out: {why}")
        return state.exit_code == 0

    # -------------------------------------------------------------- launching

    async def _launch(self, spec: BoxSpec) -> _Running:
        """A pod whose guest has answered, with everything in it but a workspace that the box may write."""
        self._refuse_unsupported(spec)
        states = tuple([await asyncio.to_thread(state_of, source) for source, _ in spec.extra_read_only])
        place = await self._placed()
        box_id = new_box_id()
        image = spec.image or self._default_image
        notes: tuple[str, ...] = (UNCOUNTED,)
        payload = guest_payload(pods.guest_config(spec), same_python=True)
        async with freed_on_failure(partial(self._discard, box_id)):
            self._open[box_id] = lambda: self._discard(box_id)
            if self._warm_pool and pods.claimable(spec, self._default_image):
                ends = datetime.now(UTC) + timedelta(seconds=pods.DEADLINE_SECONDS)
                body = pods.claim_body(box_id, self._warm_pool, place, ends.strftime("%Y-%m-%dT%H:%M:%SZ"))
                self._claims.add(box_id)
                await self._cluster.create_claim(body)
                pod = await self._claimed(box_id)
                await self._look_at(pod, place)
                notes += (f"what it may use is said by the cluster's pool {self._warm_pool}, and not by its order",)
            else:
                pod = box_id
                await self._cluster.create_pod(pods.pod_body(box_id, spec, image, _waits, place))
                if pods.must_be_filled(spec):
                    notes += await self._fill(box_id, spec)
            channel = await self._speak(pod, MAIN, payload, box_id)
        return _Running(box_id, image, channel, notes, states)

    async def _claimed(self, box_id: str) -> str:
        """The pod that a claim is given.

        Raises:
            SandboxUnavailable: it is given none in time.
        """
        begun = time.monotonic()
        for pause in _pauses():
            pod, waits = await self._cluster.claimed_pod(box_id)
            if pod:
                return pod
            if (passed := time.monotonic() - begun) > _START_SECONDS:
                why = f" ({waits})" if waits else ""
                raise SandboxUnavailable(f"the pool {self._warm_pool} gave no pod in {passed:.0f} s{why}")
            await asyncio.sleep(pause)
        raise RuntimeError("pauses do not end")

    async def _look_at(self, name: str, place: Place) -> None:
        """Raises `SandboxUnavailable` where a pod that others have described has not the walls of a box."""
        pod = await self._cluster.pod(name)
        if pod is None:
            raise SandboxUnavailable("its pod was removed before it began")
        if why := pods.weakness_of(pod, place):
            mend = "Make the pool from docs/operations/kubernetes-pool.yaml."
            raise SandboxUnavailable(f"a pod of the pool {self._warm_pool} is no box: {why}", mend)

    async def _fill(self, box_id: str, spec: BoxSpec) -> tuple[str, ...]:
        """Fill what nobody in the box may write, as another user, who leaves before the box begins."""
        payload = guest_payload(pods.guest_config(spec, filling=True), same_python=True)
        channel = await self._speak(box_id, FILL, payload, box_id)
        notes: tuple[str, ...] = ()
        try:
            if spec.workspace is not None and not spec.policy.writable:
                notes += copy_notes(spec, await send_workspace(channel, spec))
            for source, target in spec.extra_read_only:
                notes += missing_notes(
                    await send_project(channel, source, limit_bytes=pods.further_bytes(spec), into=target)
                )
            filled = [target for _, target in spec.extra_read_only]
            filled += [WORKSPACE] if not spec.policy.writable else []
            # What only its owner may read here is still part of what was handed over.
            await channel.run(Command(("chmod", "-R", "a+rX", "--", *filled)))
        finally:
            await channel.close()
        return notes

    async def _speak(self, pod: str, container: str, payload: bytes, box_id: str) -> BoxChannel:
        """The pipe to the guest of a container, once that runs and has said hello."""
        await self._until(pod, container, lambda state: state.running)
        pipe = ExecPipe(await self._cluster.execute(pod, container, pods.carrying_argv(_PYTHON, container)))

        async def explain() -> str:
            # Whatever ends it, the box is gone with its place unless the cluster says otherwise.
            channel.lost = True
            why, channel.lost = await self._explain(pod, container, pipe)
            return why

        channel = BoxChannel(box_id, pipe, explain=explain)
        channel.explain_seconds = _EXPLAIN_SECONDS
        channel.start(payload)
        async with freed_on_failure(channel.close):
            await channel.hello(_HELLO_SECONDS)
        return channel

    async def _until(self, name: str, container: str, holds: Callable[[pods.State], bool]) -> pods.State:
        """Wait until the cluster says so of a container; what it says.

        Raises:
            SandboxUnavailable: it never will, or does not in time; the text says why.
        """
        begun = time.monotonic()
        for pause in _pauses():
            pod = await self._cluster.pod(name)
            if pod is None:
                raise SandboxUnavailable("its pod was removed before it began")
            state = pods.state_of(pod, container)
            if holds(state):
                return state
            if state.trouble is not None:
                raise SandboxUnavailable(state.trouble.why, state.trouble.install or None)
            if (passed := time.monotonic() - begun) > _START_SECONDS:
                late = f"its pod has not begun in {passed:.0f} s"
                raise SandboxUnavailable(f"no node takes its pod ({state.waits})" if state.waits else late)
            await asyncio.sleep(pause)
        raise RuntimeError("pauses do not end")

    async def _explain(self, name: str, container: str, pipe: ExecPipe) -> tuple[str, bool]:
        """Why a box ended, and whether it was lost: the cluster knows a moment after its connection does."""
        deadline = time.monotonic() + _EXPLAIN_SECONDS / 2
        for pause in _pauses():
            try:
                pod = await self._cluster.pod(name)
            except SandboxUnavailable as error:
                return error.reason, True
            if pod is None:
                return "its pod was removed", True
            if (trouble := pods.state_of(pod, container).trouble) is not None:
                last = pipe.words.strip().splitlines()[-1:]
                return f"{trouble.why} ({last[0]})" if last else trouble.why, not trouble.own
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(pause)
        return "", True

    async def _placed(self) -> Place:
        if self._place is None:
            within = await self._cluster.own_pod()
            self._place = Place(self._runtime_class, self._owner, within)
        return self._place

    def _refuse_unsupported(self, spec: BoxSpec) -> None:
        self._refuse_when_closed()
        refuse_further(spec, self.name)
        refuse_roots(spec, self.name)
        if spec.shown:
            raise SandboxUnsupported(self.name, "showing files of this machine as they are")
        if spec.writable_root:
            raise SandboxUnsupported(self.name, "a writable root: pods that are root of nothing cannot have one")

    # ----------------------------------------------------------- handing over

    async def _hand_over(self, running: _Running, spec: BoxSpec, *, warm: bool) -> PipedBox:
        async with freed_on_failure(partial(self._free, running)):
            self._refuse_when_closed()
            left_out = await send_workspace(running.channel, spec) if spec.policy.writable else ()
            return self._opened(
                running.channel,
                lambda: self._discard(running.id),
                notes=(*running.notes, *copy_notes(spec, left_out)),
                warm=warm,
                image=running.image,
                kind=kind_of(spec),
            )

    async def _free(self, running: _Running) -> None:
        await running.channel.close()
        await self._discard(running.id)

    async def _discard(self, box_id: str) -> None:
        """Remove a pod, whatever state it is in."""
        # A cluster that does not answer is asked again by the next start's sweep; the pod has its deadline.
        with contextlib.suppress(SandboxUnavailable):
            if box_id in self._claims:
                await self._cluster.delete_claim(box_id)
            else:
                await self._cluster.delete_pod(box_id)
        self._claims.discard(box_id)
        self._open.pop(box_id, None)

    async def _try_out(self, image: str) -> Probe:
        held, missing = await self._cluster.rights()
        if missing:
            may_not = f"this account may not {', '.join(missing)} in {self._cluster.namespace}"
            return Probe(ok=False, reason=may_not, install="Apply docs/operations/kubernetes.yaml, or ask for it.")
        result = await self._ran(BoxSpec(image=image), shell_command("true", limits=TRIAL_LIMITS))
        if not result.ok:
            return Probe(ok=False, reason=f"a box of {image} cannot run `true`")
        how = f"runtime class {self._runtime_class}, " if self._runtime_class else ""
        with_rights = f"with the rights {', '.join(held)}"
        ran = f"a pod in {self._cluster.namespace} ran a command, {how}{self._walled}, {with_rights}"
        return Probe(ok=True, reason=ran)


def _answered(answer: bool | BaseException) -> bool:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _waits(container: str) -> list[str]:
    return pods.waiting_argv(_PYTHON, container)


def _owner_of(thing: Mapping[str, Any]) -> str:
    return str((thing["metadata"].get("annotations") or {}).get(pods.OWNER_NOTE, ""))


def _pauses() -> Iterator[float]:
    yield from _PAUSES
    while True:
        yield _PAUSES[-1]
