"""The cluster's API, as far as boxes need it: pods, their streams, one network policy, and what one may do there.

The official client knows how to log in; its calls block, so they run in threads. What it raises becomes what a person
can act on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kagura_kernel.domain.errors import SandboxUnavailable
from kagura_kernel.sandbox.kubernetes.pods import BOX_LABEL, CLAIMS, CLAIMS_VERSION, POD_NOTE, SANDBOXES

if TYPE_CHECKING:
    from websocket import WebSocket

T = TypeVar("T")

INSTALL = "Install the client: `pip install 'kagura-kernel[kubernetes]'`."
RIGHTS = "Ask whoever runs the cluster for the rights in docs/operations/kubernetes.yaml."
TRUST = "`certificate-authority-data` in your kubeconfig names the authority that signed it: get the file anew."
PROXY = "A proxy or load balancer before the cluster may let no WebSockets through: `kubectl exec` tells."
LOG_IN = "Log in to the cluster again; `kubectl get pods` shows whether that has worked."

_TOKEN_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECONDS = 20.0

NEEDED = (
    ("create", "pods", ""),
    ("get", "pods", ""),
    ("list", "pods", ""),
    ("delete", "pods", ""),
    ("get", "pods", "exec"),
    ("create", "pods", "exec"),
    ("get", "networkpolicies", ""),
)
"""Verb, resource and subresource: what a namespace must let this process do."""


class Cluster:
    """One namespace of a cluster.

    Args:
        namespace: Empty is that of the configuration, or of the pod that this runs in.
        config: A kubeconfig file; empty is the usual one (`KUBECONFIG`), or the pod's own account.
        context: Of that file; empty is its current one.
    """

    def __init__(self, namespace: str = "", *, config: str = "", context: str = "") -> None:
        self.namespace = namespace  # where boxes are made; may be empty before the first call
        self._config = config
        self._context = context
        self._api: Any = None

    async def create_pod(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make a pod. Raises `SandboxUnavailable` where the cluster refuses."""
        # Whoever is cancelled removes it, by its name.
        making = self._asked(lambda core: core.create_namespaced_pod(self.namespace, body, **_RAW))
        return await self._made(making)

    async def pod(self, name: str) -> dict[str, Any] | None:
        """A pod as it is now; None where it is gone."""
        try:
            return await self._asked(lambda core: core.read_namespaced_pod(name, self.namespace, **_RAW))
        except _NotThere:
            return None

    async def pods(self, label: str = BOX_LABEL) -> list[dict[str, Any]]:
        """All pods of the namespace with a label: its boxes."""
        found = await self._asked(lambda core: core.list_namespaced_pod(self.namespace, label_selector=label, **_RAW))
        return list(found.get("items") or ())

    async def delete_pod(self, name: str) -> None:
        """Remove a pod at once; nothing happens where it is gone."""
        with contextlib.suppress(_NotThere):
            await self._asked(
                lambda core: core.delete_namespaced_pod(name, self.namespace, grace_period_seconds=0, **_RAW)
            )

    async def create_claim(self, body: Mapping[str, Any]) -> None:
        """Claim a pod of a warm pool. Raises `SandboxUnavailable` where the cluster refuses, or has no such thing."""
        making = self._call(lambda core: _custom(core).create_namespaced_custom_object(*self._claims, body, **_TIMED))
        await self._made(making)

    async def claimed_pod(self, name: str) -> tuple[str, str]:
        """The pod that a claim was given, or an empty text, and why there is none yet, in the cluster's words.

        Raises:
            SandboxUnavailable: the claim is gone.
        """
        claim = await self._call(lambda core: _custom(core).get_namespaced_custom_object(*self._claims, name, **_TIMED))
        status = claim.get("status") or {}
        ready: dict[str, Any] = next((one for one in status.get("conditions") or () if one.get("type") == "Ready"), {})
        sandbox = str((status.get("sandbox") or {}).get("name") or "")
        if not sandbox or ready.get("status") != "True":
            return "", str(ready.get("message") or ready.get("reason") or "").strip().rstrip(".")
        where = SANDBOXES, CLAIMS_VERSION, self.namespace, "sandboxes"
        found = await self._call(lambda core: _custom(core).get_namespaced_custom_object(*where, sandbox, **_TIMED))
        return str((found["metadata"].get("annotations") or {}).get(POD_NOTE) or sandbox), ""

    async def claims(self) -> list[dict[str, Any]]:
        """All claims of boxes in the namespace."""
        found = await self._call(
            lambda core: _custom(core).list_namespaced_custom_object(*self._claims, label_selector=BOX_LABEL, **_TIMED)
        )
        return list(found.get("items") or ())

    async def delete_claim(self, name: str) -> None:
        """Give a pod back, which ends it; nothing happens where the claim is gone."""
        with contextlib.suppress(_NotThere):
            await self._call(lambda core: _custom(core).delete_namespaced_custom_object(*self._claims, name, **_TIMED))

    @property
    def _claims(self) -> tuple[str, str, str, str]:
        return CLAIMS, CLAIMS_VERSION, self.namespace, "sandboxclaims"

    async def execute(self, name: str, container: str, argv: Sequence[str]) -> WebSocket:
        """The stream to a command that is started in a container; what passes there is kept by nobody."""

        def connect(core: Any) -> Any:
            from kubernetes.client import ApiClient, CoreV1Api
            from kubernetes.stream import stream

            # The client turns all of its calls into streams while it opens one: this one is for nothing else.
            alone: Any = CoreV1Api(ApiClient(core.api_client.configuration))
            return stream(
                alone.connect_get_namespaced_pod_exec,
                name,
                self.namespace,
                command=list(argv),
                container=container,
                stdin=True,
                stdout=True,
                stderr=True,
                tty=False,
                binary=True,
                _preload_content=False,
            ).sock

        connecting: futures.Future[Any] = futures.Future()
        connecting.set_running_or_notify_cancel()

        def work() -> None:
            try:
                connecting.set_result(self._ask(connect))
            except BaseException as error:  # noqa: BLE001 - handed on
                connecting.set_exception(error)

        # The client knows no time limit for a stream: one that nobody answers may not keep this process from its end.
        threading.Thread(target=work, name="kagura-pod-stream", daemon=True).start()
        try:
            async with asyncio.timeout(_SECONDS):
                return await asyncio.wrap_future(connecting)
        except TimeoutError as error:
            connecting.add_done_callback(_shut)
            raise SandboxUnavailable(f"the cluster opens no stream to {name} in {_SECONDS:.0f} s", PROXY) from error
        except asyncio.CancelledError:
            connecting.add_done_callback(_shut)
            raise

    async def _made(self, making: Awaitable[T]) -> T:
        """What a thread makes; it cannot be called back, so whoever is cancelled waits for it, and undoes it."""
        future = asyncio.ensure_future(making)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future], timeout=_SECONDS)
            future.add_done_callback(_heard)
            raise

    def close(self) -> None:
        """Let go of the connections; the next call opens others."""
        api, self._api = self._api, None
        if api is not None:
            api.api_client.rest_client.pool_manager.clear()

    async def ensure_policy(self, body: Mapping[str, Any]) -> None:
        """See to it that a network policy is there, as it should be; whoever may only look at it must find it.

        Raises:
            SandboxUnavailable: it is not, and may not be made; or one of its name allows more.
        """
        name = body["metadata"]["name"]

        def ask(core: Any) -> Any:
            from kubernetes.client import NetworkingV1Api

            networking: Any = NetworkingV1Api(core.api_client)
            try:
                return networking.read_namespaced_network_policy(name, self.namespace, **_RAW)
            except Exception as error:
                if getattr(error, "status", None) != _NOT_FOUND:
                    raise
            try:
                return networking.create_namespaced_network_policy(self.namespace, body, **_RAW)
            except Exception as error:
                # Another kernel has just made it.
                if getattr(error, "status", None) != _CONFLICT:
                    raise
                return networking.read_namespaced_network_policy(name, self.namespace, **_RAW)

        found, wanted = (await self._asked(ask))["spec"], body["spec"]
        types = sorted(found.get("policyTypes") or ())
        chosen = found.get("podSelector") == wanted["podSelector"] and types == sorted(wanted["policyTypes"])
        if not chosen or found.get("ingress") or found.get("egress"):
            why = f"the network policy {name} of {self.namespace} is not the one that denies boxes everything"
            raise SandboxUnavailable(why, "Apply docs/operations/kubernetes.yaml again, or have it applied.")

    async def rights(self) -> tuple[list[str], list[str]]:
        """What of `NEEDED` this process may do, and what not, as `create pods/exec`."""

        def ask(core: Any) -> tuple[list[str], list[str]]:
            from kubernetes.client import AuthorizationV1Api

            api: Any = AuthorizationV1Api(core.api_client)
            held: list[str] = []
            missing: list[str] = []
            for verb, resource, sub in NEEDED:
                group = "networking.k8s.io" if resource == "networkpolicies" else ""
                asked = {"namespace": self.namespace, "verb": verb, "resource": resource, "group": group}
                body = {"spec": {"resourceAttributes": {**asked, **({"subresource": sub} if sub else {})}}}
                review = json.loads(api.create_self_subject_access_review(body, **_RAW).data)
                found = held if review["status"]["allowed"] else missing
                found.append(f"{verb} {resource}/{sub}" if sub else f"{verb} {resource}")
            return held, missing

        return await self._call(ask)

    async def own_pod(self) -> dict[str, str] | None:
        """The pod that this process runs in, as an owner reference; None outside of the cluster."""
        name = os.environ.get("HOSTNAME", "")
        if not name or self._config or self._context or not (_TOKEN_FOLDER / "namespace").exists():
            return None
        try:
            found = await self.pod(name)
        except SandboxUnavailable:
            return None
        if found is None:
            return None
        about = found["metadata"]
        return {"apiVersion": "v1", "kind": "Pod", "name": about["name"], "uid": about["uid"]}

    # ---------------------------------------------------------------- inside

    async def _asked(self, ask: Callable[[Any], Any]) -> dict[str, Any]:
        answer = await self._call(ask)
        found: dict[str, Any] = json.loads(answer.data)
        return found

    async def _call(self, ask: Callable[[Any], T]) -> T:
        return await asyncio.to_thread(self._ask, ask)

    def _ask(self, ask: Callable[[Any], T]) -> T:
        core = self._core()
        try:
            return ask(core)
        # The client raises what its transports raise; whatever it is, there is no box.
        except Exception as error:
            # A person may have logged in again since; what is asked next looks.
            if _status(error) == _UNAUTHORIZED:
                self._api = None
            raise explained(error, self.namespace) from error

    def _core(self) -> Any:
        if self._api is None:
            try:
                from kubernetes import client, config
            except ImportError as error:
                raise SandboxUnavailable("the Kubernetes client is not installed", INSTALL) from error
            try:
                settings = self._log_in(client, config)
            # It raises one kind where there is no configuration, and whatever a broken file causes.
            except Exception as error:
                raise SandboxUnavailable(f"no cluster is configured ({_first_line(error)})", LOG_IN) from error
            self._api = client.CoreV1Api(client.ApiClient(settings))
        return self._api

    def _log_in(self, client: Any, config: Any) -> Any:
        settings = client.Configuration()
        settings.retries = False
        within = _TOKEN_FOLDER / "namespace"
        if not (self._config or self._context or os.environ.get("KUBECONFIG")) and within.exists():
            config.load_incluster_config(client_configuration=settings)
            namespace = within.read_text("utf-8").strip()
        else:
            file, wanted = self._config or None, self._context or None
            config.load_kube_config(client_configuration=settings, config_file=file, context=wanted)
            contexts, active = config.list_kube_config_contexts(config_file=file)
            chosen = next((one for one in contexts if one["name"] == wanted), active)
            namespace = chosen["context"].get("namespace", "")
        self.namespace = self.namespace or namespace or "default"
        return settings


def _custom(core: Any) -> Any:
    from kubernetes.client import CustomObjectsApi

    return CustomObjectsApi(core.api_client)


def _heard(made: asyncio.Future[Any]) -> None:
    if not made.cancelled():
        made.exception()


def _shut(connected: futures.Future[Any]) -> None:
    if connected.exception() is None:
        connected.result().shutdown()


_TIMED = {"_request_timeout": _SECONDS}
_RAW = {"_preload_content": False, **_TIMED}
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT = 401, 403, 404, 409


class _NotThere(SandboxUnavailable):
    """What was named is not there."""


def explained(error: BaseException, namespace: str) -> SandboxUnavailable:
    """Why the cluster did not do what it was asked."""
    if isinstance(error, SandboxUnavailable):
        return error
    status = _status(error)
    if not status:
        said = _told(error)
        if "certificate" in said.lower():
            return SandboxUnavailable(f"the cluster's certificate is not trusted ({said})", TRUST)
        return SandboxUnavailable(f"the cluster does not answer ({said})", LOG_IN)
    message = _told(error)
    if status == _FORBIDDEN and "quota" in message:
        more = "Close boxes that are not needed any more, or ask for a larger quota."
        return SandboxUnavailable(f"the quota of {namespace} is used up ({message})", more)
    refusals = {
        _NOT_FOUND: _NotThere(f"the cluster has no such thing in {namespace} ({message})"),
        _UNAUTHORIZED: SandboxUnavailable("the cluster does not know who asks", LOG_IN),
        _FORBIDDEN: SandboxUnavailable(
            f"the cluster does not allow it ({message})", RIGHTS if "cannot" in message else None
        ),
    }
    return refusals.get(status) or SandboxUnavailable(f"the cluster refuses ({message})")


def _status(error: BaseException) -> int:
    """The HTTP status of an answer; 0 where there was none. The client knows none of a stream that is refused."""
    found = re.search(r"Handshake status (\d+)", str(getattr(error, "reason", "")))
    return int(found[1]) if found else int(getattr(error, "status", 0) or 0)


def _told(error: BaseException) -> str:
    """The message of the API's own status object."""
    body = getattr(error, "body", None)
    try:
        text = str(json.loads(body)["message"]) if body else ""
    except (ValueError, KeyError, TypeError):
        text = ""
    return (text or str(getattr(error, "reason", "")) or _first_line(error)).strip()[:300].rstrip(".")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300].rstrip(".")
