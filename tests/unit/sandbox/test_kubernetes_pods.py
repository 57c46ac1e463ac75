"""What a box is in a cluster's words, and what is read from a pod's state."""

from pathlib import Path

import pytest
import yaml

from kagura_kernel.domain.policy import SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.kubernetes.cluster import NEEDED
from kagura_kernel.sandbox.kubernetes.pods import (
    FILL,
    MAIN,
    Place,
    network_policy,
    pod_body,
    pool_bodies,
    state_of,
    waiting_argv,
    weakness_of,
)

MANIFESTS = Path(__file__).parents[3] / "docs" / "operations" / "kubernetes.yaml"
READ_ONLY = SandboxPolicy(SandboxPolicyType.READ_ONLY)
PLACE = Place("gvisor", "host:1:2")


def waits(container):
    return waiting_argv("python3", container)


def containers(body):
    return [*body["spec"].get("initContainers", ()), *body["spec"]["containers"]]


@pytest.mark.parametrize(
    "spec", [BoxSpec(), BoxSpec(workspace=Path("/x"), policy=READ_ONLY), BoxSpec(extra_read_only=((Path("/x"), "/y"),))]
)
def test_no_pod_has_power_or_a_token_and_each_has_an_end(spec):
    body = pod_body("box-1", spec, "image", waits, PLACE)
    pod = body["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["runtimeClassName"] == "gvisor"
    assert pod["activeDeadlineSeconds"] == 86400
    assert not any(key.startswith("host") and key != "hostname" for key in pod)
    assert all(set(volume) == {"name", "emptyDir"} for volume in pod["volumes"])
    for container in containers(body):
        context = container["securityContext"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert (context["allowPrivilegeEscalation"], context["privileged"]) == (False, False)
        assert context["readOnlyRootFilesystem"] is True
        assert context["runAsUser"] > 1000
        assert container["resources"]["limits"].keys() == {"memory", "cpu"}
        # A node keeps what passes there.
        assert (container["stdin"], container["tty"]) == (False, False)
        assert "env" not in container


def test_what_a_box_may_not_write_is_filled_by_another_user_and_mounted_read_only():
    body = pod_body("box-1", BoxSpec(workspace=Path("/x"), policy=READ_ONLY), "image", waits, PLACE)
    fill, main = containers(body)
    assert (fill["name"], main["name"]) == (FILL, MAIN)
    assert fill["securityContext"]["runAsUser"] != main["securityContext"]["runAsUser"]
    read_only = {one["name"]: one["readOnly"] for one in main["volumeMounts"]}
    assert read_only == {"workspace": True, "home": False, "tmp": False, "shm": False}
    assert not any(one["readOnly"] for one in fill["volumeMounts"])
    assert len(containers(pod_body("box-1", BoxSpec(workspace=Path("/x")), "image", waits, PLACE))) == 1


def test_a_pod_goes_with_the_one_that_its_kernel_runs_in():
    within = {"apiVersion": "v1", "kind": "Pod", "name": "jupyter-ada", "uid": "u"}
    place = Place(owner="host:1:2", within=within)
    body = pod_body("box-1", BoxSpec(), "image", waits, place)
    assert body["metadata"]["ownerReferences"] == [within]
    assert "runtimeClassName" not in body["spec"]


def of_a_pool(**changes):
    template = pool_bodies("boxes", "image", "python3", runtime_class="gvisor")[0]["spec"]["podTemplate"]
    pod = {"metadata": dict(template["metadata"]), "spec": {**template["spec"], **changes.pop("spec", {})}}
    return {**pod, **changes}


def test_a_pod_of_our_own_pool_is_a_box():
    assert weakness_of(of_a_pool(), PLACE) == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seccompProfile", {"type": "Unconfined"}),
        ("runAsNonRoot", False),
        ("runAsGroup", 0),
        ("capabilities", {"drop": ["ALL"], "add": ["SYS_ADMIN"]}),
    ],
)
def test_a_container_that_takes_back_what_its_pod_says_is_no_box(key, value):
    [container] = of_a_pool()["spec"]["containers"]
    weaker = {**container, "securityContext": {**container["securityContext"], key: value}}
    why = weakness_of(of_a_pool(spec={"containers": [weaker]}), PLACE)
    assert why == "its security context is not that of a box"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"spec": {"runtimeClassName": ""}}, "it has another runtime class"),
        ({"metadata": {"labels": {}}}, "no network policy is about it, without a label kagura.box"),
        ({"spec": {"automountServiceAccountToken": None}}, "it may have a service account's token"),
        ({"spec": {"hostPID": True}}, "it shares the node's network, processes or memory"),
        (
            {"spec": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}},
            "it has volumes that are not its own memory",
        ),
        ({"spec": {"volumes": [{"name": "x", "emptyDir": {}}]}}, "it has volumes that are not its own memory"),
        (
            {"spec": {"initContainers": [{"name": "mesh", "restartPolicy": "Always"}]}},
            "it has other containers than box",
        ),
        (
            {"spec": {"containers": [{"name": "box", "securityContext": {"procMount": "Unmasked"}}]}},
            "it sees more of its node's kernel than a box",
        ),
        ({"spec": {"securityContext": {"runAsUser": 0}}}, "its security context is not that of a box"),
        ({"spec": {"containers": [{"name": "other"}]}}, "it has other containers than box"),
        ({"spec": {"containers": [{"name": "box"}]}}, "its security context is not that of a box"),
    ],
)
def test_a_pod_that_others_have_described_is_looked_at(changes, why):
    assert weakness_of(of_a_pool(**changes), PLACE) == why


def status(*, name=MAIN, phase="Running", kind="containerStatuses", state=None, **more):
    return {"status": {"phase": phase, kind: [{"name": name, "image": "i", "state": state or {}}], **more}}


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (status(state={"terminated": {"exitCode": 137, "reason": "OOMKilled"}}), "it ran out of memory"),
        (status(state={"terminated": {"exitCode": 3, "reason": "Error"}}), "it ended with exit code 3"),
        (status(state={"waiting": {"reason": "ImagePullBackOff"}}), "image i cannot be pulled"),
        (
            status(state={"waiting": {"reason": "CreateContainerConfigError", "message": "image has root."}}),
            "its container cannot be made: CreateContainerConfigError (image has root)",
        ),
        (
            status(phase="Pending", name=FILL, kind="initContainerStatuses", state={"terminated": {"exitCode": 1}}),
            "it ended with exit code 1",
        ),
        ({"status": {"phase": "Failed", "reason": "DeadlineExceeded"}}, "its pod reached its deadline"),
        ({"status": {"phase": "Failed", "reason": "NodeLost", "message": "Gone."}}, "its pod failed: NodeLost (Gone)"),
        ({"status": {"phase": "Failed"}}, "its pod has ended (Failed)"),
    ],
)
def test_what_is_wrong_with_a_pod_is_said_in_words(pod, why):
    trouble = state_of(pod, MAIN).trouble
    assert trouble is not None
    assert trouble.why == why


def test_a_container_runs_waits_or_has_ended():
    assert state_of(status(state={"running": {}}), MAIN).running
    assert not state_of({"status": {"phase": "Pending"}}, MAIN).running
    assert not state_of({}, MAIN).ended
    unfit = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available."}
    assert state_of({"status": {"phase": "Pending", "conditions": [unfit]}}, MAIN).waits == "0/3 nodes are available"
    # What fills it has done so.
    filled = status(phase="Pending", name=FILL, kind="initContainerStatuses", state={"terminated": {"exitCode": 0}})
    assert not state_of(filled, MAIN).ended
    assert state_of(filled, FILL).exit_code == 0


def test_the_manifests_that_we_ship_are_what_is_asked_for():
    every = {one["kind"]: one for one in yaml.safe_load_all(MANIFESTS.read_text("utf-8"))}
    policy = network_policy()
    assert every["NetworkPolicy"]["spec"] == policy["spec"]
    assert every["NetworkPolicy"]["metadata"] == policy["metadata"]
    rules = every["Role"]["rules"]
    granted = {(verb, resource) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert granted == {(verb, f"{resource}/{sub}" if sub else resource) for verb, resource, sub in NEEDED}
