"""The box of a verification has nothing that was granted to the run."""

from pathlib import Path

from kagura_kernel.domain.policy import SandboxPolicy
from kagura_kernel.membrane.egress.proxy import PROXY_PORT, proxy_variables
from kagura_kernel.runs.verification import fresh_spec
from kagura_kernel.sandbox.backend import BoxSpec, ShownPath


def test_a_fresh_box_has_the_project_and_nothing_that_was_granted():
    spec = BoxSpec(
        workspace=Path("/project"),
        image="team/tools",
        policy=SandboxPolicy(network_access=True),
        env={"TZ": "Asia/Tokyo", **proxy_variables(PROXY_PORT)},
        extra_read_only=((Path("/kit"), "/opt/kit"),),
        shown=(ShownPath(Path("/shown"), "/mnt/shown"),),
        writable_root=True,
        image_required=True,
    )
    fresh = fresh_spec(spec)
    assert fresh == BoxSpec(workspace=Path("/project"), image="team/tools", env={"TZ": "Asia/Tokyo"})
    assert fresh.image_required
    assert not fresh.policy.network_access
    assert fresh.limits == spec.limits
