"""A cluster for tests: an API server on loopback that speaks of pods and their streams as Kubernetes does.

What it answers follows the API's own schema: objects, their states, `Status` of errors with reason and code, the
channels of `v5.channel.k8s.io`. A pod's containers are programs that bubblewrap keeps apart. It knows the faults that
a person meets: rights that are missing, a quota that is used up, an image that cannot be pulled, no node with room, an
eviction, a node that is lost, a stream that is cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
import threading
import uuid
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tornado import httpserver, netutil, web, websocket

from kagura_kernel.sandbox.kubernetes.pods import POD_NOTE
from kagura_kernel.sandbox.supervisor import cgroups
from tests.support.control_groups import here
from tests.support.tls import authority, serving

NAMESPACE = "boxes"
TOKEN = "a-token-of-the-tests"
IMAGE = "kagura/python:latest"
_PIECE = 1 << 16
_CLOSED = 255
_NUMBERS = count(1_000_000)
"""Of control groups and pods: apart from those of the supervisors of this process."""
_PROCESSES = 512
"""What a node lets a pod have."""
_ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs"; shift; done; shift; exec "$@"'
_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "AlreadyExists", 422: "Invalid"}


class Refused(Exception):
    """An answer that is an error, as a `Status` object."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass
class Faults:
    """What goes wrong from now on."""

    enforces: bool = True  # Whether network policies mean anything
    reaches_nothing: bool = False  # Whether pods have no network anyway
    forbidden: set[tuple[str, str]] = field(default_factory=set)  # (verb, resource) that the account may not
    pods_at_most: int = 1000  # The quota
    images: tuple[str, ...] = (IMAGE,)  # That nodes can pull
    unschedulable: str = ""  # What the scheduler says
    exhausted: str = ""  # Why pools give nothing


@dataclass
class Pod:
    """One pod, and what runs in it."""

    body: dict[str, Any]
    folder: Path
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: list[dict[str, Any]] = field(default_factory=list)
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    groups: list[cgroups.Group] = field(default_factory=list)
    life: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    def told(self) -> dict[str, Any]:
        """As the API tells it."""
        spec = self.body["spec"]
        status: dict[str, Any] = {"phase": self.phase, "conditions": self.conditions}
        status |= {key: value for key, value in (("reason", self.reason), ("message", self.message)) if value}
        for kind, key in (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")):
            found = [self.statuses[one["name"]] for one in spec.get(kind, ()) if one["name"] in self.statuses]
            if found:
                status[key] = found
        return {**self.body, "status": status}


class Cluster:
    """The server, in a thread; make one with `cluster`."""

    def __init__(self, folder: Path) -> None:
        self.faults = Faults()
        self.pods: dict[str, Pod] = {}
        self.policies: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.sandboxes: dict[str, dict[str, Any]] = {}
        self._pools: dict[str, dict[str, Any]] = {}
        self.port = 0
        self.config = folder / "kubeconfig"
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._leaving: list[asyncio.Future[None]] = []
        self._streams: set[Exec] = set()
        self._application: web.Application | None = None
        self._server: httpserver.HTTPServer | None = None

    def start(self) -> None:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="cluster", daemon=True)
        self._thread.start()
        ready.wait()
        user = {"name": "tester", "user": {"token": TOKEN}}
        trusted = {"certificate-authority-data": b64encode(authority()).decode()}
        where = {"name": "tests", "cluster": {"server": f"https://127.0.0.1:{self.port}", **trusted}}
        context = {"name": "tests", "context": {"cluster": "tests", "user": "tester", "namespace": NAMESPACE}}
        lists = {"users": [user], "clusters": [where], "contexts": [context], "current-context": "tests"}
        self.config.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **lists}))

    def stop(self) -> None:
        self.do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, work: Any) -> Any:
        """Something on the server's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def apply(self, manifests: list[dict[str, Any]]) -> None:
        """Have a template and a pool of its pods, as the controller of agent-sandbox does; one pod waits."""
        template, pool = manifests
        self._pools[pool["metadata"]["name"]] = template["spec"]["podTemplate"]
        self.do(self._replenish(pool["metadata"]["name"]))

    async def _replenish(self, pool: str) -> None:
        template = self._pools[pool]
        name = f"{pool}-{next(_NUMBERS)}"
        metadata = {**json.loads(json.dumps(template["metadata"])), "name": name}
        spec = {"activeDeadlineSeconds": 10**9, **template["spec"]}
        await self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        self.sandboxes[f"{name}-sandbox"] = {
            "kind": "Sandbox",
            "metadata": {"name": f"{name}-sandbox", "annotations": {POD_NOTE: name}, "labels": {"pool": pool}},
        }

    async def claim(self, body: dict[str, Any]) -> dict[str, Any]:
        """Give a waiting pod of the pool, and make another."""
        name, pool = body["metadata"]["name"], body["spec"]["warmPoolRef"]["name"]
        self.claims[name] = body
        if pool not in self._pools or self.faults.exhausted:
            message = self.faults.exhausted or f'SandboxWarmPool "{pool}" not found'
            body["status"] = {"conditions": [{"type": "Ready", "status": "False", "message": message}]}
            return body
        waiting = [one for one in self.sandboxes.values() if one["metadata"]["labels"] == {"pool": pool}]
        sandbox = waiting[0]
        sandbox["metadata"]["labels"] = {"claim": name}
        pod = self.pods[sandbox["metadata"]["annotations"][POD_NOTE]]
        pod.body["metadata"]["labels"] |= body["spec"]["additionalPodMetadata"]["labels"]
        ready = {"type": "Ready", "status": "True"}
        body["status"] = {"conditions": [ready], "sandbox": {"name": sandbox["metadata"]["name"]}}
        await self._replenish(pool)
        return body

    async def release(self, name: str) -> dict[str, Any]:
        """A claim that is deleted takes its sandbox and its pod along."""
        if name not in self.claims:
            raise Refused(404, f'sandboxclaims.extensions.agents.x-k8s.io "{name}" not found')
        claim = self.claims.pop(name)
        if (sandbox := claim["status"].get("sandbox")) is not None:
            pod = self.sandboxes.pop(sandbox["name"])["metadata"]["annotations"][POD_NOTE]
            if pod in self.pods:
                await self.delete(pod)
        return claim

    def forget_pools(self) -> None:
        """End what waits in pools, which have no claims any more."""
        assert not self.claims
        for sandbox in self.sandboxes.values():
            self.remove(sandbox["metadata"]["annotations"][POD_NOTE])
        self.sandboxes.clear()
        self._pools.clear()

    # ------------------------------------------------------------ what happens

    def evict(self, name: str) -> None:
        """As a node does that has no memory left."""
        self.do(self._fail(self.pods[name], "Evicted", "The node was low on resource: memory."))

    def cut(self) -> None:
        """Every stream, in the middle; what runs goes on until it hears of it."""
        self.do(self._cut())

    def die(self) -> None:
        """As an API server that is killed: every connection ends, and nobody listens; nodes and their pods go on."""
        self.do(self._die())

    def rise(self) -> None:
        """Listen again, with all that was known."""
        self.do(self._listen())

    def remove(self, name: str) -> None:
        """A pod, as a person does with kubectl."""
        self.do(self.delete(name))

    async def _die(self) -> None:
        assert self._server is not None
        self._server.stop()
        await self._cut()
        await self._server.close_all_connections()

    async def _listen(self) -> None:
        assert self._application is not None
        sockets = netutil.bind_sockets(self.port, "127.0.0.1")
        self.port = sockets[0].getsockname()[1]
        self._server = httpserver.HTTPServer(self._application, ssl_options=serving("127.0.0.1"))
        self._server.add_sockets(sockets)

    async def _cut(self) -> None:
        for stream in list(self._streams):
            stream.abort()

    async def _fail(self, pod: Pod, reason: str, message: str) -> None:
        pod.phase, pod.reason, pod.message = "Failed", reason, message
        _kill(pod)

    # ------------------------------------------------------------------- the API

    def check(self, request: Any, verb: str, resource: str) -> None:
        """Raises `Refused` for whoever may not."""
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            raise Refused(401, "Unauthorized")
        if not self.may(verb, resource):
            group = "networking.k8s.io" if resource == "networkpolicies" else ""
            who = f'User "tester" cannot {verb} resource "{resource}" in API group "{group}"'
            raise Refused(403, f'{resource} is forbidden: {who} in the namespace "{NAMESPACE}"')

    def may(self, verb: str, resource: str) -> bool:
        return (verb, resource) not in self.faults.forbidden

    async def create(self, body: dict[str, Any]) -> Pod:
        name = body["metadata"]["name"]
        if name in self.pods:
            raise Refused(409, f'pods "{name}" already exists')
        active = sum(pod.phase in ("Pending", "Running") for pod in self.pods.values())
        if active >= self.faults.pods_at_most:
            counts = f"requested: pods=1, used: pods={active}, limited: pods={self.faults.pods_at_most}"
            raise Refused(403, f'pods "{name}" is forbidden: exceeded quota: boxes, {counts}')
        body["metadata"] |= {"uid": str(uuid.uuid4()), "namespace": NAMESPACE}
        folder = self._folder / name
        folder.mkdir()
        pod = self.pods[name] = Pod(body, folder)
        pod.life = asyncio.ensure_future(self._live(pod))
        return pod

    async def delete(self, name: str) -> Pod:
        pod = self.found(name)
        del self.pods[name]
        if pod.life is not None:
            pod.life.cancel()
            # Again and again: what is being made just now leaves a child that nobody else would end.
            while not pod.life.done():
                _kill(pod)
                await asyncio.wait([pod.life], timeout=0.02)
        _kill(pod)
        shutil.rmtree(pod.folder, ignore_errors=True)
        return pod

    def found(self, name: str) -> Pod:
        if name not in self.pods:
            raise Refused(404, f'pods "{name}" not found')
        return self.pods[name]

    # ---------------------------------------------------------------- the nodes

    async def _live(self, pod: Pod) -> None:
        spec = pod.body["spec"]
        if self.faults.unschedulable:
            message = f"0/3 nodes are available: {self.faults.unschedulable}."
            unfit = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            pod.conditions = [unfit]
            return
        pod.conditions = [{"type": "PodScheduled", "status": "True"}]
        try:
            async with asyncio.timeout(spec["activeDeadlineSeconds"]):
                for container in spec.get("initContainers", ()):
                    if await self._contain(pod, container):
                        pod.phase = "Failed"
                        return
                codes = [await self._contain(pod, container) for container in spec["containers"]]
            if pod.phase != "Failed":
                pod.phase = "Failed" if any(codes) else "Succeeded"
        except TimeoutError:
            await self._fail(pod, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")

    async def _contain(self, pod: Pod, container: dict[str, Any]) -> int:
        """Run one container to its end; its exit code."""
        name, image = container["name"], container["image"]
        status = pod.statuses[name] = {"name": name, "image": image, "state": {}}
        if image not in self.faults.images:
            message = f'failed to pull and unpack image "{image}": not found'
            status["state"] = {"waiting": {"reason": "ErrImagePull", "message": message}}
            await asyncio.Event().wait()
        group = self._group(container)
        pod.groups.append(group)
        try:
            code = await self._run_in(group, pod, container, status)
        finally:
            killed = group.out_of_memory()
            # A system that has much to do takes its time with that.
            self._leaving.append(asyncio.ensure_future(_gone(group)))
        number = 128 - code if code < 0 else code
        why = "OOMKilled" if killed else "Completed" if code == 0 else "Error"
        status["state"] = {"terminated": {"exitCode": number, "reason": why}}
        return number

    async def _run_in(self, group: cgroups.Group, pod: Pod, container: dict[str, Any], status: dict[str, Any]) -> int:
        """Run a container's program in its group; its exit code."""
        pipe, name = asyncio.subprocess.PIPE, container["name"]
        enter = [_ENTER, "sh", *group.directories, "--", *self._words(pod, container)]
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", *enter, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        pod.processes[name] = process
        pod.phase = "Running" if name in [one["name"] for one in pod.body["spec"]["containers"]] else pod.phase
        status["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        return await process.wait()

    def _group(self, container: dict[str, Any]) -> cgroups.Group:
        """The control group that limits a container, as nodes have one for each; empty where there can be none."""
        tree = here()
        name = cgroups.group_name(cgroups.process_namespace(), os.getpid(), next(_NUMBERS))
        group = cgroups.make_group(tree, name)
        most = container["resources"]["limits"]
        memory, cpus = int(most["memory"]), int(most["cpu"].removesuffix("m")) / 1000
        cgroups.set_limits(tree, group, memory_bytes=memory, processes=_PROCESSES, cpus=cpus)
        return group

    def _words(self, pod: Pod, container: dict[str, Any]) -> list[str]:
        """The command line that keeps a container apart from everything else."""
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        user = str(context["runAsUser"])
        # As on a node: another user of the machine, to whom what belongs to root is closed.
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if os.geteuid() == 0 else []
        words += ["bwrap", "--die-with-parent", "--unshare-all", "--as-pid-1", "--clearenv", "--cap-drop", "ALL"]
        words += ["--uid", user, "--gid", user, "--hostname", pod.body["spec"]["hostname"]]
        labels = pod.body["metadata"]["labels"]
        denied = self.faults.enforces and any(
            all(one["key"] in labels for one in policy["spec"]["podSelector"]["matchExpressions"])
            for policy in self.policies.values()
        )
        words += [] if denied or self.faults.reaches_nothing else ["--share-net"]
        words += ["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--dir", "/root"]
        for link in ("bin", "sbin", "lib", "lib64"):
            words += ["--symlink", f"usr/{link}", f"/{link}"]
        words += ["--proc", "/proc", "--dev", "/dev"]
        sizes = {volume["name"]: volume["emptyDir"]["sizeLimit"] for volume in pod.body["spec"]["volumes"]}
        shared = "initContainers" in pod.body["spec"]
        for mount in container["volumeMounts"]:
            place = pod.folder / mount["name"]
            if shared:
                place.mkdir(exist_ok=True)
                place.chmod(0o777)
                words += ["--ro-bind" if mount["readOnly"] else "--bind", str(place), mount["mountPath"]]
            else:
                words += ["--size", sizes[mount["name"]], "--tmpfs", mount["mountPath"]]
        words += ["--remount-ro", "/", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"]
        words += ["--setenv", "KUBERNETES_SERVICE_HOST", "127.0.0.1"]
        words += ["--setenv", "KUBERNETES_SERVICE_PORT", str(self.port), "--chdir", "/", "--"]
        return [*words, *container["command"]]

    # --------------------------------------------------------------------- life

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)

        async def serve() -> None:
            rooted = f"/api/v1/namespaces/{NAMESPACE}/pods"
            policies = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"
            with_cluster = {"cluster": self}
            claims = f"/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{NAMESPACE}/sandboxclaims"
            sandboxes = f"/apis/agents.x-k8s.io/v1beta1/namespaces/{NAMESPACE}/sandboxes"
            self._application = web.Application(
                [
                    (rooted, Pods, with_cluster),
                    (f"{rooted}/([^/]+)", OnePod, with_cluster),
                    (f"{rooted}/([^/]+)/exec", Exec, with_cluster),
                    (f"{policies}(?:/([^/]+))?", Policies, with_cluster),
                    (f"{claims}(?:/([^/]+))?", Claims, with_cluster),
                    (f"{sandboxes}/([^/]+)", Sandboxes, with_cluster),
                    ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Reviews, with_cluster),
                ],
                websocket_max_message_size=1 << 20,
            )
            await self._listen()

        self._loop.run_until_complete(serve())
        ready.set()
        self._loop.run_forever()

    async def _end(self) -> None:
        if self._server is not None:
            self._server.stop()
            await self._server.close_all_connections()
        for name in list(self.pods):
            await self.delete(name)
        await asyncio.gather(*self._leaving)


async def _gone(group: cgroups.Group) -> None:
    """Remove a group once its last process has gone."""
    for _ in range(1500):
        if group.remove():
            return
        await asyncio.sleep(0.02)
    raise RuntimeError(f"processes stay in {group.directories}")


def _kill(pod: Pod) -> None:
    for process in pod.processes.values():
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    for directory in (directory for group in pod.groups for directory in group.directories):
        with contextlib.suppress(OSError):
            for number in Path(directory, "cgroup.procs").read_text().split():
                os.kill(int(number), signal.SIGKILL)


class Api(web.RequestHandler):
    """What all answers have in common."""

    def initialize(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def write_error(self, status_code: int, **info: Any) -> None:
        error = info["exc_info"][1] if "exc_info" in info else None
        message = error.message if isinstance(error, Refused) else str(error)
        code = error.code if isinstance(error, Refused) else status_code
        self.set_status(code)
        reason = _REASONS.get(code, "InternalError")
        told = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
        self.finish({**told, "reason": reason})

    def log_exception(self, *_: Any) -> None:
        """The test that asked hears of it."""


class Pods(Api):
    async def get(self) -> None:
        self.cluster.check(self.request, "list", "pods")
        selector = self.get_query_argument("labelSelector", "")
        found = [
            pod for pod in self.cluster.pods.values() if not selector or selector in pod.body["metadata"]["labels"]
        ]
        self.finish({"kind": "PodList", "apiVersion": "v1", "items": [pod.told() for pod in found]})

    async def post(self) -> None:
        self.cluster.check(self.request, "create", "pods")
        pod = await self.cluster.create(json.loads(self.request.body))
        self.set_status(201)
        self.finish(pod.told())


class OnePod(Api):
    async def get(self, name: str) -> None:
        self.cluster.check(self.request, "get", "pods")
        self.finish(self.cluster.found(name).told())

    async def delete(self, name: str) -> None:
        self.cluster.check(self.request, "delete", "pods")
        self.finish((await self.cluster.delete(name)).told())


class Policies(Api):
    async def get(self, name: str) -> None:
        self.cluster.check(self.request, "get", "networkpolicies")
        if name not in self.cluster.policies:
            raise Refused(404, f'networkpolicies.networking.k8s.io "{name}" not found')
        self.finish(self.cluster.policies[name])

    async def post(self, _name: str | None) -> None:
        self.cluster.check(self.request, "create", "networkpolicies")
        body = json.loads(self.request.body)
        self.cluster.policies[body["metadata"]["name"]] = body
        self.set_status(201)
        self.finish(body)


class Claims(Api):
    async def get(self, name: str | None) -> None:
        self.cluster.check(self.request, "get" if name else "list", "sandboxclaims")
        if not name:
            self.finish({"kind": "SandboxClaimList", "items": list(self.cluster.claims.values())})
        elif name in self.cluster.claims:
            self.finish(self.cluster.claims[name])
        else:
            raise Refused(404, f'sandboxclaims.extensions.agents.x-k8s.io "{name}" not found')

    async def post(self, _name: str | None) -> None:
        self.cluster.check(self.request, "create", "sandboxclaims")
        self.set_status(201)
        self.finish(await self.cluster.claim(json.loads(self.request.body)))

    async def delete(self, name: str) -> None:
        self.cluster.check(self.request, "delete", "sandboxclaims")
        self.finish(await self.cluster.release(name))


class Sandboxes(Api):
    async def get(self, name: str) -> None:
        self.cluster.check(self.request, "get", "sandboxes")
        self.finish(self.cluster.sandboxes[name])


class Reviews(Api):
    async def post(self) -> None:
        asked = json.loads(self.request.body)["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource", ""))))
        self.set_status(201)
        self.finish(
            {"kind": "SelfSubjectAccessReview", "status": {"allowed": self.cluster.may(asked["verb"], resource)}}
        )


def _program_below(pid: int) -> int:
    """What bubblewrap has started, once it is no bubblewrap any more; 0 before."""
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children and b"bwrap" not in Path(f"/proc/{children[0]}/cmdline").read_bytes():
            return int(children[0])
    return 0


class Exec(websocket.WebSocketHandler):
    """The stream to a command that is started in a container which runs; its input ends with the stream."""

    def initialize(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._carrying: list[asyncio.Task[None]] = []
        self._process: asyncio.subprocess.Process | None = None

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        return next((one for one in subprotocols if one == "v5.channel.k8s.io"), None)

    async def prepare(self) -> None:
        try:
            self._process = await self._start()
        except Refused as refused:
            self.set_status(refused.code)
            self.finish({"kind": "Status", "status": "Failure", "message": refused.message, "code": refused.code})

    async def _start(self) -> asyncio.subprocess.Process:
        """Start the command. Raises `Refused` where the container does not run, and for whoever may not."""
        self.cluster.check(self.request, "create", "pods/exec")
        pod, name = self.cluster.found(str(self.path_args[0])), self.get_query_argument("container")
        container = pod.processes.get(name)
        if container is None or container.returncode is not None:
            raise Refused(400, f"container {name} not found in pod {pod.name}")
        first = await self._first_of(container.pid)
        every = (*pod.body["spec"].get("initContainers", ()), *pod.body["spec"]["containers"])
        user = next(str(one["securityContext"]["runAsUser"]) for one in every if one["name"] == name)
        into = ["nsenter", "--target", str(first), "--user", "--mount", "--pid", "--net", "--ipc", "--uts"]
        into += [f"--setuid={user}", f"--setgid={user}", "--"]
        pipe = asyncio.subprocess.PIPE
        words = [*into, *self.get_query_arguments("command", strip=False)]
        environ = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        return await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, stderr=pipe, env=environ)

    async def _first_of(self, pid: int) -> int:
        """The first process of a container, which bubblewrap is the parent of; once it is its own program."""
        for _ in range(500):
            if first := _program_below(pid):
                return first
            await asyncio.sleep(0.01)
        raise Refused(500, "the container does not begin")

    def open(self, _name: str) -> None:
        self.set_nodelay(True)
        self.cluster._streams.add(self)
        process = self._process
        assert process is not None
        self._carrying = [
            asyncio.ensure_future(self._carry(1, process.stdout)),
            asyncio.ensure_future(self._carry(2, process.stderr)),
        ]
        asyncio.ensure_future(self._ended(process)).add_done_callback(lambda task: task.exception())

    async def on_message(self, message: str | bytes) -> None:
        data = message.encode() if isinstance(message, str) else message
        process = self._process
        if process is None or process.stdin is None:
            return
        if data[0] == 0:
            process.stdin.write(data[1:])
            with contextlib.suppress(OSError):
                await process.stdin.drain()
        elif data[:2] == bytes((_CLOSED, 0)):
            process.stdin.close()

    def on_close(self) -> None:
        self.cluster._streams.discard(self)
        for task in self._carrying:
            task.cancel()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def abort(self) -> None:
        """Cut the connection, without a word."""
        stream = self.ws_connection.stream if self.ws_connection is not None else None
        if stream is not None:
            stream.close()

    async def _carry(self, channel: int, source: asyncio.StreamReader | None) -> None:
        while source is not None and (data := await source.read(_PIECE)):
            with contextlib.suppress(websocket.WebSocketClosedError):
                await self.write_message(bytes((channel,)) + data, binary=True)

    async def _ended(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        await asyncio.wait(self._carrying)
        status = {"kind": "Status", "status": "Success" if code == 0 else "Failure"}
        if code:
            status["message"] = f"command terminated with non-zero exit code: exit status {code}"
        with contextlib.suppress(websocket.WebSocketClosedError):
            await self.write_message(bytes((3,)) + json.dumps(status).encode(), binary=True)
        self.close(1000)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster with one namespace and no pods."""
    folder = Path(tempfile.mkdtemp(prefix="cluster-"))
    folder.chmod(0o755)
    found = Cluster(folder)
    found.start()
    try:
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder, ignore_errors=True)
