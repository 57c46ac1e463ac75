"""What a box is made of in a cluster's words, and what a cluster says of one. Pure.

A pod has no service account token, no capability, no new privileges, no way to be root, a read-only root, the
runtime's own filter of system calls, limits from the order, and a deadline. Its workspace, home and /tmp are memory
that counts against its own. What nobody in the box may write is filled by another container of the pod, as another
user, before the box's own begins, and is mounted read-only in that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kagura_kernel.domain.late_dataclass import dataclass, replace
from kagura_kernel.domain.policy import IsolationClass
from kagura_kernel.sandbox.backend import WORKSPACE, BoxSpec
from kagura_kernel.sandbox.boot import STUB, GuestConfig
from kagura_kernel.sandbox.box import sizes
from kagura_kernel.sandbox.docker.flags import guest_config as in_container
from kagura_kernel.sandbox.docker.volumes import LARGEST
from kagura_kernel.sandbox.supervisor.arguments import HOME

BOX_LABEL = "kagura.box"
PROBE_LABEL = "kagura.probe"
OWNER_NOTE = "kagura.owner"
"""An annotation: the process that a pod belongs to, which is no label's text."""

MAIN, FILL = "box", "fill"
"""Containers of a pod."""

POLICY = "kagura-boxes"
"""Name of the network policy."""

SANDBOXES, CLAIMS, CLAIMS_VERSION = "agents.x-k8s.io", "extensions.agents.x-k8s.io", "v1beta1"
"""API groups of the SIG's agent-sandbox, and their version."""

POD_NOTE = "agents.x-k8s.io/pod-name"
"""An annotation of a sandbox: its pod, where that has another name."""

DEADLINE_SECONDS = 24 * 3600
"""When the cluster ends a pod, whatever becomes of everybody else."""

_USER, _FILLER = 65532, 65533
_PULLS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_BROKEN = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


def isolation_of(runtime_class: str) -> IsolationClass:
    """How strong the walls of pods with this `runtimeClassName` are, by its usual names."""
    if "kata" in runtime_class or "firecracker" in runtime_class:
        return IsolationClass.MICROVM
    if "gvisor" in runtime_class or "runsc" in runtime_class:
        return IsolationClass.GVISOR
    return IsolationClass.CONTAINER


@dataclass(frozen=True, slots=True)
class Place:
    """How pods are made."""

    runtime_class: str = ""  # Of the cluster; empty is its usual one
    owner: str = ""  # The process that they belong to
    # The pod that this process runs in, as an owner reference: the cluster removes its boxes with it.
    within: Mapping[str, str] | None = None


def pod_body(
    name: str, spec: BoxSpec, image: str, argv: Callable[[str], Sequence[str]], place: Place
) -> dict[str, Any]:
    """The manifest of a box; `argv` gives the command line of a container."""
    filled = must_be_filled(spec)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _about(name, place),
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostname": "box",
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["127.0.0.1"]},
            **({"runtimeClassName": place.runtime_class} if place.runtime_class else {}),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "fsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": [_volume(name, size) for name, _, size, _ in _places(spec)],
            **({"initContainers": [_container(FILL, spec, image, argv(FILL), _FILLER)]} if filled else {}),
            "containers": [_container(MAIN, spec, image, argv(MAIN), _USER)],
        },
    }


def claimable(spec: BoxSpec, usual_image: str) -> bool:
    """Whether a pod that was made before anybody asked will do: it has the usual image, and nothing read-only."""
    return spec.image in (None, usual_image) and spec.policy.writable and not spec.extra_read_only


def claim_body(name: str, pool: str, place: Place, ends: str) -> dict[str, Any]:
    """The manifest of a claim of a pod from a warm pool, which the cluster takes back at `ends` (RFC 3339)."""
    return {
        "apiVersion": f"{CLAIMS}/{CLAIMS_VERSION}",
        "kind": "SandboxClaim",
        "metadata": _about(name, place),
        "spec": {
            "warmPoolRef": {"name": pool},
            "lifecycle": {"shutdownTime": ends, "shutdownPolicy": "Delete", "ttlSecondsAfterFinished": 60},
            "additionalPodMetadata": {"labels": {BOX_LABEL: name}},
        },
    }


def pool_bodies(name: str, image: str, python: str, *, size: int = 2, runtime_class: str = "") -> list[dict[str, Any]]:
    """The manifests of a warm pool of boxes, and of the template that its pods are made from."""
    argv = partial(waiting_argv, python, patience=0)
    body = pod_body(name, BoxSpec(), image, argv, Place(runtime_class))
    # A pod may wait for days; its claim has the deadline.
    spec = {key: value for key, value in body["spec"].items() if key != "activeDeadlineSeconds"}
    version = f"{CLAIMS}/{CLAIMS_VERSION}"
    template = {"metadata": {"labels": {BOX_LABEL: "waits"}}, "spec": spec}
    return [
        {
            "apiVersion": version,
            "kind": "SandboxTemplate",
            "metadata": {"name": name},
            "spec": {"podTemplate": template},
        },
        {
            "apiVersion": version,
            "kind": "SandboxWarmPool",
            "metadata": {"name": name},
            "spec": {"replicas": size, "sandboxTemplateRef": {"name": name}},
        },
    ]


def weakness_of(pod: Mapping[str, Any], place: Place) -> str:
    """What of a pod that somebody else has described makes it no box, in half a sentence; empty when nothing does."""
    spec = pod["spec"]
    containers = spec.get("containers") or ()
    main: Mapping[str, Any] = next((one for one in containers if one.get("name") == MAIN), {})
    wanted = pod_body("", BoxSpec(), "", lambda _: (), place)["spec"]
    pods = [one.get("securityContext") or {} for one in (wanted, spec)]
    # What a container says of itself counts before what its pod says.
    own = [
        {**pod, **(one.get("securityContext") or {})}
        for pod, one in zip(pods, (wanted["containers"][0], main), strict=True)
    ]
    weak = {
        # One that is started before and goes on beside it is called an init container too.
        f"it has other containers than {MAIN}": len(containers) != 1
        or not main
        or spec.get("ephemeralContainers")
        or any(one.get("restartPolicy") for one in spec.get("initContainers") or ()),
        "it has another runtime class": str(spec.get("runtimeClassName") or "") != place.runtime_class,
        f"no network policy is about it, without a label {BOX_LABEL}": BOX_LABEL
        not in (pod["metadata"].get("labels") or {}),
        "it may have a service account's token": spec.get("automountServiceAccountToken") is not False,
        "it shares the node's network, processes or memory": any(
            spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")
        ),
        "it has volumes that are not its own memory": any(
            set(volume) - {"name"} != {"emptyDir"} or (volume["emptyDir"] or {}).get("medium") != "Memory"
            for volume in spec.get("volumes") or ()
        ),
        "it sees more of its node's kernel than a box": own[1].get("procMount", "Default") != "Default",
        "its security context is not that of a box": any(
            its.get(key) != value for ours, its in (pods, own) for key, value in ours.items()
        ),
    }
    return next((why for why, holds in weak.items() if holds), "")


def _about(name: str, place: Place) -> dict[str, Any]:
    return {
        "name": name,
        "labels": {BOX_LABEL: name},
        "annotations": {OWNER_NOTE: place.owner},
        **({"ownerReferences": [dict(place.within)]} if place.within else {}),
    }


def must_be_filled(spec: BoxSpec) -> bool:
    """Whether something is in the box that nobody in it may write."""
    return bool(spec.extra_read_only) or (spec.workspace is not None and not spec.policy.writable)


def _places(spec: BoxSpec) -> Iterator[tuple[str, str, int, bool]]:
    """(volume, path in the box, bytes, whether the box may write there)."""
    size = sizes(spec.limits)
    yield "workspace", WORKSPACE, size.workspace, spec.policy.writable
    yield "home", HOME, size.home, True
    yield "tmp", "/tmp", size.temporary, True  # noqa: S108 - the box's own
    yield "shm", "/dev/shm", size.shared, True  # noqa: S108 - likewise
    for number, (_, target) in enumerate(spec.extra_read_only):
        yield f"further-{number}", target, further_bytes(spec), False


def further_bytes(spec: BoxSpec) -> int:
    """How much a further directory may have: no more than the memory that it takes."""
    return min(LARGEST, sizes(spec.limits).workspace)


def _volume(name: str, size: int) -> dict[str, Any]:
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": str(size)}}


def _container(name: str, spec: BoxSpec, image: str, argv: Sequence[str], user: int) -> dict[str, Any]:
    limits = spec.limits
    most = {"memory": str(limits.memory_bytes), "cpu": f"{round(limits.cpus * 1000)}m"}
    return {
        "name": name,
        "image": image,
        "command": list(argv),
        "workingDir": "/",
        "stdin": False,
        "tty": False,
        # What is asked for is little: a cluster that had to set the most aside would be full of idle boxes.
        "resources": {"limits": most, "requests": {"memory": str(min(limits.memory_bytes, 128 * 2**20)), "cpu": "50m"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "runAsUser": user,
        },
        "volumeMounts": [
            {"name": volume, "mountPath": path, "readOnly": name == MAIN and not writable}
            for volume, path, _, writable in _places(spec)
        ],
    }


_WAIT = """
import socket, os, sys
door = socket.socket(socket.AF_UNIX)
door.bind("\\0" + sys.argv[1])
door.listen(1)
door.settimeout(float(sys.argv[2]) or None)
try:
    line, _ = door.accept()
except OSError:
    sys.exit(4)
door.close()
line.settimeout(None)
for place in (0, 1):
    os.dup2(line.fileno(), place)
line.close()
exec(sys.argv[3])
"""
_CARRY = """
import ctypes, os, select, socket, sys, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
line = socket.socket(socket.AF_UNIX)
for again in range(500):
    try:
        line.connect("\\0" + sys.argv[1])
        break
    except OSError:
        time.sleep(0.02)
ends = {0: line.fileno(), line.fileno(): 1}
while ends:
    for source in select.select(list(ends), [], [])[0]:
        data = os.read(source, 1 << 18)
        if not data:
            sys.exit(0)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(ends[source], rest):]
"""
PATIENCE = 300
"""Seconds that a pod waits for whoever made it; then it ends."""


def waiting_argv(python: str, container: str, *, patience: int = PATIENCE) -> list[str]:
    """What a container runs: it waits for one line, once, and then for a guest on that.

    What a container writes to its standard output is kept by its node, and may be sent to who knows where. What passes
    on the stream of a command in it is not. So a command (`carrying_argv`) brings the line. `patience` 0 has no end.
    """
    return [python, "-I", "-S", "-c", _WAIT, f"kagura-{container}", str(patience), STUB]


def carrying_argv(python: str, container: str) -> list[str]:
    """The command that carries its standard input and output to the guest of this container of its pod."""
    return [python, "-I", "-S", "-c", _CARRY, f"kagura-{container}"]


def guest_config(spec: BoxSpec, *, filling: bool = False) -> GuestConfig:
    """What a guest is told about its box; the one that fills it may write."""
    config = in_container(spec, ())
    return replace(config, writable=True) if filling else config


def network_policy() -> dict[str, Any]:
    """What denies boxes every connection, in and out."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "podSelector": {"matchExpressions": [{"key": BOX_LABEL, "operator": "Exists"}]},
            "policyTypes": ["Ingress", "Egress"],
        },
    }


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a pod."""

    why: str  # Half a sentence
    install: str = ""  # What a person can do
    own: bool = False  # Whether it is what ran in the pod, and not the cluster, that ended it


@dataclass(frozen=True, slots=True)
class State:
    """What the cluster says of one container of a pod."""

    running: bool = False
    ended: bool = False
    exit_code: int | None = None  # Of one that has ended by itself
    trouble: Trouble | None = None
    waits: str = ""  # What it waits for, in the cluster's words


def state_of(pod: Mapping[str, Any], container: str) -> State:
    """How far a container is."""
    status = pod.get("status") or {}
    if (phase := status.get("phase")) == "Failed" and status.get("reason"):
        return State(ended=True, trouble=_failed(status))
    every = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    for one in every:
        waiting = (one.get("state") or {}).get("waiting") or {}
        if (reason := str(waiting.get("reason") or "")) in (*_PULLS, *_BROKEN):
            return State(trouble=_broken(reason, str(waiting.get("message") or ""), one.get("image", "")))
    for one in every:
        state = one.get("state") or {}
        ended = state.get("terminated")
        # What fills a box is of no interest once it has done so.
        if one.get("name") == container or (ended and ended.get("exitCode")):
            if ended:
                return State(ended=True, exit_code=ended.get("exitCode"), trouble=_terminated(ended))
            if state.get("running") is not None:
                return State(running=True)
    if phase in ("Failed", "Succeeded"):
        return State(ended=True, trouble=Trouble(f"its pod has ended ({phase})"))
    return State(waits=_unscheduled(status))


def _failed(status: Mapping[str, Any]) -> Trouble:
    reason, message = str(status["reason"]), str(status.get("message") or "").strip().rstrip(".")
    if reason == "Evicted":
        return Trouble(f"the cluster evicted its pod ({message})", "Give it less to keep, or a larger `memory_mib`.")
    if reason == "DeadlineExceeded":
        return Trouble("its pod reached its deadline")
    return Trouble(f"its pod failed: {reason}" + (f" ({message})" if message else ""))


def _broken(reason: str, message: str, image: str) -> Trouble:
    told = f" ({message.strip().rstrip('.')})" if message else ""
    if reason in _PULLS:
        push = "Push the image where the cluster's nodes find it, and name it with `image` in your settings."
        return Trouble(f"image {image} cannot be pulled{told}", push)
    return Trouble(f"its container cannot be made: {reason}{told}")


def _terminated(ended: Mapping[str, Any]) -> Trouble:
    if ended.get("reason") == "OOMKilled":
        return Trouble("it ran out of memory", own=True)
    message = str(ended.get("message") or "").strip().rstrip(".")
    code = ended.get("exitCode")
    # A guest ends well when its input does.
    return Trouble(f"it ended with exit code {code}" + (f" ({message[:300]})" if message else ""), own=code != 0)


def _unscheduled(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "").strip().rstrip(".")
    return ""
