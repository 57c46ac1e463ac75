"""Boxes in a cluster: what a person is told when it refuses or loses one, and that nothing is left to run."""

import asyncio
import json
import os
import random
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kagura_kernel.domain.commands import Command, shell_command
from kagura_kernel.domain.errors import SandboxDied, SandboxUnavailable, SandboxUnsupported
from kagura_kernel.domain.policy import IsolationClass, SandboxPolicy, SandboxPolicyType
from kagura_kernel.sandbox.backend import BoxSpec, ShownPath
from kagura_kernel.sandbox.gvisor import RunscBackend
from kagura_kernel.sandbox.kubernetes import backend as kubernetes
from kagura_kernel.sandbox.kubernetes.backend import KubernetesBackend
from kagura_kernel.sandbox.kubernetes.cluster import Cluster
from kagura_kernel.sandbox.kubernetes.pods import (
    OWNER_NOTE,
    POLICY,
    Place,
    network_policy,
    pod_body,
    pool_bodies,
    waiting_argv,
)
from kagura_kernel.sandbox.owner import this_owner
from kagura_kernel.testing.conformance.box_fixtures import begun, project_in, sh
from kagura_kernel.testing.patience import eventually
from tests.support.cluster import Cluster as OurCluster, Faults, cluster

pytestmark = pytest.mark.timeout(300)

SEED = 21
MOMENTS = 20


@pytest.fixture(scope="module")
def shared() -> Iterator[OurCluster]:
    with cluster() as found:
        yield found


@pytest.fixture
def ours(shared: OurCluster) -> Iterator[OurCluster]:
    """The cluster without faults, in which nothing is left afterwards."""
    yield shared
    shared.faults = Faults()
    assert not shared.pods


def made(ours: OurCluster, **how: str) -> KubernetesBackend:
    return KubernetesBackend(Cluster(config=str(ours.config)), **how)


async def refused(backend: KubernetesBackend, spec: BoxSpec | None = None) -> str:
    """What a person is told, in the cell and by the status."""
    with pytest.raises(SandboxUnavailable) as caught:
        await backend.start(spec or BoxSpec())
    probe = await backend.probe()
    await backend.close()
    assert not probe.ok
    return f"{caught.value.message} | {probe.reason} | {probe.install}"


class TestWhatAPersonIsTold:
    async def test_it_works_and_why(self, ours: OurCluster) -> None:
        backend = made(ours)
        probe = await backend.probe()
        assert probe.ok
        assert probe.reason == (
            "a pod in boxes ran a command, a pod under the network policy reaches nothing, "
            "with the rights create pods, get pods, list pods, delete pods, get pods/exec, create pods/exec, "
            "get networkpolicies"
        )
        await backend.close()

    async def test_a_policy_that_nobody_enforces(self, ours: OurCluster) -> None:
        ours.faults.enforces = False
        told = await refused(made(ours))
        assert "does not enforce network policies: a box has a network" in told
        assert "Calico" in told

    async def test_walls_that_cannot_be_shown(self, ours: OurCluster) -> None:
        ours.faults.reaches_nothing = True
        assert "a pod outside of the policy reaches nothing either" in await refused(made(ours))

    async def test_a_runtime_class_that_is_gvisor_by_its_name_alone(self, ours: OurCluster) -> None:
        told = await refused(made(ours, runtime_class="gvisor"))
        assert "the runtime class gvisor runs pods on the kernel of their node: it is not gVisor's" in told
        assert "kubectl get runtimeclasses" in told

    @pytest.mark.skipif(shutil.which("runsc") is None, reason="needs gVisor: apt install runsc")
    async def test_gvisors_kernel_is_known_by_what_it_says(self) -> None:
        backend = RunscBackend()
        try:
            box = await backend.start(BoxSpec())
            looked = await box.run(Command(("python3", "-I", "-S", "-c", kubernetes._ON_GVISOR)))
            assert looked.exit_code == 0
            await box.close()
        finally:
            await backend.close()

    async def test_walls_that_were_not_tried(self, ours: OurCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        """What ends for another reason proves nothing."""
        monkeypatch.setattr(kubernetes, "_REACHES", "raise SystemExit(137)")
        told = await refused(made(ours))
        assert "whether boxes have a network cannot be found out: it ended with exit code 137" in told

    async def test_a_policy_that_allows_something(self, ours: OurCluster) -> None:
        body = network_policy()
        ours.policies[POLICY] = {**body, "spec": {**body["spec"], "egress": [{"ports": [{"port": 53}]}]}}
        told = await refused(made(ours))
        ours.policies.clear()
        assert "kagura-boxes of boxes is not the one that denies boxes everything" in told

    async def test_rights_that_are_missing(self, ours: OurCluster) -> None:
        ours.faults.forbidden = {("create", "pods"), ("create", "pods/exec")}
        told = await refused(made(ours))
        assert 'cannot create resource "pods"' in told
        assert "this account may not create pods, create pods/exec in boxes" in told
        assert "docs/operations/kubernetes.yaml" in told

    async def test_a_quota_that_is_used_up(self, ours: OurCluster) -> None:
        backend = made(ours)
        await (await backend.start(BoxSpec())).close()
        ours.faults.pods_at_most = 0
        told = await refused(backend)
        assert "the quota of boxes is used up" in told
        assert "exceeded quota" in told

    async def test_an_image_that_cannot_be_pulled(self, ours: OurCluster) -> None:
        backend = made(ours)
        await backend.probe()
        with pytest.raises(SandboxUnavailable) as caught:
            await backend.start(BoxSpec(image="registry.example.org/none:1"))
        assert "image registry.example.org/none:1 cannot be pulled" in caught.value.message
        assert "Push the image" in caught.value.message
        await backend.close()

    async def test_no_node_has_room(self, ours: OurCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kubernetes, "_START_SECONDS", 0.2)
        ours.faults.unschedulable = "3 Insufficient memory"
        assert "no node takes its pod (0/3 nodes are available: 3 Insufficient memory)" in await refused(made(ours))

    async def test_an_account_that_is_not_known(self, ours: OurCluster, tmp_path: Path) -> None:
        config = tmp_path / "config"
        config.write_text(ours.config.read_text().replace("a-token", "another"))
        assert "does not know who asks" in await refused(KubernetesBackend(Cluster(config=str(config))))

    async def test_a_cluster_whose_authority_is_not_trusted(self, ours: OurCluster, tmp_path: Path) -> None:
        """Neither its answers nor a stream of a box."""
        told = json.loads(ours.config.read_text())
        del told["clusters"][0]["cluster"]["certificate-authority-data"]
        config = tmp_path / "config"
        config.write_text(json.dumps(told))
        assert "the cluster's certificate is not trusted" in await refused(
            KubernetesBackend(Cluster(config=str(config)))
        )
        cluster = Cluster(config=str(config))
        with pytest.raises(SandboxUnavailable, match="certificate is not trusted"):
            await cluster.execute("box", "box", ("true",))

    async def test_nobody_answers(self, ours: OurCluster, tmp_path: Path) -> None:
        config = tmp_path / "config"
        config.write_text(ours.config.read_text().replace(f":{ours.port}", ":9"))
        assert "the cluster does not answer" in await refused(KubernetesBackend(Cluster(config=str(config))))

    async def test_no_configuration(self, tmp_path: Path) -> None:
        assert "no cluster is configured" in await refused(KubernetesBackend(Cluster(config=str(tmp_path / "none"))))
        (tmp_path / "broken").write_text("{")
        assert "no cluster is configured" in await refused(KubernetesBackend(Cluster(config=str(tmp_path / "broken"))))

    async def test_what_it_cannot_do(self, ours: OurCluster, tmp_path: Path) -> None:
        backend = made(ours)
        in_parts = SandboxPolicy(writable_roots=("/workspace/out",))
        shown = (ShownPath(tmp_path, "/kagura/shown"),)
        for spec in (BoxSpec(writable_root=True), BoxSpec(shown=shown), BoxSpec(policy=in_parts)):
            with pytest.raises(SandboxUnsupported):
                await backend.start(spec)
        await backend.close()

    @pytest.mark.parametrize(
        ("name", "walls"),
        [
            ("", IsolationClass.CONTAINER),
            ("gvisor", IsolationClass.GVISOR),
            ("kata-qemu", IsolationClass.MICROVM),
        ],
    )
    def test_its_runtime_class_says_how_strong_it_is(self, name: str, walls: IsolationClass) -> None:
        assert KubernetesBackend(runtime_class=name).isolation is walls


class TestABoxThatIsLost:
    async def lost(self, ours: OurCluster, what: str) -> str:
        backend = made(ours)
        box = await backend.start(BoxSpec())
        running = await begun(box, "sleep 600")
        watching = asyncio.ensure_future(box.wait_closed())
        await asyncio.to_thread(getattr(ours, what), *([] if what == "cut" else [box.id]))
        why = await asyncio.wait_for(watching, 60)
        with pytest.raises(SandboxDied) as died:
            await running
        assert died.value.lost
        await backend.close()
        assert not ours.pods
        return why

    async def test_evicted(self, ours: OurCluster) -> None:
        assert "the cluster evicted its pod (The node was low on resource: memory)" in await self.lost(ours, "evict")

    async def test_removed(self, ours: OurCluster) -> None:
        assert await self.lost(ours, "remove") == "its pod was removed"

    async def test_its_stream_is_cut(self, ours: OurCluster) -> None:
        # Without its input the guest ends, and the pod with it.
        assert await self.lost(ours, "cut") in ("it ended with exit code 0", "its connection ended")


class TestWhatNobodyInTheBoxMayWrite:
    async def test_a_project_that_can_only_be_read(self, ours: OurCluster, tmp_path: Path) -> None:
        backend = made(ours)
        policy = SandboxPolicy(SandboxPolicyType.READ_ONLY)
        box = await backend.start(BoxSpec(workspace=project_in(tmp_path), policy=policy))
        tried = await sh(box, "cat a.txt; echo x >> a.txt || touch new || rm -r sub || chmod 777 . || echo refused")
        assert tried.stdout.text == "alpha\nrefused\n"
        assert await box.changes() == []
        await backend.close()


class TestAPoolOfTheCluster:
    @pytest.fixture
    def pooled(self, ours: OurCluster) -> Iterator[OurCluster]:
        ours.apply(pool_bodies("boxes", "kagura/python:latest", "python3"))
        yield ours
        ours.forget_pools()

    async def test_a_box_is_claimed_and_given_back(self, pooled: OurCluster, tmp_path: Path) -> None:
        (waiting,) = pooled.pods
        backend = made(pooled, warm_pool="boxes")
        box = await backend.start(BoxSpec(workspace=project_in(tmp_path)))
        assert set(pooled.claims) == {box.id}
        assert pooled.claims[box.id]["spec"]["lifecycle"]["shutdownPolicy"] == "Delete"
        # The one that waited is the box's, and another waits.
        assert waiting in pooled.pods
        assert len(pooled.pods) == 2
        await sh(box, "cat a.txt && echo more >> a.txt")
        assert [change.path for change in await box.changes()] == ["a.txt"]
        assert any("the cluster's pool boxes" in note for note in box.notes)
        await box.close()
        assert not pooled.claims
        assert waiting not in pooled.pods
        await backend.close()

    async def test_what_a_pool_cannot_have_is_a_pod_of_its_own(self, pooled: OurCluster, tmp_path: Path) -> None:
        backend = made(pooled, warm_pool="boxes")
        policy = SandboxPolicy(SandboxPolicyType.READ_ONLY)
        box = await backend.start(BoxSpec(workspace=project_in(tmp_path), policy=policy))
        assert not pooled.claims
        assert box.id in pooled.pods
        await backend.close()

    async def test_a_pool_that_is_not_there_or_has_nothing(
        self, pooled: OurCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kubernetes, "_START_SECONDS", 0.2)
        backend = made(pooled, warm_pool="none")
        assert "the pool none gave no pod in" in await refused(backend)
        assert not pooled.claims
        pooled.faults.exhausted = "exceeded quota: boxes"
        told = await refused(made(pooled, warm_pool="boxes"))
        assert "(exceeded quota: boxes)" in told
        assert not pooled.claims

    async def test_a_claimed_box_whose_pod_is_removed(self, pooled: OurCluster) -> None:
        backend = made(pooled, warm_pool="boxes")
        (waiting,) = pooled.pods
        box = await backend.start(BoxSpec())
        await asyncio.to_thread(pooled.remove, waiting)
        assert await asyncio.wait_for(box.wait_closed(), 60) == "its pod was removed"
        await backend.close()

    async def test_claims_of_a_process_that_is_gone_are_swept(self, pooled: OurCluster) -> None:
        dead = made(pooled, warm_pool="boxes", owner=this_owner().rsplit(":", 2)[0] + ":999999999:1")
        mine = made(pooled, warm_pool="boxes")
        await dead.start(BoxSpec())
        kept = await mine.start(BoxSpec())
        assert await mine.sweep() == 1
        assert set(pooled.claims) == {kept.id}
        await dead.close()
        await mine.close()


class TestNothingIsLeft:
    async def test_pods_of_a_process_that_is_gone_are_swept(self, ours: OurCluster) -> None:
        dead = made(ours, owner=this_owner().rsplit(":", 2)[0] + ":999999999:1")
        mine = made(ours)
        left, kept = await dead.start(BoxSpec()), await mine.start(BoxSpec())
        assert ours.pods[left.id].body["metadata"]["annotations"][OWNER_NOTE].endswith(":999999999:1")
        assert await mine.sweep() == 1
        assert set(ours.pods) == {kept.id}
        await dead.close()
        await mine.close()

    async def test_at_whatever_moment_the_kernel_is_killed_nothing_runs_on(
        self, ours: OurCluster, tmp_path: Path
    ) -> None:
        chance = random.Random(SEED)
        project = project_in(tmp_path)
        for _ in range(MOMENTS):
            kernel = await self.kernel(ours, project)
            await asyncio.sleep(chance.uniform(0.0, 2.0))
            os.kill(kernel.pid, signal.SIGKILL)
            await kernel.communicate()
            await self.nothing_is_left(ours)

    async def test_at_whatever_moment_the_api_server_is_killed_the_kernel_goes_on_with_the_next(
        self, ours: OurCluster, tmp_path: Path
    ) -> None:
        chance = random.Random(SEED)
        kernel = await self.kernel(ours, project_in(tmp_path))
        assert kernel.stdout is not None
        lost = 0
        for _ in range(MOMENTS):
            await asyncio.sleep(chance.uniform(0.0, 2.0))
            await asyncio.to_thread(ours.die)
            # Longer than most pauses between two questions of the kernel: where it asks none, it loses nothing.
            await asyncio.sleep(chance.uniform(0.7, 1.2))
            await asyncio.to_thread(ours.rise)
            boxes = 0
            # The first may have been told before.
            while boxes < 2:
                said = await asyncio.wait_for(kernel.stdout.readline(), 60)
                assert said in {b"box\n", b"lost\n"}
                boxes += said == b"box\n"
                lost += said == b"lost\n"
        assert lost
        os.kill(kernel.pid, signal.SIGKILL)
        await kernel.communicate()
        await self.nothing_is_left(ours)

    async def kernel(self, ours: OurCluster, project: Path) -> asyncio.subprocess.Process:
        """A process that makes one box after the other, and says so; it is ready for its first."""
        script = (
            "import asyncio, sys\n"
            "from pathlib import Path\n"
            "from kagura_kernel.domain.commands import shell_command\n"
            "from kagura_kernel.domain.errors import SandboxUnavailable\n"
            "from kagura_kernel.sandbox.backend import BoxSpec\n"
            "from kagura_kernel.sandbox.kubernetes.backend import KubernetesBackend\n"
            "from kagura_kernel.sandbox.kubernetes.cluster import Cluster\n"
            "async def one(backend):\n"
            "    box = await backend.start(BoxSpec(workspace=Path(sys.argv[2])))\n"
            "    try:\n"
            "        await box.run(shell_command('(setsid sleep 900 &)'))\n"
            "    finally:\n"
            "        await box.close()\n"
            "async def go():\n"
            "    backend = KubernetesBackend(Cluster(config=sys.argv[1]))\n"
            "    print('ready', flush=True)\n"
            "    while True:\n"
            "        try:\n"
            "            await one(backend)\n"
            "            print('box', flush=True)\n"
            "        except SandboxUnavailable:\n"
            "            print('lost', flush=True)\n"
            "            await asyncio.sleep(0.05)\n"
            "asyncio.run(go())\n"
        )
        words = [sys.executable, "-c", script, str(ours.config), str(project)]
        kernel = await asyncio.create_subprocess_exec(*words, stdout=PIPE, stderr=DEVNULL)
        assert kernel.stdout is not None
        assert await kernel.stdout.readline() == b"ready\n"
        return kernel

    async def nothing_is_left(self, ours: OurCluster) -> None:
        """A container that had not begun when its kernel was killed begins, waits for nobody, and is swept."""
        sweeper = made(ours)

        async def nothing() -> bool:
            await sweeper.sweep()
            return not ours.pods

        await eventually(nothing)
        await sweeper.close()

    async def test_a_pod_whose_kernel_never_came_ends_by_itself(self, ours: OurCluster) -> None:
        cluster = Cluster(config=str(ours.config))
        argv = partial(waiting_argv, "python3", patience=1)
        await cluster.pods()
        await cluster.create_pod(pod_body("box-waits", BoxSpec(), "kagura/python:latest", argv, Place()))
        await eventually(lambda: ours.pods["box-waits"].phase == "Failed")
        assert ours.pods["box-waits"].statuses["box"]["state"]["terminated"]["exitCode"] == 4
        await cluster.delete_pod("box-waits")
        cluster.close()

    async def test_what_a_box_says_is_not_in_its_container_s_log(self, ours: OurCluster) -> None:
        backend = made(ours)
        box = await backend.start(BoxSpec())
        assert (await sh(box, "echo secret")).stdout.text == "secret\n"
        process = ours.pods[box.id].processes["box"]
        assert process.stdout is not None
        assert not process.stdout._buffer
        await backend.close()

    async def test_what_runs_ends_with_its_connection_and_needs_no_sweep(self, ours: OurCluster) -> None:
        backend = made(ours)
        box = await backend.start(BoxSpec())
        await box.run(shell_command("(setsid sleep 900 &)"))
        process = ours.pods[box.id].processes["box"]
        await asyncio.to_thread(ours.cut)
        await eventually(lambda: process.returncode is not None)
        await backend.close()
